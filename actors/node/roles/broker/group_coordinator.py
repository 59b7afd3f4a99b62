"""The group coordinator in its host: its settings, and when it looks for offsets that have expired.

The rules of groups are in `broker/groups/`.
"""

from actors.broker.groups.coordinator import Coordinator, Settings
from actors.broker.groups.rebalance import Policy
from actors.broker.partition import Partition
from actors.broker.replicas import Replicas
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.appends import Appends
from actors.node.roles.broker.coordinator_host import CoordinatorHost
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.ports import Now


class GroupCoordinator(CoordinatorHost[Coordinator]):
    """Groups whose partition of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        cache: MetadataCache,
        replicas: Replicas,
        appends: Appends,
    ) -> None:
        value = runtime.config.value
        machine = Coordinator(
            Settings(
                partitions=value("offsets.topic.num.partitions"),
                policy=Policy(value("group.initial.rebalance.delay.ms"), value("group.max.size")),
                session_ms_min=value("group.min.session.timeout.ms"),
                session_ms_max=value("group.max.session.timeout.ms"),
                metadata_bytes_max=value("offset.metadata.max.bytes"),
                retention_ms=value("offsets.retention.minutes") * 60_000,
            )
        )
        super().__init__(runtime, requests, cache, replicas, appends, OFFSETS_TOPIC, machine)
        self._check_interval_ms = value("offsets.retention.check.interval.ms")
        self._check_ms = 0

    # ---- hooks of the broker

    def topic_deleted(self, topic: str) -> None:
        """A topic is gone, and what groups committed for it."""
        self.machine.forget_topic(topic)
        self.drain()

    def transaction_ended(self, partition: int, producer_id: int, commit: bool) -> None:
        """A marker in a partition of `__consumer_offsets` that this broker leads is committed: what the producer has
        committed there in the transaction counts from now on, or never. It may be told twice of one marker."""
        self.machine.transaction_ended(partition, producer_id, commit)
        self.drain()

    def tick(self, now: Now) -> None:
        """Time."""
        machine, deadlines = self.machine, self.machine.deadlines
        if deadlines and deadlines[0][0] <= now.mono_ms:
            machine.tick(now)
        if now.mono_ms >= self._check_ms:
            self._check_ms = now.mono_ms + self._check_interval_ms
            machine.expire_offsets(now, self._exists)
        if machine.answers or machine.writes:
            self.drain()

    def deadline_ms(self) -> int:
        """When `tick` is due."""
        deadlines = self.machine.deadlines
        return min(deadlines[0][0], self._check_ms) if deadlines else self._check_ms

    # ---- what it does besides

    def loaded(self, partition: Partition, epoch: int) -> None:
        """All that the log says is in the machine."""
        # Whoever took a commit for a topic knew of it before this leadership began: the image is not behind that.
        self.machine.loaded(partition.number, epoch, self._runtime.now, self._exists)
        self._runtime.log.info(f"loaded the groups of {partition!r}")

    def _exists(self, topic: str) -> bool:
        return self._cache.image.topic(topic) >= 0
