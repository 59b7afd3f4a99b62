"""Changes through the page, of rayft and of Apache Kafka: what is done, what the cluster refuses, and what nobody may."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import rayft
from bench import apache
from tests.integration.page.opened import Page, page, until

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module", params=["rayft", pytest.param("apache", marks=pytest.mark.slow)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "rayft":
        with rayft.Cluster(controllers=1, brokers=1) as cluster:
            yield cluster.bootstrap_servers
        return
    if apache.libs() is None:
        pytest.skip("Apache Kafka's jars are not there: `make kafka` fetches them where it can")
    config = {"default.replication.factor": "1", "offsets.topic.num.partitions": "1"}
    with apache.ApacheKafka(brokers=1, controllers=1, config=config, heap="320m") as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def opened(servers: str) -> Iterator[Page]:
    with page("-b", servers, "--allow-changes") as found:
        yield found


def changed(opened: Page, what: str, **fields: Any) -> tuple[int, str]:
    """(status, sentence) of a change."""
    status, body, _ = opened.ask(f"/changes/{what}", method="POST", body=json.dumps(fields).encode(), headers=JSON)
    assert len(body) == 1
    return status, body.get("said") or body["error"]


def offsets(opened: Page, topic: str) -> list[list[int]]:
    """[first, end] of each partition."""
    return [row[4:] for row in opened.get(f"/topics/{topic}")["rows"]]


def test_the_life_of_a_topic(opened: Page, name: str) -> None:
    assert opened.get("")["may_change"] and not opened.get("")["has_nodes"]
    status, said = changed(opened, "topics/create", topic=name, partitions=2, settings={"retention.ms": "12345678"})
    assert (status, said) == (200, f"Topic {name} was created with 2 partitions.")
    until(lambda: opened.rows("topics", where=f"topic = {name}"))
    status, said = changed(opened, "topics/create", topic=name)
    assert status == 409 and name in said and "exist" in said
    assert changed(opened, "topics/grow", topic=name, partitions=3)[0] == 200
    assert changed(opened, "topics/grow", topic=name, partitions=1)[0] == 409
    for key, partition in (("a", 2), (None, 2), ("b", 0)):
        status, said = changed(opened, "records/produce", topic=name, key=key, value="v", partition=partition)
        assert status == 200 and said.startswith(f"The record was written to {name}-{partition} at offset "), said
    assert offsets(opened, name) == [[0, 1], [0, 0], [0, 2]]
    lost = opened.get(f"/topics/{name}/lost")
    assert (lost["partitions"], lost["records"]) == (3, 3)
    assert lost["deleting"].startswith(f"Deleting {name} removes 3 partitions with about 3 records")
    status, said = changed(
        opened, "topics/settings", topic=name, set={"cleanup.policy": "compact"}, unset=["retention.ms"]
    )
    assert status == 200 and "cleanup.policy=compact" in said
    settings = {one[0]: one[1:] for one in opened.get(f"/topics/{name}")["settings"]}
    assert settings["cleanup.policy"] == ["compact", "topic"] and settings["retention.ms"][1] != "topic"
    status, said = changed(opened, "topics/settings", topic=name, set={"retention.ms": "soon"})
    assert status == 409 and "retention.ms" in said
    assert changed(opened, "topics/settings", topic=name, set={"cleanup.policy": "delete"})[0] == 200
    assert changed(opened, "topics/empty", topic=name)[0] == 400
    # a broker may not have heard yet that the topic is compacted no more: then it refuses
    until(lambda: changed(opened, "topics/empty", topic=name, confirm=name)[0] == 200)
    assert offsets(opened, name) == [[1, 1], [0, 0], [2, 2]]
    status, said = changed(opened, "topics/delete", topic=name, confirm="another")
    assert status == 400 and "send confirm with the name" in said
    assert opened.rows("topics", where=f"topic = {name}")
    looked_at = opened.get(f"/topics/{name}/lost")["id"]
    assert changed(opened, "topics/delete", topic=name, confirm=name, id=looked_at) == (
        200,
        f"Topic {name} was deleted.",
    )
    until(lambda: not opened.rows("topics", where=f"topic = {name}"))
    assert changed(opened, "topics/delete", topic=name, confirm=name)[0] == 404
    assert changed(opened, "topics/create", topic=name, partitions=1)[0] == 200
    for what in ("topics/delete", "topics/empty"):
        status, said = changed(opened, what, topic=name, confirm=name, id=looked_at)
        assert status == 409 and "made anew" in said, "it is another one than was looked at"
    assert opened.rows("topics", where=f"topic = {name}")
    assert changed(opened, "topics/delete", topic=name, confirm=name)[0] == 200


def test_a_record_is_what_was_given(opened: Page, servers: str, name: str) -> None:
    assert changed(opened, "topics/create", topic=name, partitions=1)[0] == 200
    headers = [["h", "v"], ["h", None], ["b", {"base64": "AP8="}]]
    assert changed(opened, "records/produce", topic=name, key="k", value={"base64": "/wA="}, headers=headers)[0] == 200
    assert changed(opened, "records/produce", topic=name, key="k")[0] == 200
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        first, second = (one for one in consumer.consume(2, 30))
        assert (first.key(), first.value()) == (b"k", b"\xff\x00")
        assert first.headers() == [("h", b"v"), ("h", None), ("b", b"\x00\xff")]
        assert (second.key(), second.value(), second.headers()) == (b"k", None, None)
        assert abs(first.timestamp()[1] - time.time() * 1000) < 120_000
    finally:
        consumer.close()
    assert changed(opened, "records/produce", topic=f"{name}-no", value="v")[0] == 404
    status, said = changed(opened, "records/produce", topic=name, value="v", partition=7)
    assert status == 400 and "no partition 7" in said


def test_a_group_is_reset_and_deleted(opened: Page, servers: str, name: str) -> None:
    assert changed(opened, "topics/create", topic=name, partitions=2)[0] == 200
    for at in range(6):
        assert changed(opened, "records/produce", topic=name, value="v", partition=at % 2)[0] == 200
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False})
    try:
        consumer.subscribe([name])
        until(lambda: consumer.poll(1) or consumer.assignment())
        consumer.commit(offsets=[TopicPartition(name, 0, 2), TopicPartition(name, 1, 3)], asynchronous=False)
        status, said = changed(opened, "groups/reset", group=name, to="beginning")
        assert (status, said) == (409, f"group {name} has 1 member, which would commit over it: stop them first")
        assert changed(opened, "groups/delete", group=name, confirm=name)[0] == 409
    finally:
        consumer.close()
    body = json.dumps({"group": name, "to": "-1"}).encode()
    status, tried, _ = opened.ask("/tried/groups/reset", method="POST", body=body, headers=JSON)
    assert (status, tried["rows"]) == (200, [[name, 0, 2, 2], [name, 1, 3, 2]])
    status, said = changed(opened, "groups/reset", group=name, to="beginning", topics=[f"{name}:1"])
    assert (status, said) == (
        200, f"Group {name} reads on elsewhere in 1 partition: 3 records will be read again."
    )  # fmt: skip
    assert [row[2] for row in opened.get("/group", name=name)["rows"]] == [2, 0]
    assert changed(opened, "groups/reset", group=name, to="tomorrow")[0] == 400
    status, said = changed(opened, "groups/reset", group=f"{name}-new", to="end")
    assert status == 404 and "name what it is to read" in said
    assert changed(opened, "groups/delete", group=name)[0] == 400
    assert changed(opened, "groups/delete", group=name, confirm=name) == (200, f"Group {name} was deleted.")
    assert opened.ask("/group", name=name)[0] == 404


def test_a_setting_of_a_broker(opened: Page) -> None:
    status, said = changed(opened, "brokers/settings", set={"log.cleaner.threads": "2"})
    assert status == 200 and said == "Of all brokers it holds now: log.cleaner.threads=2."
    until(lambda: opened.rows("configs", where="name = log.cleaner.threads"))
    assert changed(opened, "brokers/settings", unset=["log.cleaner.threads"])[0] == 200
    status, said = changed(opened, "brokers/settings", set={"broker.id": "9"})
    assert status == 409
    assert changed(opened, "brokers/settings")[0] == 400


def test_what_no_change_is_does_nothing(opened: Page, name: str) -> None:
    assert changed(opened, "topics/create", topic=name, partition=3)[0] == 400
    assert changed(opened, "topics/vanish", topic=name)[0] == 404
    assert changed(opened, "nodes/kill", node=1)[0] == 404
    assert opened.ask("/nodes")[0] == 404
    body = json.dumps({"topic": name, "value": "x" * (70 << 10)}).encode()
    status, told, _ = opened.ask("/changes/records/produce", method="POST", body=body, headers=JSON)
    assert status == 413 and "longer than" in told["error"]
    assert opened.rows("topics", where=f"topic = {name}") == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**JSON, "Authorization": "Bearer wrong"}, 401),
        ({**JSON, "Authorization": ""}, 403),
        ({**JSON, "Origin": "http://evil.example"}, 403),
        ({**JSON, "Host": "evil.example"}, 421),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_a_change_of_somebody_else_does_nothing(opened: Page, name: str, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"topic": name}).encode()
    assert opened.ask("/changes/topics/create", method="POST", body=body, headers=headers)[0] == status
    assert opened.rows("topics", where=f"topic = {name}") == []


def test_without_the_option_the_page_only_reads(servers: str, name: str) -> None:
    with page("-b", servers) as reading:
        assert not reading.get("")["may_change"]
        body = json.dumps({"topic": name}).encode()
        status, told, _ = reading.ask("/changes/topics/create", method="POST", body=body, headers=JSON)
        assert status == 405 and "--allow-changes" in told["error"]
        assert reading.ask("/topics/x/lost")[0] == 404 and reading.ask("/nodes")[0] == 404
        assert reading.rows("topics", where=f"topic = {name}") == []
