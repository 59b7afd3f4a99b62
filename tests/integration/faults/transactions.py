"""Transactions during the faults: who writes in them, who reads what is committed, and what must hold of it (KIP-98).

Two producers write transactions over several partitions of one topic, and abort one in four. A copier reads what is
committed there, and writes a copy of each record to another topic in a transaction with its group's offsets (KIP-447).
Readers of committed records read from the beginning meanwhile. At the end everything is read once more:

    torn        a transaction of which not every record is seen as often as it was written
    missing     its commit was acknowledged, and nothing of it is seen
    undead      its abort was acknowledged, and something of it is seen
    changed     a reader was given something else at an offset than is there at the end, or skipped or repeated a record
    copied      a committed record of which the copier's group says that it was copied, and that has not exactly one copy
    hanging     a partition in which a transaction is open when all producers have ended
    idle        nothing was committed, aborted, copied or read while the faults lasted
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.integration.faults.clients import DELIVERY_S, POLL_S, Client, Stop
from tests.integration.faults.history import Seen
from tests.integration.faults.targets import wait_for

INPUT, OUTPUT, PARTITIONS = "decided", "copies", 3
GROUP = "copier"
PRODUCERS = ("t1", "t2")
TIMEOUT_MS = 15_000
PAUSE_S = 0.05
CALL_S = 10.0


class Transactions:
    """What the clients did and saw. A name is that of a transaction; each value is `name:number`."""

    def __init__(self) -> None:
        self.written: dict[str, Counter[int]] = {}
        """Name -> partition -> records."""
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.read: dict[str, list[Seen]] = defaultdict(list)
        """Reader -> what it was given of the input."""
        self.final: dict[str, list[Seen]] = {}
        """Topic -> all that is committed in it, read at the end."""
        self.offsets: dict[int, int] = {}
        """Of the copier's group at the end."""
        self.hanging: list[str] = []
        self.broken: list[str] = []


def clients(servers: str, seed: int, found: Transactions, stop: Stop) -> dict[str, Client]:
    """Create the topics. Who works, by name."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    wanted = [NewTopic(topic, PARTITIONS, 3, config={"min.insync.replicas": "2"}) for topic in (INPUT, OUTPUT)]
    for future in admin.create_topics(wanted).values():
        future.result(30)
    return {
        **{f"{name} producer": _producer(name, servers, random.Random(f"{seed} {name}"), found, stop) for name in PRODUCERS},
        "copier": _copier(servers, found, stop),
        "committed reader": _reader("librdkafka", servers, found, stop),
        "committed kafka-python reader": _kafka_python_reader("kafka-python", servers, found, stop),
    }  # fmt: skip


# ---- producers


def _producer(name: str, servers: str, choice: random.Random, found: Transactions, stop: Stop) -> Client:
    def run() -> None:
        number, producer = 0, None
        while not stop.is_set():
            if producer is None:
                producer = _made(name, servers, stop)
                if producer is None:
                    continue
            number += 1
            if not _transaction(producer, f"{name}-{number}", choice, found):
                producer = None
            stop.wait(PAUSE_S)

    return run


def _made(name: str, servers: str, stop: Stop) -> Producer | None:
    """A producer that has fenced the ones before it; None: told to stop."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": name,
            "transaction.timeout.ms": TIMEOUT_MS,
            "linger.ms": 2,
            "socket.timeout.ms": 10_000,
            # When no broker answers, librdkafka 2.16 begins anew from the bootstrap servers, and may wait for ever for the
            # connection that it had to the group's coordinator before. The addresses here never change.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
    )
    while not stop.is_set():
        error = _tried(producer.init_transactions)
        if error is None:
            return producer
        stop.wait(0.2)
    return None


def _transaction(producer: Producer, name: str, choice: random.Random, found: Transactions) -> bool:
    """One transaction; False: this producer is of no use any more."""
    parts = Counter(choice.randrange(PARTITIONS) for _ in range(choice.randint(1, 6)))
    found.written[name] = parts
    try:
        producer.begin_transaction()
        for number, partition in enumerate(parts.elements()):
            producer.produce(INPUT, f"{name}:{number}".encode(), partition=partition)
    except KafkaException as error:
        return _abort(producer, name, found) if not error.args[0].fatal() else False
    if not choice.randrange(4):
        return _abort(producer, name, found)
    return _commit(producer, name, found)


