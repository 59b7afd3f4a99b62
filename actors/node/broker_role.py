"""Composition of the broker: image, lifecycle, replicas, sessions, groups, and what they ask of others.

This file alone decides in which order committed metadata reaches the machines of `actors/broker/`, and turns what they
gather (signals, flushes, requests, reports) into effects of the node. The deciding is in those machines.

Duties a turn: replay what was committed -> diff the touched rows -> heartbeat, fetches, AlterIsr -> signals.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from actors.broker.departed import Departed
from actors.broker.doubts import Doubts
from actors.broker.fetchers import Cut, Fetcher, Limits, Outcome, Question
from actors.broker.lifecycle import Answer as BeatAnswer
from actors.broker.lifecycle import Heartbeat, Lifecycle, Metadata, State
from actors.broker.log.log import Appended
from actors.broker.partition import NO_LEADER, Assignment, Became, Cluster, Partition, Refused
from actors.broker.producer_ids import ProducerIds
from actors.broker.replicas import Flush, Offline, Replicas
from actors.broker.sender import Sender
from actors.broker.sessions import Sessions
from actors.metadata.batches import is_control
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.image import TOPIC_RESOURCE, Image, Touched
from actors.node import internal
from actors.node.broker_snapshots import BrokerSnapshots
from actors.node.broker_storage import BrokerStorage
from actors.node.channels import ChannelError
from actors.node.groups_role import GroupsRole
from actors.node.inspections import Order
from actors.node.meters import Meter
from actors.node.registry import Lane, Listener
from actors.ports import Batch, Buffer, DiskFailed, Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

FEATURES = ((FORMAT, 1, 2),)
NO_ADDRESS_MS = 100
HAND_OVER_AGAIN_MS = 60_000
FAR_MS = 1 << 62


class BrokerRole:
    """The broker of a node. Its `image` is at the high watermark of the metadata log."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        config = node.config
        value = config.value
        self.me = config.broker_id
        self.image = Image()
        lag_ms_max = value("replica.lag.time.max.ms")
        self.cluster = Cluster(self.me, lag_ms_max)
        self._peer_timeout_ms = value("replica.socket.timeout.ms")
        self._snapshots = BrokerSnapshots(node)
        self.lifecycle = Lifecycle(config.heartbeat_interval_ms(None), config.lease_ms(2))
        self.storage = BrokerStorage(node)
        self.produced = Order(node)
        self.replicas = Replicas(
            self.cluster,
            Sender(self.me, lag_ms_max // 2),
            Limits(
                value("replica.fetch.wait.max.ms"),
                value("replica.fetch.min.bytes"),
                value("replica.fetch.response.max.bytes"),
                value("replica.fetch.max.bytes"),
            ),
            self.storage.open,
        )
        self.sessions = Sessions(node.random.below, value("max.incremental.fetch.session.cache.slots"))
        self.producer_ids = ProducerIds()
        self.groups = GroupsRole(node, self)
        self.doubts = Doubts(self.cluster.registered)
        self.departed = Departed()
        self._incarnation_id = node.random.uuid()
        self._started = False
        self._caught_up = False
        """The image has once reached what the leader says is committed; only then do partitions follow it. What was before
        is history, what is on the own disk too: a topic may have been made again under its name since."""
        self._opened = False
        """What was assigned before this process began has been opened."""
        self._registered = False
        """The registration in the image is of this process; until then it leads nothing, whatever an older one led."""
        self._was_serving = False
        self._answering = False
        """The clients' ports answer; what arrives is kept only while this broker serves."""
        self._previous_epoch = -1
        self._lag_check_ms = 0
        self._fetch_retry_ms: dict[int, int] = {}
        """When to look for the address of a source again that has none."""
        self._syncing: dict[Partition, int] = {}
        """Followed partitions and how many syncs of each are under way: who leads one of them is asked after the last."""
        self._fetch_due_ms = 0
        """When a fetcher has something to ask next, as of the end of the last turn."""
        self.creating: dict[str, None] = {}
        """Topics that the controller was asked to make, until it has answered."""
        self._ending = False
        self._told_offline = 0
        """How many partitions were offline when a heartbeat was hurried last."""
        self._reported: dict[Partition, None] = {}
        """Damaged partitions for which a heartbeat was sent at once."""
        self.isr_meters = {name: Meter() for name in ("IsrExpandsPerSec", "IsrShrinksPerSec", "FailedIsrUpdatesPerSec")}
        self._isr_changes = 0
        """The sum of their counts."""

    # ---- the node's inputs

    def start(self) -> None:
        """After the quorum has recovered: open what is on the disk, and begin to ask for a lease."""
        self._previous_epoch = self.storage.recover()
        self._started = True
        self._catch_up()
        for listener in self.node.config.listeners:
            if Listener(listener.kind) is Listener.INTER_BROKER:
                self.node.listen(listener.name)

    def load(self, data: Buffer, snapshot: Any) -> None:
        """Replace the image by a snapshot and diff everything."""
        self.image = Image()
        self._snapshots.load(self.image, data, snapshot)
        self.groups.count_partitions()
        if self._caught_up:
            self._diff_all()
            for partition in self.replicas:
                self.storage.configure(partition)
            self.lifecycle.interval_ms = self.node.config.heartbeat_interval_ms(self.image.feature(FORMAT))

    def replay(self, batch: Batch) -> None:
        """One committed batch."""
        image = self.image
        if batch.last_offset < image.next_offset:
            return
        if not is_control(batch.data):
            family = self.node.storage.family
            which = (image.feature(FORMAT) or family) if family == "drafts" else family
            for offset, op in dialect(which).decode(batch):
                touched = image.replay(offset, op)
                if self._caught_up:
                    self._diff(touched)
        if image.next_offset <= batch.last_offset:
            image.advance(batch.last_offset + 1)
        image.commit(image.next_offset)
        self._snapshots.replayed(batch)

    def committed(self, high_watermark: int) -> None:
        """The replays of this turn are done."""
        self._snapshots.committed(high_watermark)
        self.groups.count_partitions()
        self._catch_up()
        self._after_changes()

    def tick(self, now: Now) -> None:
        """Timers: lease, heartbeat, lag, retention, checkpoints, groups."""
        if not self._started:
            return
        self._catch_up()
        self._tick_lifecycle(now)
        if self._caught_up and self._was_serving and self.storage.unclaimed:
            self.storage.retire_unclaimed()
        if now.mono_ms >= self._lag_check_ms:
            self._lag_check_ms = now.mono_ms + self.cluster.lag_ms_max // 2
            self.replicas.check_lag(now.mono_ms)
        if self._caught_up:
            self.storage.tick(now, self.replicas)
            self._snapshots.tick(self.image, now)
        self.groups.tick(now)
        self._after_changes()

    def end(self) -> None:
        """End of the turn: what has gathered leaves."""
        if not self._started:
            return
        self.storage.end(self.replicas)
        if self.replicas.failed_reads or self.storage.failing:
            self._give_up_failed()
        if self.replicas.unreadable:
            self._give_up_unreadable()
        self._after_changes()
        self._mark()
        self._send_wishes()
        now_ms, self._fetch_due_ms = self.node.now.mono_ms, FAR_MS
        for fetcher in self.replicas.fetchers.values():
            self._fetch_due_ms = min(self._fetch_due_ms, self._fetch(fetcher, now_ms))

    def deadline_ms(self) -> int:
        """When `tick` is due."""
        if not self._started:
            return FAR_MS
        due = min(self.lifecycle.deadline_ms(), self._lag_check_ms, self.groups.deadline_ms(), self._fetch_due_ms)
        if self._caught_up:
            due = min(due, self.storage.deadline_ms())
        if self.serving:
            due = min(due, self.replicas.sender.deadline_ms())
        if self.lifecycle.state is State.INITIAL and not self._metadata().leader_known:
            due = min(due, self.node.now.mono_ms + 50)
        return due

    def shutdown(self) -> None:
        """The process is to end: controlled shutdown, then `node.retire`."""
        self.lifecycle.stop(self.node.now, ask=self.node.config.value("controlled.shutdown.enable"))

    # ---- readers of handlers

    @property
    def serving(self) -> bool:
        """Clients are served now (KIP-631, Fencing)."""
        return self.lifecycle.serving(self.node.now, self.image.next_offset)

    def admits(self, connection: int, api_key: int) -> bool:
        """Whether a request may be looked at while clients are not served: those of replicas only (A29)."""
        return api_key == 1 or self.node.connections.replica(connection)

    def absent(self, topic: bytes | str, number: int) -> ErrorCode:
        """Why a partition is not here: it exists elsewhere, or not at all."""
        image = self.image
        row = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
        if row < 0:
            return ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if image.partition(row, number) < 0:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (image.topic_id(row), number) in self.replicas.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def endpoint(self, broker: int, listener: str) -> Any | None:
        """Where a broker is reached on the listener of that name; None: unknown or fenced."""
        registration = self.image.broker(broker)
        if registration is None or registration.fenced:
            return None
        return next((one for one in registration.endpoints if one.name == listener), None)

    def node_endpoints(self, brokers: Iterable[int], kind: Any, listener: str) -> list[Any]:
        """Endpoints of leaders that an answer names (KIP-951), on the listener that was asked."""
        found = []
        for broker in brokers:
            endpoint = self.endpoint(broker, listener)
            registration = self.image.broker(broker)
            if endpoint is not None and registration is not None:
                found.append(kind(node_id=broker, host=endpoint.host, port=endpoint.port, rack=registration.rack))
        return found

    def append(self, partition: Partition, data: Buffer, *, client: bool) -> Appended:
        """`Partition.append`, after which `grown` is due. A leader whose disk fails stops, so that another one is elected.
        Raises Refused; once this process ends, always: its logs have had their last flush."""
        if self._ending:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker stops")
        try:
            appended = partition.append(data, self.node.now.wall_ms, client=client)
        except Refused as refused:
            if refused.code == ErrorCode.KAFKA_STORAGE_ERROR:
                self._no_room(partition)
            raise
        except DiskFailed as error:
            self._disk_failed(partition, error)
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of the leader of {partition!r} failed") from None
        if self.replicas.full:
            self.replicas.full.pop(partition, None)
        return appended

    def grown(self, partition: Partition) -> None:
        """A led partition has taken in a batch."""
        self.storage.written(partition)
        self.replicas.appended(partition, self.node.now.mono_ms)

    def signal(self) -> None:
        """Wake whoever waits for what has changed."""
        signals = self.replicas.signals
        if signals:
            self.replicas.signals = {}
            for key, reached in signals.items():
                self.node.waiting.signal(key, reached)

    # ---- for groups and other machines inside the broker

    def append_internal(self, topic: str, number: int, data: bytearray, then: Callable[[ErrorCode], None]) -> None:
        """Append one batch as acks=all; `then(NONE)` when it is committed, or with the error."""
        internal.append_internal(self.node, topic, number, data, then)

    def create_internal_topic(self, name: str) -> None:
        """Ask the controller for `__consumer_offsets`; once at a time, errors are tried again by who needs it."""
        internal.create_topics(self.node, self.creating, [name])

    # ---- metadata

    def _catch_up(self) -> None:
        if self._started and not self._caught_up and self._metadata().caught_up:
            self._caught_up = True
            self.lifecycle.interval_ms = self.node.config.heartbeat_interval_ms(self.image.feature(FORMAT))
            self._diff_all()
            self._opened = True

    def _diff_all(self) -> None:
        image = self.image
        self.cluster.registered.clear()
        for id in {broker.id for broker in image.brokers()}.union(self.departed.present):
            self._diff_broker(id)
        here: set[tuple[bytes, int]] = set()
        for topic in image.topics():
            for row in image.topic_partitions(topic):
                if self.me in image.replicas(row):
                    here.add(self._assign(row))
        for partition in list(self.replicas):
            if (partition.topic_id, partition.number) not in here:
                self._drop(partition)
        for key in [key for key in self.replicas.offline if key not in here]:
            del self.replicas.offline[key]
        self._after_changes()

    def _diff(self, touched: Touched) -> None:
        image = self.image
        for broker in touched.brokers:
            self._diff_broker(broker)
        for name, topic_id in touched.removed:
            for partition in list(self.replicas.by_id.get(topic_id, {}).values()):
                self._drop(partition)
            for key in [key for key in self.replicas.offline if key[0] == topic_id]:
                del self.replicas.offline[key]
                self.storage.give_up_lost(name, key[1])
            self.groups.topic_deleted(name)
        for row in touched.partitions:
            row = int(row)
            if image.is_partition(row):
                self._assign(row)
        for kind, name in touched.configs:
            self._configure(kind, name)
        if touched.topics:
            self.node.waiting.signal(internal.TOPICS_KEY)
        if touched.brokers or len(touched.partitions):
            self.node.waiting.signal(internal.LEADERS_KEY)
        if touched.features:
            self.lifecycle.interval_ms = self.node.config.heartbeat_interval_ms(image.feature(FORMAT))

    def _diff_broker(self, broker: int) -> None:
        registration = self.image.broker(broker)
        usable = registration is not None and not registration.fenced
        epoch = registration.epoch if usable and registration is not None else None
        self.departed.note(broker, registration if usable else None, self.node.now.mono_ms)
        self.replicas.registered(broker, epoch, self.node.now.mono_ms)
        self._fetch_retry_ms.pop(broker, None)
        if broker == self.me:
            own = registration is not None and registration.incarnation_id == self._incarnation_id
            if own is not self._registered:
                self._registered = own
                for row in self.image.rows_led_by(self.me):
                    self._assign(int(row))

    def _assign(self, row: int) -> tuple[bytes, int]:
        image = self.image
        topic, number = image.topic_of(row), image.number(row)
        topic_id = image.topic_id(topic)
        assert topic_id is not None, "a partition's topic has an id"
        if self.me not in image.replicas(row):
            partition = self.replicas.get(topic_id, number)
            if partition is not None:
                self._drop(partition)
            if self.replicas.offline.pop((topic_id, number), None) is not None:
                self.storage.give_up_lost(image.topic_name(topic), number)
            return topic_id, number
        if self._is_offline(row, topic_id, number):
            return topic_id, number
        leader = image.leader(row)
        if leader == self.me and not self._registered:
            leader = NO_LEADER
        self.replicas.assign(
            image.topic_name(topic),
            topic_id,
            number,
            Assignment(
                image.replicas(row), image.isr(row), leader, image.leader_epoch(row), image.partition_epoch(row)
            ),
            self.node.now.mono_ms,
        )
        return topic_id, number

    def _is_offline(self, row: int, topic_id: bytes, number: int) -> bool:
        """Whether the files of a replica assigned here cannot be used. One whose files are lost begins anew once it is no
        member of the ISR: until then it would be taken for a copy of what was committed, and it is empty."""
        image, offline, key = self.image, self.replicas.offline, (topic_id, number)
        name, in_isr = image.topic_name(image.topic_of(row)), self.me in image.isr(row)
        why = offline.get(key)
        if why is None and self.replicas.get(topic_id, number) is None:
            before = not self._opened
            if not self.storage.lost(name, topic_id, number, before=before):
                return False
            why = Offline.LOST
            if in_isr:
                offline[key] = why
                self.node.log.error(
                    f"{name}-{number} is offline: this broker had files of it, and they are not there. It does not begin "
                    f"again empty while it counts as in sync; let another replica lead, by an unclean election if need be"
                )
        if why is Offline.LOST and not in_isr:
            offline.pop(key, None)
            self.storage.give_up_lost(name, number)
            return False
        if why is Offline.REMOVED and not in_isr and image.leader(row) not in (self.me, NO_LEADER):
            self.node.stop(
                1, f"{name}-{number} was removed here and was given up: start again to fetch it from its leader"
            )
        return why is not None

    def _drop(self, partition: Partition) -> None:
        self.replicas.remove(partition)
        self.storage.delete(partition)

    def _configure(self, kind: int, name: str) -> None:
        if kind == TOPIC_RESOURCE:
            for partition in self.replicas.by_name.get(name, {}).values():
                self.storage.configure(partition)
        elif name in ("", str(self.me)):
            for partition in self.replicas:
                self.storage.configure(partition)

    def _mark(self) -> None:
        replicas = self.replicas
        if (changes := replicas.isr_expands + replicas.isr_shrinks + replicas.isr_failures) == self._isr_changes:
            return
        self._isr_changes = changes
        counts = (replicas.isr_expands, replicas.isr_shrinks, replicas.isr_failures)
        for of, count in zip(self.isr_meters.values(), counts, strict=True):
            if count > of.count:
                of.mark(count - of.count, self.node.now.mono_ms)

    def _after_changes(self) -> None:
        replicas = self.replicas
        if len(replicas.offline) != self._told_offline:
            self._told_offline = len(replicas.offline)
            self.lifecycle.hurry(self.node.now)
        if replicas.opened:
            self._sync_opened()
        while replicas.moved:
            partition, part = replicas.moved.pop(0)
            if part is Became.LEADER:
                self.groups.became_leader(partition.topic, partition.number, partition.leader_epoch)
            elif not partition.removed or replicas.get(partition.topic, partition.number) is None:
                # A snapshot tells of a namesake before it tells that this one is gone.
                self.groups.resigned(partition.topic, partition.number)
        if replicas.flushes:
            flushes, replicas.flushes = replicas.flushes, []
            for flush in flushes:
                self._flush(flush)
        if replicas.reports:
            reports, replicas.reports = replicas.reports, []
            for report in reports:
                self.node.log.warning(report)
        if replicas.signals:
            self.signal()

    def _flush(self, flush: Flush) -> None:
        def durable(result: object) -> None:
            if isinstance(result, DiskFailed):
                self.node.stop(1, f"{flush.partition!r} cannot be made durable: {result}")
            elif flush.asks:
                self.replicas.flushed(flush.partition, self.node.now.mono_ms)

        self.storage.flush(self.replicas, [flush.partition], durable)

    # ---- lifecycle

    def _metadata(self) -> Metadata:
        quorum = self.node.quorum
        known = quorum.leader_address() is not None
        return Metadata(self.image.next_offset, quorum.told_high_watermark, known)

    def _tick_lifecycle(self, now: Now) -> None:
        beat = self.lifecycle.tick(now, self._metadata()) if self.lifecycle.due(now) else None
        if beat is not None:
            self.node.channels.controller(
                "BrokerHeartbeat",
                self._heartbeat(beat),
                self._beaten,
                max(self.lifecycle.interval_ms, 1000),
                purpose="heartbeat",
            )
        self._follow_state()

    def _heartbeat(self, beat: Heartbeat) -> Any:
        kind = message("v28:BrokerHeartbeatRequest")
        config, storage = self.node.config, self.node.storage
        protocols = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
        return kind(
            target_state=beat.target,
            broker_id=self.me,
            broker_epoch=beat.epoch,
            lease_start_time_ms=beat.lease_start_ms,
            cur_metadata_offset=beat.metadata_offset,
            listeners=[
                kind.Listener(name=one.name, host=one.host, port=one.port, security_protocol=protocols[one.protocol])
                for one in config.advertised
            ],
            rack=config.rack,
            features=[
                kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in FEATURES
            ],
            cluster_id=storage.cluster_id,
            incarnation_id=self._incarnation_id,
            log_dirs=list(self.storage.directory_ids),
            previous_broker_epoch=self._previous_epoch if beat.epoch < 0 else -1,
            unreadable=self._unreadable(kind),
            without_room=self._without_room(kind),
        )

    def _unreadable(self, kind: Any) -> list[Any]:
        """Damaged partitions that another member of the ISR can take over, and all that are offline (DESIGN 6, tag 7)."""
        topics: dict[bytes, list[int]] = {}
        for partition in self.replicas.unreadable:
            if self.me in partition.isr.isr and len(partition.isr.isr) > 1:
                topics.setdefault(partition.topic_id, []).append(partition.number)
        for topic_id, number in self.replicas.offline:
            topics.setdefault(topic_id, []).append(number)
        return [kind.UnreadableTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]

    def _give_up_failed(self) -> None:
        """Directories whose device fails in reads or in jobs go offline like those in which nothing can be written. Where
        this broker cannot go on without one, it gives up only the replicas that it cannot read."""
        failed = self.replicas.failed_reads | self.storage.failing
        self.replicas.failed_reads, self.storage.failing = {}, {}
        for disk, error in failed.items():
            self.storage.fail(self.replicas, disk, error)

    def _give_up_unreadable(self) -> None:
        """What is damaged here and has left the ISR is thrown away whole; a new process fetches it anew.

        A new one, because the leader still knows how far this replica was: only another broker epoch, under which
        nothing was fetched yet, keeps the empty log from being taken for that one.
        """
        for partition in list(self.replicas.unreadable):
            if partition not in self._reported:
                self._reported[partition] = None
                self.lifecycle.hurry(self.node.now)
            if partition.leader not in (self.me, NO_LEADER) and self.me not in partition.isr.isr:
                self._drop(partition)
                self.node.stop(
                    1, f"{partition!r} is damaged here and was given up: start again to fetch it from its leader"
                )

    def _beaten(self, reply: Any) -> None:
        now = self.node.now
        if isinstance(reply, ChannelError):
            self.lifecycle.lost(now)
        else:
            self.lifecycle.answered(
                BeatAnswer(reply.error_code, reply.next_state, reply.broker_epoch, reply.lease_end_time_ms), now
            )
        self._follow_state()

    def _follow_state(self) -> None:
        for sentence in self.lifecycle.take_reports():
            self.node.log.info(f"broker {self.me}: {sentence}")
        serving = self.serving
        if serving and not self._was_serving:
            self._open_clients()
        elif self._was_serving and not serving:
            self._close_clients("this broker stops" if self.lifecycle.stop_at else "this broker is fenced")
        elif self.lifecycle.epoch >= 0 and not self._answering:
            self._turn_clients_away()  # with a lease, a port that refuses would tell of a dead process
        self._was_serving = serving
        if self.lifecycle.epoch >= 0:
            for fetcher in self.replicas.fetchers.values():
                fetcher.renew(self.lifecycle.epoch)
        if serving and self.producer_ids.wants(self.node.now.mono_ms):
            self._allocate_producer_ids()
        if self.lifecycle.stop_at is not None and not self._ending:
            self._ending = True
            self._leave()

    def _open_clients(self) -> None:
        self._answering = True
        for listener in self.node.config.listeners:
            if Listener(listener.kind) is Listener.CLIENT:
                self.node.listen(listener.name)
        self.node.log.info(f"broker {self.me} serves clients under broker epoch {self.lifecycle.epoch}")

    def _close_clients(self, why: str) -> None:
        self._turn_clients_away()
        for connection in self.node.connections.all():
            if connection.kind is Listener.CLIENT and not connection.replica:
                self.node.close_connection(connection, why)

    def _turn_clients_away(self) -> None:
        self._answering = True
        for listener in self.node.config.listeners:
            if Listener(listener.kind) is Listener.CLIENT:
                self.node.turn_away(listener.name)

    def _leave(self) -> None:
        stop = self.lifecycle.stop_at
        assert stop is not None
        if stop.code:
            self.node.stop(stop.code, stop.why)
            return

        def durable(result: object) -> None:
            if isinstance(result, DiskFailed):
                self.node.stop(1, f"the logs cannot be made durable at shutdown: {result}")
            else:
                self.node.retire()

        if self._caught_up:
            self.storage.close(self.replicas, self.lifecycle.epoch, durable)
        else:
            self.storage.close_unopened(durable)

    # ---- replication

    def _fetch(self, fetcher: Fetcher, now_ms: int) -> int:
        """Ask what is to be asked; when there may be more."""
        if self._ending or not len(fetcher) or any(one.leader == fetcher.source for one in self._syncing):
            return FAR_MS
        retry_ms = self._fetch_retry_ms.get(fetcher.source, 0)
        if now_ms < retry_ms:
            return max(retry_ms, fetcher.deadline_ms(now_ms))
        if fetcher.broker_epoch < 0:
            fetcher.renew(self.lifecycle.epoch)
        due_ms = fetcher.deadline_ms(now_ms)
        if now_ms < due_ms:
            return due_ms
        endpoint = self.endpoint(fetcher.source, self.node.config.inter_broker_listener)
        if endpoint is None:
            self._fetch_retry_ms[fetcher.source] = retry_ms = now_ms + NO_ADDRESS_MS
            return max(retry_ms, due_ms)
        question = fetcher.ask(now_ms)
        while question is not None:
            self._ask(fetcher, question, (endpoint.host, endpoint.port))
            question = fetcher.ask(now_ms)
        return max(fetcher.deadline_ms(now_ms), self._fetch_retry_ms.get(fetcher.source, 0))

    def _ask(self, fetcher: Fetcher, question: Question, address: tuple[str, int]) -> None:
        def answered(reply: Any) -> None:
            if self._ending:
                return  # the mark of a clean stop vouches for the logs as their last flush found them
            now_ms = self.node.now.mono_ms
            if isinstance(reply, ChannelError):
                self.doubts.lost(fetcher.source, now_ms)
                fetcher.lost(question, now_ms)
                return
            self.doubts.heard(fetcher.source)
            self._take(fetcher, fetcher.answered(question, reply, self.node.now))

        self.node.channels.peer(
            ("fetch", fetcher.source),
            address,
            "Fetch",
            question.request,
            answered,
            self._peer_timeout_ms + self.replicas.limits.wait_ms,
            17,
            lane=Lane.DATA,
        )

    def _take(self, fetcher: Fetcher, outcome: Outcome) -> None:
        for partition, error in outcome.failures:
            self._disk_failed(partition, error)
        for disk, jobs in outcome.jobs.items():
            self.storage.unlink(disk, jobs)
        for partition in outcome.grown:
            self.storage.written(partition)
        self.replicas.replicated(outcome)
        self._after_changes()
        for cut in outcome.cuts:
            self._prepare(fetcher, cut)
        if outcome.flush:
            self._sync(list(outcome.flush), lambda: self._fetch(fetcher, self.node.now.mono_ms))
        else:
            self._fetch(fetcher, self.node.now.mono_ms)

    def _prepare(self, fetcher: Fetcher, cut: Cut) -> None:
        def prepared(result: object) -> None:
            if not self._ending:
                self._take(fetcher, fetcher.cut(cut, result, self.node.now))

        self.node.work(cut.job.__call__, prepared)

    def _sync(self, partitions: list[Partition], then: Callable[[], object]) -> None:
        """Make replicas durable; until they are, nobody who leads one of them is asked for more."""

        def synced(result: object) -> None:
            if isinstance(result, DiskFailed):
                self.node.stop(1, f"replicated data cannot be made durable: {result}")
                return
            for partition in partitions:
                self._syncing[partition] -= 1
                if not self._syncing[partition]:
                    del self._syncing[partition]
            then()

        for partition in partitions:
            self._syncing[partition] = self._syncing.get(partition, 0) + 1
        self.storage.flush(self.replicas, partitions, synced)

    def _sync_opened(self) -> None:
        """What the process before this one had not synced may be in memory only, and counts where the settings want it on
        the disk."""
        opened, self.replicas.opened = self.replicas.opened, []
        behind = [one for one in opened if one.durable_first and one.log.recovery_point < one.log.log_end_offset]

        def durable() -> None:
            for partition in behind:
                self.replicas.advance(partition, self.node.now.mono_ms)
            self._after_changes()

        if behind:
            self._sync(behind, durable)

    def _no_room(self, partition: Partition) -> None:
        """A led partition cannot grow here: the next heartbeat, sent at once, asks for another leader of its ISR. Not again
        within a minute: where no member has room, the leadership would go round and round."""
        replicas, now_ms = self.replicas, self.node.now.mono_ms
        asked_ms = replicas.handed_over_ms.get(partition)
        if len(partition.isr.isr) > 1 and (asked_ms is None or now_ms - asked_ms >= HAND_OVER_AGAIN_MS):
            replicas.handed_over_ms[partition] = now_ms
            replicas.full[partition] = partition.leader_epoch
            self.lifecycle.hurry(self.node.now)

    def _without_room(self, kind: Any) -> list[Any]:
        """Partitions that another member of the ISR is to lead, as there is no room for them here (tag 8)."""
        topics: dict[bytes, list[int]] = {}
        for partition, epoch in list(self.replicas.full.items()):
            if partition.leads and partition.leader_epoch == epoch and len(partition.isr.isr) > 1:
                topics.setdefault(partition.topic_id, []).append(partition.number)
            else:
                del self.replicas.full[partition]
        return [kind.FullTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]

    def _disk_failed(self, partition: Partition, error: DiskFailed) -> None:
        """Nothing can be appended to a partition any more: its directory goes offline, or this broker stops."""
        if not self.storage.fail(self.replicas, partition.log.disk, error):
            self._cannot_append(partition, error)

    def _cannot_append(self, partition: Partition, error: DiskFailed) -> None:
        self.node.stop(1, f"nothing can be appended to {partition!r} any more: {error}")

    # ---- AlterIsr

    def _send_wishes(self) -> None:
        sender = self.replicas.sender
        if sender.idle or not self.serving:
            return
        request = sender.flush(self.lifecycle.epoch, self.node.now.mono_ms)
        if request is None:
            return

        def answered(reply: Any) -> None:
            now_ms = self.node.now.mono_ms
            if isinstance(reply, ChannelError):
                moved = sender.lost(reply.reason != "unknown", now_ms)
            else:
                moved = sender.answered(reply, now_ms)
            self.replicas.answered(moved, now_ms)
            self._after_changes()

        self.node.channels.controller("AlterIsr", request, answered, purpose="isr")

    # ---- producer ids

    def _allocate_producer_ids(self) -> None:
        request = message("AllocateProducerIdsRequest")(broker_id=self.me, broker_epoch=self.lifecycle.epoch)
        self.producer_ids.asked()

        def answered(reply: Any) -> None:
            if isinstance(reply, ChannelError) or reply.error_code != ErrorCode.NONE:
                self.producer_ids.failed(self.node.now.mono_ms)
            else:
                self.producer_ids.given(reply.producer_id_start, reply.producer_id_len)
                self.node.waiting.signal(self.producer_ids.key)

        self.node.channels.controller("AllocateProducerIds", request, answered, purpose="forwarding")
