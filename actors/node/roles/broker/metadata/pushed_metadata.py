"""Metadata that the active controller pushes: LeaderAndIsr, UpdateMetadata and StopReplica become the image, and deltas for
the replicas (KIP-291, push mode).

This file alone decides which pushed request is obeyed, and what it says in the words of
`broker/replication/metadata_delta.py`. What a delta makes of the replicas is `metadata_publisher.py`. Rules:

1. A request of an older controller than one that was heard, or for an older process of this broker, changes nothing
   (R291-68).
2. Everything comes first: until UpdateMetadata and LeaderAndIsr have said everything once, what only says changes is refused
   with INVALID_REQUEST, and the controller begins anew.
3. UpdateMetadata changes the image and never a replica; LeaderAndIsr and StopReplica change replicas and never the image.
4. UpdateMetadata of everything in several requests counts when the last one has come. Then `MetadataOffset` says which
   state of the metadata log the image shows.
5. What LeaderAndIsr of everything does not name is not a replica here any more; its files are kept under another name, since
   nobody has said that it was deleted (R291-76).
6. A controller speaks over one connection at a time, and what it says there comes in order. What comes over an older one
   than it has used since was late on its way: it changes nothing, and that connection is closed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.replication.metadata_delta import MetadataDelta, PartitionState
from actors.broker.replication.partition import NO_LEADER, Assignment
from actors.broker.replication.replicas import Replicas
from actors.metadata.image import TOPIC_RESOURCE, Broker, ConfigKey, Image
from actors.metadata.ops import (
    BrokerSet,
    BrokerUnregistered,
    ConfigSet,
    CorruptMetadata,
    EndPoint,
    FeatureSet,
    Op,
    PartitionsSet,
    TopicGone,
    TopicSet,
)
from actors.metadata.topic_names import name_error
from actors.node.quorum.told_leader import ToldLeader
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from actors.node.roles.broker.metadata_cache import BROKER_RESOURCE, MetadataCache
from actors.node.roles.broker.replication.partition_effects import PartitionEffects
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import (
        LeaderAndIsrRequest,
        LeaderAndIsrResponse,
        StopReplicaRequest,
        StopReplicaResponse,
        UpdateMetadataRequest,
    )

FULL = 2
OFFSET_MAX = 1 << 62
"""An offset beyond any log: the image counts on from there."""
DELETED, UNKNOWN_EPOCH = -2, -1
"""Leader epochs of StopReplica that are no epochs."""


class PushedPartition(NamedTuple):
    """One partition of a LeaderAndIsr, with what is known of it here."""

    topic: str
    topic_id: bytes
    number: int
    assignment: Assignment
    known: Assignment | None
    """The assignment that this broker was told before; None: it was told none."""


class PushedMetadata:
    """The metadata that one broker has been told by controllers that push."""

    def __init__(
        self,
        runtime: Runtime,
        cache: MetadataCache,
        lifecycle: Lifecycle,
        replicas: Replicas,
        logs: LogManager,
        applier: MetadataApplier,
        partition_effects: PartitionEffects,
        told_leader: ToldLeader,
        count_partitions: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._lifecycle = lifecycle
        self._replicas = replicas
        self._logs = logs
        self._applier = applier
        self._partition_effects = partition_effects
        self._told_leader = told_leader
        self._count_partitions = count_partitions
        self.controller_epoch = -1
        """The highest controller epoch that was heard."""
        self._newest = (-1, -1)
        """(controller epoch, connection): the newest connection of the newest controller that has asked (rule 6)."""
        self._image_is_whole = False
        """Whether UpdateMetadata has said everything once."""
        self._coming: Image | None = None
        """The new image, as far as it has come, while everything is being told (rule 4)."""
        self._told: dict[tuple[bytes, int], PartitionState] = {}
        """What LeaderAndIsr said last of each replica here, by topic id and number."""

    def may_begin(self, topic_id: bytes, number: int) -> None:
        """Let a replica begin, soon, that was offline as its log could not, and can now."""

        def begin() -> None:
            told = self._told.get((topic_id, number))
            if told is not None and self._replicas.offline.pop((topic_id, number), None) is not None:
                self._applier.apply(MetadataDelta(partitions=[told]))
                self._partition_effects.run()

        self._runtime.waiting.timers.at(self._runtime.now.mono_ms, begin)

    # ---- requests

    def overtaken(
        self, request: "LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest", connection: int
    ) -> bool:
        """Whether the controller has used a newer connection since it sent this request."""
        asked = (request.controller_epoch, connection)
        if asked[0] == self._newest[0] and asked < self._newest:
            return True
        self._newest = max(self._newest, asked)
        return False

    def refused(self, request: "LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest") -> ErrorCode | None:
        """Why a request is not obeyed, whatever it says; None: it is obeyed (R291-68)."""
        if request.broker_epoch != -1 and request.broker_epoch < self._lifecycle.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = request.controller_epoch
        return None

    def update_metadata(self, request: "UpdateMetadataRequest") -> ErrorCode:
        """Take over what the cluster is: brokers, topics, partitions, settings, levels of features (R291-71)."""
        code = self.refused(request)
        if code is not None:
            return code
        if request.metadata_offset > OFFSET_MAX:
            return ErrorCode.INVALID_REQUEST
        if request.type == FULL:
            if self._coming is None:
                self._coming = Image()
        elif not self._image_is_whole or self._coming is not None:
            self._coming = None
            return ErrorCode.INVALID_REQUEST
        self._told_leader.told(
            request.controller_id, request.controller_epoch, request.controller_host, request.controller_port
        )
        image = self._cache.image if self._coming is None else self._coming
        touched, before = _Touched(), image.next_offset
        try:
            for op in _ops(image, request, touched):
                image.replay(image.next_offset, op)
        except CorruptMetadata as error:
            image.undo(before)
            self._coming = None
            self._runtime.log.error(f"controller {request.controller_id} pushed what cannot be: {error}")
            return ErrorCode.INVALID_REQUEST
        image.commit(image.next_offset)
        if self._coming is not None:
            if request.metadata_offset >= 0:
                self._coming = None
                self._replace(image, request.metadata_offset)
            return ErrorCode.NONE
        if request.metadata_offset >= 0:
            image.next_offset = request.metadata_offset
        self._tell(touched)
        return ErrorCode.NONE

    def leader_and_isr(self, request: "LeaderAndIsrRequest") -> "LeaderAndIsrResponse":
        """Take over which part this broker has in which partition (R291-69). Returns the reply."""
        response = message("LeaderAndIsrResponse")
        everything = request.type == FULL
        code = self.refused(request)
        if code is None and not (self._image_is_whole and (everything or self._applier.caught_up)):
            code = ErrorCode.INVALID_REQUEST
        if code is not None:
            return response(error_code=int(code))
        if everything:
            self._leave_unnamed(request)
        topics, obeyed = [], []
        for topic in request.topic_states:
            answers = []
            for state in topic.partition_states:
                key = (topic.topic_id, state.partition_index)
                told = self._told_of(topic, state)
                judged = self._judge(told)
                if judged is None:
                    self._told[key] = PartitionState(told.topic, told.topic_id, told.number, told.assignment)
                    obeyed.append(self._told[key])
                answers.append(
                    response.LeaderAndIsrPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=int(judged or ErrorCode.NONE),
                    )
                )
            topics.append(response.LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=answers))
        if everything:
            self._follow_everything(obeyed)
        else:
            self._applier.apply(MetadataDelta(partitions=obeyed))
        self._partition_effects.run()
        for entry in topics:
            for answer in entry.partition_errors:
                if not answer.error_code and (entry.topic_id, answer.partition_index) in self._replicas.offline:
                    answer.error_code = int(ErrorCode.KAFKA_STORAGE_ERROR)
        flat = [answer for entry in topics for answer in entry.partition_errors]
        return response(topics=topics, partition_errors=flat)

    def stop_replica(self, request: "StopReplicaRequest") -> "StopReplicaResponse":
        """Stop partitions of which this broker has no replica any more, or for which it is to do nothing now
        (R291-70)."""
        response = message("StopReplicaResponse")
        code = self.refused(request)
        if code is not None:
            return response(error_code=int(code))
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                found = self._stop(topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
                errors.append(
                    response.StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=int(found)
                    )
                )
        self._partition_effects.run()
        return response(partition_errors=errors)

    # ---- LeaderAndIsr

    def _told_of(
        self,
        topic: "LeaderAndIsrRequest.LeaderAndIsrTopicState",
        state: "LeaderAndIsrRequest.LeaderAndIsrPartitionState",
    ) -> PushedPartition:
        known = self._told.get((topic.topic_id, state.partition_index))
        assignment = Assignment(
            tuple(state.replicas), tuple(state.isr), state.leader, state.leader_epoch, state.partition_epoch
        )
        return PushedPartition(
            topic.topic_name, topic.topic_id, state.partition_index, assignment, known.assignment if known else None
        )

    def _judge(self, told: PushedPartition) -> ErrorCode | None:
        """The answer to one partition that is not obeyed; None: it is obeyed."""
        for _, holds, code in JUDGED:
            if holds(self, told):
                return code
        return None

    def _is_malformed(self, told: PushedPartition) -> bool:
        assignment, replicas = told.assignment, set(told.assignment.replicas)
        return (
            name_error(told.topic) is not None
            or told.number < 0
            or min(assignment.leader_epoch, assignment.partition_epoch) < 0
            or len(replicas) < len(assignment.replicas)
            or not replicas >= set(assignment.isr)
            or assignment.leader not in (NO_LEADER, *assignment.isr)
        )

    def _is_offline(self, told: PushedPartition) -> bool:
        return (told.topic_id, told.number) in self._replicas.offline

    def _is_of_another_topic(self, told: PushedPartition) -> bool:
        here = self._replicas.by_name.get(told.topic)
        return here is not None and any(partition.topic_id != told.topic_id for partition in here.values())

    def _is_older(self, told: PushedPartition) -> bool:
        return told.known is not None and told.assignment.leader_epoch < told.known.leader_epoch

    def _is_half_newer(self, told: PushedPartition) -> bool:
        known, now = told.known, told.assignment
        return (
            known is not None and now.leader_epoch > known.leader_epoch and now.partition_epoch <= known.partition_epoch
        )

    def _is_elsewhere(self, told: PushedPartition) -> bool:
        return self._cache.me not in told.assignment.replicas

    def _is_known(self, told: PushedPartition) -> bool:
        known = told.known
        same = known is not None and told.assignment.leader_epoch == known.leader_epoch
        return same and known is not None and told.assignment.partition_epoch <= known.partition_epoch

    def _leave_unnamed(self, request: "LeaderAndIsrRequest") -> None:
        """Leave partitions that are not named: what is named is all that this broker has (rule 5). Before what is named
        is judged: a topic that was deleted may have left its name to another one."""
        named = {
            (topic.topic_id, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        }
        for key in [key for key in self._told if key not in named]:
            topic = self._told.pop(key).topic
            partition = self._replicas.get(*key)
            if partition is not None:
                self._applier.set_aside(partition)
            self._replicas.offline.pop(key, None)
            self._logs.unclaim(topic, *key)

    def _follow_everything(self, obeyed: Sequence[PartitionState]) -> None:
        if self._applier.caught_up:
            self._applier.apply(MetadataDelta(partitions=obeyed))
        else:
            self._applier.begin(self._whole(self._cache.image))
            self._count_partitions()
            self._lifecycle.hurry(self._runtime.now)
        self._logs.claims.retire_unclaimed(self._replicas.offline, aside=True)

    # ---- StopReplica

    def _stop(self, topic: str, number: int, epoch: int, delete: bool) -> ErrorCode:
        partition = self._replicas.get(topic, number)
        if partition is None:
            if any(topic == told.topic and key[1] == number for key, told in self._offline()):
                return ErrorCode.KAFKA_STORAGE_ERROR
            if delete:
                self._logs.claims.remove_unclaimed(topic, number)
            return ErrorCode.NONE
        key = (partition.topic_id, number)
        known = self._told[key].assignment
        assert known is not None, "what is told of a replica here is an assignment"
        if epoch not in (DELETED, UNKNOWN_EPOCH) and epoch < known.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if delete:
            del self._told[key]
            self._applier.apply(MetadataDelta(partitions=[PartitionState(topic, partition.topic_id, number, None)]))
            return ErrorCode.NONE
        stopped = self._told[key]._replace(assignment=known._replace(leader=NO_LEADER))
        self._applier.apply(MetadataDelta(partitions=[stopped]))
        return ErrorCode.NONE

    def _offline(self) -> Iterator[tuple[tuple[bytes, int], PartitionState]]:
        return ((key, self._told[key]) for key in self._replicas.offline if key in self._told)

    # ---- UpdateMetadata

    def _tell(self, touched: "_Touched") -> None:
        for name, topic_id in touched.deleted:
            self._applier.forget_topic(name, topic_id)
        if self._applier.caught_up:
            self._applier.apply(
                MetadataDelta(
                    touched.brokers,
                    self._led_here(),
                    configs=touched.configs,
                    topics_changed=touched.topics,
                    leaders_changed=bool(touched.brokers) or touched.partitions,
                    features_changed=touched.features,
                )
            )
        self._count_partitions()
        self._partition_effects.run()

    def _replace(self, image: Image, offset: int) -> None:
        """Put a new image, which is complete, in the place of what was known."""
        image.next_offset = offset
        old, self._cache.image = self._cache.image, image
        self._image_is_whole = True
        if self._applier.caught_up:
            for name, topic_id in [(old.topic_name(row), old.topic_id(row) or b"") for row in old.topics()]:
                if image.topic_by_id(topic_id) < 0:
                    self._applier.forget_topic(name, topic_id)
            self._applier.loaded(lambda: self._whole(image))
            self._applier.apply(MetadataDelta(topics_changed=True, leaders_changed=True, features_changed=True))
            self._count_partitions()
            self._partition_effects.run()

    def _whole(self, image: Image) -> MetadataDelta:
        """A delta with everything that is known, for the applier."""
        brokers: list[tuple[int, Broker | None]] = [(broker.id, broker) for broker in image.brokers()]
        return MetadataDelta(brokers, self._led_here(), partitions=list(self._told.values()))

    def _led_here(self) -> list[PartitionState]:
        me = self._cache.me
        return [told for told in self._told.values() if told.assignment is not None and told.assignment.leader == me]


JUDGED: tuple[tuple[str, Callable[[PushedMetadata, PushedPartition], bool], ErrorCode], ...] = (
    ("no partition looks like this", PushedMetadata._is_malformed, ErrorCode.INVALID_REQUEST),
    ("its files cannot be used", PushedMetadata._is_offline, ErrorCode.KAFKA_STORAGE_ERROR),
    ("the name is another topic's here", PushedMetadata._is_of_another_topic, ErrorCode.INCONSISTENT_TOPIC_ID),
    ("older than what is known", PushedMetadata._is_older, ErrorCode.STALE_CONTROLLER_EPOCH),
    ("a leader epoch moves only with the partition epoch", PushedMetadata._is_half_newer, ErrorCode.INVALID_REQUEST),
    ("no replica is to be here", PushedMetadata._is_elsewhere, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("known already", PushedMetadata._is_known, ErrorCode.NONE),
)
"""The reasons why a partition of a LeaderAndIsr is not obeyed; the first row that holds gives the answer (R291-69)."""


class _Touched:
    """The changes that an UpdateMetadata has made."""

    def __init__(self) -> None:
        self.brokers: list[tuple[int, Broker | None]] = []
        self.configs: list[ConfigKey] = []
        self.deleted: list[tuple[str, bytes]] = []
        self.topics = False
        self.partitions = False
        self.features = False


def _ops(image: Image, request: "UpdateMetadataRequest", touched: _Touched) -> Iterator[Op]:
    """The ops that an UpdateMetadata comes to. Each must be replayed before the next is asked for."""
    yield from _brokers(image, request, touched)
    for feature in request.features:
        if image.feature(feature.name) != feature.level:
            touched.features = True
            yield FeatureSet(feature.name, feature.level)
    for name in set(image.features()) - {feature.name for feature in request.features}:
        touched.features = True
        yield FeatureSet(name, 0)
    told = {one.broker: {entry.name: entry.value for entry in one.settings} for one in request.broker_settings}
    names = {name for kind, name in (key for key, _ in image.configs.items()) if kind == BROKER_RESOURCE}
    for name in sorted(names | set(told)):
        yield from _settings(image, BROKER_RESOURCE, name, told.get(name, {}), touched)
    for topic in request.topic_states:
        yield from _topic(image, topic, touched)


def _brokers(image: Image, request: "UpdateMetadataRequest", touched: _Touched) -> Iterator[Op]:
    live = {
        one.id: BrokerSet(
            one.id,
            one.epoch,
            one.incarnation_id,
            tuple(EndPoint(at.listener, at.host, at.port, at.security_protocol) for at in one.endpoints),
            one.rack,
        )
        for one in request.live_brokers
    }
    for id, broker in live.items():
        if image.broker(id) != broker:
            touched.brokers.append((id, broker))
            yield broker
    for broker in image.brokers():
        if broker.id not in live:
            touched.brokers.append((broker.id, None))
            yield BrokerUnregistered(broker.id, broker.epoch)


def _settings(image: Image, kind: int, name: str, told: dict[str, str], touched: _Touched) -> Iterator[Op]:
    known = dict(image.config(kind, name))
    if known != told:
        touched.configs.append((kind, name))
        for key in known:
            if key not in told:
                yield ConfigSet(kind, name, key, None)
        for key, value in told.items():
            if known.get(key) != value:
                yield ConfigSet(kind, name, key, value)


def _topic(image: Image, topic: "UpdateMetadataRequest.UpdateMetadataTopicState", touched: _Touched) -> Iterator[Op]:
    topic_id, name, states = topic.topic_id, topic.topic_name, topic.partition_states
    deleted = any(state.leader == DELETED for state in states)
    gone = [topic_id] if deleted else []
    same_name = image.topic(name)
    if same_name >= 0 and not deleted and image.topic_id(same_name) != topic_id:
        gone.append(image.topic_id(same_name) or b"")
    for one in gone:
        row = image.topic_by_id(one)
        if row >= 0:
            touched.deleted.append((image.topic_name(row), one))
            touched.topics = touched.partitions = True
            yield TopicGone(one, image.topic_name(row))
    if deleted:
        return
    row = image.topic_by_id(topic_id)
    if row < 0:
        touched.topics = True
        yield TopicSet(name, topic_id)
    if states:
        touched.topics |= row < 0 or any(image.partition(row, state.partition_index) < 0 for state in states)
        touched.partitions = True
        yield _partitions(topic_id, states)
    yield from _settings(image, TOPIC_RESOURCE, name, {one.name: one.value for one in topic.settings}, touched)


def _partitions(
    topic_id: bytes, states: Iterable["UpdateMetadataRequest.UpdateMetadataPartitionState"]
) -> PartitionsSet:
    last = {state.partition_index: state for state in states}
    ordered = [last[number] for number in sorted(last)]
    return PartitionsSet(
        topic_id,
        [state.partition_index for state in ordered],
        [state.replicas for state in ordered],
        [state.isr for state in ordered],
        leader=[state.leader for state in ordered],
        leader_epoch=[state.leader_epoch for state in ordered],
        partition_epoch=[state.zk_version for state in ordered],
    )