def _commit(producer: Producer, name: str, found: Transactions) -> bool:
    error = _tried(producer.commit_transaction)
    if error is None:
        found.committed.add(name)
        return True
    return error.txn_requires_abort() and _abort(producer, name, found)


def _abort(producer: Producer, name: str, found: Transactions) -> bool:
    if _tried(producer.abort_transaction) is not None:
        return False
    found.aborted.add(name)
    return True


def _tried(call: Callable[[float], None]) -> KafkaError | None:
    """Call until it is done, or can no longer be; what stands in the way then."""
    until = time.monotonic() + DELIVERY_S
    while True:
        try:
            call(CALL_S)
            return None
        except KafkaException as raised:
            error = raised.args[0]
            if not error.retriable() or time.monotonic() > until:
                return error


# ---- readers


def _reading(servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "socket.timeout.ms": 10_000,
            "log_level": 0,
        }
    )


def _got(consumer: Consumer) -> list[Seen]:
    records = [record for record in consumer.consume(500, POLL_S) if record.error() is None]
    return [Seen(record.partition(), record.offset(), record.value()) for record in records]


def _reader(name: str, servers: str, found: Transactions, stop: Stop) -> Client:
    def run() -> None:
        consumer = _reading(servers, name)
        consumer.assign([TopicPartition(INPUT, number, 0) for number in range(PARTITIONS)])
        while not stop.all.is_set():
            found.read[name] += _got(consumer)
        consumer.close()

    return run


