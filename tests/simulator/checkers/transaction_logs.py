"""What a replica says of transactions is what its batches say (KIP-98): the last stable offset, the index of aborted ones.

This file keeps, for each partition, the transactions in what was ever committed, by its batches and markers alone. Then

- a replica's last stable offset is the first offset of the oldest transaction that has no marker below its high watermark,
  and else that high watermark. It may be higher where that marker is committed and the replica does not know yet;
- its index of aborted transactions has those whose abort marker it has, no others, and each as Kafka writes it. In a
  compacted log whatever is left of an aborted transaction is in the index, and nothing else is.
"""

from typing import Any, NamedTuple

from actors.broker.log.aborted_transactions import all_aborted
from actors.broker.log.producers.markers import CONTROL, TRANSACTIONAL, Marker
from actors.broker.log.producers.transaction_index import Aborted
from actors.broker.log.producers.transactions import NO_LIMIT
from actors.broker.replication.partition import Partition
from fastpath.records import batch as batches
from tests.simulator.checkers.changed_replicas import NEW, Standing
from tests.simulator.checkers.hooks import Violation
from tests.simulator.world import World

READ_BYTES = 1 << 20


class Ended(NamedTuple):
    """A transaction that has its marker."""

    first_offset: int
    marker_offset: int


class Transactions:
    """The transactions of one partition."""

    def __init__(self) -> None:
        self.end = 0
        """The offset behind the last transactional batch that was looked at."""
        self.open: dict[int, int] = {}
        """Producer id -> first offset."""
        self.ended: list[Ended] = []
        """The transactions that have ended, in the order of their markers."""
        self.aborted: list[Aborted] = []
        self.certain = True
        """Whether all batches were seen in their order: rot hides some, and another replica shows them later."""

    def oldest_open(self) -> int:
        """The first offset of the oldest transaction without a marker; NO_LIMIT: there is none."""
        return min(self.open.values(), default=NO_LIMIT)

    def undecided(self, mark: int) -> int:
        """The first offset of which it is undecided below that high watermark what becomes of it."""
        found = min((first for first in self.open.values() if first < mark), default=mark)
        for one in reversed(self.ended):
            if one.marker_offset < mark:
                break
            found = min(found, one.first_offset)
        return found


class TransactionLogs:
    name = "aborted_index_is_of_the_log"

    def __init__(self, world: World) -> None:
        self._world = world
        self.partitions: dict[tuple[bytes, int], Transactions] = {}

    def batch(self, topic_id: bytes, partition: int, header: Any, marker: Marker | None) -> None:
        """A transactional batch is committed for the first time."""
        one = self.partitions.setdefault((topic_id, partition), Transactions())
        one.certain &= header.base_offset >= one.end
        one.end = header.last_offset + 1
        if not header.attributes & CONTROL:
            one.open.setdefault(header.producer_id, header.base_offset)
        elif marker is not None and header.producer_id in one.open:
            first = one.open.pop(header.producer_id)
            one.ended.append(Ended(first, header.last_offset))
            if not marker.commit:
                stable = min(one.open.values(), default=header.last_offset + 1)
                one.aborted.append(Aborted(header.producer_id, first, header.last_offset, stable))

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """The last stable offset is the right one; a log that was just opened has the right index."""
        one = self.partitions.get((partition.topic_id, partition.number))
        mark = partition.high_watermark
        stable, lowest, highest = partition.last_stable_offset, mark, mark
        if one is not None and one.certain:
            start = partition.log.log_start_offset
            lowest, highest = (min(max(at, start), mark) for at in (one.undecided(mark), one.oldest_open()))
        if (one is None or one.certain) and not lowest <= stable <= highest:
            raise Violation(
                "last_stable_offset_is_of_the_log",
                f"{process.name} calls {stable} the last stable offset of {partition!r}, its batches say {lowest} to "
                f"{highest} with the high watermark {mark}",
            )
        if before is NEW and one is not None:
            self._index(process, partition, one)

    def finish(self) -> None:
        """Check, now that all is well, that every replica's index is right."""
        for process in self._world.processes.values():
            if process.node is None or process.node.broker is None:
                continue
            for partition in process.node.broker.replicas:
                one = self.partitions.get((partition.topic_id, partition.number))
                if one is not None:
                    self._index(process, partition, one)

    def _index(self, process: Any, partition: Partition, one: Transactions) -> None:
        log = partition.log
        if not one.certain or log.damaged:
            return
        with log.disk.readable():  # type: ignore[attr-defined]
            mark, entries = partition.high_watermark, all_aborted(log)()
        here = range(log.log_start_offset, mark)
        wanted = [entry for entry in one.aborted if entry.last_offset in here]
        found = [entry for entry in entries if entry.last_offset in here]
        if not log.sparse:
            odd = [entry for entry in wanted if entry not in found] + [entry for entry in found if entry not in wanted]
        else:
            odd = self._odd(wanted, found, self._left(log, mark))
        if odd:
            raise Violation(
                self.name,
                f"{process.name} has {len(found)} aborted transactions of {partition!r}, its batches say {len(wanted)}; one "
                f"that differs is {odd[0]}, log start {log.log_start_offset}, high watermark {mark}",
            )

    @staticmethod
    def _odd(wanted: list[Aborted], found: list[Aborted], left: list[tuple[int, int]]) -> list[Aborted]:
        """Entries of a compacted log that are wrong, or missing although some of their transaction is left. Where such a
        transaction begins, and what else was open, can no longer be told exactly."""
        known = {(entry.producer_id, entry.last_offset): entry for entry in wanted}
        odd = [entry for entry in found if (entry.producer_id, entry.last_offset) not in known]
        for id, offset in left:
            true = [one for one in wanted if one.producer_id == id and one.first_offset <= offset < one.last_offset]
            said = [one for one in found if one.producer_id == id and one.first_offset <= offset < one.last_offset]
            if bool(true) != bool(said):
                odd += true + said
        return odd

    @staticmethod
    def _left(log: Any, end: int) -> list[tuple[int, int]]:
        """(producer id, offset) of the transactional batches with a record that a log has below `end`."""
        found, offset = [], log.log_start_offset
        with log.disk.readable():
            while offset < end:
                read = log.read(offset, READ_BYTES, end)
                if read is None:
                    read = log.cold_read(offset, READ_BYTES, end)()
                if not len(read.data):
                    break
                found += [
                    (header.producer_id, header.base_offset)
                    for header in batches.headers(read.data)
                    if header.count and header.attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL
                ]
                offset = read.next_offset
        return found
