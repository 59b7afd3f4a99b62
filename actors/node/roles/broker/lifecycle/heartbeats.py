"""Heartbeats of a broker: what they tell the active controller, and what follows from its answers (KIP-631).

The states and their transitions are in `broker/lifecycle/lifecycle.py`. This file alone decides what a heartbeat holds,
when the clients' listeners are opened and their connections closed, and how the process ends.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from actors.broker.lifecycle.driving import Driving
from actors.broker.lifecycle.lifecycle import NOT_CONTROLLER, BrokerState, Heartbeat, Lifecycle, Metadata
from actors.broker.lifecycle.lifecycle import Answer as BeatAnswer
from actors.broker.replication.replicas import Replicas
from actors.metadata.dialects import FORMAT
from actors.metadata.features import (
    GROUP_VERSION,
    GROUP_VERSIONS,
    SHARE_VERSION,
    SHARE_VERSIONS,
    STREAMS_VERSION,
    STREAMS_VERSIONS,
    TRANSACTION_VERSION,
    TRANSACTION_VERSIONS,
)
from actors.metadata.ops import BrokerSet, EndPoint
from actors.node.net.channels import ChannelError, Channels
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.addresses import Address
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.transactions.producer_id_blocks import ProducerIdBlocks
from actors.node.runtime.calls import Listener
from actors.node.runtime.runtime import Runtime
from actors.ports import DiskFailed, Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.v28 import BrokerHeartbeatRequest, BrokerHeartbeatResponse

FEATURES = (
    (FORMAT, 1, 2),
    (TRANSACTION_VERSION, *TRANSACTION_VERSIONS),
    (GROUP_VERSION, *GROUP_VERSIONS),
    (SHARE_VERSION, *SHARE_VERSIONS),
    (STREAMS_VERSION, *STREAMS_VERSIONS),
)
PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
NO_LEADER_MS = 50
"""How soon to look again for a leader of the quorum, before the first heartbeat."""
TIMEOUT_MS_MIN = 1000
UNREADABLE_ENTRIES, FULL_ENTRIES = 140_000, 50_000
"""The entries of these lists in a heartbeat, at most: together less than a controller takes of a request
(`wire/limits.py`)."""
INITIAL = BrokerState.INITIAL
"""A module name, because every turn uses it and the look-up of an enum member costs more."""


class BrokerHeartbeats:
    """The lease of one broker, as the outside sees it."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        channels: Channels,
        quorum: QuorumReplica,
        cluster_id: str,
        cache: MetadataCache,
        lifecycle: Lifecycle,
        availability: Availability,
        replicas: Replicas,
        logs: LogManager,
        producer_ids: ProducerIdBlocks,
        driving: Driving,
    ) -> None:
        self._runtime = runtime
        self._requests = requests
        self._channels = channels
        self._quorum = quorum
        self._cluster_id = cluster_id
        self._cache = cache
        self._lifecycle = lifecycle
        self._availability = availability
        self._replicas = replicas
        self._logs = logs
        self._producer_ids = producer_ids
        self._driving = driving
        self.incarnation_id = runtime.random.uuid()
        self.previous_epoch = -1
        """The broker epoch of the process before this one, if that stopped cleanly (KIP-966)."""
        self._asked: Address | None = None
        """The controller to which the newest heartbeat went."""
        self.was_serving = False
        """Whether clients were served when the state was followed last."""
        self._answering = False
        """Whether the clients' ports answer; what arrives is kept only while this broker serves."""

    def metadata(self) -> Metadata:
        """How far this broker has come in the metadata log. A broker that does not pull it has always come as far as it
        can."""
        quorum = self._quorum
        if quorum.told_leader is not None:
            return Metadata(self._cache.image.next_offset, 0, quorum.leader_address() is not None)
        known = quorum.leader_address() is not None
        return Metadata(self._cache.image.next_offset, quorum.raft.told_high_watermark, known)

    def use_interval(self) -> None:
        """Take over the heartbeat interval of the level of the metadata, which may have changed."""
        level = self._cache.image.feature(FORMAT)
        self._lifecycle.interval_ms = self._runtime.config.heartbeat_interval_ms(level)

    def tick(self, now: Now) -> None:
        """Send a heartbeat if it is due, and follow the state."""
        beat = self._lifecycle.tick(now, self.metadata()) if self._lifecycle.due(now) else None
        if beat is not None:
            if not self._answering:
                self._turn_clients_away()  # a port that refuses after registration would tell of a dead process
            self._asked = self._quorum.leader_address()
            self._channels.controller(
                "BrokerHeartbeat",
                self._request(beat),
                self._answered,
                max(self._lifecycle.interval_ms, TIMEOUT_MS_MIN),
                purpose="heartbeat",
            )
        self._follow_state()

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due."""
        due = self._lifecycle.deadline_ms()
        if self._lifecycle.state is INITIAL and not self.metadata().leader_known:
            due = min(due, self._runtime.now.mono_ms + NO_LEADER_MS)
        return due

    def _request(self, beat: Heartbeat) -> "BrokerHeartbeatRequest":
        kind = message("v28:BrokerHeartbeatRequest")
        config = self._runtime.config
        return kind(
            target_state=beat.target,
            broker_id=config.broker_id,
            broker_epoch=beat.epoch,
            lease_start_time_ms=beat.lease_start_ms,
            cur_metadata_offset=beat.metadata_offset,
            listeners=[
                kind.Listener(name=one.name, host=one.host, port=one.port, security_protocol=PROTOCOLS[one.protocol])
                for one in config.advertised
            ],
            rack=config.rack,
            features=[
                kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in FEATURES
            ],
            cluster_id=self._cluster_id,
            legacy=self._quorum.told_leader is not None,
            incarnation_id=self.incarnation_id,
            log_dirs=list(self._logs.directories.ids),
            previous_broker_epoch=self.previous_epoch if beat.epoch < 0 else -1,
            unreadable=self._unreadable(kind),
            without_room=self._without_room(kind),
        )

    def _unreadable(self, kind: Any) -> list["BrokerHeartbeatRequest.UnreadableTopic"]:
        """The damaged partitions that another ISR member can take over, and those that are offline (DESIGN section 6, tag
        7), as many as a request may name: a broker whose heartbeats are refused would lose those that it can read too."""
        me, unreadable = self._cache.me, self._replicas.unreadable
        damaged = ((one.topic_id, one.number) for one in unreadable if me in one.isr.isr and len(one.isr.isr) > 1)
        topics = _by_topic(chain(damaged, self._replicas.offline), UNREADABLE_ENTRIES)
        return [kind.UnreadableTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]

    def _without_room(self, kind: Any) -> list["BrokerHeartbeatRequest.FullTopic"]:
        """The partitions that another member of the ISR is to lead, as there is no room for them here (tag 8)."""
        full = self._replicas.full
        for partition, epoch in list(full.items()):
            if not (partition.leads and partition.leader_epoch == epoch and len(partition.isr.isr) > 1):
                del full[partition]
        topics = _by_topic(((one.topic_id, one.number) for one in full), FULL_ENTRIES)
        named = sum(map(len, topics.values()))
        if named < len(full):  # those that have no room this time come first next time
            for partition in list(islice(full, named)):
                full[partition] = full.pop(partition)
        return [kind.FullTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]

    def _answered(self, reply: Any) -> None:
        now, told = self._runtime.now, self._quorum.told_leader
        if told is not None and self._asked == told.address():
            if isinstance(reply, ChannelError):
                told.failed()
            elif reply.error_code == NOT_CONTROLLER:
                told.failed(reply.active_controller_id)
        if isinstance(reply, ChannelError):
            self._lifecycle.lost(now)
        else:
            driving = getattr(reply, "driving", ())  # level 1 has no such field, and no bridge
            if reply.error_code == ErrorCode.NONE and driving is not None:
                self._driving.controller = _driver(reply.active_controller_id, driving)
            self._lifecycle.answered(
                BeatAnswer(
                    reply.error_code,
                    reply.next_state,
                    reply.broker_epoch,
                    reply.lease_end_time_ms,
                    reply.active_controller_id,
                ),
                now,
            )
        self._follow_state()

    # ---- what follows from the state

    def _follow_state(self) -> None:
        lifecycle = self._lifecycle
        if lifecycle.reported:
            for sentence in lifecycle.take_reports():
                self._runtime.log.info(f"broker {self._cache.me}: {sentence}")
        serving = self._availability.serving
        if serving and not self.was_serving:
            self._open_clients()
        elif self.was_serving and not serving:
            self._close_clients("this broker stops" if lifecycle.stop_at else "this broker is fenced")
        self.was_serving = serving
        epoch = lifecycle.epoch
        if epoch >= 0:
            for fetcher in self._replicas.fetchers.values():
                if fetcher.broker_epoch != epoch:
                    fetcher.renew(epoch)
        if serving and self._producer_ids.ids.wants(self._runtime.now.mono_ms):
            self._producer_ids.ask()
        if lifecycle.stop_at is not None and not self._logs.closing:
            self._logs.begin_close()
            self._leave()

    def _open_clients(self) -> None:
        self._answering = True
        for listener in self._runtime.config.listeners:
            if Listener(listener.kind) is Listener.CLIENT:
                self._requests.listen(listener.name)
        self._runtime.log.info(f"broker {self._cache.me} serves clients under broker epoch {self._lifecycle.epoch}")

    def _close_clients(self, why: str) -> None:
        self._turn_clients_away()
        for connection in self._requests.connections.all():
            if connection.kind is Listener.CLIENT and not connection.replica:
                self._requests.close(connection, why)

    def _turn_clients_away(self) -> None:
        self._answering = True
        for listener in self._runtime.config.listeners:
            if Listener(listener.kind) is Listener.CLIENT:
                self._requests.turn_away(listener.name)

    def _leave(self) -> None:
        stop = self._lifecycle.stop_at
        assert stop is not None
        if stop.code:
            self._runtime.stop(stop.code, stop.why)
            return

        def durable(result: object) -> None:
            if isinstance(result, DiskFailed):
                self._runtime.stop(1, f"the logs cannot be made durable at shutdown: {result}")
            else:
                self._quorum.retire()

        self._logs.close(self._replicas, self._lifecycle.epoch, durable)


def _driver(controller: int, listeners: Sequence["BrokerHeartbeatResponse.ClientListener"]) -> BrokerSet | None:
    """The controller that has answered, if it drives brokers in ZooKeeper mode: clients reach it under these
    listeners."""
    if not listeners:
        return None
    return BrokerSet(controller, -1, endpoints=tuple(EndPoint(one.name, one.host, one.port, 0) for one in listeners))


def _by_topic(partitions: Iterable[tuple[bytes, int]], entries: int) -> dict[bytes, list[int]]:
    """Numbers of partitions by topic id, as many as have room in so many entries of a request."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in partitions:
        numbers = topics.get(topic_id)
        entries -= 1 if numbers is not None else 3
        if entries < 0:
            break
        if numbers is None:
            numbers = topics[topic_id] = []
        numbers.append(number)
    return topics
