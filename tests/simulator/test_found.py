"""Worlds in which a bug was found once, and that hold every property now. docs/simulator-found.md describes the bugs.

`make test-slow` runs them: each takes seconds, and most of the bugs have a test of their own beside them.
"""

import pytest

from tests.simulator import simulation
from tests.simulator.clients.producer import Producer
from tests.simulator.many import alone_in
from tests.simulator.planted.kinds import run
from tests.simulator.planted.registry import instead
from tests.simulator.planted.worlds import WORLDS
from tests.simulator.simulation import Result, simulate

ONE_IN_FLIGHT = "one in flight"
"""The simulator's worlds as they were when no producer had more than one batch in flight."""
FOUND = [
    ("leader_completeness", ONE_IN_FLIGHT, 20005),
    ("leader_completeness", ONE_IN_FLIGHT, 20010),
    ("replicas_identical", "moving", 20013),
    ("no_phantom_records", "recreated", 20000),
    ("no_node_crashes", "recreated", 20009),
    ("leader_completeness", "rough", 30003),
    ("leader_completeness", "recreated", 30018),
    ("leader_completeness", ONE_IN_FLIGHT, 200076),
    ("leader_completeness", ONE_IN_FLIGHT, 200085),
    ("leader_completeness", ONE_IN_FLIGHT, 4000526),
    ("fenced_brokers_serve_nobody", ONE_IN_FLIGHT, 4001060),
    ("fenced_brokers_serve_nobody", ONE_IN_FLIGHT, 4100306),
    ("fenced_brokers_serve_nobody", "recreated", 400055),
    ("high_watermark_monotonic", "purged", 410042),
    ("leader_completeness", "recreated", 420011),
    ("liveness", "reassigned", 440029),
    ("replicas_identical", ONE_IN_FLIGHT, 461352),
    ("nodes_stop_for_a_reason", ONE_IN_FLIGHT, 521050),
    ("quiet_cluster_agrees", ONE_IN_FLIGHT, 521249),
    ("fenced_brokers_serve_nobody", ONE_IN_FLIGHT, 521491),
    ("replicas_identical", ONE_IN_FLIGHT, 4500136),
    ("no_acknowledged_record_lost", "", 700028),
    ("no_acknowledged_record_lost", "", 732838),
    ("replicas_identical", "compacted", 120),
    ("replicas_identical", "rotten", 110023),
    ("restarts_succeed", "voters", 120027),
    ("restarts_succeed", "voters", 200059),
    ("quiet_cluster_agrees", "pushed", 828845685483),
    ("pushed_metadata", "pushed", 6200000),
    ("latest_values_survive", "cleaned", 6201001),
    ("replicas_identical", "sharing", 6200015),
    ("nodes_stop_for_a_reason", "pushed", 6204003),
    ("pushed_metadata", "pushed", 6203042),
    ("one_owner_at_a_time", "migrating", 6203055),
    ("one_owner_at_a_time", "streams", 6206026),
    ("fenced_brokers_serve_nobody", "pipelined", 6220006),
    ("latest_values_survive", "cleaned", 6220014),
    ("last_stable_offset_is_of_the_log", "swept", 6220049),
    ("restarts_succeed", "relocated", 6220086),
    ("quiet_cluster_agrees", "pushed", 6220090),
    ("no_node_crashes", "racked", 6221000),
    ("replica_in_one_directory", "relocated", 6221024),
    ("liveness", "cleaned", 6221032),
    ("what_is_committed_is_in_range", "quiet", 6223044),
    ("replicas_identical", "purged", 6223102),
    ("failed_directory_is_given_up", "", 1100177),
    ("pushed_metadata", "", 1100179),
    ("liveness", "", 6224051),
    ("no_acknowledged_record_lost", "away", 6224059),
    ("no_node_crashes", "pushed", 6224090),
    ("parts_are_as_they_say", "groups", 6224129),
    ("replicas_identical", "relocated", 6224213),
    ("replicas_identical", "purged", 6224328),
    ("restarts_succeed", "voters", 6224453),
    ("no_proposal_is_left", "pushed", 7281003),
    ("no_node_crashes", "failing disks", 2),
    ("no_node_crashes", "failing disks", 33),
    ("no_node_crashes", "failing disks", 59),
    ("no_node_crashes", "failing disks", 104),
    ("no_node_crashes", "failing disks", 130),
    ("replica_in_one_directory", "failing disks", 143),
    ("failed_sync_is_final", "failing disks", 105),
    ("no_acknowledged_record_lost", "failing disks", 47),
    ("nothing_deleted_unasked", "failing disks", 20001),
    ("failed_sync_is_final", "failing disks", 50369),
    ("liveness", "failing disks", 50270),
    ("liveness", "failing disks", 50380),
    ("no_handler_fails", "failing disks", 50103),
    ("nodes_stop_for_a_reason", "failing disks", 50434),
    ("failed_directory_is_given_up", "failing disks", 50514),
    ("what_is_dirty_is_cleaned", "failing disks", 584),
    ("restarts_succeed", "failing disks", 533),
    ("restarts_succeed", "failing disks", 558),
    ("restarts_succeed", "failing disks", 70463),
    ("restarts_succeed", "failing disks", 71251),
    ("rot_is_mended", "failing disks", 70402),
    ("rot_is_mended", "failing disks", 71403),
    ("rot_is_mended", "failing disks", 103543),
    ("parts_are_as_they_say", "failing disks", 131680),
    ("nothing_deleted_unasked", "failing disks", 160562),
    ("no_sound_disk_is_blamed", "failing disks", 130522),
    ("failed_sync_is_final", "failing disks", 200287),
    ("replica_in_one_directory", "failing disks", 200980),
    ("nothing_deleted_unasked", "failing disks", 250085),
    ("liveness", "failing disks", 260576),
    ("what_is_too_old_goes", "failing disks", 261238),
]
"""(property that did not hold, kind of world or none, seed)."""


def found(checker: str, kind: str, seed: int) -> Result:
    """The world once more."""
    if kind in WORLDS:
        return run(WORLDS[kind], seed)
    if kind == ONE_IN_FLIGHT:
        with instead(simulation, "Pipeline", Producer):
            return simulate(seed)
    return simulate(seed)


@pytest.mark.slow
@pytest.mark.parametrize(("checker", "kind", "seed"), FOUND)
def test_it_holds_now(checker: str, kind: str, seed: int) -> None:
    result = alone_in(found, checker=checker, kind=kind, seed=seed)
    assert result.ok, f"{result.checker} ({checker} the first time): {result.text}"
