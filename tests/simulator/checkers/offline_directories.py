"""A log directory that refused something is offline at once, alone, and its replicas count nowhere after a bounded time.

At the end of the turn in which a broker was told that its second directory failed, the directory is offline, no replica in
it is here any more, and no replica of another directory is offline with it. Once the broker's lease was renewed after
that, it leads nothing of it, and it is a member of an ISR only where it is the last one. A new controller has to hear of
it again.
"""

from typing import Any

from actors.broker.replicas import Offline
from actors.metadata.image import Image
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.cluster import Cluster

BOUND_MS = 3_000
"""How long before it was granted a lease must have been asked for after the failure: whoever grants it knows."""


class OfflineDirectories:
    name = "failed_directory_is_given_up"

    def __init__(self, metadata: MetadataLog, cluster: Cluster) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._since_ms: dict[str, int] = {}
        """Process -> when it was told that a directory of it failed, or another controller became active."""
        self._active: dict[str, tuple[list[int], int]] = {}
        """Process -> the controllers that were active then, and its broker epoch: it leaves ISRs when it renews a lease."""

    def turned(self, process: Any) -> None:
        """Only brokers have a second directory."""
        if not process.more or process.node is None:
            return
        if any(disk.refused for disk in process.more):
            now_ms = self._cluster.world.time_us // 1000
            first, active = (
                process.name not in self._since_ms,
                (self._controllers(), process.node.broker.lifecycle.epoch),
            )
            if first or active != self._active[process.name]:
                self._since_ms[process.name], self._active[process.name] = now_ms, active
            if first:
                self._told(process)
            elif process.node.broker.lifecycle.lease_until_ms - process.node.broker.lifecycle.lease_ms > (
                self._since_ms[process.name] + BOUND_MS
            ):
                self._known(process)

    def ended(self, process: Any) -> None:
        """The next process finds a directory that works."""
        self._since_ms.pop(process.name, None)

    def _controllers(self) -> list[int]:
        controllers = self._cluster.controllers.items()
        return [id for id, process in controllers if process.node is not None and process.node.quorum.active]

    def _told(self, process: Any) -> None:
        role = process.node.broker
        for disk in process.more:
            if disk.refused and not role.storage.failed(disk) and not process.node._stopping:
                raise Violation(self.name, f"{process.name} goes on with a directory that refused something")
        self._here(process)

    def _here(self, process: Any) -> None:
        role = process.node.broker
        for partition in role.replicas:
            if role.storage.failed(partition.log.disk):
                raise Violation(self.name, f"{process.name} still has {partition!r} in a failed directory")
        image = role.image
        for (topic_id, number), why in role.replicas.offline.items():
            topic = image.topic_by_id(topic_id)
            if why is not Offline.FAILED or topic < 0:
                continue
            name = f"{image.topic_name(topic)}-{number}"
            if process.disk.exists(f"{name}/partition.metadata") and not role.storage.failed(process.disk):
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
