"""Consumers read what is committed, and nothing else: the record at an offset is the one that is committed there.

Consumers skip nothing: the next record is the wanted one, or the first that no client asked to delete.
"""

from fastpath.records import batch as batches
from tests.simulator.checkers.committed_data import CommittedData
from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class ConsumedRecords:
    name = "consumed_is_committed"

    def __init__(self, data: CommittedData, history: History) -> None:
        self._data = data
        self._history = history
        self._values: dict[tuple[bytes, int], dict[int, bytes | None]] = {}

    def record(self, topic: str, topic_id: bytes, partition: int, header: object, record: batches.Record) -> None:
        """Remember a committed record by its offset."""
        self._values.setdefault((topic_id, partition), {})[record.offset] = record.value

    def consumed(self, consumer: str, topic_id: bytes, partition: int, offset: int, value: bytes, wanted: int) -> None:
        """The record must be the one committed at that offset, and no record may have been skipped."""
        values = self._values.get((topic_id, partition), {})
        if values.get(offset) != value:
            raise Violation(
                self.name,
                f"{consumer} was given {value!r} at {offset} of {partition}; committed is {values.get(offset)!r}",
            )
        deleted = self._history.purged.get((topic_id, partition), 0)
        if offset > max(wanted, deleted):
            raise Violation(
                self.name, f"{consumer} wanted {wanted} of {partition} and was given {offset}; deleted were {deleted}"
            )
