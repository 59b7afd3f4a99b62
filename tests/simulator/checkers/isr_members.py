"""Every member of the committed ISR holds what its leader says is committed (R497-24; I1 and I2 of KIP-497), and
nothing is committed by fewer members than min.insync.replicas (R497-45).

This is checked whenever a leader's epoch or high watermark moves, against the newest committed metadata. The leader may
not know that metadata yet: the controller may have added a member that the leader has proposed. A broker that has
restarted since its registration is left out, and so is a leader that has been replaced.
"""

from typing import Any

from actors.broker.replication.partition import Partition
from actors.metadata.image import Image
from tests.simulator.checkers.changed_replicas import Standing
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import MetadataLog, partitions
from tests.simulator.cluster import Cluster

Key = tuple[bytes, int]


class IsrMembers:
    name = "isr_members_hold_what_is_committed"

    def __init__(self, metadata: MetadataLog, cluster: Cluster) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._leaders: dict[Key, tuple[int, int]] = {}
        """Partition -> (leader, leader epoch since which it leads)."""
        self._sizes: dict[Key, dict[int, int]] = {}
        """Partition -> partition epoch -> members of the ISR."""
        self._versions: dict[Partition, int] = {}
        """The partition epoch under which a replica was last looked at."""

    def metadata(self, image: Image, batch: Any) -> None:
        """Note the leaders and their epochs."""
        for key, row in partitions(image):
            leader = image.leader(row)
            self._sizes.setdefault(key, {})[image.partition_epoch(row)] = len(image.isr(row))
            if self._leaders.get(key, (-2, -1))[0] != leader:
                self._leaders[key] = leader, image.leader_epoch(row)

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """A leader's epoch or high watermark may have moved."""
        if not partition.leads or (partition.leader_epoch, partition.high_watermark, True) == before[:3]:
            return
        image = self._metadata.image
        topic = image.topic_by_id(partition.topic_id)
        row = image.partition(topic, partition.number) if topic >= 0 else -1
        leader, since = self._leaders.get((partition.topic_id, partition.number), (-1, -1))
        if row < 0 or leader != process.node.broker.cache.me or partition.leader_epoch < since:
            return
        if before.led and partition.high_watermark > before.high_watermark:
            self._enough(process, partition)
        self._versions[partition] = partition.isr.partition_epoch
        for member in image.isr(row):
            end = self._end(image, member, partition) if member != leader else None
            if end is not None and end < partition.high_watermark:
                raise Violation(
                    self.name,
                    f"{process.name} has committed {partition!r} up to {partition.high_watermark} under epoch "
                    f"{partition.leader_epoch}; broker {member} is in the ISR {image.isr(row)} and ends at {end}",
                )

    def _enough(self, process: Any, partition: Partition) -> None:
        wanted = min(partition.settings.min_insync_replicas, len(partition.replicas))
        # A leader takes in several versions in a turn, and what it commits between two of them is judged by that one.
        sizes, version = self._sizes.get((partition.topic_id, partition.number), {}), partition.isr.partition_epoch
        first = self._versions.get(partition, version)
        members = max(sizes.get(one, wanted) for one in range(min(first, version), version + 1))
        if members < wanted:
            raise Violation(
                "min_insync_holds", f"{process.name} has committed {partition!r} with {members} of {wanted} members"
            )

    def _end(self, image: Image, member: int, partition: Partition) -> int | None:
        """Log end of a member; None: it cannot be checked."""
        process, registration = self._cluster.brokers[member], image.broker(member)
        if process.node is None or registration is None:
            return None
        broker = process.node.broker
        replica = broker.replicas.get(partition.topic_id, partition.number) if broker is not None else None
        if broker is None or replica is None or broker.lifecycle.epoch != registration.epoch:
            return None
        return replica.log.log_end_offset if replica.leader_epoch <= partition.leader_epoch else None
