"""Tells brokers that do not pull the metadata log what is committed (KIP-291, push mode): LeaderAndIsr, UpdateMetadata
and StopReplica on their way.

`controller/pushes/pushes.py` decides what a broker is told, and in which order. This file alone decides when something
is sent, where to, and when it is sent again. Rules:

1. Only the active controller tells, only what is committed, and only while it may believe that no other is active. One
   that is no longer active drops its connections in the same turn.
2. What is told comes from an image of its own, that of committed metadata: the controller's is at the end of the log. It is
   made, outside the loop, when the first broker wants to be told, and dropped with the last one.
3. A broker in ZooKeeper mode is told nothing before the committed metadata has its registration, it has said which versions
   it serves (`introductions.py`), and ZooKeeper has this controller as the controller.
4. A broker is dialled at the listener of this controller's own setting. Where it has none of that name it is told nothing,
   and one line says so.
5. A broker that has not been heard of for a lease period, and has no lease, is told nothing more; one in ZooKeeper mode when
   its znode is gone.
6. A deleted topic is remembered here for as long as a broker in ZooKeeper mode may have it and has not answered that it
   gave it up: one that comes back is told before it is told what it has. The bridge remembers it beyond this controller
   (`bridge/writing.py`). StopReplica names no ids: a name that is in use again is ended for those only that have not
   been told of the new topic, and once.
"""

from collections.abc import Callable
from typing import Any, Protocol

from actors.controller.brokers.offline_replicas import AnsweredReplicas, answered_replicas
from actors.controller.options import Options
from actors.controller.pushes.push_versions import LOWEST, RAYFT, Speech
from actors.controller.pushes.pushes import Ending, Outbox, Request, Sender, changes, dialled
from actors.controller.soft_state import Legacy, Soft
from actors.metadata import snapshot as snapshots
from actors.metadata.batches import is_control
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.image import Image, Pin
from actors.metadata.ops import EndPoint, TopicGone
from actors.node.net.channels import ChannelError, Channels
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.controller.introductions import Introductions
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Batch
from actors.settings.listeners import PROTOCOLS
from actors.wire.errors import ErrorCode

RETRY_MS = 100
"""The pause in ms after a lost connection or an answer that did not come."""
REFUSED_MS = 1000
"""The pause in ms after an answer with an error."""
REQUEST_MS = 30_000


class Controller(Protocol):
    """The controller whose brokers are told."""

    epoch: int
    image: Image
    soft: Soft
    options: Options

    @property
    def me(self) -> int: ...
    @property
    def committed_level(self) -> int: ...
    def replicas_answered(self, said: AnsweredReplicas) -> None: ...
    def topic_given_up(self, name: str) -> None: ...


