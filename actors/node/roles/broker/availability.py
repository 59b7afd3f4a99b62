"""Whether this broker serves clients, and why a partition is not here: asked before anybody looks at a partition."""

from typing import NamedTuple

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.replication.replicas import Replicas
from actors.node.net.connections import Connections
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode

FETCH = 1


class Leader(NamedTuple):
    """The leader of a partition, as far as it is known here. `id` -1: there is none."""

    id: int
    epoch: int


class Availability:
    """The questions that are asked before a partition is looked at. They have no effect."""

    def __init__(
        self,
        runtime: Runtime,
        connections: Connections,
        cache: MetadataCache,
        lifecycle: Lifecycle,
        replicas: Replicas,
    ) -> None:
        self._runtime = runtime
        self._connections = connections
        self._cache = cache
        self._lifecycle = lifecycle
        self._replicas = replicas

    @property
    def serving(self) -> bool:
        """Whether clients are served now (KIP-631, Fencing)."""
        return self._lifecycle.serving(self._runtime.now, self._cache.image.next_offset)

    def admits(self, connection: int, api_key: int) -> bool:
        """Whether a request may be looked at while clients are not served: only requests of replicas may (A29)."""
        return api_key == FETCH or self._connections.replica(connection)

    def absent(self, topic: bytes | str, number: int) -> ErrorCode:
        """The error for a partition that is not here: it exists elsewhere, its files cannot be used, or there is no
        such partition."""
        image = self._cache.image
        row = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
        if row < 0:
            return ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if image.partition(row, number) < 0:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (image.topic_id(row), number) in self._replicas.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def leader(self, topic: bytes | str, number: int) -> Leader:
        """The leader of a partition, whether it is here or not; clients are told where to go (KIP-951)."""
        partition = self._replicas.get(topic, number)
        if partition is not None:
            return Leader(partition.leader, partition.leader_epoch)
        image = self._cache.image
        row = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
        row = image.partition(row, number) if row >= 0 else -1
        return Leader(image.leader(row), image.leader_epoch(row)) if row >= 0 else Leader(-1, -1)
