"""The rule that no records are deleted unless a client asked for it: no log begins later, and no client is told that it
does.

Retention deletes nothing in a world, because a world is too short, save of topics with retention.bytes. The coordinator
compacts the offsets of groups; the checker group_offsets shows whether any are lost by that.
"""

from typing import Any

from actors.broker.replication.partition import Partition
from actors.metadata.topic_names import OFFSETS_TOPIC
from tests.simulator.checkers.changed_replicas import Standing
from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class LogStarts:
    name = "nothing_deleted_unasked"

    def __init__(self, history: History, retained: frozenset[str]) -> None:
        """`retained` are the topics of which retention deletes."""
        self._history = history
        self._retained = retained

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """The log start must have been asked for."""
        if partition.topic == OFFSETS_TOPIC:
            return
        start = partition.log.log_start_offset
        if partition.topic in self._retained:
            purged, key = self._history.purged, (partition.topic_id, partition.number)
            if start > max(partition.high_watermark, purged.get(key, 0)):
                raise Violation(self.name, f"{process.name} begins {partition!r} at {start}, which is not committed")
            purged[key] = max(start, purged.get(key, 0))
            return
        asked = self._history.purged.get((partition.topic_id, partition.number), 0)
        if start > asked:
            raise Violation(
                self.name, f"{process.name} begins {partition!r} at {start}, records were to be deleted up to {asked}"
            )

    def begins(self, topic_id: bytes, partition: int, offset: int) -> None:
        """A client goes on at this offset: records before it are lost to the client."""
        asked = self._history.purged.get((topic_id, partition), 0)
        if offset > asked:
            raise Violation(
                self.name,
                f"a client was told that partition {partition} of topic {topic_id.hex()} begins at {offset}, "
                f"records were to be deleted up to {asked}",
            )
