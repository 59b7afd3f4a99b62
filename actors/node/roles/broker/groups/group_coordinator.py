"""The group coordinator in its host: its settings, when it looks for offsets that have expired, and its jobs outside the
loop.

The rules of groups are in `broker/groups/`. This file alone decides which kinds of groups are served: consumer groups of
KIP-848, streams groups of KIP-1071 (the finalized `group.version` and `streams.version`, and
`group.coordinator.rebalance.protocols`) and share groups (`share.version`); and which of a group's own settings hold.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from actors.broker.groups.classic.groups import UNUSED_MAX
from actors.broker.groups.consumer.groups import ConsumerGroups
from actors.broker.groups.coordinator import Coordinator, MarkerPlace
from actors.broker.groups.kinds import GroupSettings
from actors.broker.groups.share.initialization import ShareStateAnswer, ShareStateApi, StateAsk
from actors.broker.groups.streams.groups import StreamsGroups
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.coordinators.coordinator_host import CoordinatorHost
from actors.node.roles.broker.coordinators.coordinator_loading import Loadings
from actors.node.roles.broker.groups.group_topics import GroupTopics
from actors.node.roles.broker.groups.share.share_persister import CODES, SharePersister
from actors.node.roles.broker.metadata_cache import BROKER_RESOURCE, MetadataCache
from actors.node.roles.broker.replication.appends import Appends
from actors.node.runtime.runtime import Runtime
from actors.ports import Now, WorkKind
from actors.settings.groups import DYNAMIC, GROUP_RESOURCE, GroupSettingLimits, effective, limits
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import (
        DeleteShareGroupStateResponse,
        InitializeShareGroupStateResponse,
        ReadShareGroupStateSummaryResponse,
    )


class GroupCoordinator(CoordinatorHost[Coordinator]):
    """The coordinator of the groups whose partition of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        cache: MetadataCache,
        replicas: Replicas,
        appends: Appends,
        loadings: Loadings,
        share_persister: SharePersister,
    ) -> None:
        value = runtime.config.value
        self.settings_of = _settings(value, cache)
        """The settings of a group, by its id: name -> value (`groups.py`). Not to be changed."""
        self.topics = GroupTopics(cache)
        members = runtime.ledger.account("GroupMembers", value("rayft.peer.memory.bytes"))
        machine = Coordinator(GroupSettings.of(value, self.settings_of), self.topics, members)
        super().__init__(runtime, requests, cache, replicas, appends, loadings, OFFSETS_TOPIC, machine)
        classic = machine.kinds.classic
        runtime.ledger.owner("UnusedMemberIds", lambda: classic.unused_bytes, f"{UNUSED_MAX} ids")
        self._share_persister = share_persister
        self._check_interval_ms = value("offsets.retention.check.interval.ms")
        self._check_ms = 0
        self._protocols = frozenset(value("group.coordinator.rebalance.protocols"))

    def serves_consumers(self) -> bool:
        """Whether members of consumer groups (KIP-848) are served."""
        return ConsumerGroups.type in self._protocols and self._cache.image.feature(GROUP_VERSION) > 0

    def serves_streams(self) -> bool:
        """Whether members of streams groups (KIP-1071) are served."""
        return StreamsGroups.type in self._protocols and self._cache.image.feature(STREAMS_VERSION) > 0

    def serves_share_groups(self) -> bool:
        """Whether there may be share groups."""
        return self._cache.image.feature(SHARE_VERSION) > 0

    # ---- hooks of the broker

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Forget what groups committed for a topic that is deleted."""
        self.machine.forget_topic(topic)
        for shard in self.machine.shards.values():
            if shard.loaded:
                self.machine.kinds.share.forget_topic(shard, topic_id)
        self.drain()

    def transaction_ended(self, partition: int, producer_id: int, commit: bool, place: MarkerPlace) -> None:
        """Let the offsets that a producer has committed in a transaction count, or drop them: a marker in a partition
        of `__consumer_offsets` that this broker leads is committed. It may be told twice of one marker. `place`: where
        the marker was written (`Coordinator.marker_place`)."""
        self.machine.transaction_ended(partition, producer_id, commit, place)
        self.drain()

    def tick(self, now: Now) -> None:
        """Handle what is due: sessions, timers of the groups, and offsets that have expired."""
        machine = self.machine
        if machine.deadline_ms() <= now.mono_ms:
            machine.tick(now)
        if now.mono_ms >= self._check_ms:
            self._check_ms = now.mono_ms + self._check_interval_ms
            machine.expire_offsets(now, self._exists)
        if machine.answers or machine.writes or machine.kinds.share.asks or any(kind.jobs for kind in machine.kinds):
            self.drain()

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due."""
        return min(self.machine.deadline_ms(), self._check_ms)

    def topics_changed(self) -> None:
        """Tell the groups that a topic came, went or got partitions."""
        self.topics.version += 1

    # ---- what it does besides

    def carry_out(self) -> bool:
        """Run the jobs of all kinds of groups outside the loop, and ask share coordinators."""
        any_jobs = self._ask_share_coordinators()
        for kind in self.machine.kinds:
            jobs, kind.jobs = kind.jobs, []
            for job in jobs:
                any_jobs = True
                self._runtime.work(job.run, self._then(job.then), WorkKind.RECORDS)
        return any_jobs

    def _ask_share_coordinators(self) -> bool:
        asks, persister = self.machine.kinds.share.asks, self._share_persister
        taken = asks[:]
        asks.clear()
        for ask in taken:
            if ask.api is ShareStateApi.INITIALIZE:
                persister.initialize(ask.key, ask.state_epoch, ask.start_offset, self._told(ask), ask.wanted)
            elif ask.api is ShareStateApi.DELETE:
                persister.delete(ask.key, self._told(ask), ask.wanted)
            else:
                persister.summary(ask.key, -1, self._summed_up(ask), ask.wanted)
        return bool(taken)

    def _told(self, ask: StateAsk) -> Callable[[Any], None]:
        def told(
            result: "DeleteShareGroupStateResponse.PartitionResult | InitializeShareGroupStateResponse.PartitionResult",
        ) -> None:
            ask.then(
                ShareStateAnswer(CODES.get(result.error_code, ErrorCode.UNKNOWN_SERVER_ERROR), result.error_message)
            )
            self.drain()

        return told

    def _summed_up(self, ask: StateAsk) -> Callable[[Any], None]:
        def told(
            result: "ReadShareGroupStateSummaryResponse.PartitionResult",
        ) -> None:
            code = CODES.get(result.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
            known = result.state_epoch > 0 or result.start_offset >= 0
            ask.then(ShareStateAnswer(code, result.error_message, known))
            self.drain()

        return told

    def _then(self, then: Callable[[Any, Now], None]) -> Callable[[Any], None]:
        def ended(result: Any) -> None:
            if isinstance(result, Exception):
                self._runtime.log.warning(f"a job for a group failed: {result!r}")
            then(result, self._runtime.now)
            self.drain()

        return ended

    def loaded(self, partition: Partition, epoch: int) -> None:
        """Let a partition serve: all that the log says is in the machine."""
        # Whoever took a commit for a topic knew of it before this leadership began: the image is not behind that.
        self.machine.loaded(partition.number, epoch, self._runtime.now, self._exists)
        self._runtime.log.info(f"loaded the groups of {partition!r}")

    def _exists(self, topic: str) -> bool:
        return self._cache.image.topic(topic) >= 0


def _settings(started: Callable[[str], Any], cache: MetadataCache) -> Callable[[str], Mapping[str, Any]]:
    """A function that returns every setting of a group: as it was set for the group, else for this node, as that is
    now. `started`: the node's settings as it was started with them."""
    said: list[str | None] | None = None
    """The node's dynamic settings in the metadata when what follows was looked up."""
    of_node: Mapping[str, GroupSettingLimits] = {}
    usual: Mapping[str, Any] = {}
    known: dict[str, tuple[Mapping[str, str], Mapping[str, Any]]] = {}
    """What a group was given when its settings were looked up, and what that adds up to, by group."""

    def settings_of(group: str) -> Mapping[str, Any]:
        nonlocal said, of_node, usual
        own, all = cache.image.config(BROKER_RESOURCE, str(cache.me)), cache.image.config(BROKER_RESOURCE, "")
        now = [one.get(name) for one in (own, all) for name in DYNAMIC]
        if said != now:
            said, of_node = now, limits(lambda name: cache.value(name) if name in DYNAMIC else started(name))
            usual = effective(of_node, {})
            known.clear()
        given = cache.image.config(GROUP_RESOURCE, group)
        if not given:
            known.pop(group, None)
            return usual
        found = known.get(group)
        if found is None or found[0] != given:
            found = known[group] = dict(given), effective(of_node, given)
        return found[1]

    return settings_of