class Pusher:
    """The news that the active controller tells brokers that do not pull."""

    def __init__(
        self, runtime: Runtime, channels: Channels, quorum: QuorumReplica, storage: Storage, role: Controller
    ) -> None:
        self._runtime = runtime
        self._channels = channels
        self._quorum = quorum
        self._format_level = storage.format_level
        self._role = role
        self._listener = runtime.config.push_listener
        self._endpoints = tuple(
            EndPoint(one.name, one.host, one.port, PROTOCOLS.index(one.protocol))
            for one in runtime.config.bridge_endpoints
        )
        self._introductions = Introductions(runtime, channels)
        self.image: Image | None = None
        """The image of committed metadata; None: no broker has to be told, or the image is not made yet."""
        self._pin: Pin | None = None
        """The state of the controller from which the image is being made; None: none is being made."""
        self._made: Image | None = None
        """The image that is made, but shows what may not be committed yet."""
        self._waiting: list[Batch] = []
        """The batches that were committed while the image was made."""
        self._outboxes: dict[int, Outbox] = {}
        self._paused: set[Outbox] = set()
        """The outboxes that wait before they send again."""
        self._unreachable: set[Outbox] = set()
        """The outboxes of brokers without an endpoint to dial, as the log says."""
        self._ending: dict[bytes, Ending] = {}
        """The deleted topics that a broker may still have, by topic id (rule 6)."""

    # ---- what the controller tells

    def replay(self, batch: Batch) -> None:
        """Take one committed batch."""
        if self.image is not None:
            self._replay(self.image, batch)
        elif self._pin is not None and batch.last_offset >= self._pin.next_offset:
            self._waiting.append(batch)

    def end(self, cut: Callable[[], None]) -> None:
        """Follow which brokers are there and send what there is to say, at the end of a turn of the active controller.
        `cut`: end the batch that is being written, so that an image of the present state ends where a batch does."""
        legacy = self._role.soft.legacy
        if not legacy and not self._outboxes and self._pin is None:
            return
        self._forget_silent(legacy)
        if not legacy:
            self._fall_silent()
            return
        if self.image is None and not self._begun(cut):
            return
        image = self.image
        assert image is not None
        for id, process in legacy.items():
            outbox = self._follow(image, id, process)
            if outbox is None:
                continue
            self._send(image, outbox, process)
            process.told = max(process.told, outbox.told(image))
            for topic_id in outbox.given_up():
                self._given_up(image, id, topic_id)
        for id in [id for id in self._outboxes if id not in legacy]:
            self._drop(id)

    def stop(self) -> None:
        """Stop telling, since another controller does: no connection, no image and no deletion stays."""
        self._fall_silent()
        self._ending = {}

    def _fall_silent(self) -> None:
        """Drop the connections and the image, since no broker has to be told any more."""
        for id in list(self._outboxes):
            self._drop(id)
        if self._pin is not None:
            self._pin.release()
        self.image = self._pin = self._made = None
        self._waiting = []

    # ---- the image

    def _begun(self, cut: Callable[[], None]) -> bool:
        """Whether the image is there; if not, it is begun."""
        made = self._made
        if made is not None:
            if self._quorum.raft.high_watermark < made.next_offset:
                return False
            waiting, self._waiting = self._waiting, []
            for batch in waiting:
                self._replay(made, batch)
            self.image, self._made, self._pin = made, None, None
            return True
        if self._pin is None:
            cut()
            self._make()
        return False

    def _make(self) -> None:
        level = self._role.image.feature(FORMAT) or self._format_level
        pin = self._pin = self._role.image.pin()

        def job() -> Image:
            image = Image()
            snapshots.load(b"".join(snapshots.encode(pin, 0, level, 0, None)), image, pin.next_offset)
            return image

        def then(result: Any) -> None:
            pin.release()
            if self._pin is not pin:
                return  # no broker has to be told any more
            if isinstance(result, Exception):
                self._runtime.log.error(f"brokers that do not pull are told nothing: {result!r}")
                self._pin = None
                return
            self._made = result

        self._runtime.work(job, then)

    def _replay(self, image: Image, batch: Batch) -> None:
        if batch.last_offset < image.next_offset:
            return
        if not is_control(batch.data):
            for offset, op in dialect(image.feature(FORMAT) or self._format_level).decode(batch):
                ending = self._deleted(image, op) if isinstance(op, TopicGone) else None
                found = changes(image, image.replay(offset, op))
                if found:
                    for outbox in self._outboxes.values():
                        outbox.changed(found)
                if ending is not None:
                    self._remember(ending)
        if image.next_offset <= batch.last_offset:
            image.advance(batch.last_offset + 1)
        image.commit(image.next_offset)

    # ---- which brokers are told

    def _forget_silent(self, legacy: dict[int, Legacy]) -> None:
        soft, now_ms = self._role.soft, self._runtime.now.mono_ms
        lease_ms = self._role.options.lease_ms(self._role.committed_level)
        silent = [
            id
            for id, process in legacy.items()
            if not process.zookeeper and now_ms - process.heard_ms > lease_ms and id not in soft.leases
        ]
        for id in silent:
            del legacy[id]

    def _follow(self, image: Image, id: int, process: Legacy) -> Outbox | None:
        """The outbox of the newest process of a broker, under the epoch that the committed metadata has for it. None:
        the broker is in ZooKeeper mode and cannot be told yet."""
        outbox = self._outboxes.get(id)
        if outbox is not None and outbox.incarnation_id != process.incarnation_id:
            self._drop(id)
            outbox = None
        registration = image.broker(id)
        registered = registration is not None and registration.incarnation_id == process.incarnation_id
        if process.zookeeper and not (registered and self._role.soft.zookeeper_epoch is not None):
            self._drop(id)
            return None
        if outbox is None:
            speech = self._speech(id, process) if process.zookeeper else RAYFT
            if speech is None:
                return None
            outbox = self._outboxes[id] = Outbox(id, process.incarnation_id, speech)
            for ending in self._ending.values() if process.zookeeper else ():
                if id in ending.brokers or image.topic(ending.name) < 0:
                    outbox.end(ending)
        if registration is None or not registered:
            outbox.unregistered()
        elif registration.epoch != outbox.epoch:
            outbox.restart(registration.epoch)
        return outbox

    def _speech(self, id: int, process: Legacy) -> Speech | None:
        at = dialled(process.listeners, self._listener)
        if at is None:
            return LOWEST  # nothing is sent, and one line says so
        return self._introductions.speech(id, process, (at.host, at.port), self._listener)

    def tell_again(self, id: int) -> None:
        """Tell a broker everything once more."""
        outbox = self._outboxes.get(id)
        if outbox is not None:
            outbox.restart(outbox.epoch)

    # ---- topics that are deleted

    def gave_up(self, ending: Ending) -> bool:
        """Whether all brokers that have to give a deleted topic up have done so. Those that were not told are told now, or
        when they come back."""
        if self.image is not None and self.image.topic(ending.name) >= 0:
            return False
        if self._remember(ending):
            return False
        del self._ending[ending.topic_id]
        for outbox in self._outboxes.values():
            outbox.forget(ending.topic_id)
        return True

    @property
    def ending(self) -> list[str]:
        """Names of deleted topics that a broker may still have."""
        return [one.name for one in self._ending.values()]

    def forget_deletions(self) -> None:
        """Forget which topics were deleted: another controller may have driven the brokers in ZooKeeper mode, and used
        names again."""
        self._ending = {}

    def _deleted(self, image: Image, op: TopicGone) -> Ending | None:
        """What to remember of a topic that is about to be deleted; None: no broker in ZooKeeper mode is told."""
        topic = image.topic_by_id(op.id)
        if topic < 0 or self._role.soft.zookeeper_epoch is None:
            return None
        replicas = {image.number(row): tuple(image.replicas(row)) for row in image.topic_partitions(topic)}
        ours = {one.id for one in image.brokers() if not one.zookeeper}
        brokers = frozenset(id for some in replicas.values() for id in some) - ours
        return Ending(op.id, image.topic_name(topic), replicas, brokers)

    def _remember(self, ending: Ending) -> frozenset[int]:
        """The brokers that still have to give up a topic whose name is not in use."""
        topic_id = ending.topic_id
        known = self._ending.get(topic_id, ending)
        told = [one for one in self._outboxes.values() if not one.speech.of_quorum]
        for outbox in told:
            outbox.end(ending)
        left = ending.brokers & known.brokers - {one.broker for one in told if one.has_given_up(topic_id)}
        self._ending[topic_id] = ending._replace(brokers=left)
        return left

    def _given_up(self, image: Image, broker: int, topic_id: bytes) -> None:
        ending = self._ending.get(topic_id)
        if ending is None:
            return
        left = ending.brokers - {broker}
        self._ending[topic_id] = ending._replace(brokers=left)
        if left:
            return
        if image.topic(ending.name) >= 0:
            del self._ending[topic_id]
        self._role.topic_given_up(ending.name)

    def _drop(self, id: int) -> None:
        outbox = self._outboxes.pop(id, None)
        self._introductions.forget(id)
        if outbox is not None:
            self._paused.discard(outbox)
            self._unreachable.discard(outbox)
            self._channels.drop(("push", id), unsent=True)

    # ---- what is sent

    def _send(self, image: Image, outbox: Outbox, process: Legacy) -> None:
        if outbox in self._paused or self._quorum.raft.overdue(self._runtime.now):
            return
        request = outbox.next(image, self._sender(process))
        if request is not None:
            self._deliver(outbox, process, request)

    def _deliver(self, outbox: Outbox, process: Legacy, request: Request) -> None:
        endpoint = dialled(process.listeners, self._listener)
        if endpoint is None:
            if outbox not in self._unreachable:
                self._unreachable.add(outbox)
                self._runtime.log.error(
                    f"broker {outbox.broker} is told nothing: it has no listener {self._listener} at which this controller "
                    f"is to reach it; its listeners are {', '.join(one.name for one in process.listeners) or 'none'}"
                )
            self._pause(outbox, REFUSED_MS)
            return
        self._channels.peer(
            ("push", outbox.broker),
            (endpoint.host, endpoint.port),
            request.name,
            request.body,
            lambda reply: self._answered(outbox, request, reply),
            REQUEST_MS,
            request.version,
            listener=self._listener,
        )

    def _answered(self, outbox: Outbox, request: Request, reply: Any) -> None:
        if self._outboxes.get(outbox.broker) is not outbox:
            return
        if isinstance(reply, ChannelError):
            self._pause(outbox, RETRY_MS)
            return
        if request.name == "StopReplica":
            outbox.kept = frozenset(
                (one.topic_name, one.partition_index)
                for one in reply.partition_errors
                if one.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            )
        outbox.answered(reply.error_code)
        process = self._role.soft.legacy.get(outbox.broker)
        if process is not None and process.zookeeper and request.name == "LeaderAndIsr" and not reply.error_code:
            self._role.replicas_answered(answered_replicas(outbox.broker, reply))
        if reply.error_code:
            self._runtime.log.warning(
                f"broker {outbox.broker} refused {request.name} with error {reply.error_code}: it is told everything again"
            )
            self._pause(outbox, REFUSED_MS)

    def _pause(self, outbox: Outbox, ms: int) -> None:
        """Go on after `ms`: with the request in flight, if there is one."""
        self._paused.add(outbox)
        self._runtime.waiting.timers.at(self._runtime.now.mono_ms + ms, lambda: self._go_on(outbox))

    def _go_on(self, outbox: Outbox) -> None:
        process = self._role.soft.legacy.get(outbox.broker)
        if self._outboxes.get(outbox.broker) is not outbox or process is None:
            return
        self._paused.discard(outbox)
        if not outbox.lost():
            return
        if self._quorum.raft.overdue(self._runtime.now):
            self._pause(outbox, RETRY_MS)
            return
        assert outbox.in_flight is not None
        self._deliver(outbox, process, outbox.in_flight)

    def _sender(self, process: Legacy) -> Sender:
        if process.zookeeper:
            epoch = self._role.soft.zookeeper_epoch
            assert epoch is not None, "nobody in ZooKeeper mode is told before"
            return Sender(self._role.me, epoch, "", 0, self._listener_of_leaders(), self._endpoints)
        own = self._quorum.identity.addresses.own
        host, port = own if own is not None else ("", 0)
        return Sender(self._role.me, self._role.epoch, host, port, self._listener_of_leaders())

    def _listener_of_leaders(self) -> str:
        return self._runtime.config.inter_broker_listener or self._listener
