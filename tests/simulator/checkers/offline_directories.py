"""A log directory that failed is offline at once, alone, and its replicas count nowhere after a bounded time.

At the end of the turn in which a broker was told that its second directory failed, the directory is offline, the broker
has no replica in it any more, and no replica of another directory is offline. Once the broker's lease was renewed after
that, it leads no partition of the directory, and it is a member of an ISR only where it is the last one. A new
controller must be told again.
"""

from typing import Any

from actors.broker.replication.replicas import Offline
from actors.metadata.image import Image
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.cluster import Cluster

BOUND_MS = 3_000
"""The time from the first lease renewed after the failure to the sending of a later heartbeat."""


class _Heard:
    """When the controllers learned of the failed directory of a broker."""

    def __init__(self, active: tuple[list[int], int], lease_until_ms: int) -> None:
        self.active = active
        """The active controllers and the broker epoch: another controller must be told again, and a new life leaves
        ISRs."""
        self.lease_until_ms = lease_until_ms
        """End of the lease that the broker had then."""
        self.at_ms = -1
        """When its lease was first renewed after that; -1: not yet."""


class OfflineDirectories:
    name = "failed_directory_is_given_up"

    def __init__(self, metadata: MetadataLog, cluster: Cluster) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._heard_by: dict[str, _Heard] = {}

    def turned(self, process: Any) -> None:
        """Check a broker after its turn; other nodes have no second directory."""
        if not process.more or process.node is None or not any(disk.refused for disk in process.more):
            return
        lifecycle = process.node.broker.lifecycle
        now_ms = self._cluster.world.time_us // 1000
        active, heard = (self._controllers(), lifecycle.epoch), self._heard_by.get(process.name)
        if heard is None or heard.active != active:
            self._heard_by[process.name] = _Heard(active, lifecycle.lease_until_ms)
            if heard is None:
                self._told(process)
        elif heard.at_ms < 0:
            if lifecycle.lease_until_ms != heard.lease_until_ms:
                heard.at_ms = now_ms
        elif lifecycle.lease_until_ms - lifecycle.lease_ms > heard.at_ms + BOUND_MS:
            self._known(process)

    def ended(self, process: Any) -> None:
        """The next process finds a directory that works."""
        self._heard_by.pop(process.name, None)

    def _controllers(self) -> list[int]:
        controllers = self._cluster.controllers.items()
        return [id for id, process in controllers if process.node is not None and process.node.controller.active]

    def _told(self, process: Any) -> None:
        role = process.node.broker
        for disk in process.more:
            if disk.refused and not role.logs.directories.failed(disk) and not process.node._stopping:
                raise Violation(self.name, f"{process.name} goes on with a directory that refused something")
        self._here(process)

    def _here(self, process: Any) -> None:
        role = process.node.broker
        for partition in role.replicas:
            if role.logs.directories.failed(partition.log.disk):
                raise Violation(self.name, f"{process.name} still has {partition!r} in a failed directory")
        image = role.cache.image
        for (topic_id, number), why in role.replicas.offline.items():
            topic = image.topic_by_id(topic_id)
            if why is not Offline.FAILED or topic < 0:
                continue
            name = f"{image.topic_name(topic)}-{number}"
            touched = process.disk.refused or process.disk.lacked or role.logs.directories.failed(process.disk)
            if process.disk.found(f"{name}/partition.metadata") and not touched:
                raise Violation(self.name, f"{process.name} has given up {name}, which is in a directory that works")

    def _known(self, process: Any) -> None:
        self._here(process)
        image, me = self._metadata.image, int(process.name[1:])
        offline = process.node.broker.replicas.offline
        for topic_id, number in offline:
            row = _row(image, topic_id, number)
            if row < 0:
                continue
            where = f"{process.name}, whose directory of {image.topic_name(image.topic_of(row))}-{number} has failed,"
            if image.leader(row) == me:
                raise Violation(self.name, f"{where} still leads")
            if me in image.isr(row) and len(image.isr(row)) > 1:
                raise Violation(self.name, f"{where} still is in the ISR {image.isr(row)}")


def _row(image: Image, topic_id: bytes, number: int) -> int:
    topic = image.topic_by_id(topic_id)
    return image.partition(topic, number) if topic >= 0 else -1
