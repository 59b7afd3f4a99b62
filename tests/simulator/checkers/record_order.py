"""An idempotent producer's records appear once, and in a partition they have the order in which it sent them.

A producer without idempotence is promised neither: the network may deliver a batch after the producer gave it up.
"""

from typing import Any

from fastpath.records.batch import Record
from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class RecordOrder:
    name = "order_within_a_partition"

    def __init__(self, history: History) -> None:
        self._history = history
        self._last: dict[tuple[bytes, int, str], int] = {}

    def record(self, topic: str, topic_id: bytes, partition: int, header: Any, record: Record) -> None:
        """The numbers of a producer must rise."""
        attempt = self._history.attempts.get(record.value or b"")
        if attempt is None or not attempt.idempotent:
            return
        key = topic_id, partition, attempt.producer
        last = self._last.get(key, 0)
        if attempt.number <= last:
            name = "no_record_twice" if attempt.number == last else self.name
            raise Violation(name, f"{record.value!r} at {record.offset} comes after number {last} of its producer")
        self._last[key] = attempt.number
