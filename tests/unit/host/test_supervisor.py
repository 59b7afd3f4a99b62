"""The parent of a cluster's processes where the system refuses it something: it goes on, and tries again."""

import errno
import os
from pathlib import Path

import pytest

from actors.host import plan as plans
from actors.host.supervisor import Supervisor


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    plan = plans.create(tmp_path, 1, 0, common={})
    return Supervisor(plan, detached=True)


def test_a_full_disk_does_not_end_the_supervisor_and_with_it_the_cluster(supervisor: Supervisor) -> None:
    temporary = supervisor.plan.directory / "cluster.tmp"
    temporary.symlink_to("/dev/full")
    supervisor._publish()
    assert not (supervisor.plan.directory / plans.CLUSTER_JSON).exists()
    temporary.unlink()
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
    before = len(os.listdir("/proc/self/fd"))
    dues = []
    for _ in range(3):
        assert not supervisor._fork(child)
        assert child.pid == 0 and child.due_s is not None
        dues.append(child.crashes)
    assert dues == [1, 2, 3]
    assert len(os.listdir("/proc/self/fd")) == before
