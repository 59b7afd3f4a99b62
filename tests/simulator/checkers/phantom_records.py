"""The rule that there are no phantom records: a client has sent every committed record, to that partition, and not to a
deleted topic of the same name."""

from typing import Any

from fastpath.records.batch import Record
from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class PhantomRecords:
    name = "no_phantom_records"

    def __init__(self, history: History) -> None:
        self._history = history

    def record(self, topic: str, topic_id: bytes, partition: int, header: Any, record: Record) -> None:
        """The record must have been sent to this partition."""
        attempt = self._history.attempts.get(record.value or b"")
        sent_there = attempt is not None and (attempt.topic, attempt.partition) == (topic, partition)
        if attempt is None or not sent_there or attempt.topic_id not in (b"", topic_id):
            raise Violation(
                self.name, f"{record.value!r} at {record.offset} of {topic}-{partition} was never sent there"
            )
