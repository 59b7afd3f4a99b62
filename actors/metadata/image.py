"""The state that a metadata log describes.

This file alone decides what each op does to the state. `replay` is the only writer. It uses no clock, configuration,
node id or randomness, so every node and every replay tool gets the same image from the same records (R631-084).

- Partitions are columns (fastpath.image.columns, which this class extends). The other tables are small and are kept
  here.
- Every write of a table leaves the old value in `_journal` until commit. The columns keep old values in the same way.
- `pin()` fixes a generation that any thread may read while replay goes on.

KIP-631, "Record schemas" and "Controller snapshots"; requirement ids R631-070 to R631-084.
"""

import itertools
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.authorization.access_rules import Rule
from actors.authorization.decisions import RuleIndex
from actors.metadata.ops import (
    MANY_RECORDS,
    BrokerChanged,
    BrokerGone,
    BrokerSet,
    BrokerUnregistered,
    ConfigSet,
    CorruptMetadata,
    ElrCleared,
    EntityGone,
    EntitySet,
    Extra,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicGone,
    TopicSet,
    TopicsSet,
    Transaction,
)
from fastpath.image.blocks import Block
from fastpath.image.broker_counts import Counts
from fastpath.image.columns import Columns
from fastpath.image.copy_on_write import PagedList, PagedMap
from fastpath.image.name_order import NameOrder
from fastpath.image.row_table import RowTable
from fastpath.image.views import View

Rows = Sequence[int] | NDArray[np.int64]
"""Partition rows: a list when there are few, an array when there are many."""

Broker = BrokerSet
"""A registration as the image keeps it: the op that created it."""

TOPIC_RESOURCE = 2
"""The resource type of topics in configurations (A35)."""

NAMES_SORTED = 1 << 13
"""About how many names are sorted in a slice of a load."""
NAMES_SAMPLED = 1 << 14
"""About how many names of all are compared to find where one slice of a load ends and the next begins."""

SLOTS_A_SLICE = 1 << 18
"""How many slots of a table that grows are looked at in a slice of a load."""
FEW_TOPICS = 1 << 14
"""A table of so many topics is freed in no time."""
NAMES_AT_ONCE = 256
"""How many names are taken out of the order at once where topics are walked over."""

TOKEN = "token"
SCRAM = "scram"
_images = itertools.count()
RULES = ("acl", "acl_id")
"""The kinds of entities that are access rules: the drafts' have no id, those of released Kafka have one."""
CREDENTIALS = (*RULES, TOKEN, SCRAM)
RULE_FIELDS = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
"""The fields of the records of access rules, in the order of `Rule`."""

ConfigKey = tuple[int, str]
"""(resource type, resource name)"""


class Delta(NamedTuple):
    """What one op changed, so that a reader need not search the image. `partitions` includes the rows of removed
    partitions: until commit `number` and `topic_of` still answer for them, and `is_partition` says that they are
    gone."""

    topics: tuple[int, ...] = ()
    partitions: Rows = ()
    brokers: tuple[int, ...] = ()
    configs: tuple[ConfigKey, ...] = ()
    features: tuple[str, ...] = ()
    removed: tuple[tuple[str, bytes], ...] = ()
    """(name, id) of each topic that was deleted"""
    entities: tuple[str, ...] = ()
    """kinds of entities of which one was set or removed"""


class HiddenName(str):
    """The name of a topic that is being deleted: the topic is hidden, and its name is still taken (A34)."""

    __slots__ = ()


class Pin:
    """One generation of an image. Any thread can read it until `release`, whatever is replayed or undone meanwhile."""

    def __init__(self, image: "Image") -> None:
        self._generations = image.generations
        self._taken: int | None = image.generations.take()
        self.next_offset = image.next_offset
        self.columns: View = image.view()
        self.names: PagedList = image.names.frozen()
        self.order: NameOrder = image.order.frozen()
        self.configs: PagedMap = image.configs.frozen()
        self.entities: PagedMap = image.entities.frozen()
        self.brokers = dict(image._brokers)
        self.features = dict(image._features)
        self.producer_ids: ProducerIdsSet | None = image._producer_ids.get(0)

    def topics(self) -> list[tuple[bytes, int]]:
        """(topic id, row) by topic id as an unsigned number; hidden topics too."""
        return sorted(_in_use(self.columns.topic_ids, self.names))

    def topics_by_first_byte(self) -> Iterator[list[tuple[bytes, int]]]:
        """(topic id, row) in the order of `topics`, in lists of topics whose ids begin with the same byte: one list of a
        million topics has 100 MB."""
        ids = self.columns.topic_ids
        rows = [array("i") for _ in range(256)]
        for topic_id, row in _in_use(ids, self.names):
            rows[topic_id[0]].append(row)
        for place, run in enumerate(rows):
            rows[place] = array("i")
            if run:
                yield sorted((ids.get(row), row) for row in run)

    def release(self) -> None:
        """Free the generation. A second call does nothing."""
        if self._taken is not None:
            self._generations.release(self._taken)
            self._taken = None


