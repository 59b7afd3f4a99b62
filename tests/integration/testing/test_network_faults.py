"""Faults of the network and of clocks, as tests of applications use them: a node that is cut off goes on and is missed by
others, what was sent arrives when the network is whole again, and a clock that jumps is in the records."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import rayft
from actors.host.cluster import faults, probe
from tests.integration.conftest import until

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rayft.Cluster]:
    settings = {
        "registration.lease.timeout.ms": "3000", "registration.heartbeat.interval.ms": "500",
        "default.replication.factor": "3", "min.insync.replicas": "2", "replica.lag.time.max.ms": "3000",
        "log.message.timestamp.type": "LogAppendTime",
    }  # fmt: skip
    with rayft.Cluster(1, 3, tmp_path_factory.mktemp("three") / "c", settings) as cluster:
        yield cluster


def send(cluster: rayft.Cluster, topic: str, value: bytes, **config: object) -> str | None:
    """The error of a record that was sent; None: it is there."""
    failed = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 60_000, **config})
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failed.append(error))
    producer.flush()
    return None if failed[0] is None else str(failed[0])


def isr(cluster: rayft.Cluster, topic: str, ask: int) -> tuple[int, set[int]]:
    """(leader, ISR) of partition 0, as that broker tells them."""
    from actors.wire.messages import message

    kind = message("MetadataRequest")
    reply = probe.ask(cluster.address(ask), "Metadata", kind(topics=[kind.MetadataRequestTopic(name=topic)]), 9)
    (one,) = [part for part in reply.topics[0].partitions if part.partition_index == 0]
    return one.leader_id, set(one.isr_nodes)


def test_a_leader_that_is_cut_off_is_replaced_goes_on_and_comes_back(three: rayft.Cluster) -> None:
    assert send(three, "t", b"a") is None
    until(lambda: isr(three, "t", 1)[1] == {1, 2, 3})
    leader = isr(three, "t", 1)[0]
    other = next(one for one in (1, 2, 3) if one != leader)
    pid = three.pids[leader]
    three.cut(leader)
    with pytest.raises(probe.NoAnswer):
        probe.ask(three.address(leader), "ApiVersions", _versions(), 0, timeout_s=1.0)
    until(lambda: isr(three, "t", other)[0] not in (leader, -1))
    assert send(three, "t", b"b") is None
    assert three.pids[leader] == pid, "it goes on"
    three.heal()
    until(lambda: isr(three, "t", leader)[1] == {1, 2, 3})
    assert three.pids[leader] == pid and "Traceback" not in three.log(leader)


def test_what_was_asked_of_a_node_that_is_cut_off_is_answered_when_it_is_not(tmp_path: Path) -> None:
    with rayft.Cluster(1, 1, tmp_path / "c", combined=True) as cluster:
        assert send(cluster, "t", b"a") is None
        for _ in range(3):
            cluster.cut(1)
            assert "timed out" in str(send(cluster, "t", b"lost", **{"message.timeout.ms": 1000}))
            cluster.reconnect(1)
            assert send(cluster, "t", b"b") is None
        assert not list(Path(cluster.dir).glob("*.faults*"))
        cluster.cut(1)
        cluster.restart(1)
        assert send(cluster, "t", b"c") is None, "a restart ends it"
        cluster.cut(1)
        assert cluster.states == {(1, 1001): "cut"}
        cluster.freeze(1)
        assert cluster.states == {(1, 1001): "frozen"}
    assert cluster.log(1).count("controlled shutdown granted") == 2, "cut off, it could not ask for it"


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_is_in_the_records_and_is_right_again(three: rayft.Cluster, hours: int) -> None:
    topic = f"clock{hours}"
    assert send(three, topic, b"a") is None
    until(lambda: isr(three, topic, 1)[0] > 0)
    leader = isr(three, topic, 1)[0]
    three.jump_clock(leader, hours * 3600)
    assert send(three, topic, b"b") is None
    three.heal()
    assert send(three, topic, b"c") is None
    consumer = Consumer({"bootstrap.servers": three.bootstrap_servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    times: list[int] = []
    end = time.monotonic() + 60
    while len(times) < 3:
        assert time.monotonic() < end
        if (found := consumer.poll(1)) is not None and found.error() is None:
            times.append(found.timestamp()[1])
    consumer.close()
    assert abs(times[1] - times[0] - hours * HOUR_MS) < HOUR_MS / 4
    assert abs(times[2] - times[0]) < HOUR_MS / 4


def test_a_node_that_others_started_does_not_listen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Nobody:
        def on_signal(self, *given: object) -> None:
            raise AssertionError("it listens")

    monkeypatch.delenv(faults.VARIABLE, raising=False)
    faults.obey(Nobody(), tmp_path, "node")  # type: ignore[arg-type]


def _versions() -> object:
    from actors.wire.messages import message

    return message("ApiVersionsRequest")()
