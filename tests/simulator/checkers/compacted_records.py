"""What must hold of a compacted topic: the latest value of every key survives, what is left is as it was written and in
its order, and a reader that takes less than delete.retention.ms misses no tombstone.

A replica that was behind for longer than that is such a reader: the tombstone may have gone by then wherever it copies
from, and it keeps an older value, as with Apache Kafka. A reader of it, or a copy of it, has that value too.

The history of a partition is what replicas had below their high watermark when it first got there: a log is compacted
only below that, so the replica that commits a record first shows it. From then on every replica that says that it has
committed so much is compared with it.
"""

from bisect import insort
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from actors.broker.log.producers import markers
from actors.broker.log.producers.markers import CONTROL, TRANSACTIONAL
from actors.broker.replication.partition import Partition
from fastpath.records import batch as batches
from tests.simulator.checkers.changed_replicas import Standing
from tests.simulator.checkers.committed_transactions import Told
from tests.simulator.checkers.hooks import Hooks, Violation
from tests.simulator.history import History
from tests.simulator.world import EPOCH_WALL_MS, World

READ_BYTES = 1 << 20
Key = tuple[bytes, int]


class Keyed(NamedTuple):
    """A record that a producer writes."""

    key: bytes
    value: bytes | None


class Written(NamedTuple):
    """A record that was committed."""

    offset: int
    key: bytes
    value: bytes | None
    seen_ms: int
    timestamp: int
    """The producer's timestamp in ms."""


class Committed:
    """All of one partition that was ever committed."""

    def __init__(self) -> None:
        self.by_offset: dict[int, Written] = {}
        self.by_key: dict[bytes, list[Written]] = {}
        """In the order of offsets; without what is undecided or was aborted."""
        self.open: dict[int, list[Written]] = {}
        """Producer id -> records of its open transaction."""
        self.uncommitted = set[int]()
        """Offsets of records that are undecided, or were aborted."""
        self.start = 0
        """Highest log start that was seen anywhere: retention deletes, or a coordinator."""
        self.end = 0
        """Highest high watermark that was seen anywhere."""
        self.ends: dict[int, int] = {}
        """Leader epoch -> where the first to commit so far, in that epoch, had its high watermark."""

    def end_before(self, epoch: int) -> int:
        """What was committed under older epochs than this."""
        return max((end for one, end in self.ends.items() if one < epoch), default=0)

    def add(self, record: Written, header: Any) -> None:
        """A record is committed, as far as replication goes."""
        self.by_offset[record.offset] = record
        if header.attributes & TRANSACTIONAL:
            self.open.setdefault(header.producer_id, []).append(record)
            self.uncommitted.add(record.offset)
        else:
            self.by_key.setdefault(record.key, []).append(record)

    def decide(self, producer_id: int, commit: bool) -> None:
        """The marker of a producer's transaction is committed."""
        records = self.open.pop(producer_id, [])
        if commit:
            self.uncommitted.difference_update(record.offset for record in records)
            for record in records:
                insort(self.by_key.setdefault(record.key, []), record)

    def last(self, key: bytes, below: int) -> Written | None:
        """The last record of a key below an offset."""
        return next((one for one in reversed(self.by_key.get(key, [])) if one.offset < below), None)


