"""Explanations of faults that are really made: each kind that the metadata log knows, in a cluster in virtual time; and none
in a cluster without faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors import replay
from actors.replay.columns.as_of import time_of
from actors.why.explanations import FLAPS, Explanation
from actors.wire.messages import message
from tests.simulator.one_topic import OneTopic


@contextmanager
def history(t: OneTopic, tmp_path: Path) -> Iterator[replay.History]:
    """The history of the metadata log as the active controller's disk has it now."""
    active = t.cluster.active()
    assert active is not None
    root = tmp_path / str(t.world.time_us)
    for path, inode in active.disk.files.items():
        to = root / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(inode.data)
    with replay.History(root, step=1) as found:
        yield found


def explained(t: OneTopic, tmp_path: Path) -> list[Explanation]:
    with history(t, tmp_path) as found:
        return replay.why(found)


def kinds(found: list[Explanation]) -> list[str]:
    return [one.kind for one in found]


def back(t: OneTopic, *brokers: int) -> None:
    """Start brokers again and wait until they are in sync, and lead what they should."""
    for broker in brokers:
        t.cluster.brokers[broker].start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.until(lambda: t.leader == 1, 600_000)


@pytest.fixture
def t() -> OneTopic:
    return OneTopic(replicas=[1, 2, 3], config={"leader.imbalance.check.interval.seconds": "60"})


def test_a_cluster_without_faults_has_no_explanation(t: OneTopic, tmp_path: Path) -> None:
    t.produce(b"one")
    assert explained(t, tmp_path) == []
    t.move([1, 2, 3])
    t.world.run_for(120_000)
    with history(t, tmp_path) as found:
        assert replay.why(found) == []
        assert [one for one in found.pins if replay.why(found, one.offset)] == [], "nor was there ever any"
        assert replay.why_partition(found, "t", 0) == [] == replay.why_partition(found, "t", 9)


def test_a_killed_broker_and_the_replica_that_left_after_it(t: OneTopic, tmp_path: Path) -> None:
    killed_ms = t.world.time_us // 1000
    t.cluster.brokers[2].kill()
    t.until(lambda: t.isr == {1, 3})
    t.world.run_for(5_000)
    broker, replica = explained(t, tmp_path)
    assert (broker.kind, broker.broker) == ("broker", 2) and broker.since_ms >= killed_ms
    assert broker.sentence.startswith("broker 2 is away since ") and broker.command == "start broker 2"
    assert "no controller has heard of it within its lease" in broker.cause and broker.is_fault
    assert (replica.kind, replica.topic, replica.partition, replica.broker) == ("under-replicated", "t", 0, 2)
    assert replica.sentence.startswith("t-0: replica 2 left the ISR at ") and "broker 2 was fenced" in replica.sentence
    assert replica.cause.startswith("broker 2 was fenced at ") and replica.since_ms >= broker.since_ms
    back(t, 2)
    with history(t, tmp_path) as found:
        assert replay.why(found) == []
        (over,) = replay.why_partition(found, "t", 0)
        assert over.since_ms == replica.since_ms < over.until_ms <= found.now.time_ms
        assert "replica 2 left the ISR at" in over.sentence and "; it came back at " in over.sentence
        then = replay.why(found, time_of(replica.since_ms))
        assert [one._replace(sentence="") for one in then] == [one._replace(sentence="") for one in (broker, replica)]


def test_a_broker_that_was_shut_down(t: OneTopic, tmp_path: Path) -> None:
    """The drafts' records are the same for a broker that asked for it and for one that was fenced."""
    t.stop(3)
    t.until(lambda: 3 not in t.isr)
    t.world.run_for(20_000)
    broker, replica = explained(t, tmp_path)
    assert (broker.kind, broker.broker) == ("broker", 3)
    assert broker.cause.startswith("it was shut down, or ") and broker.cause.endswith("the log does not say which")
    assert "broker 3 was fenced" in replica.sentence and replica.kind == "under-replicated"


