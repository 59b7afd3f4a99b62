"""Clients that work during the faults, and record what they did and saw. Each runs in a thread of its own.

Producers are idempotent with acks=all, one of librdkafka and one of kafka-python. Readers read every partition from its
beginning, one of each library. Two members of librdkafka share a consumer group and commit what they got. An admin
creates and deletes topics. All stop when told to, after the batches in flight of the producers have ended.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.faults.history import History, Seen, Told, value

PADDING = 40
DELIVERY_S = 120
POLL_S = 0.05
LOOK_S = 2.0
"""The time limit for a member to fetch its committed offsets; short, since its group needs the member."""
GROUP = "members"


class Acks:
    """When each partition acknowledged records, for the outages: (time, time at which the record was handed over)."""

    def __init__(self, partitions: int) -> None:
        self.times: list[list[tuple[float, float]]] = [[] for _ in range(partitions)]
        self.metadata: list[tuple[float, float]] = []
        """The same for committed metadata changes."""

    def proven(self, since_s: float) -> bool:
        """Whether every partition has acknowledged a record that was handed over after `since_s`."""
        return all(any(sent >= since_s for _, sent in reversed(times[-500:])) for times in self.times)

    def changed(self, since_s: float) -> bool:
        """Whether a metadata change was committed that was requested after `since_s`."""
        return any(sent >= since_s for _, sent in self.metadata[-500:])


class Stop(threading.Event):
    """A stop in two steps: first the producers end, then everything."""

    def __init__(self) -> None:
        super().__init__()
        self.all = threading.Event()


Client = Callable[[], None]


def librdkafka_producer(name: str, servers: str, topic: str, partitions: int, rate: float, history: History, acks: Acks,
                        stop: Stop) -> Client:  # fmt: skip
    """Produces `rate` records a second, to the partitions in turn."""

    def run() -> None:
        sent_at: dict[bytes, float] = {}

        def delivered(error: KafkaError | None, record: Any) -> None:
            data = record.value()
            at = sent_at.pop(data)
            if error is not None:
                history.unknown[data] = str(error)
                return
            offset = record.offset()  # None: librdkafka knows that the batch is there, from the answer to a later one
            history.acknowledged.append(Seen(record.partition(), -1 if offset is None else offset, data))
            acks.times[record.partition()].append((time.monotonic(), at))

        producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": DELIVERY_S * 1000,
                "socket.timeout.ms": 10_000,
                "error_cb": lambda error: history.broken.append(f"{name}: {error}") if error.fatal() else None,
                "log_level": 0,
            }
        )
        for number in _paced(rate, stop):
            partition = number % partitions
            data = value(name, number, partition, PADDING)
            history.sent[data] = partition
            sent_at[data] = time.monotonic()
            while True:
                try:
                    producer.produce(topic, data, partition=partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(POLL_S)
                except KafkaException as error:
                    sent_at.pop(data)
                    history.broken.append(f"{name}: {error}")
                    return
            producer.poll(0)
        left = producer.flush(DELIVERY_S)
        if left:
            history.broken.append(f"{name}: {left} records without an end")

    return run


def kafka_python_producer(name: str, servers: str, topic: str, partitions: int, rate: float, history: History, acks: Acks,
                          stop: Stop) -> Client:  # fmt: skip
    """The same with kafka-python."""

    def run() -> None:
        from kafka import KafkaProducer

        def note(future: Any, data: bytes, at: float) -> None:
            def good(found: Any) -> None:
                history.acknowledged.append(Seen(found.partition, found.offset, data))
                acks.times[found.partition].append((time.monotonic(), at))

            future.add_callback(good)
            future.add_errback(lambda error: history.unknown.__setitem__(data, repr(error)))

        producer = KafkaProducer(
            bootstrap_servers=servers.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=2,
            request_timeout_ms=10_000,
            delivery_timeout_ms=DELIVERY_S * 1000,
            max_block_ms=DELIVERY_S * 1000,
        )
        try:
            for number in _paced(rate, stop):
                partition = number % partitions
                data = value(name, number, partition, PADDING)
                history.sent[data] = partition
                note(producer.send(topic, data, partition=partition), data, time.monotonic())
            producer.flush(DELIVERY_S)
        except Exception as error:
            history.broken.append(f"{name}: {error!r}")
        finally:
            producer.close(5)

    return run


def librdkafka_reader(name: str, servers: str, topic: str, partitions: int, history: History, stop: Stop) -> Client:
    """Reads all partitions."""

    def run() -> None:
        consumer = Consumer(_reading(servers, name))
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while not stop.all.is_set():
            for record in consumer.consume(500, POLL_S):
                if record.error() is None:
                    history.read[name].append(Seen(record.partition(), record.offset(), record.value()))
                elif record.error().code() == KafkaError._AUTO_OFFSET_RESET:
                    history.broken.append(f"{name}: {record.error()}")
        consumer.close()

    return run


def kafka_python_reader(name: str, servers: str, topic: str, partitions: int, history: History, stop: Stop) -> Client:
    """Reads all partitions."""

    def run() -> None:
        from kafka import KafkaConsumer
        from kafka import TopicPartition as Place

        consumer = KafkaConsumer(
            bootstrap_servers=servers.split(","), auto_offset_reset="none", enable_auto_commit=False,
            fetch_max_wait_ms=100, request_timeout_ms=40_000,
        )  # fmt: skip
        places = [Place(topic, number) for number in range(partitions)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        try:
            while not stop.all.is_set():
                for records in consumer.poll(100, max_records=500).values():
                    history.read[name].extend(Seen(record.partition, record.offset, record.value) for record in records)
        except Exception as error:
            history.broken.append(f"{name}: {error!r}")
        finally:
            consumer.close()

    return run


def group_member(name: str, servers: str, topic: str, history: History, stop: Stop) -> Client:
    """Subscribes, and commits what it has got about twice a second."""

    def run() -> None:
        consumer = Consumer(
            _reading(servers, GROUP) | {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000,
                                        "auto.offset.reset": "earliest"}
        )  # fmt: skip
        reached: dict[int, int] = {}

        def commit() -> None:
            if not reached:
                return
            places = [TopicPartition(topic, number, offset) for number, offset in sorted(reached.items())]
            reached.clear()
            try:
                for place in consumer.commit(offsets=places, asynchronous=False):
                    if place.error is None:
                        before = history.committed.get(place.partition, -1)
                        history.committed[place.partition] = max(before, place.offset)
            except KafkaException:
                return

        def look(member: Consumer, places: list[TopicPartition]) -> None:
            floors = {place.partition: history.committed.get(place.partition, -1) for place in places}
            with suppress(KafkaException):
                for place in member.committed(places, LOOK_S):
                    if place.error is None:
                        history.told.append(Told(place.partition, place.offset, floors[place.partition]))

        consumer.subscribe([topic], on_assign=look, on_revoke=lambda *_: commit(), on_lost=lambda *_: reached.clear())
        due = time.monotonic() + 0.5
        while not stop.all.is_set():
            for record in consumer.consume(500, POLL_S):
                if record.error() is None:
                    history.consumed.append(Seen(record.partition(), record.offset(), record.value()))
                    reached[record.partition()] = record.offset() + 1
            if time.monotonic() > due:
                commit()
                due = time.monotonic() + 0.5
        commit()
        consumer.close()

    return run


def admin(servers: str, history: History, acks: Acks, stop: Stop) -> Client:
    """Creates a topic a few times a second and deletes most of them again."""

    def run() -> None:
        client = AdminClient({"bootstrap.servers": servers, "log_level": 0, "socket.timeout.ms": 10_000})
        for number in _paced(3, stop):
            name, at = f"m-{number}", time.monotonic()
            try:
                client.create_topics([NewTopic(name, 1, 1)], operation_timeout=5, request_timeout=15)[name].result(30)
            except (KafkaException, TimeoutError):
                continue  # it may be there or not
            acks.metadata.append((time.monotonic(), at))
            if number % 10 == 0:
                history.created.add(name)
                continue
            try:
                client.delete_topics([name], operation_timeout=5, request_timeout=15)[name].result(30)
                history.deleted.add(name)
            except (KafkaException, TimeoutError):
                continue

    return run


def final_state(servers: str, topic: str, partitions: int, history: History, timeout_s: float) -> None:
    """Read the whole log, committed offsets and topics, once the faults are over."""
    consumer = Consumer(_reading(servers, GROUP))
    try:
        places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        ends = {place.partition: consumer.get_watermark_offsets(place, 30)[1] for place in places}
        committed = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], 30)
        history.committed_at_end = {place.partition: place.offset for place in committed}
        history.topics_at_end = set(consumer.list_topics(timeout=30).topics)
        consumer.assign(places)
        by_partition: dict[int, list[Seen]] = defaultdict(list)
        position = dict.fromkeys(ends, 0)
        until = time.monotonic() + timeout_s
        while any(position[part] < end for part, end in ends.items()):
            if time.monotonic() > until:
                raise TimeoutError(f"the log is not read to its end: {position} of {ends}")
            for record in consumer.consume(1000, POLL_S):
                if record.error() is None:
                    by_partition[record.partition()].append(Seen(record.partition(), record.offset(), record.value()))
                    position[record.partition()] = record.offset() + 1
        history.final = [seen for number in sorted(by_partition) for seen in by_partition[number]]
    finally:
        consumer.close()


def _reading(servers: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
        "socket.timeout.ms": 10_000,
        "log_level": 0,
    }


def _paced(rate: float, stop: Stop) -> Any:
    """0, 1, 2, ... at that rate until told to stop. Missed numbers are not made up for."""
    number, due = 0, time.monotonic()
    while not stop.is_set():
        yield number
        number += 1
        due = max(due + 1 / rate, time.monotonic())
        stop.wait(max(0.0, due - time.monotonic()))
