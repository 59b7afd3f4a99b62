"""R497-29: a broker comes back to a hundred thousand ISRs, and no replica falls out again before all are in.

Real processes: one controller, two brokers. The metadata log of the controller says what happened, in order.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.host.cluster import probe
from actors.metadata.ops import PartitionsChanged
from tests.integration.metadata_log import operations

TOPICS, PARTITIONS = 100, 1000
WAIT_S = 240.0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_r497_29_a_broker_comes_back_to_a_hundred_thousand_isrs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with rayft.Cluster(controllers=1, brokers=2, dir=tmp_path / "c") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for first in range(0, TOPICS, 10):
            made = [NewTopic(f"t{number}", PARTITIONS, 2) for number in range(first, first + 10)]
            for future in admin.create_topics(made, request_timeout=60).values():
                future.result(90)
        alive = [cluster.address(1)]
        waited(alive, lambda found: found.under_replicated == 0 == found.offline)
        cluster.kill(2, restart=False)
        waited(alive, lambda found: found.under_replicated == TOPICS * PARTITIONS)
        before = cluster.quorum().high_watermark
        cluster.start_node(2)
        seconds = waited(alive, lambda found: found.under_replicated == 0)
        directory = cluster.dir / "controller-1001" / "__kafka_metadata-0"
    joined, fell_out = 0, 0
    for op in operations(directory, before):
        for one in op if isinstance(op, PartitionsChanged) else ():
            if one.isr is not None and joined < TOPICS * PARTITIONS:
                joined += len(one.isr) == 2
                fell_out += len(one.isr) < 2
    assert (joined, fell_out) == (TOPICS * PARTITIONS, 0)
    with capsys.disabled():
        print(f"\na broker is back in {joined:,} ISRs {seconds:.0f} s after its start, and fell out of none meanwhile")


def waited(alive: list[tuple[str, int]], holds: Callable[[Any], bool]) -> float:
    """Wait until the partitions are so; how long it took, in seconds."""
    began = time.monotonic()
    while time.monotonic() < began + WAIT_S:
        try:
            if holds(probe.partitions(alive, 30)):
                return time.monotonic() - began
        except probe.NoAnswer:
            pass
        time.sleep(0.5)
    raise AssertionError("it does not come")
