"""The group coordinator in its host: its settings, its partitions, and what counts in its topic.

The rules of groups are in `broker/groups/`. This file alone decides where a group is found (the topic itself says it; the
configuration only until it exists), and when offsets expire.
"""

from collections.abc import Callable
from typing import Any

from actors.broker.groups.coordinator import Coordinator, Settings
from actors.broker.groups.rebalance import Policy, Verdict
from actors.broker.partition import Partition
from actors.broker.replicas import Replicas
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.appends import Appends
from actors.node.roles.broker.coordinator_host import CoordinatorHost
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.offsets_compaction import OffsetsCompaction
from actors.node.runtime.answers import Answer
from actors.node.runtime.runtime import Runtime
from actors.ports import Now
from actors.wire.errors import ErrorCode


class GroupCoordinator:
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
        self._runtime = runtime
        self._cache = cache
        self.machine = Coordinator(
            Settings(
                partitions=value("offsets.topic.num.partitions"),
                policy=Policy(value("group.initial.rebalance.delay.ms"), value("group.max.size")),
                session_ms_min=value("group.min.session.timeout.ms"),
                session_ms_max=value("group.max.session.timeout.ms"),
                metadata_bytes_max=value("offset.metadata.max.bytes"),
                retention_ms=value("offsets.retention.minutes") * 60_000,
            )
        )
        self.compaction = OffsetsCompaction(runtime, replicas, self.machine)
        self._host = CoordinatorHost(runtime, requests, replicas, appends, OFFSETS_TOPIC, self.machine, self)
        self._check_interval_ms = value("offsets.retention.check.interval.ms")
        self._check_ms = 0

    # ---- hooks of the broker

    def became_leader(self, topic: str, partition: int, epoch: int) -> None:
        """This broker leads a partition in a new epoch."""
        if topic == OFFSETS_TOPIC:
            self.count_partitions()
            self._host.gain(partition, epoch)

    def resigned(self, topic: str, partition: int) -> None:
        """It leads it no more."""
        if topic == OFFSETS_TOPIC:
            self._host.lost(partition)

    def count_partitions(self) -> None:
        """The image has moved: the topic itself says where a group is found; the configuration, only until it exists."""
        image = self._cache.image
        topic = image.topic(OFFSETS_TOPIC)
        for partition, epoch in self.machine.resized(len(image.topic_partitions(topic)) if topic >= 0 else None):
            self._host.gain(partition, epoch)
        self.drain()

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
        if machine.answers or machine.writes or machine.compacted:
            self.drain()

    def deadline_ms(self) -> int:
        """When `tick` is due."""
        deadlines = self.machine.deadlines
        return min(deadlines[0][0], self._check_ms) if deadlines else self._check_ms

    # ---- for the handlers

    def ask(self, connection: int, begin: Callable[[int], None], reply: Callable[[Verdict], Any]) -> Answer:
        """Hand a request to the machine; answer when its verdict comes, if the connection still is there then."""
        return self._host.ask(connection, begin, reply)

    def commit(self, start: Callable[[Callable[[ErrorCode], None]], None], reply: Callable[[ErrorCode], Any]) -> Answer:
        """Start a write; answer when it is committed."""
        return self._host.commit(start, reply)

    def drain(self) -> None:
        """Carry out what the machine has decided."""
        self._host.drain()

    # ---- hooks of the host

    def loaded(self, partition: Partition, epoch: int) -> None:
        """All that the log says is in the machine."""
        # Whoever took a commit for a topic knew of it before this leadership began: the image is not behind that.
        self.machine.loaded(partition.number, epoch, self._runtime.now, self._exists)
        self._runtime.log.info(f"loaded the groups of {partition!r}")
        self.compaction.loaded(partition)

    def unloaded(self, number: int) -> None:
        """A partition is led no more, or in a new epoch."""
        self.compaction.lost(number)

    def committed(self, number: int, size: int) -> None:
        """So many bytes of a partition are committed."""
        self.compaction.committed(number, size)

    def pending(self) -> bool:
        """Whether a compaction of offsets has ended."""
        return bool(self.machine.compacted)

    def carry_out(self) -> None:
        """Let the logs begin behind what was written once more."""
        compacted, self.machine.compacted = self.machine.compacted, []
        for one in compacted:
            self.compaction.compacted(one)

    def _exists(self, topic: str) -> bool:
        return self._cache.image.topic(topic) >= 0
