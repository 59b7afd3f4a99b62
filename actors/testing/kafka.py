"""What a test has of a cluster: addresses, topics with names of its own, and a few words to write and read.

It is for what surrounds the code under test: to make its topics, to give it input and to look at what it wrote. The code
under test uses the client that it always uses. All words work on any Kafka.
"""

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from actors.client.asks import Know, Steps
from actors.client.errors import ClientError, NotInTime
from actors.client.metadata import Metadata
from actors.client.operations import topics as operations
from actors.client.operations.fetching import Failed, Fetched, Fetcher
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EARLIEST, LATEST, Found, list_offsets
from actors.client.operations.producing import Producer
from actors.client.operations.records import records
from actors.host.client.blocking import Kafka as Client
from actors.host.client.blocking import connect
from actors.host.cluster.on_processes import Cluster
from fastpath.bytes.murmur2 import partition_of
from fastpath.records.batch import Builder

NAME_MAX = 60
"""How much of a test's name its topics have; the longest name of a topic has 249 characters."""
BATCH_BYTES = 1 << 19
STEP_S = 1.0
ANSWER_S = 10.0
Bytes = bytes | str | None


class Record(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """ms since 1970."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class NoCluster(AttributeError):
    """The tests run on a Kafka that they did not start, where no node can be killed."""


class Kafka:
    """A Kafka for one test."""

    def __init__(self, settings: Mapping[str, str], test: str, cluster: Cluster | None = None) -> None:
        """`settings`: a client's, by Kafka's names. `test`: the name of the test. `cluster`: None: it was started by
        somebody else."""
        self.prefix = (
            f"{re.sub('[^A-Za-z0-9._-]+', '-', test)[:NAME_MAX].strip('-.') or 'test'}-{uuid.uuid4().hex[:8]}-"
        )
        """What the names of this test's topics, groups and transactions begin with, so that tests share a cluster."""
        self.settings = dict(settings)
        """A client's settings, by the names of Java's clients."""
        self._cluster = cluster
        self._open: Client | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that clients connect to."""
        return self.settings["bootstrap.servers"]

    @property
    def cluster(self) -> Cluster:
        """The cluster itself, to kill, freeze and restart nodes. Raises NoCluster where the tests did not start it."""
        if self._cluster is None:
            raise NoCluster(
                f"the Kafka at {self.bootstrap_servers} was not started by the tests: leave its nodes alone"
            )
        return self._cluster

    def name(self, word: str) -> str:
        """A name of this test's own, for a topic, a group or a transactional id."""
        return self.prefix + word

    def topic(
        self, word: str = "topic", partitions: int = 1, replicas: int = -1, config: Mapping[str, str] | None = None
    ) -> str:
        """Make a topic, and return its name. `replicas`: -1: as the cluster sets it. Raises ClientError."""
        name = self.name(word)
        wanted = operations.NewTopic(name, partitions, replicas, dict(config or {}))
        error = self._client.run(operations.create([wanted]))[name]
        if error is not None:
            raise error
        return name

    def produce(
        self,
        topic: str,
        values: Iterable[Bytes],
        *,
        keys: Iterable[Bytes] | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, Bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        """Write records, each once, with acks=all. `keys`: as many as values; a key goes where Java's producer sends it,
        and without one partitions take turns. `headers` and `timestamp_ms`: of all of them. Raises ClientError, and
        ValueError if there are not as many keys as values."""
        client = self._client
        count = len(client.run(operations.describe([topic]))[topic].partitions)
        producer = Producer(client.config)
        time_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        pairs = tuple((name.encode(), _bytes(one)) for name, one in headers)
        given: list[tuple[Part, bytearray]] = []
        for number, of_part in _by_partition(values, keys, partition, count).items():
            given += [((topic, number), batch) for batch in _batches(of_part, pairs, time_ms)]
        for placed in client.run(producer.send(given)):
            if isinstance(placed, ClientError):
                raise placed

    def consume(self, topic: str, count: int | None = None, *, timeout_s: float = 30.0) -> list[Record]:
        """The records of a topic from its beginning, those of aborted transactions left out; by partition in order.
        `count`: wait until there are so many, and return that many; None: all that are there now. Raises TimeoutError,
        which says how many there were, and ClientError."""
        found: list[Record] = []
        missed = f"records after {timeout_s:.0f} s, not {count or 'all'}"
        try:
            if not self._read(topic, count, time.monotonic() + timeout_s, found):
                raise TimeoutError(f"topic {topic} has {len(found)} {missed}")
        except NotInTime as error:
            raise TimeoutError(f"topic {topic} has {len(found)} {missed}: {error}") from None
        return sorted(found[:count], key=lambda one: (one.partition, one.offset))

    def topics(self) -> list[str]:
        """The topics of this test, those that its clients made too."""
        return sorted(name for name in self._client.run(_all(), ANSWER_S).topics if name.startswith(self.prefix))

    def tidy(self) -> None:
        """Make the cluster whole again, and delete the test's topics. A Kafka of others that does not answer is left as it
        is. Raises ClusterError if a node does not come back."""
        if self._cluster is not None and self._cluster.running:
            self._cluster.heal()
        with suppress(ClientError):
            left = self.topics()
            if left:
                self._client.run(operations.delete(left), ANSWER_S)

    def close(self) -> None:
        """End the connections."""
        if self._open is not None:
            self._open.close()
            self._open = None

    # ---- inside

    @property
    def _client(self) -> Client:
        if self._open is None:
            self._open = connect(config=self.settings | {"isolation.level": "read_committed"})
        return self._open

    def _read(self, topic: str, count: int | None, until_s: float, found: list[Record]) -> bool:
        """Read a topic into `found`. Returns False if it does not have so many records in time."""
        client = self._client
        numbers = sorted(client.run(operations.describe([topic]), _left_s(until_s))[topic].partitions)
        parts = [(topic, one) for one in numbers]
        begins = self._offsets(parts, EARLIEST, until_s)
        ends = None if count is not None else self._offsets(parts, LATEST, until_s)
        fetcher = Fetcher(client.config, begins)
        while not (len(found) >= count if count is not None else _is_read(fetcher, ends or {})):
            if time.monotonic() >= until_s:
                return False
            for one in client.run(fetcher.fetch(), _left_s(until_s)):
                if isinstance(one, Failed):
                    raise one.error
                if isinstance(one, Fetched):
                    found += [
                        Record(topic, one.partition, record.offset, record.timestamp, record.key, record.value,
                               record.headers)
                        for record in records(one)
                        if ends is None or record.offset < ends[topic, one.partition]
                    ]  # fmt: skip
                else:
                    raise ClientError(f"partition {topic}/{one.partition} was cut while it was read")
        return True

    def _offsets(self, parts: list[Part], at: int, until_s: float) -> dict[Part, int]:
        found = self._client.run(list_offsets(parts, at, self._client.config.isolation), _left_s(until_s))
        for one in found.values():
            if not isinstance(one, Found):
                raise one
        return {part: one.offset for part, one in found.items()}


def _all() -> Steps[Metadata]:
    metadata: Metadata = yield Know(None, fresh=True)
    return metadata


def _left_s(until_s: float) -> float:
    """The time for one answer."""
    return max(STEP_S, until_s - time.monotonic())


def _is_read(fetcher: Fetcher, ends: Mapping[Part, int]) -> bool:
    return all(fetcher.position(*part) >= end for part, end in ends.items())


def _bytes(value: Bytes) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _by_partition(
    values: Iterable[Bytes], keys: Iterable[Bytes] | None, partition: int | None, count: int
) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """partition -> (key, value) of each record."""
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    given = zip(keys, values, strict=True) if keys is not None else ((None, value) for value in values)
    for at, (key, value) in enumerate(given):
        name = _bytes(key)
        number = partition if partition is not None else at % count if name is None else partition_of(name, count)
        found.setdefault(number, []).append((name, _bytes(value)))
    return found


def _batches(
    of_part: list[tuple[bytes | None, bytes | None]], headers: tuple[tuple[bytes, bytes | None], ...], time_ms: int
) -> Iterator[bytearray]:
    builder = Builder(timestamp_ms=time_ms)
    for key, value in of_part:
        if builder.count and builder.size + len(key or b"") + len(value or b"") > BATCH_BYTES:
            yield builder.build()
            builder = Builder(timestamp_ms=time_ms)
        builder.append(key, value, headers=headers)
    if builder.count:
        yield builder.build()
