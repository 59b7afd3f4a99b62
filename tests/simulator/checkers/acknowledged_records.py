"""No acknowledged record is lost: once a producer with acks=all has its answer, the records are committed at that
offset.

The checkers leader_completeness and replicas_identical hold that they stay there. Records acknowledged with acks=1 may
be lost with their leader. If rot hid the records on the broker that committed them, other brokers must have shown them
by the end.
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
        """Batches that were acknowledged and not seen yet: topic, topic id, partition and offset -> values."""

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
        """All faults are over: every hidden batch must have been seen, unless a client asked to delete it."""
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
