"""Ctrl-C at any place of the code that looks for the end of a process leaves nothing that somebody waits for, for ever."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import rayft
from actors.host.cluster.ended import ends_within, has_ended

SLEEPS = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]


class Interrupted(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Call, with an interruption before the instruction of that number. Returns whether there was one."""
    left = at

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def each_instruction(call: Callable[[], object], holds: Callable[[], bool]) -> int:
    """Interrupt a call at each of its instructions; how many there are."""
    at = 0
    while interrupted(call, at):
        assert holds(), f"interrupted at instruction {at}"
        at += 1
    return at


@pytest.fixture
def child() -> Any:
    process = subprocess.Popen(SLEEPS, stdin=subprocess.PIPE)
    yield process
    process.communicate()


def is_free(process: "subprocess.Popen[bytes]") -> bool:
    return not process._waitpid_lock.locked()  # type: ignore[attr-defined]


def test_a_look_leaves_no_lock_wherever_it_is_interrupted(child: Any) -> None:
    assert each_instruction(lambda: has_ended(child), lambda: is_free(child)) > 10
    assert each_instruction(lambda: ends_within(child, 0.0), lambda: is_free(child)) > 20
    assert not has_ended(child) and not ends_within(child, 0.01)
    child.stdin.close()
    assert ends_within(child, 60) and has_ended(child) and child.returncode is None, "the end is kept for who waits"
    assert child.wait(60) == 0 and has_ended(child)


def test_who_waits_has_the_end_while_another_looks(child: Any) -> None:
    waits = threading.Thread(target=child.wait)
    waits.start()
    assert not ends_within(child, 0.05)
    child.stdin.close()
    waits.join(60)
    assert child.returncode == 0 and has_ended(child) and ends_within(child, 0)


def test_a_cluster_ends_wherever_ctrl_c_has_found_its_main_thread() -> None:
    with rayft.Cluster(controllers=1, brokers=0) as cluster:
        process = cluster._process
        assert process is not None and cluster.running
        assert each_instruction(lambda: cluster.running, lambda: is_free(process)) > 10
        each_instruction(cluster.refuse_crash, lambda: is_free(process))
    assert process.returncode == 0 and not cluster.running


@pytest.mark.parametrize("runs", [False, True])
def test_a_start_that_is_interrupted_around_its_thread_ends_the_cluster(
    runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can wait for a thread that was not started: that was said in place of the interruption, and files stayed."""
    start, listeners = threading.Thread.start, []

    def interrupted_start(thread: threading.Thread) -> None:
        if thread.name != "rayft-cluster":
            return start(thread)
        listeners.append(thread)
        if runs:
            start(thread)
        raise Interrupted

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    cluster = rayft.Cluster(controllers=1, brokers=0, on_event=lambda event: time.sleep(0.2))
    with pytest.raises(Interrupted), cluster:
        pass
    assert not cluster.running and not cluster.dir.exists()
    assert len(listeners) == 1 and not listeners[0].is_alive(), "nobody closes what it reads"
