"""The whole way over, and the way back, with Apache Kafka's own brokers: `rayft bridge` under load.

Three brokers in ZooKeeper mode with two hundred partitions, settings and a consumer group, whose clients log in with
SCRAM, are taken over; brokers of rayft join; every partition moves to them; the old brokers and ZooKeeper stop. An
idempotent producer with acks=all and a consumer group run all the while: nothing is lost, nothing comes twice, and the
group goes on where it was.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from actors.bridge.subjects import topics
from actors.command.output import screen
from actors.host import storage
from actors.host.bridge.zookeeper_session import Session
from actors.host.cluster import plan
from actors.ports.zookeeper import Children, Get
from tests.integration.bridge.way import (
    ALICE,
    CLIENTS,
    FOR_CLIENTS,
    PARTITIONS,
    PASSWORDS,
    TOPIC,
    Load,
    add_users,
    bridged,
    door,
    move_everything,
    rayft,
    records_in,
    until,
    written,
)
from tests.integration.bridge.zookeeper_mode import COORDINATORS, ZooKeeper, ZooKeeperBrokers
from tests.integration.metadata_log import operations

MANY = {TOPIC: 120, "quiet": 80}
"""Topic -> partitions."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_the_whole_way_over(release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "nodes.properties", COORDINATORS | FOR_CLIENTS)
    with ZooKeeper() as zookeeper:
        add_users(zookeeper, release)
        old = ZooKeeperBrokers(
            zookeeper, release, 3, FOR_CLIENTS, among=("INTERNAL", "PLAINTEXT"), clients=CLIENTS, login=ALICE
        )
        with old as kafka:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers} | ALICE)
            wanted = [NewTopic(name, count, 3, config={"retention.ms": "86400000"}) for name, count in MANY.items()]
            for future in admin.create_topics(wanted).values():
                future.result(60)
            load = Load(kafka.bootstrap_servers, ALICE)
            until(lambda: len(load.read) > 500, "the group reads before the takeover")
            load.stopped_s()
            stops: dict[str, float] = {}
            options = ("--listener", "INTERNAL", "--config", file)
            with bridged(zookeeper, tmp_path / "rayft", 3, *options) as cluster:
                load.goes_on(500, "under the new controller")
                stops["taken over"] = load.stopped_s()
                new = [member.config.broker_id for member in cluster.brokers]
                assert new == [4, 5, 6]
                began = time.monotonic()
                move_everything(door(cluster, 4), new)
                took_s = time.monotonic() - began
                load.goes_on(500, "to the new brokers")
                stops["moved"] = load.stopped_s()
                for id in (1, 2, 3):
                    assert kafka.terminate(id) in (0, 143)
                rayft("bridge", "--zookeeper", zookeeper.address, "--dir", str(tmp_path / "rayft"), "--finish")
                zookeeper.terminate(0)
                load.goes_on(500, "without ZooKeeper")
                stops["old brokers and ZooKeeper stopped"] = load.stopped_s()
                load.stop()
                assert load.failed == []
                assert sorted(load.acknowledged) == list(range(load.sent))
                assert sorted(load.read) == list(range(load.sent)), "nothing is lost"
                twice = sum(times - 1 for times in load.read.values())
                with capsys.disabled():
                    print(
                        f"\n{release}: {sum(MANY.values())} partitions moved in {took_s:.1f} s; {load.sent} records, "
                        f"{twice} read twice, the producer stopped for {load.longest_s:.2f} s at most ({phases(stops)})"
                    )
                assert records_in(cluster, TOPIC) == load.sent, "nothing is written twice"
                image_has_everything(cluster)


def phases(stops: Mapping[str, float]) -> str:
    return ", ".join(f"{what} {seconds:.2f} s" for what, seconds in stops.items())


def image_has_everything(cluster: plan.Plan) -> None:
    """Settings and credentials are in the metadata log."""
    directory = Path(storage.check(cluster.controllers[0].config)[0].path) / "__kafka_metadata-0"
    names = Counter(type(op).__name__ + getattr(op, "kind", "") for op in operations(directory))
    assert names["EntitySetscram"] == len(PASSWORDS) and names["ConfigSet"] >= 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", ["2.8.2", "3.3.2", "3.9.1"])
