"""`rayft.follow`: the records of topics as they come, as Arrow, without an end.

    for batch in (orders := rayft.follow("localhost:9092", "orders", group="g")):
        ...
        orders.commit()                                       # the offsets behind all batches that were given
    async for batch in rayft.follow(...): ...                 # and: await orders.commit_async()

This file alone decides from where on a topic is followed, and what is committed. Rules:

1. With a group, a partition is read from the offset that the group has committed; where it has none, and without a group,
   from `start`. The group gets no member: it is a name for offsets, and a group that has members refuses them.
2. A partition that is added to a topic is read from its beginning: its records were all written since. It is seen when the
   metadata is asked again (metadata.max.age.ms). A topic that is deleted, or made anew, ends it with an error.
3. Records that are gone before they were read are an error that names partition and offsets: nothing is left out in silence.
4. What is committed are the positions behind the batches that were given, the last one included: after a restart nothing of
   it comes again, and nothing is left out. Nothing is committed unless `commit` is called.
5. Each leader has one request under way, which leaves before what the last one brought is given: not more than two answers
   of each broker are held. A broker that is frozen keeps nothing of the others back: each LOOK_US without an answer it is
   looked again which brokers are to be asked, since a partition may have a leader by then.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.arrow.ranges import Place, Range, ranges
from actors.arrow.reading import DAY_S, LARGE, LOOK_US, Partition
from actors.arrow.values.asked import Asked, Reading, reading
from actors.client.asks import Know, Pause, Steps
from actors.client.errors import ClientError, Interrupted, NotInTime
from actors.client.metadata import Metadata
from actors.client.operations import groups
from actors.client.operations.fetching import Diverged, Failed, Fetched, Fetcher, OutOfRange, Result
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EARLIEST, list_offsets
from actors.client.properties import ClientConfig, client_config
from actors.client.tasks import Task
from actors.host.client import asynchronous, blocking
from actors.host.client.blocking import given, now_us
from actors.replay.columns.record_columns import COLUMNS, schema

END = (1 << 63) - 1
"""The end of a partition that is read without an end."""


def follow(
    bootstrap: str | None,
    topics: str | Sequence[str],
    start: Place = "latest",
    *,
    group: str | None = None,
    columns: Sequence[str] = COLUMNS,
    value_format: str | None = None,
    key_format: str | None = None,
    schema_registry: str | None = None,
    value_schema: int | str | None = None,
    key_schema: int | str | None = None,
    on_error: str = "fail",
    config: Mapping[str, Any] | str | None = None,
) -> "Following":
    """The records of topics as they come: an iterator of pyarrow.RecordBatch, for `for` and for `async for`. Within a
    partition they come in order.

    `start`: where to begin, as of `rayft.read`. `group`: the name under which offsets are committed when `commit` is
    called, and from which they are read at the beginning. Raises ConfigError, OSError and ValueError; ClientError while
    it is read. `value_format` and what is behind it as of `rayft.read`; also `async for` waits for a schema registry.
    """
    schema(columns)
    names = [topics] if isinstance(topics, str) else list(topics)
    client = given(bootstrap, config, LARGE)
    asked = Asked(value_format, key_format, schema_registry, value_schema, key_schema, on_error)
    return Following(
        client_config(client), Followed(names, start, group, columns, reading(columns, names, asked, client))
    )


class Followed:
    """What is known of topics that are followed, without a socket: positions, and batches that are there."""

    def __init__(
        self,
        topics: list[str],
        start: Place,
        group: str | None,
        columns: Sequence[str],
        values: Reading | None = None,
    ) -> None:
        """`values`: what reads keys and values; None: they are bytes."""
        self.group = group
        self.positions: dict[Part, int] = {}
        """The offset behind the last batch that was given, by partition."""
        self.committed: dict[Part, int] = {}
        """The offsets that were committed last, or read from the group."""
        self._epochs: dict[Part, int] = {}
        """The leader epoch of what is in front of each position, where it is known: a log that was cut behind it, and has
        other records there by now, is told by it (KIP-320)."""
        self._topics = topics
        self._start = start
        self._values = (values or Reading(columns, [])).beside("offset")
        self._fetcher: Fetcher | None = None
        self._decoders: dict[Part, Partition] = {}
        self._ready: deque[tuple[Part, pa.RecordBatch | None, int, int]] = deque()
        """(partition, batch, position behind it, leader epoch): what was fetched and is not given yet. None: only a
        position."""
        self._error: ClientError | None = None
        """The error that ends it, once what was fetched before is given."""

    @property
    def is_over(self) -> bool:
        """Whether there is an error behind what was fetched."""
        return self._error is not None

    @property
    def is_typed(self) -> bool:
        """Whether keys or values become columns by a registry, which may be slow."""
        return self._values.is_typed

    @property
    def holds(self) -> bool:
        """Whether something was fetched that is not given yet."""
        return bool(self._ready)

    def _begin(self, config: ClientConfig) -> Steps[Fetcher]:
        """Find the positions to begin at. Raises ClientError."""
        plan: dict[Part, Range] = yield from ranges(self._topics, self._start, "latest", config.isolation)
        first = {part: one.first for part, one in plan.items()}
        stored = yield from self._stored(list(first))
        metadata: Metadata = yield Know(tuple(self._topics))
        ids = {name: metadata.topics[name].id for name in self._topics if name in metadata.topics}
        self._fetcher = Fetcher(config, {}, ids)
        for part, offset in first.items():
            self._add(config, part, stored.get(part, groups.Committed(offset, -1, "")))
        return self._fetcher

    def _stored(self, parts: list[Part]) -> Steps[dict[Part, groups.Committed]]:
        """The offsets that the group has committed. Raises ClientError."""
        if self.group is None or not parts:
            return {}
        told = yield from groups.committed(self.group, parts, stable=True)
        found: dict[Part, groups.Committed] = {}
        for part, one in told.items():
            if isinstance(one, ClientError):
                raise one
            found[part] = one
            self.committed[part] = one.offset
        return found

    def _add(self, config: ClientConfig, part: Part, begin: groups.Committed) -> None:
        assert self._fetcher is not None
        self.positions[part], self._epochs[part] = begin.offset, begin.leader_epoch
        self._decoders[part] = Partition(part, Range(begin.offset, END), self._values.decoded, config)
        self._fetcher.seek(*part, begin.offset, begin.leader_epoch)

    def prepare(self, config: ClientConfig) -> Steps[list[int]]:
        """Find the positions to begin at, if it has not begun, then look for new partitions, and which brokers are to be
        asked. Raises ClientError."""
        fetcher = self._fetcher or (yield from self._begin(config))
        nodes, told = yield from fetcher.prepare()
        self.take(told)
        metadata: Metadata = yield Know(())
        new = [
            (name, number)
            for name in self._topics
            if name in metadata.topics and not isinstance(self._start, Mapping)
            for number in metadata.topics[name].partitions
            if (name, number) not in self.positions
        ]
        if new:
            yield from self._join(config, new)
            nodes, told = yield from fetcher.prepare()
            self.take(told)
        if not nodes and not self._ready:
            yield Pause(attempt=1)
        return nodes

    def _join(self, config: ClientConfig, new: list[Part]) -> Steps[None]:
        """Begin to read partitions that were added."""
        told = yield from list_offsets(new, EARLIEST)
        stored = yield from self._stored(new)
        for part, one in told.items():
            if isinstance(one, ClientError):
                raise one
            self._add(config, part, stored.get(part, groups.Committed(one.offset, -1, "")))

    def fetch(self, node: int) -> Steps[list[Result]]:
        """Ask a broker."""
        assert self._fetcher is not None
        return self._fetcher.fetch_from(node)

    def take_from(self, task: Task[list[Result]]) -> None:
        """Take in what an operation has brought. Raises ClientError."""
        try:
            told = task.result()
        except Interrupted:  # its positions may have moved
            self._interrupted()
            raise
        self.take(told)

    def _interrupted(self) -> None:
        self._error = self._error or ClientError("it was interrupted: follow anew, from the positions that it had")

    def take(self, told: list[Result]) -> None:
        """Take in what was fetched. Records that are gone or damaged, and topics that are gone, are the error that `give`
        raises: what is behind them is not given, nor what was asked for meanwhile."""
        if self.is_over:
            return
        try:
            for one in told:
                if isinstance(one, Fetched):
                    self._decode((one.topic, one.partition), one)
                else:
                    self._error = self._error or _gone(one)
        except BaseException:  # such as Ctrl-C: what was not decoded is not fetched again
            self._interrupted()
            raise

    def _decode(self, part: Part, fetched: Fetched) -> None:
        try:
            for batch in self._values.batches(self._decoders[part].batches(fetched)):
                if batch.num_rows:
                    last = pc.max(batch.column("offset")).as_py()
                    self._ready.append((part, self._values.without(batch), last + 1, fetched.leader_epoch))
        except ClientError as error:
            self._error = self._error or error
        else:
            self._ready.append((part, None, fetched.next_offset, fetched.leader_epoch))

    def give(self) -> pa.RecordBatch | None:
        """The next batch that is there; None: there is none. Raises ClientError."""
        if not self._ready and self._error is not None:
            raise self._error
        found = None
        while self._ready and (found is None or self._ready[0][1] is None):
            part, batch, behind, epoch = self._ready.popleft()
            self.positions[part], self._epochs[part] = behind, epoch
            found = batch if batch is not None else found
        return found

    def commit(self) -> Steps[None]:
        """Commit the positions that have changed. Raises ClientError, also if there is no group."""
        if self.group is None:
            raise ClientError("nothing can be committed without a group: give rayft.follow a group")
        changed = {part: one for part, one in self.positions.items() if self.committed.get(part) != one}
        told = {}
        if changed:
            offsets = {part: groups.Committed(one, self._epochs[part], "") for part, one in changed.items()}
            told = yield from groups.commit(self.group, offsets)
        for part, error in told.items():
            if error is not None:
                raise error
            self.committed[part] = changed[part]


def _gone(told: Failed | OutOfRange | Diverged) -> ClientError:
    """The error for records that cannot be read any more."""
    where = f"partition {told.topic}/{told.partition}"
    if isinstance(told, Failed):
        return told.error
    if isinstance(told, OutOfRange):
        return ClientError(f"{where} has no offset {told.offset}: its records were deleted before they were read")
    return ClientError(
        f"{where} has lost records that were read already: its log ends at {told.end_offset} now, and {told.offset} was "
        f"reached"
    )


class Following:
    """Topics that are followed, by one thread or one task at a time: with `for`, or with `async for`."""

    def __init__(self, config: ClientConfig, followed: Followed) -> None:
        self._config = config
        self._followed = followed
        self._kafka: blocking.Kafka | None = None
        self._loop: asynchronous.Kafka | None = None
        self._preparing: Task[list[int]] | None = None
        self._under_way: dict[int, Task[list[Result]]] = {}
        self._aside = asynchronous.Aside()
        self._nodes: set[int] = set()
        """The brokers that are to be asked, as it was found last."""

    @property
    def positions(self) -> dict[Part, int]:
        """(topic, partition) -> the offset behind the last batch that was given: what `commit` commits."""
        return dict(self._followed.positions)

    def _done(self) -> None:
        """Take in the answers that have come. Raises ClientError."""
        for node in [node for node, task in self._under_way.items() if task.done]:
            self._followed.take_from(self._under_way.pop(node))

    def _prepare(self, kafka: blocking.Kafka | asynchronous.Kafka) -> Task[list[int]]:
        """What finds out which brokers are to be asked. It goes on in the next call if there is no time for it in one."""
        if self._preparing is None:
            self._preparing = kafka.start(self._followed.prepare(self._config))
        return self._preparing

    def _ask(self, kafka: blocking.Kafka | asynchronous.Kafka, prepared: Task[list[int]]) -> None:
        """Ask the brokers of which no answer is under way. Where it takes long to find out which they are, as where a frozen
        broker is asked for it, the others are asked on. Raises ClientError."""
        if prepared.done:
            self._preparing = None
            try:
                self._nodes = set(prepared.result())
            except NotInTime:
                if not self._under_way:
                    raise
        for node in sorted(self._nodes - self._under_way.keys()):
            self._under_way[node] = kafka.start(self._followed.fetch(node), DAY_S)

    # ---- for a thread

    def __enter__(self) -> "Following":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        found = self.next_batch()
        assert found is not None, "without a time limit there is a batch or an error"
        return found

    def next_batch(self, timeout_s: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None: none has come within `timeout_s`. Raises ClientError."""
        kafka, followed = self._sync(), self._followed
        until_us = None if timeout_s is None else now_us() + int(timeout_s * 1e6)
        while True:
            if not followed.is_over:
                prepared = self._prepare(kafka)
                if not kafka.wait_until([prepared, *self._under_way.values()], until_us):
                    return followed.give()
                if not followed.holds:
                    self._done()
                self._ask(kafka, prepared)
            if (found := followed.give()) is not None:
                return found
            look_us = now_us() + LOOK_US if until_us is None else min(now_us() + LOOK_US, until_us)
            if not kafka.wait_until(self._under_way.values(), look_us) and look_us == until_us:
                return None
            self._done()

    def commit(self) -> None:
        """Commit the offsets behind all batches that were given. Raises ClientError, also if there is no group."""
        self._sync().run(self._followed.commit())

    def close(self) -> None:
        """End the connections. What was not committed is not."""
        if self._kafka is not None:
            self._kafka.close()
        self._preparing, self._under_way = None, {}

    def _sync(self) -> blocking.Kafka:
        if self._loop is not None:
            raise ClientError("this is followed with async for: await its commit_async, and close it with aclose")
        if self._kafka is None:
            self._kafka = blocking.Kafka(self._config)
        return self._kafka

    # ---- for asyncio

    async def __aenter__(self) -> "Following":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        kafka, followed = self._async(), self._followed
        while True:
            if not followed.is_over:
                prepared = self._prepare(kafka)
                await kafka.wait(prepared, *self._under_way.values())
                if not followed.holds:
                    await self._take_in()
                self._ask(kafka, prepared)
            if (found := followed.give()) is not None:
                return found
            if self._under_way:
                await kafka.wait(*self._under_way.values(), most_us=LOOK_US)
            await self._take_in()

    async def _take_in(self) -> None:
        """Take in what was fetched. Typed values may have to wait for a registry: a thread does, and the loop goes on."""
        if self._followed.is_typed:
            await self._aside.run(self._done)
        else:
            self._done()

    async def commit_async(self) -> None:
        """Commit the offsets behind all batches that `async for` has given. Raises ClientError, as without a group."""
        await self._async().run(self._followed.commit())

    async def aclose(self) -> None:
        """End the connections of what is followed with `async for`. What was not committed is not."""
        await self._aside.ended()
        if self._loop is not None:
            await self._loop.close()
        self._preparing, self._under_way = None, {}

    def _async(self) -> asynchronous.Kafka:
        if self._kafka is not None:
            raise ClientError("this is followed with for: use commit and close")
        if self._loop is None:
            self._loop = asynchronous.Kafka(self._config)
        return self._loop
