"""The controller role of a node: operations in, batches out, and everything that the active controller does by itself.

Rules:

1. An operation is generated, encoded into the turn's batch and replayed at its offset at once; its reply is held until
   what it saw is committed. `flush` gives the turn's batches to the quorum.
2. An atomic operation never splits over batches. A bulk one (fencing, controlled shutdown, a broker's return) goes in
   slices, one portion a tick, between which the control lane runs. It waits while followers are far behind.
3. Losing leadership undoes what was not committed and throws the soft state away. Gaining it grants every registered
   broker a lease, and gives every partition without a leader another chance, which is how what the old leader left
   half done gets finished.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from actors.controller.brokers import fencing_passes, heartbeat_leases
from actors.controller.brokers.controlled_shutdown import moved_key
from actors.controller.brokers.offline_replicas import AnsweredReplicas, offline_replicas
from actors.controller.brokers.registration import registration_key
from actors.controller.brokers.unregistration import turn_ended
from actors.controller.brokers.zookeeper_brokers import LiveBroker, follow
from actors.controller.configs import without_effect
from actors.controller.mutation_quota import MutationQuota
from actors.controller.options import options
from actors.controller.partitions import elect_leaders
from actors.controller.portions import Cut, added
from actors.controller.principals.delegation_tokens import sweep_tokens
from actors.controller.refusals import refusal
from actors.controller.soft_state import Lease, Soft
from actors.controller.state import METADATA_FORMAT, Operation, Result, State
from actors.metadata import bootstrap
from actors.metadata.batches import BatchWriter, is_control
from actors.metadata.dialects import dialect
from actors.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION
from actors.metadata.image import TOPIC_RESOURCE, Image, let_go
from actors.metadata.ops import ConfigSet, EndPoint, FeatureSet, Op
from actors.metadata.snapshot import InPieces
from actors.node.net.channels import Channels
from actors.node.net.long_refusals import answered_in_pieces
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.quorum.snapshots import Snapshotting
from actors.node.roles.controller.bridge import Bridge
from actors.node.roles.controller.heartbeats import ControllerHeartbeats
from actors.node.roles.controller.pusher import Pusher
from actors.node.runtime.answers import Answer, Done, Held, Parked
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.meters import Histogram, Meter
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.slices import Steps, go_on
from actors.node.runtime.storage import Storage
from actors.ports import Batch, Buffer, Now
from actors.raft import SnapshotId
from actors.settings.listeners import PROTOCOLS
from actors.settings.topics import UNCLEAN
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message

_dialect = cache(dialect)
QUOTA = "quota"
"""The kind of entity that holds client quotas."""
FAR_MS = 1 << 62
SILENT_MS = 500
"""The time in ms, beyond a heartbeat interval, by which a living broker has turned to a new active controller."""
UNTOLD_MAX = 1000
AHEAD_BYTES_MAX = 4 << 20
"""Bulk work waits while so many bytes that it has written are not committed. What followers lack because of it, and what
would be undone if this controller lost the leadership, is this and one slice. What requests write does not count: brokers
are fenced however many topics clients create."""
WAIT_MS = 20_000
"""How long in ms a request waits for a fencing to end."""


class ControllerRole:
    """The controller role of a node, active or standby."""

    def __init__(
        self, runtime: Runtime, requests: RequestChannel, channels: Channels, quorum: QuorumReplica, storage: Storage
    ) -> None:
        self._runtime = runtime
        self._requests = requests
        self._channels = channels
        self._quorum = quorum
        self._format_level = storage.format_level
        self._first_levels = {
            TRANSACTION_VERSION: storage.transaction_version,
            GROUP_VERSION: storage.group_version,
            SHARE_VERSION: storage.share_version,
            STREAMS_VERSION: storage.streams_version,
        }
        self._bootstrap = storage.bootstrap
        self.image = Image()
        """The metadata image: at the log end on the active controller, at the high watermark on a standby."""
        quorum.other_use = lambda id: "a registered broker" if self.image.is_registered(id) else None
        self.soft = Soft()
        self.options = options(runtime.config, storage.cluster_id)
        self.active = False
        self.epoch = -1
        self.snapshotting = Snapshotting(runtime, quorum, storage)
        self.heartbeats = ControllerHeartbeats(channels, quorum, self)
        self.pusher = Pusher(runtime, channels, quorum, storage, self) if self.options.pushes else None
        """Tells brokers that do not pull the metadata log; None: no broker is told anything
        (rayft.metadata.push.enable)."""
        self.bridge = self._bridge(storage.cluster_id)
        """Takes over a cluster with ZooKeeper; None: there is none (rayft.bridge.zookeeper.connect)."""
        self._znodes: Sequence[LiveBroker] | None = None
        """Brokers in ZooKeeper mode, as this controller has heard last while it is active; None: it has heard nothing.
        """
        self._untold: set[int] = set()
        """Brokers that want to be told and are not; the log has said so."""
        self.controllers: frozenset[int] = frozenset()
        """Ids of the quorum's controllers, this one among them."""
        self._writer: BatchWriter | None = None
        self.written_ms: int | None = None
        """Time of the newest record that this controller wrote as the active one; None: it has written none yet."""
        self._flushed: deque[tuple[int, int, int, int]] = deque()
        """Own batches on their way to commit: (next offset, records, monotonic ms, bytes of bulk work
        up to here)."""
        self._ahead_bytes = 0
        """The bytes of bulk work that are written and not committed."""
        self._unflushed_bytes = 0
        """The bytes of bulk work that this turn has written."""
        self._committed_level = 0
        self._level_offset = 0
        """The offset behind the newest record by which this controller, as the active one, has changed the level."""
        self._old_leases_ms = 0
        """The monotonic time when the last lease that may have been granted at the level before has ended."""
        self._levels: dict[int, int] = {}
        """The level that answers are laid out in, by inbound connection (A02)."""
        self._heartbeats: dict[int, int] = {}
        """The connection of each broker's newest heartbeat."""
        self._ticked_ms = 0
        self._due_ms = FAR_MS
        self.requests = Meter()
        self.commits = Meter()
        self.commit_latency_ms = Histogram()
        self.expired_leases = 0
        """How many leases of brokers have ended because no heartbeat came."""
        self._elections = self._unclean = 0
        """The elections of earlier times when this controller was active."""
        self._counted = (0, 0)
        """What the image had counted when this controller became active."""

    def _bridge(self, cluster_id: str) -> Bridge | None:
        config = self._runtime.config
        connect = config.value("rayft.bridge.zookeeper.connect")
        if not connect:
            return None
        session_ms = config.value("rayft.bridge.zookeeper.session.timeout.ms")
        endpoints = tuple(
            EndPoint(one.name, one.host, one.port, PROTOCOLS.index(one.protocol)) for one in config.bridge_endpoints
        )
        return Bridge(self._runtime, self._quorum, self, cluster_id, connect, session_ms, endpoints)

    # ---- Role: what the quorum and the node call

    def start(self) -> None:
        """Begin after the recovery of the quorum; nothing is left to do here."""

    def loading(self, data: Buffer | InPieces, snapshot: SnapshotId) -> Iterator[None]:
        """Begin to load a snapshot beside the image: the slices."""
        return self.snapshotting.loading(data, snapshot)

    def loaded(self) -> Iterator[None]:
        """Replace the image by the snapshot that is loaded. The slices in which the old one is freed."""
        assert not self.active, "a leader loads no snapshot"
        level, old = self._level(), self.image
        self.image = self.snapshotting.loaded()
        self._note_level(level)
        self._committed_level = self._level()
        return let_go(old)

    def replay(self, batch: Batch) -> None:
        """Take one committed batch, in order. What this controller wrote itself is in the image already."""
        image = self.image
        end = batch.last_offset + 1
        if batch.base_offset >= image.next_offset:
            if is_control(batch.data):
                self.controllers = self._quorum_ids()
            else:
                level = self._level()
                for offset, op in _dialect(level).decode(batch, together=True):
                    image.replay(offset, op)
                self._note_level(level)
            image.advance(end)
        image.commit(end)
        self.snapshotting.replayed(batch)
        if self.pusher is not None:
            self.pusher.replay(batch)
        if self.bridge is not None and self.bridge.wants_ops and not is_control(batch.data):
            self.bridge.committed([op for _, op in _dialect(self._level()).decode(batch)])

    def committed(self, high_watermark: int) -> None:
        """Take the high watermark, after the replays of this turn."""
        now = self._runtime.now
        while self._flushed and self._flushed[0][0] <= high_watermark:
            _, records, since_ms, size = self._flushed.popleft()
            self._ahead_bytes -= size
            self.commits.mark(records, now.mono_ms)
            self.commit_latency_ms.add(now.mono_ms - since_ms)
        if self.active:
            keep_ms = 2 * self.options.lease_ms(self._level())
            self.soft.commits.note(now.mono_ms, high_watermark, keep_ms)
        if high_watermark >= self._level_offset:
            self._committed_level = self._level()
        self.snapshotting.committed(high_watermark)

    def gained(self, epoch: int, next_offset: int) -> None:
        """Begin as the active controller: its first record is committed and replayed."""
        assert self.image.next_offset == next_offset, (self.image.next_offset, next_offset)
        now, level = self._runtime.now, self._level()
        self.active, self.epoch, self.written_ms = True, epoch, None
        self._counted = self.image.counters.elections, self.image.counters.unclean
        self.soft = Soft()
        self.soft.commits.begin(now.mono_ms, next_offset)
        lease_ms = max(self.options.lease_ms(level), self._old_leases_ms - now.mono_ms)
        heartbeat_leases.take_over(self.soft, self.image, now, lease_ms, self.options.grace_ms)
        self.soft.electing = dict.fromkeys(self.soft.leases)
        self._schedule_rebalance(now)
        self.controllers = self._quorum_ids()
        self._ticked_ms, self._due_ms = now.mono_ms, FAR_MS
        self._schedule_sweep(epoch)
        if self.image.feature(METADATA_FORMAT) == 0:
            first: list[Op] = [FeatureSet(METADATA_FORMAT, level)]
            if self.bridge is None:  # brokers in ZooKeeper mode have to read what coordinators write
                first += [FeatureSet(name, level) for name, level in self._first_levels.items() if level]
            self._apply(Result([*first, *bootstrap.decode(self._bootstrap)], None))
        self._runtime.log.info(f"controller {self.me} is active in epoch {epoch}")
        if self.bridge is not None:
            self.bridge.gained(self.controllers)
        silent_ms = self.options.heartbeat_ms(level) + SILENT_MS
        self._runtime.waiting.timers.at(now.mono_ms + silent_ms, lambda: self._look_for_silent(epoch))

    full = False
    """What is replayed costs a controller no more than its bytes."""

    def lost(self) -> None:
        """End as the active controller: back to what is committed. The node asks every held request anew, which is
        refused then."""
        self._elections, self._unclean = self.elections
        self.image.undo(self._quorum.raft.high_watermark)
        self._writer = self._znodes = None
        self._level_offset = 0
        self._flushed.clear()
        self._ahead_bytes = self._unflushed_bytes = 0
        if self.bridge is not None:
            self.bridge.lost()
        if self.pusher is not None:
            self.pusher.stop()
            self._send_away()
        self._heartbeats.clear()
        for broker in sorted(self.soft.unregistered):
            self._left(broker)  # the operator's tool asks the next controller, a broker that waits finds it by itself
        self.soft = Soft()
        self.active = False
        self.snapshotting.undone(self.image.next_offset)

    def tick(self, now: Now) -> None:
        """Do what is due: leases that have ended, one portion of bulk work, snapshots."""
        if self.active:
            heartbeat_leases.credit(self.soft, max(self._due_ms, self._ticked_ms), now)
            for broker in heartbeat_leases.expired(self.soft, now):
                self.expired_leases += 1
                self._runtime.log.info(f"the lease of broker {broker} has ended")
                heartbeat_leases.revoke(self.soft, broker, "the lease has ended")
            self._work(now)
            self._rebalance(now)
        self.heartbeats.tick(now)
        self._ticked_ms = now.mono_ms
        self._due_ms = self.deadline_ms()

    def deadline_ms(self) -> int:
        """The monotonic time when the next tick is due; 0: at once."""
        if not self.active:
            return self.heartbeats.deadline_ms()
        if self._writer is not None:
            return 0
        if (self._pending() or self.soft.rebalance_row >= 0) and not self._is_far_ahead():
            return 0
        if self.bridge is not None and self.bridge.ready:
            return 0
        return min(
            self.heartbeats.deadline_ms(), heartbeat_leases.deadline_ms(self.soft, FAR_MS), self.soft.rebalance_due_ms
        )

    def flush(self) -> Sequence[Batch]:
        """The batches of this turn, which the quorum appends."""
        writer, self._writer = self._writer, None
        if writer is None:
            return ()
        batches = writer.finish()
        for batch in batches:
            records = batch.last_offset - batch.base_offset + 1
            bulk = self._unflushed_bytes if batch is batches[-1] else 0
            self._flushed.append((batch.last_offset + 1, records, self._runtime.now.mono_ms, bulk))
        self._unflushed_bytes = 0
        return batches

    def passed(self, end_offset: int) -> None:
        """Note that the quorum has written a record of its own behind this controller's, which names the voters."""
        assert self._writer is None, "what was written before belongs in front of it"
        self.image.advance(end_offset)
        self.controllers = self._quorum_ids()

    def snapshot(self) -> None:
        """Begin a snapshot of the state as it is now, on the active controller. It has to end where a batch does, or a
        node that loads it would skip the rest of that batch: what this turn has written so far becomes a batch of its
        own."""
        self._cut()
        if self.written_ms is None:
            self.snapshotting.take(self.image)
        else:
            self.snapshotting.take(self.image, self.epoch, self.written_ms)

    def _cut(self) -> None:
        """End the batch of this turn, so that what is written from now on is a batch of its own."""
        if self._writer is not None:
            self._writer.cut()

    def end(self) -> None:
        """End the turn of the role."""
        turn_ended(self.soft)
        if self.bridge is not None and self.active:
            self.bridge.end()
        if self.pusher is not None and self.active:
            self.pusher.end(self._cut)

    @property
    def elections(self) -> tuple[int, int]:
        """How often this controller, while active, gave a partition another leader, and how often one that was not in
        sync."""
        if not self.active:
            return self._elections, self._unclean
        counters, (elections, unclean) = self.image.counters, self._counted
        return self._elections + counters.elections - elections, self._unclean + counters.unclean - unclean

    # ---- requests

    @property
    def me(self) -> int:
        """The id of this controller."""
        return self._runtime.config.controller_id

    def state(self) -> State:
        """The state that an operation reads."""
        return State(
            self.image,
            self.soft,
            self.options,
            self.image.next_offset,
            self.me,
            self._level(),
            self._quorum.raft.high_watermark,
            self.controllers,
        )

    def _quorum_ids(self) -> frozenset[int]:
        return frozenset(self._quorum.identity.voters.ids()) | {self.me}

    def submit(self, operation: Operation, request: Message, call: Call, cut: Cut | None = None) -> Answer:
        """Run an operation for a request of this listener's API; returns its answer. NOT_CONTROLLER where this is a
        standby, or has stood still for so long that another controller may be active and count leases by itself (A22);
        on the listeners for brokers in ZooKeeper mode also where ZooKeeper has another controller. `cut`: how a long
        request comes apart; others run between its portions."""
        self.requests.mark(1, self._runtime.now.mono_ms)
        if not self.active or self._quorum.raft.overdue(self._runtime.now):
            return self._not_active(request, self._quorum.raft.leader_id)
        if call.listener is Listener.BRIDGE and self.soft.zookeeper_epoch is None:
            return self._not_active(request, -1)
        if cut is not None and cut.is_long(request, self.image):
            return go_on(self._in_portions(operation, request, call, cut))
        result = self._run(operation, request)
        if result.wait is not None:
            return Parked(
                [result.wait],
                self._runtime.now.mono_ms + WAIT_MS,
                lambda expired: Done(result.reply) if expired else self.submit(operation, request, call),
            )
        seen = self.image.next_offset if result.seen is None else result.seen
        return Held(seen - 1, result.reply)

    def _not_active(self, request: Message, active: int) -> Answer:
        return answered_in_pieces(request, lambda piece: refusal(piece, ErrorCode.NOT_CONTROLLER, active))

    def mutation_quota(self, call: Call, strict_from: int) -> MutationQuota | None:
        """The quota for what a client has made and deleted; None: it has none. `strict_from`: the first version of the
        API that knows THROTTLING_QUOTA_EXCEEDED."""
        if not (self.active and call.forwarded):
            return None
        return self.soft.mutations.quota(
            lambda: self.image.every(QUOTA),
            self.options.mutation_window,
            call.principal,
            call.client_id,
            self._runtime.now.mono_ms,
            strict=call.api_version >= strict_from,
        )

    def _in_portions(self, operation: Operation, request: Message, call: Call, cut: Cut) -> Steps:
        """Run an operation portion by portion. When leadership was lost in between, the request is asked anew: what the
        earlier portions did may be undone. An error of the whole request ends it, and is its answer."""
        epoch, reply = self.epoch, None
        for portion in cut.portions(request, self.image):
            if portion is not None:
                reply = added(cut, reply, cut.shown(request, self._run(operation, portion).reply))
                if cut.ends(reply):
                    break
            yield
            if not self.active or self._quorum.raft.overdue(self._runtime.now) or self.epoch != epoch:
                return self.submit(operation, request, call, cut)
        assert reply is not None
        return Held(self.image.next_offset - 1, reply)

    def _run(self, operation: Operation, request: Any) -> Result:
        """Run an operation, and do what its result wants."""
        result = operation(self.state(), request, self._runtime.now, self._runtime.random)
        self._apply(result)
        for item in result.ops:
            for op in item if type(item) is list else (item,):
                if (sentence := without_effect(op)) is not None:
                    self._runtime.log.warning(sentence)
        return result

    def layout_level(self, call: Call) -> int:
        """The level in which the answers of a connection are laid out: the one that was finalized when it first asked
        (A02), which ApiVersions has told it."""
        level = self._levels.get(call.connection)
        if level is None:
            level = self._levels[call.connection] = self.committed_level
            self._requests.when_closed(call.connection, "layout", lambda: self._forget(call.connection))
        return level

    def _forget(self, connection: int) -> None:
        self._levels.pop(connection, None)

    @property
    def committed_level(self) -> int:
        """The level of `metadata.format` as far as it is committed; the level of the format before anything is."""
        return self._committed_level or self._format_level

    def finalized(self) -> tuple[int, dict[str, int]]:
        """(offset of the newest committed record, levels of features as far as they are committed)."""
        offset = min(self.image.next_offset, self._quorum.raft.high_watermark) - 1
        return offset, self.image.features() | {METADATA_FORMAT: self.committed_level}

    # ---- brokers' connections

    def heard(self, broker: int, call: Call) -> None:
        """Note the connection of a heartbeat of `broker`; should it end, the broker is looked after at once."""
        if self.active and self._heartbeats.get(broker) != call.connection:
            self._heartbeats[broker] = call.connection
            self._requests.when_closed(call.connection, "heartbeat", lambda: self._closed(broker, call.connection))

    def cannot_tell(self, broker: int) -> None:
        """Log, once, that `broker` wants to be told of metadata and this controller tells no broker."""
        if self.active and self.pusher is None and broker not in self._untold:
            if len(self._untold) == UNTOLD_MAX:
                self._untold.clear()
            self._untold.add(broker)
            self._runtime.log.error(
                f"broker {broker} is refused: it has rayft.metadata.source=push, and rayft.metadata.push.enable is not true "
                f"on this controller"
            )

    def apply(self, result: Result) -> None:
        """Write the ops that the bridge has decided on for the active controller."""
        assert self.active, "only the active controller writes"
        self._apply(result)

    def follow_zookeeper(self, live: Sequence[LiveBroker]) -> None:
        """Take the list of all brokers that ZooKeeper has now. It is called on the active controller, after each
        change."""
        assert self.active, "only the active controller decides who is registered"
        self._znodes = live
        self._run(follow, live)

    def replicas_answered(self, said: AnsweredReplicas) -> None:
        """Take what a broker in ZooKeeper mode says of which replicas it can read."""
        if said.broker in self.soft.leases:
            self._run(offline_replicas, said)

    def topic_given_up(self, name: str) -> None:
        """Note that no broker in ZooKeeper mode has a replica of this deleted topic any more."""
        if self.bridge is not None:
            self.bridge.given_up(name)

    def _send_away(self) -> None:
        """Close the connections of brokers that were told from here, so that they look for the next active controller
        at once, and not at their next heartbeat."""
        for broker in self.soft.legacy:
            connection = self._requests.connections.get(self._heartbeats.get(broker, 0))
            if connection is not None:
                self._requests.close(connection, "this controller is not active any more")

    def _closed(self, broker: int, connection: int) -> None:
        if self._heartbeats.get(broker) == connection:
            del self._heartbeats[broker]
            self.broker_link_lost(broker)

    def broker_link_lost(self, broker: int) -> None:
        """Look after a broker whose heartbeat connection is gone. If its listener refuses a bare connect, its lease
        ends now and not in twenty seconds (DESIGN section 5); a timeout says nothing."""
        registered, lease = self.image.broker(broker), self.soft.leases.get(broker)
        if not self.active or registered is None or registered.zookeeper or lease is None:
            return
        wanted = self._runtime.config.inter_broker_listener
        endpoint = next((one for one in registered.endpoints if one.name == wanted), registered.endpoints[0])
        self._channels.probe((endpoint.host, endpoint.port), lambda refused: self._probed(broker, lease, refused))

    def _look_for_silent(self, epoch: int) -> None:
        """Look after brokers that have not been heard of since the takeover, as if their connection had ended: one that
        died together with the last active controller broke no connection here."""
        if self.active and self.epoch == epoch:
            for broker in [id for id in self.soft.leases if id not in self._heartbeats]:
                self.broker_link_lost(broker)

    def _probed(self, broker: int, lease: Lease, refused: bool) -> None:
        heard_since = broker in self._heartbeats  # a broker that has spoken since the look is alive
        if refused and not heard_since and self.active and self.soft.leases.get(broker) is lease:
            self._runtime.log.info(f"broker {broker} is gone: its connection was lost and its listener refuses")
            heartbeat_leases.revoke(self.soft, broker, "the listener refuses")

    # ---- bulk work

    def _pending(self) -> bool:
        soft = self.soft
        if soft.leaving or soft.electing or soft.allowing or soft.search is not None:
            return True
        return any(one.moved_offset < 0 for one in soft.stopping.values())

    def _is_far_ahead(self) -> bool:
        """Whether bulk work has written so much that is not committed yet that it has to wait for it."""
        return self._ahead_bytes >= AHEAD_BYTES_MAX

    def _apply_bulk(self, result: Result) -> None:
        """Apply a slice, and count what it writes."""
        before = 0 if self._writer is None else self._writer.bytes_written
        self._apply(result)
        written = 0 if self._writer is None else self._writer.bytes_written - before
        self._ahead_bytes += written
        self._unflushed_bytes += written

    def _work(self, now: Now) -> None:
        """Do as much bulk work as fits into a turn: departures first, since others wait for them, then shutdowns, then
        returns. None while followers are far behind."""
        left = fencing_passes.SLICE_COST
        while left > 0 and self._pending() and not self._is_far_ahead():
            left -= max(fencing_passes.SLICE_COST_MIN, self._slice(now))

    def _slice(self, now: Now) -> int:
        """Do one slice of bulk work. Returns what it has cost."""
        soft, state, random = self.soft, self.state(), self._runtime.random
        moving = (broker for broker, shutdown in soft.stopping.items() if shutdown.moved_offset < 0)
        ended = self._left
        if soft.leaving:
            result = fencing_passes.fence(state, None, now, random)
        elif (stopping := next(moving, None)) is not None:
            result, ended = fencing_passes.move(state, stopping, now, random), self._moved
        else:
            result = fencing_passes.come_back(state, None, now, random)
        self._apply_bulk(result)
        for broker in result.reply.ended:
            ended(broker)
        return int(result.reply.cost)

    def _left(self, broker: int) -> None:
        self._runtime.waiting.signal(registration_key(broker))
        if self._znodes is not None:
            self._run(follow, self._znodes)

    def _moved(self, broker: int) -> None:
        shutdown = self.soft.stopping[broker]
        shutdown.moved_offset, shutdown.moved_ms = self.image.next_offset, self._runtime.now.mono_ms
        self._runtime.waiting.signal(moved_key(broker))

    def _schedule_rebalance(self, now: Now) -> None:
        if self.options.rebalance_ms:
            self.soft.rebalance_due_ms = now.mono_ms + self.options.rebalance_ms

    def _rebalance(self, now: Now) -> None:
        """Do one slice of a rebalance a turn, behind all other bulk work."""
        soft = self.soft
        if now.mono_ms >= soft.rebalance_due_ms:
            soft.rebalance_row = 0
            self._schedule_rebalance(now)
        if soft.rebalance_row >= 0 and not self._pending() and not self._is_far_ahead():
            result = elect_leaders.rebalance(self.state(), soft.rebalance_row)
            self._apply_bulk(result)
            soft.rebalance_row = result.reply

    def _schedule_sweep(self, epoch: int) -> None:
        """Have delegation tokens removed whose time is over, for as long as this controller is the active one. The
        bridge brings tokens without a key too, and no broker in ZooKeeper mode removes any while it drives."""
        if self.options.token_key is not None or self.bridge is not None:
            due_ms = self._runtime.now.mono_ms + self.options.token_sweep_ms
            self._runtime.waiting.timers.at(due_ms, lambda: self._sweep(epoch))

    def _sweep(self, epoch: int) -> None:
        if self.active and self.epoch == epoch:
            gone = self._run(sweep_tokens, None).ops
            for op in gone:
                self._runtime.log.info(f"removed the delegation token {op.key[0]}, whose time is over")
            self._schedule_sweep(epoch)

    # ---- writing

    def _level(self) -> int:
        return self.image.feature(METADATA_FORMAT) or self._format_level

    def _note_level(self, before: int) -> None:
        """Note a new level after records were replayed: leases of the length before may live for as long."""
        if self._level() != before:
            self._old_leases_ms = self._runtime.now.mono_ms + self.options.lease_ms(before)

    def _apply(self, result: Result) -> None:
        """Encode and replay the ops of a result."""
        if not result.ops:
            return
        if result.atomic:
            self._write(result.ops, True)
            return
        for item in result.ops:
            if type(item) is list:
                self._write(item, True)
            else:
                self._write((item,), False)

    def _write(self, ops: Sequence[Op], atomic: bool) -> None:
        image = self.image
        if self._writer is None:
            self.written_ms = self._runtime.now.wall_ms
            self._writer = BatchWriter(image.next_offset, self.epoch, self.written_ms)
        level = self._level()
        _dialect(level).encode(ops, self._writer, atomic=atomic)
        for op in ops:
            touched = image.replay(image.next_offset, op)
            if touched.brokers:
                self.soft.changed()
            if QUOTA in touched.entities:
                self.soft.mutations.changed()
            if METADATA_FORMAT in touched.features:
                self._level_offset = image.next_offset
                self._note_level(level)
            if touched.configs and type(op) is ConfigSet and op.name == UNCLEAN:
                self._look_for_unclean(op)

    def _look_for_unclean(self, op: ConfigSet) -> None:
        """Have partitions without a leader looked at after a change of unclean.leader.election.enable: they may be
        given one that lacks records, or may not any more."""
        if op.resource_type != TOPIC_RESOURCE:
            self.soft.electing.update(dict.fromkeys(self.soft.leases))
        elif (topic := self.image.topic(op.resource_name)) >= 0:
            self.soft.allowing[self.image.topic_id(topic) or b""] = None