def _kafka_python_reader(name: str, servers: str, found: Transactions, stop: Stop) -> Client:
    def run() -> None:
        from kafka import KafkaConsumer
        from kafka import TopicPartition as Place

        consumer = KafkaConsumer(
            bootstrap_servers=servers.split(","), auto_offset_reset="none", enable_auto_commit=False,
            isolation_level="read_committed", fetch_max_wait_ms=100, request_timeout_ms=40_000,
        )  # fmt: skip
        places = [Place(INPUT, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        try:
            while not stop.all.is_set():
                for records in consumer.poll(100, max_records=500).values():
                    found.read[name] += [Seen(record.partition, record.offset, record.value) for record in records]
        finally:
            consumer.close()

    return run


# ---- consume, transform, produce


def _copier(servers: str, found: Transactions, stop: Stop) -> Client:
    def run() -> None:
        while not stop.all.is_set():
            producer = _made(GROUP, servers, stop.all)  # type: ignore[arg-type]
            if producer is None:
                return
            consumer = _reading(servers, GROUP)
            try:
                _copy(producer, consumer, stop)
            except KafkaException:
                stop.all.wait(0.2)
            finally:
                consumer.close()

    return run


def _copy(producer: Producer, consumer: Consumer, stop: Stop) -> None:
    """Copy from where the group is until something goes wrong. Raises KafkaException."""
    places = consumer.committed([TopicPartition(INPUT, number) for number in range(PARTITIONS)], 30)
    if any(place.error is not None for place in places):
        return
    consumer.assign([TopicPartition(INPUT, place.partition, max(0, place.offset)) for place in places])
    while not stop.all.is_set():
        records = _got(consumer)
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            producer.produce(OUTPUT, f"{record.partition}:{record.offset}".encode(), partition=record.partition)
        behind = {record.partition: record.offset + 1 for record in records}
        offsets = [TopicPartition(INPUT, partition, offset) for partition, offset in behind.items()]
        member = consumer.consumer_group_metadata()
        wrong = _tried(partial(producer.send_offsets_to_transaction, offsets, member))
        if wrong is None:
            wrong = _tried(producer.commit_transaction)
        if wrong is not None:
            raise KafkaException(wrong)  # the next producer aborts what this one has left


# ---- the end


def drained(found: Transactions) -> bool:
    """Whether the readers have got something of all that is committed."""
    ends = [{seen.value.decode().partition(":")[0] for seen in list(records)} for records in list(found.read.values())]
    return bool(ends) and all(found.committed <= names for names in ends)


def final_state(servers: str, found: Transactions, timeout_s: float) -> None:
    """Read all that is committed, once the faults are over and all producers have ended."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for topic in (INPUT, OUTPUT):
        stable: dict[int, tuple[int, int]] = {}

        def settled(topic: str = topic, stable: dict[int, tuple[int, int]] = stable) -> bool:
            for level in (0, 1):
                with suppress(KafkaException):
                    for partition, offset in _latest(admin, topic, level).items():
                        before = stable.get(partition, (0, 0))
                        stable[partition] = (offset, before[1]) if level == 0 else (before[0], offset)
            return len(stable) == PARTITIONS and all(end == last for end, last in stable.values())

        if not wait_for(settled, timeout_s):
            found.hanging += [
                f"{topic}-{partition}: stable up to {last} of {end}"
                for partition, (end, last) in sorted(stable.items())
                if end != last
            ] or [f"{topic}: no answer"]
        found.final[topic] = _all(
            servers, topic, {partition: last for partition, (_, last) in stable.items()}, timeout_s
        )
    consumer = _reading(servers, GROUP)
    places = consumer.committed([TopicPartition(INPUT, number) for number in range(PARTITIONS)], 30)
    found.offsets = {place.partition: max(0, place.offset) for place in places}
    consumer.close()


def _latest(admin: AdminClient, topic: str, level: int) -> dict[int, int]:
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
    isolation = IsolationLevel.READ_COMMITTED if level else IsolationLevel.READ_UNCOMMITTED
    answers = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=10)
    return {place.partition: future.result(15).offset for place, future in answers.items()}


def _all(servers: str, topic: str, ends: dict[int, int], timeout_s: float) -> list[Seen]:
    consumer = _reading(servers, "last")
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[Seen] = []
    until = time.monotonic() + timeout_s
    try:
        # It has no place in a partition from which it has not got anything yet.
        while any(max(0, place.offset) < ends[place.partition] for place in _positions(consumer, topic)):
            if time.monotonic() > until:
                raise TimeoutError(f"{topic} is not read to its end: {_positions(consumer, topic)} of {ends}")
            found += _got(consumer)
    finally:
        consumer.close()
    return sorted(found)


def _positions(consumer: Consumer, topic: str) -> list[Any]:
    return consumer.position([TopicPartition(topic, number) for number in range(PARTITIONS)])


# ---- the verdict


def wrong(found: Transactions) -> dict[str, list[str]]:
    """The problems by kind."""
    final = found.final[INPUT]
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    for one in final:
        seen[one.value.decode().partition(":")[0]][one.partition] += 1
    twice = [value.decode() for value, times in Counter(one.value for one in final).items() if times > 1]
    return {
        "torn": [
            f"{name}: {dict(parts)} of {dict(found.written.get(name, {}))}"
            for name, parts in seen.items()
            if parts != found.written.get(name)
        ]
        + twice,
        "missing": sorted(found.committed - set(seen)),
        "undead": sorted(found.aborted & set(seen)),
        "changed": [text for reader, records in found.read.items() for text in _changed(reader, records, final)],
        "copied": _copied(found),
        "hanging": found.hanging,
        "transactions idle": [
            what
            for what, some in {
                "nothing committed": found.committed,
                "nothing aborted": found.aborted,
                "nothing copied": found.final[OUTPUT],
                "nobody reads": all(found.read.values()) and found.read,
            }.items()
            if not some
        ],
    }


def _changed(reader: str, records: list[Seen], final: list[Seen]) -> list[str]:
    """A reader was given the beginning of each partition."""
    found = []
    for partition in range(PARTITIONS):
        given = [one for one in records if one.partition == partition]
        there = [one for one in final if one.partition == partition]
        if given != there[: len(given)]:
            at = next((pair for pair in zip(given, there, strict=False) if pair[0] != pair[1]), (given[-1], "nothing"))
            found.append(f"{reader} was given {at[0]}, there is {at[1]}")
        elif len(given) < len(there):
            found.append(f"{reader} was not given {there[len(given)]}")
    return found


def _copied(found: Transactions) -> list[str]:
    copies = Counter(tuple(map(int, one.value.split(b":"))) for one in found.final[OUTPUT])
    there = {(one.partition, one.offset) for one in found.final[INPUT]}
    wanted = {place for place in there if place[1] < found.offsets.get(place[0], 0)}
    everywhere = sorted(wanted | set(copies))
    return [f"{place}: {copies[place]} copies" for place in everywhere if copies[place] != (place in wanted)]


def summary(found: Transactions) -> str:
    """The size of it, in one line."""
    seen = {one.value.partition(b":")[0] for one in found.final[INPUT]}
    return (
        f"transactions committed {len(found.committed):,}, aborted {len(found.aborted):,}, with an end unknown "
        f"{len(found.written) - len(found.committed) - len(found.aborted):,}; seen {len(seen):,} with "
        f"{len(found.final[INPUT]):,} records; copied {len(found.final[OUTPUT]):,}"
    )
