"""Who is told to take a snapshot (KIP-631, Snapshot Implementation; A43 to A48)."""

from typing import Any

import pytest

from actors.controller.options import options
from actors.controller.snapshots import LIMIT_MS, SnapshotInputs, controller_heartbeat, next_snapshot, report
from actors.settings.node_config import node_config
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster

ME, SECOND, THIRD = 1001, 1002, 1003
SIZE = 100
"""Bytes after which a snapshot is due here, and of which each record has one."""


class Lab:
    """A controller whose log has a byte a record."""

    def __init__(self, level: int = 2, degraded: bool = False) -> None:
        self.cluster = Cluster(
            level=level, snapshot_bytes=(SIZE, 10 * SIZE), snapshot_interval_ms=(3_600_000, 36_000_000)
        )
        self.degraded = degraded
        self.end = 1000

    @property
    def state(self) -> Any:
        return self.cluster.state._replace(high_watermark=self.end, next_offset=self.end)

    def told(self) -> int | None:
        return next_snapshot(
            self.state, SnapshotInputs(lambda offset: self.end - offset, self.degraded), self.cluster.now
        )

    def reports(self, **offsets: int) -> None:
        for name, offset in offsets.items():
            report(self.state, int(name[1:]), offset, (), self.cluster.now)

    def beat(self, controller: int, offset: int) -> Any:
        request = message("v28:ControllerHeartbeatRequest")(controller_id=controller, last_snapshot_offset=offset)
        return self.cluster.run(controller_heartbeat, request)


def test_r631_110_111_125_reports_are_kept_and_written_nowhere() -> None:
    lab = Lab()
    before = lab.cluster.image.next_offset
    for controller, offset in ((SECOND, 100), (THIRD, 125)):
        assert not lab.beat(controller, offset).start_snapshot and lab.cluster.ops == []
    known = lab.cluster.soft.controllers
    assert {id: one.snapshot_offset for id, one in known.items()} == {SECOND: 100, THIRD: 125}
    lab.beat(SECOND, 150)
    assert {id: one.snapshot_offset for id, one in known.items()} == {SECOND: 150, THIRD: 125}
    assert lab.cluster.image.next_offset == before


def test_a48_an_id_that_is_no_controllers_is_42() -> None:
    lab = Lab()
    assert lab.beat(7, 0).error_code == 42 and not lab.cluster.soft.controllers


def test_r631_111_nobody_is_told_before_everybody_has_reported() -> None:
    lab = Lab()
    lab.reports(c1001=-1, c1002=-1)
    assert lab.told() is None
    lab.reports(c1003=-1)
    assert lab.told() == SECOND


def test_a43_a_controller_that_stays_away_is_not_waited_for_longer_than_a_lease() -> None:
    lab = Lab()
    lab.cluster.later(20_000)
    lab.reports(c1001=-1, c1002=-1)
    assert lab.told() == SECOND


def test_r631_112_114_one_at_a_time_the_furthest_behind_first_and_the_active_last() -> None:
    lab = Lab()
    lab.reports(c1001=0, c1002=500, c1003=200)
    assert [lab.told() for _ in range(3)] == [THIRD] * 3
    assert not lab.beat(SECOND, 500).start_snapshot
    assert lab.beat(THIRD, 200).start_snapshot and lab.beat(THIRD, 200).start_snapshot  # repeated until it is done
    assert not lab.beat(THIRD, 1000).start_snapshot
    assert lab.told() == SECOND
    lab.beat(SECOND, 1000)
    assert lab.told() == ME
    lab.reports(c1001=1000)
    assert lab.told() is None


def test_a43_the_slot_of_one_that_is_silent_or_slow_is_free_again() -> None:
    lab = Lab()
    lab.reports(c1001=1000, c1002=0, c1003=100)
    assert lab.told() == SECOND
    lab.cluster.later(20_000)
    lab.reports(c1001=1000, c1003=100)
    assert lab.told() == THIRD
    for _ in range(LIMIT_MS // 10_000):
        lab.cluster.later(10_000)
        lab.reports(c1001=1000, c1002=0, c1003=100)
    assert lab.told() == SECOND


def test_a44_by_bytes_and_by_time() -> None:
    lab = Lab()
    lab.reports(c1001=999, c1002=999, c1003=1000 - SIZE + 1)
    assert lab.told() is None
    for _ in range(361):
        lab.cluster.later(10_000)
        lab.reports(c1001=999, c1002=999, c1003=1000)
    assert lab.told() == SECOND  # an hour has passed, and there is something new


def test_r500_19_a_snapshot_is_due_with_the_last_byte_and_an_interval_lies_between_two() -> None:
    lab = Lab()
    lab.reports(c1001=1000, c1002=1000, c1003=1000 - SIZE)
    assert lab.told() == THIRD
    lab = Lab()
    taken: dict[int, list[int]] = {}
    covered = 999
    for minute in range(1, 5 * 60 + 1):
        lab.cluster.later(60_000)
        lab.reports(c1001=1000, c1002=covered, c1003=1000)
        if lab.told() == SECOND:
            taken.setdefault(SECOND, []).append(minute)
            lab.reports(c1001=1000, c1002=1000, c1003=1000)
            covered = 999  # and a record more is committed
    assert taken == {SECOND: [60, 120, 180, 240, 300]}


def test_r500_19_nothing_new_is_no_reason() -> None:
    lab = Lab()
    for _ in range(361):
        lab.cluster.later(10_000)
        lab.reports(c1001=1000, c1002=1000, c1003=1000)
        assert lab.told() is None


def test_r631_025_a_weakened_quorum_takes_its_own_settings() -> None:
    given = {
        "process.roles": "controller",
        "controller.id": "1001",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.listeners": "CONTROLLER",
        "controller.connect": "1001@127.0.0.1:9093",
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "metadata.log.max.record.bytes.between.snapshots.degraded": "3000",
        "metadata.log.max.snapshot.interval.ms": "2000",
        "metadata.log.max.snapshot.interval.ms.degraded": "7000",
    }
    made = options(node_config(given), "cluster")
    assert (made.snapshot_bytes, made.snapshot_interval_ms) == ((1000, 3000), (2000, 7000))


@pytest.mark.parametrize("level, degraded, expected", [(1, False, SECOND), (1, True, None), (2, True, SECOND)])
def test_r631_025_118_level_1_spares_a_weakened_quorum(level: int, degraded: bool, expected: int | None) -> None:
    lab = Lab(level, degraded)
    lab.reports(c1001=1000, c1002=1000 - 2 * SIZE, c1003=1000)
    assert lab.told() == expected
    if expected is None:
        lab.reports(c1002=0, c1003=0)
        lab.end = 11 * SIZE
        assert lab.told() in (SECOND, THIRD)