def test_a_replica_that_does_not_follow_though_its_broker_is_active(t: OneTopic, tmp_path: Path) -> None:
    t.world.block("b1", "b2")
    t.produce(b"one", acks=1)
    t.until(lambda: t.isr == {1, 3}, 120_000)
    t.world.run_for(2_000)
    (replica,) = explained(t, tmp_path)
    assert replica.kind == "under-replicated" and replica.sentence.startswith("t-0: replica 2 left the ISR at ")
    assert "fenced" not in replica.sentence
    assert replica.cause == "broker 2 is active and has not caught up; the log does not say why"


def test_a_partition_without_a_leader(t: OneTopic, tmp_path: Path) -> None:
    for broker in (2, 3, 1):
        t.cluster.brokers[broker].kill()
        t.until(lambda broker=broker: broker not in t.isr or t.leader == -1)
    t.until(lambda: t.leader == -1)
    t.world.run_for(5_000)
    found = explained(t, tmp_path)
    assert kinds(found)[:4] == ["broker", "broker", "broker", "offline"]
    offline = found[3]
    assert offline.sentence.startswith("t-0 has no leader since ") and offline.cause.startswith(
        "broker 1 is away since "
    )
    assert offline.command == "start broker 1: only it has all records"
    back(t, 1, 2, 3)
    with history(t, tmp_path) as after:
        assert replay.why(after) == []
        lives = replay.why_partition(after, "t", 0)
        assert [one.since_ms for one in lives] == sorted([one.since_ms for one in lives], reverse=True)
        (leaderless,) = [one for one in lives if one.kind == "offline"]
        assert (
            leaderless.since_ms == offline.since_ms < leaderless.until_ms
            and " had no leader from " in leaderless.sentence
        )


def test_a_partition_that_its_preferred_leader_does_not_lead(t: OneTopic, tmp_path: Path) -> None:
    t.cluster.brokers[1].kill()
    t.until(lambda: t.leader not in (1, -1))
    t.cluster.brokers[1].start()
    t.until(lambda: 1 in t.isr)
    (notice,) = explained(t, tmp_path)
    assert notice.kind == "preferred" and not notice.is_fault and notice.broker == 1
    assert notice.sentence.startswith(f"t-0 is led by broker {t.leader} since ")
    t.until(lambda: t.leader == 1, 600_000)
    assert explained(t, tmp_path) == []


def test_a_broker_that_comes_and_goes(t: OneTopic, tmp_path: Path) -> None:
    for _ in range(FLAPS):
        t.cluster.brokers[3].kill()
        t.until(lambda: 3 not in t.isr)
        t.cluster.brokers[3].start()
        t.until(lambda: 3 in t.isr)
    found = explained(t, tmp_path)
    assert kinds(found) == ["flapping"]
    assert found[0].sentence == f"broker 3 was fenced {FLAPS} times within 10 min" and found[0].broker == 3
    t.world.run_for(660_000)
    t.move([1, 3, 2])
    assert kinds(explained(t, tmp_path)) == [], "long ago is no fault"


def test_a_setting_that_differs(t: OneTopic, tmp_path: Path) -> None:
    kind = message("IncrementalAlterConfigsRequest")
    for broker, value in ((1, "2"), (2, "3")):
        config = kind.AlterableConfig(name="num.io.threads", config_operation=0, value=value)
        resource = kind.AlterConfigsResource(resource_type=4, resource_name=str(broker), configs=[config])
        reply = t.client.call("b1", "IncrementalAlterConfigs", 1, kind(resources=[resource]))
        assert reply.responses[0].error_code == 0, reply.responses[0].error_message
    (notice,) = explained(t, tmp_path)
    assert notice.kind == "settings" and not notice.is_fault
    assert notice.sentence == "num.io.threads differs between brokers: 2 on 1; 3 on 2; not set on 3"
    assert notice.cause.startswith("it was last changed for broker 2 at ")
    assert notice.cause.endswith("the log does not say who changed it")
