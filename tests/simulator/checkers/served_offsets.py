"""The rule that what is committed is in range: a leader serves every offset that a consumer reaches record by record,
unless it was deleted.

A deposed leader that does not know it yet may lack what was committed since. A consumer's position is never beyond
that. A follower may lack it too, and its answer may stand behind a long poll of the same connection until it leads; so only
a broker that led when it was asked is held to it.
"""

from typing import Any

from actors.broker.replication.partition import Partition
from tests.simulator.checkers.changed_replicas import Standing
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
        self._led_us: dict[tuple[str, bytes, int], tuple[int, int]] = {}
        """(broker, topic id, partition) -> the newest epoch in which it led, and since when it knew."""

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """A broker may lead under another epoch."""
        key, epoch = (process.name, partition.topic_id, partition.number), partition.leader_epoch
        if partition.leads and self._led_us.get(key, (-1, 0))[0] != epoch:
            self._led_us[key] = epoch, self._cluster.world.time_us

    def unserved(self, topic_id: bytes, partition: int, offset: int, broker: str, asked_us: int) -> None:
        """A broker, asked then, told a consumer that this offset is out of range."""
        purged = self._history.purged.get((topic_id, partition), 0)
        epoch, since_us = self._led_us.get((broker, topic_id, partition), (-1, 0))
        if offset >= purged and since_us <= asked_us and self._leads(topic_id, partition, broker, epoch):
            raise Violation(
                self.name,
                f"{broker} calls {offset} of partition {partition} of topic {topic_id.hex()} out of range; "
                f"records were to be deleted up to {purged}",
            )

    def _leads(self, topic_id: bytes, partition: int, broker: str, epoch: int) -> bool:
        """Whether the broker leads under that epoch, and it is the newest one that is committed."""
        image, process = self._metadata.image, self._cluster.world.processes[broker]
        topic = image.topic_by_id(topic_id)
        row = image.partition(topic, partition) if topic >= 0 else -1
        replica = process.node.broker.replicas.get(topic_id, partition) if process.node is not None else None
        if row < 0 or replica is None or not replica.leads:
            return False
        return bool(
            image.leader(row) == process.node.broker.cache.me
            and image.leader_epoch(row) == replica.leader_epoch == epoch
        )
