"""Time slices as the kernel shows them, of threads that asked for one and of loops."""

import ctypes
import os
import platform
import re
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from actors.host.work.time_slice import SHORT_NS, ask_for
from tests.unit.host.test_loop import Running, broker

CONTROLLER = {
    "process.roles": "controller",
    "controller.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "controller.listener.names": "PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


def slice_ns(thread: int) -> int:
    """What the kernel shows of a thread."""
    shown = Path(f"/proc/self/task/{thread}/sched").read_text()
    found = re.search(r"se\.slice\s*:\s*(\d+)", shown)
    assert found is not None
    return int(found[1])


def granted() -> bool:
    """Whether this machine grants slices and shows them, asked without the code under test."""

    def try_it() -> bool:
        wanted = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, SHORT_NS, 0, 0)
        call = 314 if platform.machine() == "x86_64" else 274
        ctypes.CDLL(None).syscall(call, 0, wanted, 0)
        return slice_ns(threading.get_native_id()) == SHORT_NS

    try:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(try_it).result()
    except (AssertionError, OSError):
        return False


needs_slices = pytest.mark.skipif(not granted(), reason="the kernel grants no slices, or does not show them")


@needs_slices
def test_a_thread_gets_the_slice_that_it_asks_for_and_no_other_thread_does() -> None:
    def asked() -> tuple[bool, int, int]:
        os.setpriority(os.PRIO_PROCESS, 0, 3)
        return ask_for(SHORT_NS), slice_ns(threading.get_native_id()), os.getpriority(os.PRIO_PROCESS, 0)

    before = slice_ns(threading.get_native_id())
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(asked).result() == (True, SHORT_NS, 3)
    assert slice_ns(threading.get_native_id()) == before


@needs_slices
def test_the_loop_of_a_controller_has_short_slices_and_that_of_a_broker_has_not() -> None:
    usual = slice_ns(threading.get_native_id())
    for settings, expected in ((CONTROLLER, SHORT_NS), (broker(), usual)):
        running = Running(settings, ["PLAINTEXT"])
        try:
            assert running.thread.native_id is not None
            assert slice_ns(running.thread.native_id) == expected
        finally:
            running.loop.shutdown()
            running.thread.join()


def test_a_policy_that_somebody_has_chosen_stays() -> None:
    def chosen() -> tuple[bool, int]:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return ask_for(SHORT_NS), os.sched_getscheduler(0)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(chosen).result() == (False, os.SCHED_BATCH)


def test_a_machine_whose_call_is_not_known_grants_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    assert not ask_for(SHORT_NS)
