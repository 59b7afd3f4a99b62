"""Worlds in which something was found once, and that are sound now. docs/simulator.md says what it was."""

import pytest

from tests.simulator.planted.kinds import run
from tests.simulator.planted.worlds import WORLDS
from tests.simulator.simulation import simulate

FOUND = [
    ("leader_completeness", "", 20005),
    ("leader_completeness", "", 20010),
    ("replicas_identical", "moving", 20013),
    ("no_phantom_records", "recreated", 20000),
    ("no_node_crashes", "recreated", 20009),
    ("leader_completeness", "rough", 30003),
    ("leader_completeness", "recreated", 30018),
    ("leader_completeness", "", 200076),
    ("leader_completeness", "", 200085),
    ("leader_completeness", "", 4000526),
    ("fenced_brokers_serve_nobody", "", 4001060),
    ("fenced_brokers_serve_nobody", "", 4100306),
    ("fenced_brokers_serve_nobody", "recreated", 400055),
    ("high_watermark_monotonic", "purged", 410042),
    ("leader_completeness", "recreated", 420011),
    ("liveness", "reassigned", 440029),
    ("replicas_identical", "", 461352),
    ("nodes_stop_for_a_reason", "", 521050),
    ("quiet_cluster_agrees", "", 521249),
    ("fenced_brokers_serve_nobody", "", 521491),
    ("replicas_identical", "", 4500136),
    ("replicas_identical", "condensed", 120),
    ("replicas_identical", "rotten", 110023),
    ("restarts_succeed", "voters", 120027),
    ("restarts_succeed", "voters", 200059),
]
"""(property that did not hold, kind of world or none, seed)."""


@pytest.mark.parametrize(("checker", "kind", "seed"), FOUND)
def test_it_holds_now(checker: str, kind: str, seed: int) -> None:
    result = run(WORLDS[kind], seed) if kind else simulate(seed)
    assert result.ok, f"{result.checker} ({checker} the first time): {result.text}"
