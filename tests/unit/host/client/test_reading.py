"""A reader of several brokers with real sockets: one that is silent keeps nothing of the others back."""

import threading
import time
from typing import Any

import pytest

from actors.client.errors import NotInTime
from actors.client.operations.fetching import Fetched, Fetcher
from actors.host.client.blocking import connect
from actors.host.client.reading import Reading
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.unit.client.listening import Listening

SETTINGS = {"request.timeout.ms": 60_000, "fetch.max.wait.ms": 10, "metadata.max.age.ms": 200}


def records(base: int) -> bytes:
    builder = Builder(base_offset=base, epoch=1)
    builder.append(None, b"v")
    return bytes(builder.build())


def test_a_broker_that_is_frozen_keeps_no_others_records_back() -> None:
    """Neither those that come now nor those that come later, also while nobody answers a question for metadata."""
    thawed = threading.Event()
    kind = message("FetchResponse")

    def fetch(server: Any, version: int, request: Any) -> Any:
        asked = [(topic.topic_id, one) for topic in request.topics for one in topic.partitions]
        data = [
            kind.FetchableTopicResponse(
                topic_id=id,
                partitions=[kind.PartitionData(partition_index=one.partition, records=records(one.fetch_offset))],
            )
            for id, one in asked
        ]
        return kind(responses=data)

    def frozen(server: Any, version: int, request: Any) -> Any:
        thawed.wait(60)

    with Listening({"Fetch": fetch}) as first, Listening({"Fetch": frozen}) as second:
        told = two_brokers(first, second)
        told_once: list[Any] = [told]
        second.server.answers["Metadata"] = frozen
        first.server.answers["Metadata"] = lambda *some: told_once.pop()(*some) if told_once else None
        with connect(first.address, SETTINGS) as kafka:
            fetcher = Fetcher(kafka.config, {("t", 0): 0, ("t", 1): 0})
            reading, found, began = Reading(kafka, fetcher), 0, time.monotonic()
            while found < 20 and time.monotonic() < began + 30:
                more = sum(isinstance(one, Fetched) and one.partition == 0 for one in reading.next())
                found += more if first.asked.count("Metadata") > 1 else 0
            thawed.set()
        assert found >= 20


def two_brokers(first: Listening, second: Listening) -> Any:
    """Metadata of a topic whose two partitions are led by two brokers."""
    kind = message("MetadataResponse")
    brokers = [
        kind.MetadataResponseBroker(node_id=id, host="127.0.0.1", port=one.server.port)
        for id, one in ((1, first), (2, second))
    ]
    parts = [
        kind.MetadataResponsePartition(
            partition_index=number, leader_id=number + 1, leader_epoch=1, replica_nodes=[1, 2], isr_nodes=[1, 2]
        )
        for number in range(2)
    ]
    topic = kind.MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=parts)
    return lambda server, version, request: kind(brokers=brokers, controller_id=1, topics=[topic])


def test_where_nobody_answers_it_ends_in_time() -> None:
    with Listening({"Metadata": lambda *_: None}) as silent:
        settings = {**SETTINGS, "default.api.timeout.ms": 300, "request.timeout.ms": 200}
        with connect(silent.address, settings) as kafka, pytest.raises(NotInTime):
            Reading(kafka, Fetcher(kafka.config, {("t", 0): 0})).next()


def test_a_broker_that_has_nothing_new_is_waited_for() -> None:
    """Nothing is looked up again and again meanwhile, and the reader sleeps."""
    late = threading.Event()
    kind = message("FetchResponse")

    def fetch(server: Any, version: int, request: Any) -> Any:
        late.wait(60)
        return kind()

    with Listening({"Fetch": fetch}) as first, Listening({"Fetch": fetch}) as second:
        first.server.answers["Metadata"] = two_brokers(first, second)
        with connect(first.address, {**SETTINGS, "metadata.max.age.ms": 300_000}) as kafka:
            fetcher = Fetcher(kafka.config, {("t", 0): 0, ("t", 1): 0})
            prepare, looked = fetcher.prepare, []

            def counted() -> Any:
                looked.append(time.monotonic())
                return prepare()

            fetcher.prepare = counted  # type: ignore[method-assign]
            timer = threading.Timer(2, late.set)
            timer.start()
            reading, began, calls = Reading(kafka, fetcher), time.monotonic(), 0
            while not late.is_set():
                calls += not reading.next()
            timer.join()
            assert calls <= 5 + (time.monotonic() - began)
            assert len(looked) <= 5 + (time.monotonic() - began)


@pytest.mark.parametrize("is_told", [True, False])
def test_whoever_reads_has_a_turn_while_all_brokers_are_silent(is_told: bool) -> None:
    """It may have offsets to commit, and ends to look for; also where no broker says any more whom to ask."""
    thawed = threading.Event()

    def frozen(server: Any, version: int, request: Any) -> Any:
        thawed.wait(60)

    with Listening({"Fetch": frozen}) as first, Listening({"Fetch": frozen}) as second:
        told = two_brokers(first, second)
        told_once: list[Any] = [told]
        first.server.answers["Metadata"] = (
            told if is_told else lambda *some: (told_once.pop() if told_once else frozen)(*some)
        )
        second.server.answers["Metadata"] = frozen
        with connect(first.address, {**SETTINGS, "metadata.max.age.ms": 300_000 if is_told else 200}) as kafka:
            reading, began = Reading(kafka, Fetcher(kafka.config, {("t", 0): 0, ("t", 1): 0})), time.monotonic()
            assert [reading.next() for _ in range(3)] == [[], [], []]
            assert time.monotonic() < began + 40
            thawed.set()
