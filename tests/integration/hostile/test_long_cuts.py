"""A follower that is truncated and must read its whole log first: 120 segments without a producer snapshot.

Broker 1 leads alone, accepts batches of an idempotent producer that no other broker gets, and dies. Broker 2 is elected
without them. When broker 1 follows it, the batches are truncated, and what the producers had sent before must be read
from the log's start. Before, this was done inside the loop: a client of broker 1 waited 4,700 ms, and a lease was lost.
"""

import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rayft
from actors.controller.partitions import elect_leaders
from actors.host.cluster import probe
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.integration.answers.dialogue import request
from tests.integration.conftest import until
from tests.integration.hostile.produced import MEBIBYTE, PRODUCE, asked, produce_request
from tests.integration.hostile.scene import Address, Peer, Scene

CONFIG = {
    "registration.lease.timeout.ms": "3000", "registration.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
}  # fmt: skip
TOPIC = "cut"
TOPIC_CONFIG = {"min.insync.replicas": "1", "segment.bytes": str(MEBIBYTE)}
SEGMENTS, BATCHES_A_SEGMENT = 120, 13_000
TAIL = 20
"""The number of truncated batches: more than the five of a producer that memory keeps."""
PING_LONGEST_MS = 1_000
EPOCH_POSITION = 12


def batch_of(producer_id: int, sequence: int = 0) -> bytes:
    """A batch with one small record of an idempotent producer."""
    builder = Builder(timestamp_ms=1_000_000, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    builder.append(None, b"x" * 10)
    return bytes(builder.build())


def fill(directory: Path, first: int, epoch: int) -> int:
    """Write segments from offset `first` on, after those of a broker with a clean stop. Returns the new log end."""
    one = bytearray(batch_of(7))
    struct.pack_into(">i", one, EPOCH_POSITION, epoch)
    assert len(one) * BATCHES_A_SEGMENT < MEBIBYTE
    rows = np.tile(np.frombuffer(bytes(one), np.uint8), (BATCHES_A_SEGMENT, 1))
    for number in range(SEGMENTS):
        base_offset = first + number * BATCHES_A_SEGMENT
        offsets = np.arange(base_offset, base_offset + BATCHES_A_SEGMENT, dtype=">i8")
        rows[:, :8] = offsets.view(np.uint8).reshape(-1, 8)
        (directory / f"{base_offset:020d}.log").write_bytes(rows.tobytes())
    return first + SEGMENTS * BATCHES_A_SEGMENT


def forget_producers(directory: Path) -> None:
    """Remove all producer snapshots, as after a run of an older version."""
    for path in directory.glob("*.snapshot"):
        path.unlink()


def same(directories: list[Path], name: str) -> bool:
    """Whether both replicas have the file, with the same bytes."""
    found = [directory / name for directory in directories]
    return all(path.exists() for path in found) and found[0].read_bytes() == found[1].read_bytes() != b""


def produced(address: Address, batch: bytes) -> int:
    """Produce with acks=1. Returns the offset; -1: the broker does not lead yet."""
    with Peer(address) as peer:
        answer = asked(peer, "Produce", PRODUCE, produce_request(TOPIC, [(0, batch)]))
    return int(answer.responses[0].partition_responses[0].base_offset)


def in_sync(address: Address) -> tuple[int, list[int]]:
    """(leader, ISR) as the broker at `address` knows them."""
    answer = probe.ask(address, "Metadata", request("Metadata", topics=[{"name": TOPIC}]), 9)
    found = answer.topics[0].partitions[0]
    return found.leader_id, sorted(found.isr_nodes)


def answers(address: Address) -> bool:
    """Whether a broker serves clients."""
    try:
        probe.ask(address, "ApiVersions", request("ApiVersions"), 0)
    except probe.NoAnswer:
        return False
    return True


def elected(address: Address) -> bool:
    """Whether a broker that is not in sync has been made leader."""
    kind = message("ElectLeadersRequest")
    wanted = [kind.TopicPartitions(topic=TOPIC, partitions=[0])]
    body = kind(election_type=elect_leaders.UNCLEAN, topic_partitions=wanted, timeout_ms=5000)
    try:
        probe.ask(address, "ElectLeaders", body, 2, 10)
        return in_sync(address)[0] == 2
    except probe.NoAnswer:
        return False


@pytest.fixture
def diverged(tmp_path: Path) -> Iterator[Scene]:
    """Broker 1 runs again with its tail, and broker 2, the leader, is frozen."""
    home = tmp_path / "c"
    logs = [home / f"broker-{id}" / f"{TOPIC}-0" for id in (1, 2)]
    with rayft.Cluster(controllers=1, brokers=2, dir=home, config=CONFIG) as cluster:
        first, second = cluster.address(1), cluster.address(2)
        kind = message("CreateTopicsRequest")
        given = [kind.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
        topic = kind.CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=given,
            configs=[kind.CreatableTopicConfig(name=name, value=value) for name, value in TOPIC_CONFIG.items()],
        )  # fmt: skip
        made = probe.ask(first, "CreateTopics", kind(topics=[topic], timeout_ms=20_000), 5, 30)
        assert made.topics[0].error_code == 0, made
        until(lambda: produced(first, batch_of(-1)) == 0)
        until(lambda: same(logs, f"{0:020d}.log"))
        for id in (2, 1):
            cluster.kill(id, signal.SIGTERM, restart=False)
            until(lambda id=id: id not in cluster.pids)
        epoch = struct.unpack_from(">i", logs[0].joinpath(f"{0:020d}.log").read_bytes(), EPOCH_POSITION)[0]
        ends = [fill(directory, 1, epoch) for directory in logs]
        for directory in logs:
            forget_producers(directory)
            (directory / "leader-epoch-checkpoint").unlink()  # it ends before what was filled in
        cluster.start_node(1)
        until(lambda: answers(first) and produced(first, batch_of(8)) == ends[0])
        for number in range(1, TAIL):
            assert produced(first, batch_of(8, number)) == ends[0] + number
        cluster.kill(1, restart=False)
        cluster.start_node(2)
        until(lambda: elected(second))
        assert produced(second, batch_of(9)) == ends[1]
        cluster.kill(2, signal.SIGSTOP)
        try:
            forget_producers(logs[0])
            cluster.start_node(1)
            until(lambda: answers(first))
            yield Scene(cluster)
        finally:
            cluster.kill(2, signal.SIGCONT)


@pytest.mark.timeout(240)
def test_clients_are_answered_while_a_long_log_is_read_for_a_cut(diverged: Scene) -> None:
    cluster = diverged.cluster
    first, second = cluster.address(1), cluster.address(2)
    logs = [Path(cluster.dir) / f"broker-{id}" / f"{TOPIC}-0" for id in (1, 2)]
    last = max(path.name for path in logs[1].glob("*.log"))
    assert (logs[0] / last).stat().st_size > (logs[1] / last).stat().st_size, "broker 1 has a longer log"

    def attack() -> None:
        cluster.kill(2, signal.SIGCONT)
        until(lambda: answers(second) and in_sync(second) == (2, [1, 2]))

    cost = diverged.measured(attack, ping=first)
    print(cost)
    assert not cost.broken, cost
    assert cost.ping_max_ms < PING_LONGEST_MS, cost
    assert same(logs, last), "cut, and grown again"
    assert [path for path in logs[0].glob("*.snapshot") if path.stem == last.removesuffix(".log")], "the whole was read"