def test_the_way_back_half_way(release: str, tmp_path: Path) -> None:
    """Every old broker is restarted, twice, while rayft drives: brokers from 3.3 on obey a controller whose partition epochs
    are not behind those that rayft has told them, and no other."""
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, release, brokers=3) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        config = {"min.insync.replicas": "2"}
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)]).values():
            future.result(30)
        load = Load(kafka.bootstrap_servers)
        until(lambda: len(load.read) > 200, "the group reads before the takeover")
        with bridged(zookeeper, tmp_path / "rayft", 0):
            load.goes_on(300, "under the new controller")
            for id in (1, 2, 3, 1, 2, 3):
                kafka.terminate(id)
                kafka.start(id)
                until(lambda id=id: id in brokers_of(zookeeper), "a broker comes back under the new controller")
                until(lambda: in_sync(zookeeper) == {1, 2, 3}, "it is in sync again, as rayft has written")
            rayft("bridge", "--zookeeper", zookeeper.address, "--dir", str(tmp_path / "rayft"), "--back")
            until(lambda: controller_of(zookeeper) in (1, 2, 3), "an old broker is the controller")
        load.goes_on(300, "after the way back")
        kafka.kill(2)
        until(lambda: in_sync(zookeeper) == {1, 3}, "ISRs shrink")
        load.goes_on(300, "with two of three in sync")
        kafka.start(2)
        until(lambda: in_sync(zookeeper) == {1, 2, 3}, "ISRs grow")
        kafka.terminate(3)
        until(lambda: all(one["leader"] in (1, 2) for one in states_of(zookeeper)), "others are elected")
        load.goes_on(300, "under leaders that the old controller has elected")
        load.stop()
        assert load.failed == [] and sorted(load.read) == list(range(load.sent))


def states_of(zookeeper: ZooKeeper) -> list[dict[str, Any]]:
    """What ZooKeeper has of the partitions' leaders and ISRs."""
    paths = [topics.state_path(TOPIC, number) for number in range(PARTITIONS)]
    with Session(zookeeper.address) as session:
        return [json.loads(found.data) for found in session.read([Get(path) for path in paths])]


def in_sync(zookeeper: ZooKeeper) -> set[int]:
    """The brokers that are in the ISR of every partition."""
    return set.intersection(*(set(one["isr"]) for one in states_of(zookeeper)))


def brokers_of(zookeeper: ZooKeeper) -> set[int]:
    with Session(zookeeper.address) as session:
        return {int(name) for name in session.read([Children("/brokers/ids")])[0] or ()}


def controller_of(zookeeper: ZooKeeper) -> int:
    with Session(zookeeper.address) as session:
        (znode,) = session.read([Get("/controller")])
    return -1 if znode is None else int(json.loads(znode.data)["brokerid"])


def epoch_of(zookeeper: ZooKeeper) -> int:
    with Session(zookeeper.address) as session:
        (znode,) = session.read([Get("/controller_epoch")])
    return 0 if znode is None else int(znode.data)


@pytest.mark.slow
def test_what_fails_half_way_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """kill -9 of the active controller and of an old broker, and a ZooKeeper that is away for half a minute."""
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, "2.8.2", brokers=3) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics(
            [NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})]
        ).values():
            future.result(30)
        load = Load(kafka.bootstrap_servers)
        until(lambda: len(load.read) > 200, "the group reads before the takeover")

        stops: dict[str, float] = {}

        def produced(what: str) -> None:
            load.goes_on(300, what)
            stops[what] = max(stops.get(what, 0.0), load.stopped_s())

        load.stopped_s()

        with bridged(zookeeper, tmp_path / "rayft", 0):
            produced("under the new controller")
            before = screen.state(tmp_path / "rayft")
            assert before["bridge"]["state"] == "driving" and before["bridge"]["controller"] == before["leader_id"]
            (pid,) = [row["pid"] for row in before["controllers"] if row["id"] == before["leader_id"]]
            epoch = epoch_of(zookeeper)
            os.kill(pid, signal.SIGKILL)  # where the others are slow it is active again itself, once it is started anew
            until(lambda: epoch_of(zookeeper) > epoch, "the next active controller claims")
            produced("under the next controller")
            kafka.kill(2)
            produced("without an old broker")
            kafka.start(2)
            until(lambda: 2 in brokers_of(zookeeper), "it is back")
            produced("with the old broker again")
            zookeeper.kill(0)
            away = time.monotonic() + 30
            while time.monotonic() < away:
                produced("while ZooKeeper is away")
            zookeeper.start()
            fresh = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            for future in fresh.create_topics([NewTopic("later", 2, 2)]).values():
                future.result(60)
            until(lambda: "later" in topics_of(zookeeper), "a topic that was made after that is in ZooKeeper")
            load.stop()
            assert load.failed == [] and sorted(load.read) == list(range(load.sent))
            with capsys.disabled():
                print(f"\nfailures: {load.sent} records, the producer stopped for at most: {phases(stops)}")


def topics_of(zookeeper: ZooKeeper) -> tuple[str, ...]:
    with Session(zookeeper.address) as session:
        (names,) = session.read([Children("/brokers/topics")])
    return names or ()