class Image(Columns):
    """The metadata state after all records below `next_offset`.

    A row (of a topic or a partition) is a place in this image. It has no meaning in another image, nor after a snapshot
    load. Invariants: `names.get(row)` is set exactly for topic rows in `_by_id`; the offset of every journal entry is
    below `next_offset`, and not below the offset committed last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.next_offset = 0
        self.names = PagedList(self.generations)
        """topic row -> its name, a HiddenName while the topic is being deleted; None: not in use"""
        self.configs = PagedMap(self.generations)
        """ConfigKey -> dict; a change replaces the dict and never writes into it"""
        self.entities = PagedMap(self.generations)
        """(kind, key) -> EntitySet"""
        self.rules = RuleIndex()
        """The access rules among the entities, under the same keys"""
        self.credentials = self.changes = next(_images) << 40
        """Grows whenever a user's password, a token or a rule is set or taken away, and with each new image; `changes`,
        whenever a topic, a partition or a broker has changed."""
        self.tokens: dict[str, EntitySet] = {}
        """The delegation tokens among the entities, by id"""
        self._of_kind: dict[int | str, int] = {}
        """kind -> how many entities there are of it; type of a resource -> how many have settings"""
        self.order = NameOrder(self.generations)
        """The names of the topics that are not hidden, in order, with their rows"""
        self._unordered: list[str] | None = None
        """Topics of a snapshot that is being loaded, which come by id, and are put in order once they are all there; None:
        no snapshot is"""
        self._by_name = RowTable()
        self._by_id = RowTable()
        """The rows of topics, hidden ones too"""
        self._dotted: dict[str, tuple[str, ...]] = {}
        """the names in use that contain a '.', under what they become with '_' for '.'"""
        self._hidden: dict[int, bool] = {}
        """topic row -> True for topics that are being deleted (A34)"""
        self._brokers: dict[int, Broker] = {}
        self._features: dict[str, int] = {}
        self._producer_ids: dict[int, ProducerIdsSet] = {}
        """0 -> the last block; a dictionary so that the journal treats it like any other table"""
        self._journal: deque[tuple[int, Any, Any, Any]] = deque()
        """(offset, table, key, old value), ascending"""
        self._arrivals = _Arrivals(self._by_id, self._by_name, self.names)
        self._transaction = -1
        """the offset at which an open metadata transaction began; -1: none is open"""

    @classmethod
    def thawed(cls, pin: Pin, counts: Counts) -> "Image":
        """An image with the state of a pin, to replay on from there; the pin stays as it is. `counts`: a copy of the
        counters when it was made. It is for readers of metadata and decides nothing: access rules and tokens are among its
        entities, but `rules` and `tokens` have only those that are replayed into it."""
        image = cls()
        image.thaw(pin.columns, counts)
        image.next_offset = pin.next_offset
        image.names = pin.names.thawed(image.generations)
        image._arrivals = _Arrivals(image._by_id, image._by_name, image.names)
        image.order = pin.order.thawed(image.generations)
        image.configs = pin.configs.thawed(image.generations)
        image.entities = pin.entities.thawed(image.generations)
        image._of_kind = dict(Counter(kind for table in (pin.entities, pin.configs) for (kind, _), _ in table.items()))
        for topic_id, row in pin.topics():
            named = pin.names.get(row)
            name = str(named)
            image._by_id.put(topic_id, row)
            image._by_name.put(name, row)
            if "." in name:
                folded = name.replace(".", "_")
                image._dotted[folded] = (*image.dotted(folded), name)
            if type(named) is HiddenName:
                image._hidden[row] = True
        image._brokers, image._features = dict(pin.brokers), dict(pin.features)
        if pin.producer_ids is not None:
            image._producer_ids[0] = pin.producer_ids
        return image

    def make_room(self, more: int) -> Iterator[None]:
        """Get room for the topics of the next slice of a load, in slices: a table that has a million grows for tens of
        milliseconds."""
        for table in (self._by_id, self._by_name):
            while table.make_room(more, SLOTS_A_SLICE):
                yield

    # ---- readers

    @property
    def topic_count(self) -> int:
        """Topics that are not hidden."""
        return len(self._by_id) - len(self._hidden)

    def topic(self, name: str) -> int:
        """The row of a topic; -1: there is none, or it is hidden."""
        row = self._by_name.get(name)
        return -1 if row in self._hidden else row

    def topic_by_id(self, topic_id: bytes) -> int:
        """The row of a topic; -1: there is none, or it is hidden."""
        row = self._by_id.get(topic_id)
        return -1 if row in self._hidden else row

    def name_taken(self, name: str) -> bool:
        """Whether a topic of that name exists, hidden or not."""
        return name in self._by_name

    def dotted(self, name: str) -> tuple[str, ...]:
        """The names that contain a '.' and become `name`, which has none, with '_' for '.'; hidden topics too."""
        return self._dotted.get(name, ())

    def topic_name(self, topic: int) -> str:
        """The name of a topic row in use."""
        name = self.names.get(topic)
        assert name is not None, f"topic row {topic} is not in use"
        return str(name)

    def topics(self) -> Iterator[int]:
        """Rows of all topics that are not hidden, by name. A topic that is deleted during the iteration is left out, and one
        that is created is in it if its name comes behind the present one."""
        name, behind = "", False
        while found := self.order.following(name, NAMES_AT_ONCE, behind):
            for name, row in found:
                if self.order.get(name) == row:
                    yield row
            behind = True

    def broker(self, broker_id: int) -> Broker | None:
        """The registration of a broker, fenced or not; None: it is not registered."""
        return self._brokers.get(broker_id)

    def is_registered(self, broker_id: int) -> bool:
        """Whether the cluster knows the broker, fenced or not: it may host replicas, and its name means something."""
        return broker_id in self._brokers

    def is_unfenced(self, broker_id: int) -> bool:
        """Whether the broker is registered and not fenced: it may lead and be in sync, and clients are told of it."""
        registration = self._brokers.get(broker_id)
        return registration is not None and not registration.fenced

    def unfenced_brokers(self) -> list[Broker]:
        """Registrations of the brokers that are not fenced, by id."""
        return [broker for broker in self.brokers() if not broker.fenced]

    def brokers(self) -> list[Broker]:
        """All registrations, by id; those of fenced brokers too."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def config(self, resource_type: int, resource_name: str) -> dict[str, str]:
        """The keys set for a resource. The caller must not change the dict."""
        return self.configs.get((resource_type, resource_name)) or {}

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0: none."""
        return self._features.get(name, 0)

    def features(self) -> dict[str, int]:
        """The finalized levels of all features, by name."""
        return dict(self._features)

    @property
    def next_producer_id(self) -> int:
        """The first producer id that no block holds."""
        return self._producer_ids[0].next_producer_id if 0 in self._producer_ids else 0

    def entity(self, kind: str, key: tuple[object, ...]) -> EntitySet | None:
        """One entity (an access rule, a quota and so on), or None."""
        return self.entities.get((kind, key))  # type: ignore[no-any-return]

    def entities_of(self, kind: str) -> list[EntitySet]:
        """All entities of a kind, ordered by key."""
        return sorted((op for (of, _), op in self.entities.items() if of == kind), key=lambda op: repr(op.key))

    def every(self, kind: str) -> Iterator[EntitySet]:
        """All entities of a kind, in no order. Nothing may be replayed while the caller iterates."""
        return (op for (of, _), op in self.entities.items() if of == kind)

    def count(self, kind: int | str) -> int:
        """How many entities of a kind there are, or how many resources of a type have settings: O(1)."""
        return self._of_kind.get(kind, 0)

    def pin(self) -> Pin:
        """Fix the state as it is now. It costs one reference for each page of 4,096 rows."""
        return Pin(self)

    @property
    def producer_ids(self) -> ProducerIdsSet | None:
        """The block of producer ids that was given out last."""
        return self._producer_ids.get(0)

    def topic_row(self, topic_id: bytes) -> int:
        """The row of a topic, hidden or not; -1: none."""
        return self._by_id.get(topic_id)

    def topic_rows(self) -> list[tuple[bytes, int]]:
        """(topic id, row) of all topics by row, hidden ones too."""
        return list(_in_use(self.topic_ids, self.names))

    @property
    def open_transaction(self) -> int:
        """The offset at which a metadata transaction began that has not ended; -1: none."""
        return self._transaction

    # ---- replay

    def replay(self, offset: int, op: Op) -> Delta:
        """Apply the op whose record or records start at `offset`; a TopicsSet is committed. Raises CorruptMetadata, and has
        then changed nothing."""
        if offset < self.next_offset:
            raise CorruptMetadata(offset, f"replayed already, next is {self.next_offset}")
        try:
            kind = type(op)
            touched = REPLAY[kind](self, offset, op)
            if kind in SHOWN:
                self.changes += 1
        except ValueError as error:
            here = self.next_offset
            self._take_back(offset)
            self.next_offset = here
            raise CorruptMetadata(offset, str(error)) from error
        self.next_offset = offset + (len(op) if kind in MANY_RECORDS else 1)  # type: ignore[arg-type]
        return touched

    def begin_load(self) -> None:
        """Note that what is replayed now is a snapshot, into a new image. Nobody looks for topics by name meanwhile."""
        self._unordered = []

    def end_load(self) -> Iterator[None]:
        """Put the topics of the snapshot in order, a few thousand in a slice. They are sorted in runs, and the runs are
        merged between names that are spread over all of them: sorting a million names at once takes half a second."""
        assert self._unordered is not None, "a load has begun"
        names, self._unordered = self._unordered, None
        runs: list[list[str]] = []
        while names:
            runs.append(sorted(names[-NAMES_SORTED:]))
            del names[-NAMES_SORTED:]
            if names:
                yield
        every = max(1, sum(map(len, runs)) // NAMES_SAMPLED)
        samples = sorted(name for run in runs for name in run[::every])
        put, rows, hidden = self.order.put, self._by_name.get, self._hidden
        begins = [0] * len(runs)
        for bound in (*samples[NAMES_SORTED // every :: NAMES_SORTED // every], None):
            ends = [len(run) if bound is None else bisect_left(run, bound) for run in runs]
            parts = (run[begin:end] for run, begin, end in zip(runs, begins, ends, strict=True))
            for name in sorted(itertools.chain.from_iterable(parts)):
                row = rows(name)
                if row >= 0 and row not in hidden:
                    put(name, row)
            begins = ends
            if bound is not None:
                yield

    def advance(self, next_offset: int) -> None:
        """Note that records below `next_offset` are passed, though the last of them mean nothing to an image (control
        records, NoOp)."""
        assert next_offset >= self.next_offset, "offsets go forward"
        self.next_offset = next_offset

    def commit(self, offset: int) -> None:
        """Note that all records below `offset` are committed, and drop what would undo them."""
        if self._transaction >= 0:
            offset = min(offset, self._transaction)
        super().commit(offset)
        journal = self._journal
        if journal and journal[-1][0] < offset:  # all of it, as for whoever replays what is committed
            journal.clear()
            return
        while journal and journal[0][0] < offset:
            journal.popleft()

    def undo(self, offset: int) -> None:
        """Restore exactly the state before the record at `offset`. Committed records cannot be undone."""
        if offset >= self.next_offset:
            return
        self._take_back(offset)
        self.next_offset = offset
        if self._transaction >= offset:
            self._transaction = -1

    def check(self) -> None:
        """Assert the invariants of this class and of the columns; one pass over everything."""
        super().check()
        named = {row: self.names.get(row) for _, row in self.topic_rows()}
        assert len(self._by_id) == len(named) == len(self._by_name)
        for row, name in named.items():
            assert self._by_id.get(self.topic_id(row)) == row == self._by_name.get(str(name))
            assert (type(name) is HiddenName) == (row in self._hidden)
        self.order.check()
        assert dict(self.order.following("", len(named))) == {
            name: row for row, name in named.items() if row not in self._hidden
        }
        assert sorted(name for names in self._dotted.values() for name in names) == sorted(
            name for name in named.values() if "." in name
        )
        counted = Counter(kind for table in (self.entities, self.configs) for (kind, _), _ in table.items())
        assert counted == Counter(self._of_kind)
        offsets = [entry[0] for entry in self._journal]
        assert offsets == sorted(offsets) and (not offsets or offsets[-1] < self.next_offset)

    def _take_back(self, offset: int) -> None:
        self.changes += 1
        super().undo(offset)
        journal = self._journal
        while journal and journal[-1][0] >= offset:
            _, table, key, old = journal.pop()
            self._keep(table, key, old)

    def _set(self, offset: int, table: Any, key: Any, value: Any) -> None:
        """Write one cell of a table; None removes it."""
        self._journal.append((offset, table, key, table.get(key)))
        self._keep(table, key, value)

    def _keep(self, table: Any, key: Any, value: Any) -> None:
        if table is self.entities or table is self.configs:
            more = (value is not None) - (table.get(key) is not None)
            if more:
                self._of_kind[key[0]] = self._of_kind.get(key[0], 0) + more
        _store(table, key, value)

    def _broker_set(self, offset: int, op: BrokerSet) -> Delta:
        names = [endpoint.name for endpoint in op.endpoints]
        if op.id < 0 or len(set(names)) < len(names):
            raise ValueError(f"broker {op.id} with listeners {names}: a negative id, or a listener name twice")
        self._set(offset, self._brokers, op.id, op)
        return Delta(brokers=(op.id,))

    def _broker_changed(self, offset: int, op: BrokerChanged) -> Delta:
        broker = self._brokers.get(op.id)
        if broker is None or broker.epoch != op.epoch:
            raise ValueError(f"a change of broker {op.id} with epoch {op.epoch}, which is not registered")
        given = {name: value for name, value in op._asdict().items() if value is not None}
        self._set(offset, self._brokers, op.id, broker._replace(**given))
        return Delta(brokers=(op.id,))

    def _broker_unregistered(self, offset: int, op: BrokerUnregistered) -> Delta:
        if op.id in self._brokers:
            self._set(offset, self._brokers, op.id, None)
        return Delta(brokers=(op.id,))

    def _broker_gone(self, offset: int, op: BrokerGone) -> Delta:
        if op.id in self._brokers:
            self._set(offset, self._brokers, op.id, None)
        return Delta(partitions=self.remove_broker(offset, op.id), brokers=(op.id,))

    def _topic_set(self, offset: int, op: TopicSet) -> Delta:
        row = self._by_id.get(op.id)
        if self._by_name.get(op.name, row) != row:
            raise ValueError(f"the topic name {op.name!r} belongs to another topic id")
        if row >= 0 and self.topic_name(row) != op.name:
            raise ValueError(f"the topic {self.topic_name(row)!r} cannot become {op.name!r}")
        if row < 0:
            return self._new_topic(offset, op)
        self._set(offset, self.names, row, HiddenName(op.name) if op.deleting else op.name)
        if op.deleting or row in self._hidden:
            self._set(offset, self._hidden, row, op.deleting or None)
            self._set(offset, self.order, op.name, None if op.deleting else row)
        return Delta(topics=(row,))

    def _new_topic(self, offset: int, op: TopicSet) -> Delta:
        row, name = self.add_topic(offset, op.id), op.name
        if row == len(self.names):
            self.names.append(None)
        # What was there before is known to be nothing, and a cluster has up to a million topics: so without `_set`.
        journal = self._journal
        journal.append((offset, self._arrivals, (op.id, name, row), None))
        self._by_id.put(op.id, row)
        self._by_name.put(name, row)
        self.names.put(row, HiddenName(name) if op.deleting else name)
        if op.deleting:
            self._set(offset, self._hidden, row, True)
        elif self._unordered is not None:
            self._unordered.append(name)
        else:
            journal.append((offset, self.order, name, None))
            self.order.put(name, row)
        if "." in name:
            folded = name.replace(".", "_")
            self._set(offset, self._dotted, folded, (*self.dotted(folded), name))
        return Delta(topics=(row,))

    def _topics_set(self, offset: int, op: TopicsSet) -> Delta:
        """New topics, which are committed: where they are as nearly always, nothing is noted that would undo them."""
        arrivals = op.arrivals
        names, topic_ids = arrivals.names, arrivals.topic_ids
        row = -1
        if self._are_new(names, self._by_name) and self._are_new(topic_ids, self._by_id):
            row = self.put_arrivals(arrivals) if len(self.names) == len(self.topic_ids) else -1
        if row < 0:
            found = []
            for one in op:
                found.append(REPLAY[type(one)](self, offset, one))
                offset += len(one) if type(one) is PartitionsSet else 1
            return Delta(
                tuple(dict.fromkeys(row for delta in found for row in delta.topics)),
                [row for delta in found for row in delta.partitions],
            )
        first = self.row_end - len(arrivals.block)
        arrivals.named(self._by_id, self._by_name, self.names, self.order if self._unordered is None else None, row)
        if self._unordered is not None:
            self._unordered += names
        for name in names:
            if "." in name:
                folded = name.replace(".", "_")
                self._dotted[folded] = (*self.dotted(folded), name)
        return Delta(tuple(range(row, row + len(names))), range(first, self.row_end))

    @staticmethod
    def _are_new(keys: list[Any], known: RowTable) -> bool:
        return not known.has_any(keys) and len(set(keys)) == len(keys)

    def _topic_gone(self, offset: int, op: TopicGone) -> Delta:
        row = self._by_id.get(op.id)
        if row < 0:
            raise ValueError(f"the deletion of topic {op.id.hex()}, which does not exist")
        name = self.topic_name(row)
        rows = self.remove_topic(offset, row)
        self._set(offset, self._by_id, op.id, -1)
        self._set(offset, self._by_name, name, -1)
        self._set(offset, self.order, name, None)
        if "." in name:
            folded = name.replace(".", "_")
            self._set(offset, self._dotted, folded, tuple(one for one in self.dotted(folded) if one != name) or None)
        self._set(offset, self.names, row, None)
        if row in self._hidden:
            self._set(offset, self._hidden, row, None)
        configs: tuple[ConfigKey, ...] = ()
        if self.configs.get((TOPIC_RESOURCE, name)) is not None:
            configs = ((TOPIC_RESOURCE, name),)
            self._set(offset, self.configs, configs[0], None)
        return Delta(topics=(row,), partitions=rows, configs=configs, removed=((name, op.id),))

    def _topic_row(self, topic_id: bytes) -> int:
        row = self._by_id.get(topic_id)
        if row < 0:
            raise ValueError(f"a partition of topic {topic_id.hex()}, which does not exist")
        return row

    def _partitions_set(self, offset: int, op: PartitionsSet) -> Delta:
        row = self._topic_row(op.topic_id)
        return Delta(topics=(row,), partitions=self.put(offset, row, op.block))

    def _partitions_changed(self, offset: int, op: PartitionsChanged) -> Delta:
        topics = [self._topic_row(topic_id) for topic_id in op.block.topic_ids()]
        return Delta(partitions=self.apply(offset, topics, op.block))

    def _config_set(self, offset: int, op: ConfigSet) -> Delta:
        key = (op.resource_type, op.resource_name)
        values = dict(self.configs.get(key) or ())
        values.pop(op.name, None)
        if op.value is not None:
            values[op.name] = op.value
        self._set(offset, self.configs, key, values or None)
        return Delta(configs=(key,))

    def _feature_set(self, offset: int, op: FeatureSet) -> Delta:
        self._set(offset, self._features, op.name, op.level or None)
        return Delta(features=(op.name,))

    def _producer_ids_set(self, offset: int, op: ProducerIdsSet) -> Delta:
        if op.next_producer_id < self.next_producer_id:
            raise ValueError(f"next producer id {op.next_producer_id} after {self.next_producer_id}")
        self._set(offset, self._producer_ids, 0, op)
        return Delta()

    def _entity_set(self, offset: int, op: EntitySet) -> Delta:
        key = (op.kind, op.key)
        if op.kind in RULES:
            fields = dict(op.fields)
            self._set(offset, self.rules, key, Rule(*(fields[name] for name in RULE_FIELDS)))  # type: ignore[arg-type]
        elif op.kind == TOKEN:
            self._set(offset, self.tokens, op.key[0], op)
        if op.kind in CREDENTIALS:
            self.credentials += 1
        self._set(offset, self.entities, key, op)
        return Delta(entities=(op.kind,))

    def _entity_gone(self, offset: int, op: EntityGone) -> Delta:
        key = (op.kind, op.key)
        if op.kind in RULES:
            self._set(offset, self.rules, key, None)
        elif op.kind == TOKEN:
            self._set(offset, self.tokens, op.key[0], None)
        if op.kind in CREDENTIALS:
            self.credentials += 1
        self._set(offset, self.entities, key, None)
        return Delta(entities=(op.kind,))

    def _elr_cleared(self, offset: int, op: ElrCleared) -> Delta:
        topics = [self.topic(op.topic_name)] if op.topic_name else list(self.topics())
        block = Block()
        rows = []
        for topic in topics:
            if topic < 0:
                continue
            for row in self.topic_partitions(topic):
                if self.elr(row) or self.last_known_elr(row):
                    rows.append(topic)
                    block.append(self.topic_id(topic) or b"", self.number(row), extra=Extra(None, None, None, (), ()))
        changed = [self._by_id.get(topic_id) for topic_id in block.topic_ids()]
        return Delta(partitions=self.apply(offset, changed, block, one_record=True)) if rows else Delta()

    def _transaction_edge(self, offset: int, op: Transaction) -> Delta:
        if (op.edge == "begin") == (self._transaction >= 0):
            raise ValueError(f"{op.edge} of a metadata transaction out of place")
        if op.edge == "abort":
            self._take_back(self._transaction)
        self._transaction = offset if op.edge == "begin" else -1
        return Delta()


class _Arrivals:
    """What the journal takes for the table of new topics: one entry for all that is known of one by id, name and row.

    It does not name the image, which is to go when nobody uses it any more: a node's garbage collector sets aside what lives
    long.
    """

    __slots__ = ("_by_id", "_by_name", "_names")

    def __init__(self, by_id: RowTable, by_name: RowTable, names: PagedList) -> None:
        self._by_id, self._by_name, self._names = by_id, by_name, names

    def put(self, key: tuple[bytes, str, int], value: None) -> None:
        """Take a new topic back."""
        topic_id, name, row = key
        self._by_id.put(topic_id, -1)
        self._by_name.put(name, -1)
        self._names.put(row, None)


def let_go(image: Image) -> Iterator[None]:
    """Free an image that is not used any more, some pages at a time: a million topics take 70 ms. A reader of it or of a pin
    of it is not disturbed, as only what nobody else has is freed. The caller must not keep the image meanwhile."""
    pin = image.pin()
    tables = [image._by_id, image._by_name]
    del image
    while tables:
        if len(tables[-1]) > FEW_TOPICS:
            yield
        tables.pop()
    columns = pin.columns
    # What has names and ids from the two lists goes before them: their pages are what frees a name.
    for part, pages in (
        (pin.order, 64), (pin.configs, 512), (pin.entities, 512),
        (pin.names, 12), (columns.topic_ids, 12), (columns.chains, 128), (columns, 64),
    ):  # fmt: skip
        while part.let_go(pages):
            yield


def _in_use(ids: PagedList, names: PagedList) -> Iterator[tuple[bytes, int]]:
    """(topic id, row) of the topic rows in use, by row."""
    return ((ids.get(row), row) for row in range(len(names)) if names.get(row) is not None)


def _store(table: Any, key: Any, value: Any) -> None:
    if not isinstance(table, dict):
        table.put(key, value)
    elif value is None:
        table.pop(key, None)
    else:
        table[key] = value


REPLAY: dict[type, Callable[[Image, int, Any], Delta]] = {
    BrokerSet: Image._broker_set,
    BrokerChanged: Image._broker_changed,
    BrokerGone: Image._broker_gone,
    BrokerUnregistered: Image._broker_unregistered,
    TopicSet: Image._topic_set,
    TopicsSet: Image._topics_set,
    TopicGone: Image._topic_gone,
    PartitionsSet: Image._partitions_set,
    PartitionsChanged: Image._partitions_changed,
    ConfigSet: Image._config_set,
    FeatureSet: Image._feature_set,
    ProducerIdsSet: Image._producer_ids_set,
    EntitySet: Image._entity_set,
    EntityGone: Image._entity_gone,
    ElrCleared: Image._elr_cleared,
    Transaction: Image._transaction_edge,
}
SHOWN = frozenset(REPLAY) - {ConfigSet, FeatureSet, ProducerIdsSet, EntitySet, EntityGone}
"""The ops that change topics, partitions or brokers."""
