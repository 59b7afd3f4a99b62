"""Retention of many logs: what is under way at once, whose directory a failure is charged to, what a stop waits for."""

import errno
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.node.roles.broker.log import log_retention
from actors.node.roles.broker.log.log_retention import LogRetention
from actors.ports import DiskFailed, DiskFull
from tests.simulator.disk import VirtualDisk
from tests.unit.node.roles.broker.lab import Facade, Lab

CHECK_MS = 5_000
SETTINGS = {"log.retention.check.interval.ms": str(CHECK_MS), "log.initial.task.delay.ms": str(CHECK_MS)}


class Syncs:
    """The syncs by which retention flushes a log. They end when the test says so."""

    def __init__(self, node: Facade) -> None:
        self.held: list[Callable[[Any], None]] = []
        sync = node.runtime.sync

        def asked(files: Sequence[Any], replacements: Sequence[Any], then: Callable[[Any], None], **more: Any) -> None:
            if sys._getframe(1).f_code in (LogRetention._flush.__code__, LogRetention._sync.__code__):
                self.held.append(then)
            else:
                sync(files, replacements, then, **more)

        node.runtime.sync = asked  # type: ignore[method-assign]

    def end(self, result: Exception | None = None) -> None:
        """All that were asked for end."""
        held, self.held = self.held, []
        for then in held:
            then(result)


def _old(partitions: int = 1, **configs: str) -> tuple[Lab, Syncs]:
    """Logs of which everything is too old, before the first check."""
    lab = Lab(1, settings=SETTINGS)
    lab.topic([1], partitions=partitions, configs={"retention.ms": "1000", **configs})
    for number in range(partitions):
        lab.produce(1, bytes(60), number=number)
    lab.settle()
    return lab, Syncs(lab.nodes[1])


def _failed() -> DiskFailed:
    return DiskFailed(errno.EIO, "sync failed", "t-0")


def test_a_failure_is_charged_to_the_directory_in_which_it_was() -> None:
    """The replica has moved to another one meanwhile."""
    lab, syncs = _old()
    partition, disk = lab.partition(1), lab.disks[1]
    lab.pass_ms(CHECK_MS + 1000, 1000)
    assert len(syncs.held) == 1
    there = VirtualDisk()
    partition.log = PartitionLog(there, "t-0", partition.settings, bytes(16))
    syncs.end(_failed())
    failing = lab.broker(1).logs.directories.failing
    assert disk in failing and there not in failing


def test_a_sync_that_does_not_end_gets_no_other_one() -> None:
    lab, syncs = _old()
    lab.pass_ms(10 * CHECK_MS, 1000)
    assert len(syncs.held) == 1
    syncs.end()
    lab.pass_ms(2000, 1000)
    assert lab.partition(1).log.log_start_offset == 1 and not syncs.held


def test_a_new_file_is_flushed_though_its_sync_has_failed() -> None:
    """Else it waited for the next append to be flushed."""
    lab, syncs = _old()
    lab.pass_ms(CHECK_MS + 1000, 1000)
    syncs.end(DiskFull(errno.EMFILE, "no descriptor", "t-0"))
    lab.pass_ms(1000, 1000)
    log = lab.partition(1).log
    assert [one.base_offset for one in log.segments] == [0, 1] and not log.names.flush_wanted
    assert lab.disks[1].files["t-0/00000000000000000001.log"].durable is not None


@pytest.mark.parametrize("configs", [{}, {"retention.ms": "-1", "retention.bytes": "0"}])
def test_few_logs_of_a_directory_wait_for_the_disk_at_once(configs: dict[str, str]) -> None:
    """Behind each other thousands of syncs would hold up what clients wait for, and the stop."""
    lab, syncs = _old(50, **configs)
    most = done = 0
    lab.pass_ms(CHECK_MS + 1000, 1000)
    while syncs.held:
        most, done = max(most, len(syncs.held)), done + len(syncs.held)
        syncs.end()
        lab.pass_ms(20, 10)
    assert most <= log_retention.AT_ONCE and done == 50
    assert {lab.partition(1, number).log.log_start_offset for number in range(50)} == {1}


def test_a_turn_ends_although_many_segments_go() -> None:
    """4,000 segments of one log took 0.8 s of one turn, and so did one of each of as many logs."""
    lab = Lab(1, settings=SETTINGS)
    lab.topic([1], configs={"retention.ms": "1000"})
    lab.produce(1, bytes(60))
    log = lab.partition(1).log
    log.settings = replace(log.settings, segment_bytes=100)
    for _ in range(299):
        lab.produce(1, bytes(60))
    lab.settle()
    disk, renamed, most = lab.disks[1], 0, 0

    def look(operation: str, path: str) -> int:
        nonlocal renamed
        renamed += operation == "rename" and path.endswith(".log")
        return 0

    disk.fault = look
    turn = lab.nodes[1].turn

    def counted() -> None:
        nonlocal renamed, most
        renamed = 0
        turn()
        most = max(most, renamed)

    lab.nodes[1].turn = counted  # type: ignore[method-assign]
    lab.pass_ms(CHECK_MS + 2000, 1000)
    assert log.log_start_offset == 300
    assert 0 < most <= 2 * log_retention.A_TURN


def test_a_stop_waits_for_nothing_that_retention_begins() -> None:
    lab, syncs = _old(50)
    lab.pass_ms(CHECK_MS - 1000, 1000)
    lab.broker(1).logs.begin_close()
    lab.pass_ms(2000, 1000)
    assert not syncs.held and lab.partition(1).log.log_end_offset == 1


def test_a_stop_waits_for_no_more_than_is_under_way() -> None:
    lab, syncs = _old(50)
    lab.pass_ms(CHECK_MS + 1000, 1000)
    assert len(syncs.held) == log_retention.AT_ONCE
    lab.broker(1).logs.begin_close()
    syncs.end()
    lab.pass_ms(1000, 100)
    assert not syncs.held
    assert {lab.partition(1, number).log.log_start_offset for number in range(50)} == {0}


@pytest.mark.parametrize("cut", [False, True])
def test_what_is_too_old_makes_room_on_a_full_disk(cut: bool) -> None:
    """The flush of a log that was cut waited for room, and what would have made it waited for that flush."""
    lab = Lab(1, settings=SETTINGS)
    lab.topic([1], configs={"retention.ms": "1000"})
    for number in range(3):
        lab.produce(1, bytes(60), producer_id=5, producer_epoch=0, base_sequence=number)
    lab.settle()
    log = lab.partition(1).log
    log.generation += cut
    lab.disks[1].replace_full = lambda path: True
    lab.pass_ms(10 * CHECK_MS, 1000)
    assert [one.base_offset for one in log.segments] == [3] and log.log_start_offset == 3
