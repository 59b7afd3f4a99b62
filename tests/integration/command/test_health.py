"""`rayft health` and `rayft status` of clusters in which faults are really made, and of one without."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import rayft
from actors.client.operations import groups, offsets
from actors.command.output import screen
from actors.host.client.blocking import connect
from actors.why.explanations import explain
from actors.why.facts import ClusterFacts
from actors.why.groups import GroupSample, standing
from bench import apache
from tests.integration.command.test_verbs import APACHE, typed
from tests.integration.conftest import until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rayft.Cluster]:
    """Three controllers and two brokers, with a topic of four partitions on both brokers."""
    directory = tmp_path_factory.mktemp("health") / "cluster"
    with rayft.Cluster(controllers=3, brokers=2, dir=directory) as made:
        typed(made.bootstrap_servers, "topic", "create", "orders", "-p", "4", "-r", "2")
        yield made


def kinds(servers: str, *words: str) -> list[str]:
    return [one["kind"] for one in json.loads(typed(servers, "health", "-o", "json", *words).out) if one["is_fault"]]


def test_without_a_fault_there_is_none(cluster: rayft.Cluster) -> None:
    assert typed(cluster.bootstrap_servers, "health", "--why").text.startswith("well: controller ")
    assert screen.state(Path(cluster.dir))["explanations"] == []


def test_a_broker_that_is_gone_and_since_when(cluster: rayft.Cluster) -> None:
    servers = cluster.bootstrap_servers
    cluster.kill(2, restart=False)
    until(lambda: kinds(servers) == ["broker"])
    until(lambda: kinds(servers, "--why") == ["broker", "under-replicated"])
    ran = typed(servers, "health", "--why")
    broker, replicas, count = [one for one in ran.text.splitlines() if not one.startswith("notice: ")]
    assert ran.code == 2 and count == "2 faults"
    assert re.match(
        r"broker 2 is away since \d\d:\d\d:\d\d and has replicas of 4 partitions \(it was shut down, or ", broker
    )
    assert re.match(
        r"4 partitions lack replica 2 in their ISR \(orders-0, orders-1, orders-2 and 1 more\): that of orders-0 left the "
        r"ISR at \d\d:\d\d:\d\d, (as|\d\.\d s after) broker 2 was fenced: start broker 2",
        replicas,
    )
    found = screen.state(Path(cluster.dir))["explanations"]
    assert [one["kind"] for one in found if one["is_fault"]] == ["broker", "under-replicated"]
    assert found[0]["fault"].startswith("broker 2 is not running since ")
    cluster.start_node(2)
    until(lambda: kinds(servers, "--why") == [])


def test_a_transaction_is_well_as_long_as_its_coordinator_ends_it(cluster: rayft.Cluster) -> None:
    """However old its records are: a program that copies what is old is not one that is gone."""
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "hangs", "transaction.timeout.ms": 600_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=1, timestamp=int(time.time() * 1000) - 20 * 60_000)
    producer.flush()
    assert kinds(servers) == []
    producer.abort_transaction()
    until(lambda: kinds(servers) == [])


def looks(servers: str) -> dict[str, GroupSample]:
    """One look at the group `stands`."""
    part = ("orders", 0)
    with connect(servers) as kafka:
        committed = kafka.run(groups.committed("stands", [part]))[part]
        end = kafka.run(offsets.list_offsets([part]))[part]
        members = len(kafka.run(groups.describe("stands")).members)
    sample = GroupSample(int(time.time() * 1000), members, {part: committed.offset}, {part: end.offset})
    return {"stands": sample}


@pytest.mark.slow
def test_a_group_that_stands_still(cluster: rayft.Cluster) -> None:
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(10):
        producer.produce("orders", b"x", partition=0)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "stands"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    consumer.close()
    before = looks(servers)
    time.sleep(1.1)
    (facts,) = standing(before, looks(servers), 1_000)
    assert (facts.group, facts.members, facts.partitions) == ("stands", 0, ("orders-0",)) and facts.lag >= 7
    (one,) = explain(ClusterFacts(int(time.time() * 1000), {}, {}, groups=(facts,)))
    assert one.sentence.startswith(f"group stands is {facts.lag} records behind and has committed nothing for ")
    assert one.cause == "it has no members"


def test_a_voter_that_stands_still_and_a_quorum_without_a_majority(cluster: rayft.Cluster) -> None:
    servers, directory = cluster.bootstrap_servers, Path(cluster.dir)
    state = screen.state(directory)
    pids = {row["id"]: row["pid"] for row in state["controllers"]}
    frozen = [id for id in pids if id != state["leader_id"]]
    try:
        os.kill(pids[frozen[0]], signal.SIGSTOP)
        until(lambda: kinds(servers) == ["voter"])
        assert f"controller {frozen[0]} does not follow the leader for " in typed(servers, "health").text
        os.kill(pids[frozen[1]], signal.SIGSTOP)
        until(lambda: screen.state(directory)["leader_id"] < 0)
        (one,) = [one for one in screen.state(directory)["explanations"] if one["is_fault"]]
        assert (one["kind"], one["help"]) == ("no quorum", "start controllers until 2 of 3 run")
        assert kinds(servers) == ["no quorum"]
    finally:
        for id in frozen:
            os.kill(pids[id], signal.SIGCONT)
    until(lambda: kinds(servers) == [])


@pytest.mark.slow
def test_apache_kafka_says_since_when_too() -> None:
    if apache.libs() is None:
        pytest.skip("no java, or Apache Kafka's jars are not in .kafka/libs: `make kafka` fetches them")
    with apache.ApacheKafka(controllers=1, brokers=2, config=APACHE, heap="512m") as kafka:
        servers = kafka.bootstrap_servers
        typed(servers, "topic", "create", "orders", "-p", "1", "-r", "2")
        assert typed(servers, "health", "--why").text.startswith("well: controller ")
        kafka.kill(2)
        until(lambda: kinds(servers, "--why") == ["broker", "under-replicated"])
        broker, replica, _ = typed(servers, "health", "--why").text.splitlines()
        assert re.match(
            r"broker 2 is fenced since \d\d:\d\d:\d\d and has replicas of 1 partition "
            r"\(no controller has heard of it within its lease\): start broker 2", broker,
        )  # fmt: skip
        assert re.match(r"orders-0: replica 2 left the ISR at \d\d:\d\d:\d\d, .* broker 2 was fenced: ", replica)
