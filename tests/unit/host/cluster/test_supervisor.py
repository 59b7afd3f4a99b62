"""The parent of a cluster's processes where the system refuses it something: it goes on, and tries again."""

import errno
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import actors.host.cluster.supervisor
import actors.host.serve
from actors.host.cluster import plan as plans
from actors.host.cluster.supervisor import Supervisor
from actors.host.work import durable
from tests.descriptors import opened, settled
from tests.seeds import first_are_quick


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    plan = plans.create(tmp_path, 1, 0, common={})
    return Supervisor(plan, detached=True)


def test_a_full_disk_does_not_end_the_supervisor_and_with_it_the_cluster(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file = durable.write_file
    monkeypatch.setattr(durable, "write_file", lambda path, content, sync: write_file("/dev/full", content))
    supervisor._publish()
    assert not (supervisor.plan.directory / plans.CLUSTER_JSON).exists()
    monkeypatch.undo()
    supervisor._wait()
    supervisor._retry()
    assert (supervisor.plan.directory / plans.CLUSTER_JSON).exists()


def test_a_process_that_cannot_be_made_is_tried_again_with_a_growing_pause(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    (child,) = supervisor.children
    before = settled()
    dues = []
    for _ in range(3):
        assert not supervisor._fork(child)
        assert child.pid == 0 and child.due_s is not None
        dues.append(child.crashes)
    assert dues == [1, 2, 3]
    assert opened() == before


def failures(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, *codes: int) -> list[str]:
    """What is told of a node that ends so, half a minute after each start."""
    told: list[str] = []
    monkeypatch.setattr(
        actors.host.cluster.supervisor,
        "tell",
        lambda **event: told.append(event["sentence"]) if event["event"] == "failed" else 0,
    )
    (child,) = supervisor.children
    for code in codes:
        child.pipe, end = os.pipe2(os.O_NONBLOCK)
        os.close(end)
        supervisor._selector.register(child.pipe, selectors.EVENT_READ, child)
        child.started_s = time.monotonic() - 30
        supervisor._ended(child, code)
    return told


@pytest.mark.parametrize("codes", [(78,), (0,), (1, 1, 1, 1)])
def test_a_node_that_will_not_be_there_is_a_start_that_has_failed(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, ...]
) -> None:
    """Also where it takes its time before it ends: whoever waits for the cluster would wait for ever."""
    assert not failures(supervisor, monkeypatch, *codes[:-1])
    assert len(failures(supervisor, monkeypatch, codes[-1])) == 1
    supervisor._ready_told = True
    assert not failures(supervisor, monkeypatch, *codes), "later on it is a matter of the log"


def test_a_node_that_is_wanted_back_while_it_still_ends_comes_back(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kill(1, SIGTERM, restart=False)`, and `start_node(1)` before its controlled shutdown is over."""
    (child,) = supervisor.children
    child.pid = 1 << 30  # of nobody
    for do in ("hold", "start"):
        supervisor._command(do, child.member.ids[0])
    failures(supervisor, monkeypatch, 0)
    assert child.due_s is not None


SERVED = 7


def ended(supervisor: Supervisor) -> int:
    """How a new child ends, where what it would serve is nothing."""
    (child,) = supervisor.children
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # as the supervisor's own
    try:
        assert supervisor._fork(child)
    finally:
        signal.signal(signal.SIGTERM, before)
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    supervisor._selector.unregister(child.pipe)
    os.close(child.pipe)
    return code


def test_a_node_that_is_stopped_as_it_is_made_ends(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes before the new process has its own way with signals: the parent's would swallow it."""
    monkeypatch.setattr(actors.host.serve, "serve", lambda *_, **__: (SERVED, ""))
    assert ended(supervisor) == SERVED
    monkeypatch.setattr(signal, "set_wakeup_fd", lambda fd: os.kill(os.getpid(), signal.SIGTERM))
    assert ended(supervisor) == -signal.SIGTERM


def test_the_reason_of_one_end_is_not_told_of_the_next(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    (child,) = supervisor.children
    monkeypatch.setattr(actors.host.serve, "serve", lambda *_, **__: (1, "the disk is full"))
    supervisor._fork(child)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    supervisor._reap()
    assert child.sentence == "the disk is full"
    monkeypatch.setattr(actors.host.serve, "serve", lambda *_, **__: os._exit(1))
    supervisor._fork(child)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    supervisor._reap()
    assert child.why == "it ended with code 1"


def test_a_node_whose_parent_is_gone_as_it_is_made_does_not_outlive_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells only of a parent's end that comes after one has asked for it."""
    supervisor = Supervisor(plans.create(tmp_path, 1, 0, common={}), detached=False)
    monkeypatch.setattr(actors.host.serve, "serve", lambda *_, **__: (SERVED, ""))
    assert ended(supervisor) == SERVED
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert ended(supervisor) not in (0, SERVED)


def test_who_asks_again_for_a_stop_can_only_hurry(supervisor: Supervisor) -> None:
    supervisor.stop(30)
    first, due_s = supervisor._stopping, supervisor._kill_due_s
    supervisor.stop(60)
    assert (supervisor._stopping, supervisor._kill_due_s) == (first, due_s)
    supervisor.stop(1)
    assert supervisor._stopping is not first and supervisor._kill_due_s < due_s


@pytest.mark.parametrize("options", first_are_quick([["--detached"], []], 1))
def test_it_runs_without_commands_where_standard_input_is_a_file(tmp_path: Path, options: list[str]) -> None:
    """As under systemd, or behind `</dev/null`: epoll refuses a file."""
    plans.create(tmp_path, 1, 0, common={})
    command = [sys.executable, "-m", "actors.host.cluster", str(tmp_path), *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] in ("ready", "failed"):
                break
        if event["event"] == "ready":
            process.terminate()
        process.stdout.read()
    assert (event["event"], process.returncode) == (("ready", 0) if options else ("failed", 3))