class CompactedRecords:
    name = "latest_values_survive"

    def __init__(
        self, world: World, history: History, hooks: Hooks, topics: Mapping[str, int], lags: Mapping[str, int]
    ) -> None:
        """delete.retention.ms and min.compaction.lag.ms of each compacted topic."""
        self._world = world
        self._hooks = hooks
        self._history = history
        self.topics = frozenset(topics)
        self._lags = lags
        self.retention_ms = min(topics.values(), default=0)
        self.partitions: dict[Key, Committed] = {}
        self._checked: dict[str, dict[Partition, int]] = {}
        self._layouts: dict[Partition, tuple[int, int]] = {}
        """Layout and leader epoch of a replica when all of it was compared last."""
        self._reached: dict[str, dict[Key, int]] = {}
        """How far the replicas on the disk of each process have been committed."""
        self._missed: dict[str, dict[Key, set[int]]] = {}
        """Offsets of tombstones that had gone before such a replica could copy them."""

    # ---- replicas

    def ended(self, process: Any) -> None:
        """What was compared is void."""
        self._checked.pop(process.name, None)

    def lost_disk(self, process: Any) -> None:
        """Note that the disk of a process is lost, so that its replicas begin anew."""
        self._reached.pop(process.name, None)
        self._missed.pop(process.name, None)

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """Take in what is committed first here, and compare what was before."""
        if partition.topic not in self.topics:
            return
        committed = self.partitions.setdefault((partition.topic_id, partition.number), Committed())
        checked = self._checked.setdefault(process.name, {})
        log = partition.log
        committed.start = max(committed.start, log.log_start_offset)
        begin = max(min(checked.get(partition, log.log_start_offset), log.log_end_offset), log.log_start_offset)
        if begin < partition.high_watermark:
            self._take(process, partition, committed, begin)
            checked[partition] = partition.high_watermark
        if partition.leads and partition.leader_epoch != before.leader_epoch:
            wanted = committed.end_before(partition.leader_epoch)
            if log.log_end_offset < wanted:
                raise Violation(
                    "leader_completeness",
                    f"{process.name} leads {partition!r} under epoch {partition.leader_epoch} and ends at "
                    f"{log.log_end_offset}, but {wanted} was committed",
                )
        now = log.layout, partition.leader_epoch
        if self._layouts.get(partition) != now:
            if self._layouts.get(partition, (0, 0))[0] < log.layout:
                self._history.counts["segments cleaned"] += 1
            self._layouts[partition] = now
            self._whole(process, partition, committed)

    def finish(self) -> None:
        """Check, now that all is well, that every replica has all that it must have."""
        for process in self._world.processes.values():
            if process.node is None or process.node.broker is None:
                continue
            for partition in process.node.broker.replicas:
                committed = self.partitions.get((partition.topic_id, partition.number))
                if partition.topic in self.topics and committed is not None:
                    self._whole(process, partition, committed)
                    self._history.counts["logs cleaned"] += partition.log.cleaned_offset > 0

    def _take(self, process: Any, partition: Partition, committed: Committed, begin: int) -> None:
        here = set[int]()
        for header, content in self._batches(partition, begin, partition.high_watermark):
            transactional = header.attributes & TRANSACTIONAL
            if transactional and header.base_offset >= committed.end:
                marker = markers.read(content, 0) if header.attributes & CONTROL else None
                for function in self._hooks.batch:
                    function(partition.topic_id, partition.number, header, marker)
                if marker is not None:
                    committed.decide(header.producer_id, marker.commit)
            if not header.attributes & CONTROL:
                for record in batches.records(content, 0):
                    if begin <= record.offset < partition.high_watermark:
                        here.add(record.offset)
                        self._compare(process.name, partition, committed, header, record)
        self._reach(process, partition, committed, range(begin, partition.high_watermark), here)
        if partition.high_watermark > committed.end:
            committed.end = committed.ends[partition.leader_epoch] = partition.high_watermark

    def _reach(self, process: Any, partition: Partition, committed: Committed, seen: range, here: set[int]) -> None:
        """Note the tombstones among what is new to this replica that are not here, because their time is over."""
        reached, key = self._reached.setdefault(process.name, {}), (partition.topic_id, partition.number)
        before = min(reached.get(key, 0), partition.log.log_end_offset)  # what a power cut has taken is copied anew
        for offset in range(max(seen.start, before), seen.stop):
            one = committed.by_offset.get(offset)
            if one is not None and one.value is None and offset not in here and self._over(one):
                self._missed.setdefault(process.name, {}).setdefault(key, set()).add(offset)
        reached[key] = max(before, seen.stop)

    def _compare(self, who: str, partition: Partition, committed: Committed, header: Any, record: Any) -> None:
        known = committed.by_offset.get(record.offset)
        if known is None and record.offset >= committed.end and record.offset < partition.high_watermark:
            known = Written(record.offset, record.key, record.value, self._world.time_us // 1000, record.timestamp)
            committed.add(known, header)
        self._same(who, repr(partition), record, known)

    @staticmethod
    def _same(who: str, where: str, record: Any, known: Written | None) -> None:
        if known is None or (known.key, known.value) != (record.key, record.value):
            raise Violation(
                "compaction_changes_nothing_else",
                f"{who} has {record.key!r}={record.value!r} at {record.offset} of {where}, committed there is {known}",
            )

    def _whole(self, process: Any, partition: Partition, committed: Committed) -> None:
        """All of a replica below its high watermark."""
        mark = partition.high_watermark
        if partition.leads:
            mark = max(mark, committed.end_before(partition.leader_epoch))
        found: dict[bytes, int] = {}
        offsets, before = set[int](), -1
        for record in self._records(partition, partition.log.log_start_offset, mark):
            self._same(process.name, repr(partition), record, committed.by_offset.get(record.offset))
            if record.offset <= before:
                raise Violation("compaction_changes_nothing_else", f"{record.offset} comes behind {before}")
            before = record.offset
            offsets.add(before)
            if record.offset not in committed.uncommitted:
                found[record.key] = record.offset
        seen = range(partition.log.log_start_offset, mark)
        self._young(process, partition, committed, seen, offsets)
        self._reach(process, partition, committed, seen, offsets)
        missed = self._missed.get(process.name, {}).get((partition.topic_id, partition.number), ())
        for key, written in committed.by_key.items():
            last = written[-1]
            # A follower that is behind may have been given what is left of a log that knows more.
            if last.offset >= mark or last.offset < partition.log.log_start_offset or found.get(key) == last.offset:
                continue
            gone = self._over(last) and (key not in found or last.offset in missed)
            if last.value is None and (gone or self._jumped()):
                continue
            raise Violation(
                self.name,
                f"{process.name} has {key!r} of {partition!r} last at {found.get(key)}, below {mark} it was written at "
                f"{last.offset}, {'a tombstone' if last.value is None else 'with a value'}; cleaned below "
                f"{partition.log.cleaned_offset}",
            )

    def _young(self, process: Any, partition: Partition, committed: Committed, here: range, found: set[int]) -> None:
        """No record has gone that is younger than min.compaction.lag.ms."""
        lag_ms = self._lags.get(partition.topic, 0)
        if not lag_ms or self._jumped():
            return
        oldest_ms = EPOCH_WALL_MS + self._world.time_us // 1000 - lag_ms
        for record in reversed(committed.by_offset.values()):
            if record.timestamp <= oldest_ms:
                break
            if record.offset in here and record.offset not in found:
                raise Violation(
                    "young_records_stay", f"{process.name} has cleaned {record} of {partition!r} within {lag_ms} ms"
                )

    def _missed_by_any(self, partition: Key, offset: int) -> bool:
        return any(offset in found.get(partition, ()) for found in self._missed.values())

    def _over(self, tombstone: Written) -> bool:
        return self._world.time_us // 1000 - tombstone.seen_ms >= self.retention_ms

    def _jumped(self) -> bool:
        """A wall clock was wrong: what is measured by it is no property."""
        return not self._world.clocks_agreed

    @staticmethod
    def _batches(partition: Partition, begin: int, end: int) -> Iterator[tuple[Any, bytes]]:
        """Header and bytes of the batches in `[begin, end)`; the first and the last may reach beyond."""
        log, offset = partition.log, begin
        with log.disk.readable():  # type: ignore[attr-defined]
            while offset < end:
                read = log.read(offset, READ_BYTES, end)
                if read is None:
                    read = log.cold_read(offset, READ_BYTES, end)()
                if not len(read.data):
                    break
                for header in batches.headers(read.data):
                    yield header, bytes(read.data[header.position : header.position + header.size])
                offset = read.next_offset

    def _records(self, partition: Partition, begin: int, end: int) -> Iterator[Any]:
        for header, content in self._batches(partition, begin, end):
            if not header.attributes & CONTROL:
                yield from (one for one in batches.records(content, 0) if begin <= one.offset < end)

    # ---- clients

    def acknowledged(
        self, topic: str, topic_id: bytes, partition: int, offset: int, values: list[Any], acks: int
    ) -> None:
        """What a producer was told to be written was committed there."""
        if topic not in self.topics:
            return
        committed = self.partitions.get((topic_id, partition), Committed())
        for number, one in enumerate(values):
            known = committed.by_offset.get(offset + number)
            if known is None or (known.key, known.value) != one:
                raise Violation(
                    "no_acknowledged_record_lost",
                    f"{one} was acknowledged at {offset + number} of {topic}-{partition}, committed there is {known}",
                )

    def judge(self, told: Told) -> None:
        """What transactions have written here counts if their commit was confirmed, and not if their abort was."""
        for name, records in told.keyed.items():
            if name not in told.committed and name not in told.aborted:
                continue
            for topic_id, partition, offset, one in records:
                committed = self.partitions.get((topic_id, partition), Committed())
                known = committed.by_offset.get(offset)
                if known is None or (known.key, known.value) != one:
                    raise Violation(
                        "no_acknowledged_record_lost",
                        f"{one} of {name} was acknowledged at {offset} of {partition}, committed there is {known}",
                    )
                if (offset in committed.uncommitted) is (name in told.committed):
                    raise Violation(
                        "transactions_are_atomic",
                        f"{name} was {'committed' if name in told.committed else 'aborted'}, and {one} is not",
                    )

    def read(self, topic_id: bytes, partition: int, record: Any) -> None:
        """A consumer was given a record."""
        committed = self.partitions.get((topic_id, partition), Committed())
        self._same("a consumer", str(partition), record, committed.by_offset.get(record.offset))
        if record.offset in committed.uncommitted:
            raise Violation(
                "transactions_are_atomic",
                f"a reader of committed records was given {record.key!r} at {record.offset} of {partition}, which is "
                f"undecided or aborted",
            )

    def table(
        self,
        reader: str,
        topic_id: bytes,
        partition: int,
        table: dict[bytes, tuple[int, bytes]],
        end: int,
        took_ms: int,
        asked: int,
    ) -> None:
        """A reader went from the beginning to `end`, asked so many brokers, and has these keys, with offset and value.
        One that goes on at another replica, which has been cleaned further, may have a value from the first and not
        meet its tombstone at the second, as with Apache Kafka."""
        committed = self.partitions.get((topic_id, partition), Committed())
        self._history.counts["tables read"] += 1
        if took_ms >= self.retention_ms or self._jumped():
            return
        for key in committed.by_key:
            last, newest = committed.last(key, end), committed.by_key[key][-1]
            held = table.get(key)
            # What was written behind `end` may have taken its place, and retention what is below the start.
            if last is None or newest is not last or last.offset < committed.start:
                continue
            if last.value is None:
                if held is not None and asked == 1 and not self._missed_by_any((topic_id, partition), last.offset):
                    raise Violation(
                        "no_tombstone_missed",
                        f"{reader} read to {end} in {took_ms} ms and has {key!r} at {held[0]}, deleted at {last.offset}",
                    )
            elif held is None or held[0] != last.offset:
                raise Violation(
                    self.name, f"{reader} read to {end} and has {held} for {key!r}, written last at {last.offset}"
                )
