"""The share coordinator in its host: its settings, and the log that it does not need any more.

What is remembered of share partitions is decided in `broker/groups/share/persistence/`. This file alone decides when
the log before the oldest snapshot that is needed is deleted: every `share.coordinator.state.topic.prune.interval.ms`,
and as far as it is committed.
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.broker.groups.share.persistence.share_coordinator import (
    ShareStateCoordinator,
    ShareStateSettings,
    ShareStateVerdict,
    Told,
)
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.coordinators.coordinator_host import CoordinatorHost
from actors.node.roles.broker.coordinators.coordinator_loading import Loadings
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.replication.appends import Appends
from actors.node.runtime.answers import Answer
from actors.node.runtime.runtime import Runtime
from actors.ports import Now
from actors.wire.errors import ErrorCode


class ShareCoordinator(CoordinatorHost[ShareStateCoordinator]):
    """The coordinator of the share partitions whose partition of `__share_group_state` this broker leads."""

    timeout_setting = "share.coordinator.write.timeout.ms"

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        cache: MetadataCache,
        replicas: Replicas,
        appends: Appends,
        loadings: Loadings,
    ) -> None:
        value = runtime.config.value
        machine = ShareStateCoordinator(
            ShareStateSettings.of(value),
            self._exists,
        )
        super().__init__(runtime, requests, cache, replicas, appends, loadings, SHARE_STATE_TOPIC, machine)
        self._prune_interval_ms = value("share.coordinator.state.topic.prune.interval.ms")
        self._prune_ms = -1
        self.pruned: dict[int, int] = {}
        """The offset below which the log of a partition of the topic was deleted last, by partition."""

    # ---- requests

    def answer(self, asks: Sequence[Callable[[Told], None]], reply: Callable[[list[ShareStateVerdict]], Any]) -> Answer:
        """Begin each of several requests, and answer when all have ended, with their verdicts in the same order."""
        verdicts = [ShareStateVerdict(ErrorCode.NONE)] * len(asks)
        left = len(asks)

        def start(then: Callable[[ErrorCode], None]) -> None:
            for number, ask in enumerate(asks):
                ask(lambda verdict, number=number: ended(number, verdict, then))  # type: ignore[misc]

        def ended(number: int, verdict: ShareStateVerdict, then: Callable[[ErrorCode], None]) -> None:
            nonlocal left
            verdicts[number] = verdict
            left -= 1
            if not left:
                then(ErrorCode.NONE)

        return self.commit(start, lambda error: reply(verdicts))

    # ---- hooks of the broker

    def topic_deleted(self, topic_id: bytes) -> None:
        """Forget the share partitions of a topic that is deleted."""
        self.machine.forget_topic(topic_id)
        self.drain()

    def tick(self, now: Now) -> None:
        """Handle what is due: timers of the machine, and the log that is not needed any more."""
        if self.machine.deadline_ms() <= now.mono_ms:
            self.machine.tick(now)
            self.drain()
        if now.mono_ms >= self._prune_ms:
            self._prune_ms = now.mono_ms + self._prune_interval_ms
            self._prune()

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due."""
        return min(self.machine.deadline_ms(), max(0, self._prune_ms))

    # ---- what it does besides

    def loaded(self, partition: Partition, epoch: int) -> None:
        """Let a partition serve: all that the log says is in the machine."""
        image = self._cache.image
        # Whoever had something written for a topic knew of it before this leadership began: the image is not behind that.
        self.machine.loaded(partition.number, epoch, lambda topic_id: image.topic_by_id(topic_id) >= 0)
        self._runtime.log.info(f"loaded the share partitions of {partition!r}")

    def _exists(self, topic_id: bytes, number: int) -> bool:
        image = self._cache.image
        row = image.topic_by_id(topic_id)
        return row >= 0 and image.partition(row, number) >= 0

    def _prune(self) -> None:
        for number, offset in self.machine.redundant():
            partition = self._replicas.get(self.topic, number)
            if partition is None or not partition.leads:
                continue
            offset = min(offset, partition.high_watermark)
            if offset > partition.log.log_start_offset:
                partition.log.delete_records(offset)
                self.pruned[number] = offset
                self._replicas.started(partition)
        self._appends.signal()
