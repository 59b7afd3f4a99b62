"""What is committed is in range: who leads serves whatever a consumer comes to record by record, save what was deleted.

A deposed leader that does not know it yet may lack what was committed since. A consumer's position is never beyond that.
"""

from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.cluster import Cluster
from tests.simulator.history import History


class ServedOffsets:
    name = "what_is_committed_is_in_range"

    def __init__(self, metadata: MetadataLog, cluster: Cluster, history: History) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._history = history

    def unserved(self, topic_id: bytes, partition: int, offset: int, broker: str) -> None:
        """A consumer wanted that offset, and the broker called it out of range."""
        asked = self._history.purged.get((topic_id, partition), 0)
        if offset >= asked and self._leads(topic_id, partition, broker):
            raise Violation(
                self.name,
                f"{broker} calls {offset} of partition {partition} of topic {topic_id.hex()} out of range; "
                f"records were to be deleted up to {asked}",
            )

    def _leads(self, topic_id: bytes, partition: int, broker: str) -> bool:
        """Under the newest epoch that is committed."""
        image, process = self._metadata.image, self._cluster.world.processes[broker]
        topic = image.topic_by_id(topic_id)
        row = image.partition(topic, partition) if topic >= 0 else -1
        replica = process.node.broker.replicas.get(topic_id, partition) if process.node is not None else None
        if row < 0 or replica is None or not replica.leads:
            return False
        return bool(
            image.leader(row) == process.node.broker.cache.me and image.leader_epoch(row) == replica.leader_epoch
        )
