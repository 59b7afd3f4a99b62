"""What a clean stop vouches for: every byte of the logs, whatever arrives between the last flush and the mark."""

import errno

import pytest

from actors.broker.log.directories.directory import CLEAN_SHUTDOWN
from actors.metadata import ops
from actors.wire.errors import ErrorCode
from fastpath.records.batch import Builder
from tests.unit.node.roles.broker.lab import TOPIC_ID, Facade, Lab, code


def stopping(lab: Lab, id: int) -> Facade:
    """A broker whose logs have had their last flush; the checkpoints and the mark are on their way."""
    node = lab.nodes[id]
    node.hold_syncs = True
    node.broker.shutdown()
    while not node.held_syncs:
        lab.turn()
    run(node)
    assert node.held_syncs and node.stopped is None
    return node


def run(node: Facade) -> None:
    """The syncs that were asked for are done."""
    held, node.held_syncs = node.held_syncs, []
    for sync in held:
        sync()


def assert_all_is_durable(node: Facade) -> None:
    assert node.stopped == (0, "stopped as asked")
    logs = [inode for path, inode in node.disk.files.items() if path.endswith(".log")]
    assert logs and all(bytes(inode.data) == inode.durable for inode in logs)


def test_an_answer_of_the_leader_that_comes_after_the_last_flush_is_not_taken_in() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    node = stopping(lab, 2)
    assert lab.awaited, "its long poll is out"
    assert code(lab.produce(1, b"b", acks=1)) is ErrorCode.NONE
    lab.turn()
    lab.turn()
    assert not lab.awaited and lab.partition(2).log.log_end_offset == 1
    run(node)
    assert_all_is_durable(node)


def test_nothing_of_its_own_is_appended_after_the_last_flush() -> None:
    """The coordinator of groups has timers that write."""
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"a")
    lab.settle()
    node = stopping(lab, 1)
    builder, answers = Builder(timestamp_ms=lab.now.wall_ms), list[ErrorCode]()
    builder.append(None, b"b")
    node.broker.appends.append_internal("t", 0, builder.build(), answers.append)
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    run(node)
    assert_all_is_durable(node)


def test_what_a_crash_left_and_nobody_has_claimed_since_is_not_vouched_for() -> None:
    """The replica is elsewhere now; it may come back, and its log was not looked at."""
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    lab.crash(2)
    lab.commit(ops.PartitionsSet.one(TOPIC_ID, 0, [1], [1], 1, 1, 1))
    lab.hold_heartbeats = True
    node = lab.start(2)
    lab.settle()
    node.broker.shutdown()
    lab.settle()
    assert node.stopped == (0, "stopped as asked")
    assert node.disk.names("t-0") and not node.disk.exists(CLEAN_SHUTDOWN)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_log_that_goes_and_has_kept_its_name_is_not_vouched_for(number: int) -> None:
    """The replica comes back here after the stop. What was not flushed of its files would count as durable, and a power
    cut takes it."""
    lab = Lab(2)
    lab.topic([1, 2])
    for value in (b"a", b"b"):  # the first is flushed, for its file is new
        lab.produce(1, value)
        lab.settle()
    node, disk = lab.nodes[2], lab.disks[2]
    disk.fault = lambda operation, path: number if operation == "rename" and path.startswith("t-0") else 0
    lab.commit(ops.PartitionsSet.one(TOPIC_ID, 0, [1], [1], 1, 1, 1))
    lab.settle()
    assert node.broker.replicas.get("t", 0) is None
    node.broker.shutdown()
    lab.settle()
    disk.fault = None
    assert node.stopped == (0, "stopped as asked")
    (log,) = [inode for path, inode in disk.files.items() if path.startswith("t-0/") and path.endswith(".log")]
    assert log.data != log.durable and not disk.exists(CLEAN_SHUTDOWN)
