"""No acknowledged record is lost: what a producer with acks=all was told lies there, committed, from that moment on.

That it stays there is what leader_completeness and replicas_identical hold. What was acknowledged with acks=1 may be lost
with its leader. Where rot hid it from whoever committed it, others must have shown it in the end.
"""

from typing import Any

from fastpath.records import batch as batches
from tests.simulator.checkers.committed_data import Committed, CommittedData
from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class AcknowledgedRecords:
    name = "no_acknowledged_record_lost"

    def __init__(self, data: CommittedData, history: History) -> None:
        self._data = data
        self._history = history
        self._hidden: dict[tuple[str, bytes, int, int], list[bytes]] = {}
        """What was acknowledged and not seen yet: topic, topic id, partition and offset -> values."""

    def acknowledged(
        self, topic: str, topic_id: bytes, partition: int, offset: int, values: list[bytes], acks: int
    ) -> None:
        """The batch is committed where the producer was told."""
        if acks != -1 or topic in self._history.deleted or topic in self._data.elsewhere:
            return
        committed = self._data.partitions.get((topic_id, partition))
        held = committed.batches.get(offset) if committed is not None else None
        if held is None and committed is not None and committed.hides(offset):
            self._hidden[topic, topic_id, partition, offset] = values
        else:
            self._judge(topic, partition, offset, values, committed, held)

    def finish(self) -> None:
        """All is well: what was hidden has been seen, unless somebody deleted it."""
        for (topic, topic_id, partition, offset), values in self._hidden.items():
            if topic not in self._history.deleted and offset >= self._history.purged.get((topic_id, partition), 0):
                committed = self._data.partitions[topic_id, partition]
                self._judge(topic, partition, offset, values, committed, committed.batches.get(offset))

    def _judge(
        self, topic: str, partition: int, offset: int, values: list[bytes], committed: Committed | None, held: Any
    ) -> None:
        if committed is None or held is None:
            end = committed.end if committed is not None else 0
            raise Violation(
                self.name, f"{values[0]!r} was acknowledged at {offset} of {topic}-{partition}, committed up to {end}"
            )
        found = [record.value for record in batches.records(held[1])]
        if found != values:
            raise Violation(
                self.name, f"{values[0]!r} was acknowledged at {offset} of {topic}-{partition}; {found[0]!r} lies there"
            )
