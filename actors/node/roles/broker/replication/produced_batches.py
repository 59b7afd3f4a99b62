"""The batches of a Produce request on their way into their logs (Apache Kafka's `ReplicaManager.appendRecords`).

This file alone decides in which order a produced batch is looked up, judged and appended. Rules:

1. A batch is looked up and admitted once. Where it is not appended at once, that makes a `Candidate`, which its inspection,
   the question to its transaction's coordinator and its append share. In between the metadata, the settings and the ISR may
   change: a candidate that does not hold any more is admitted anew before it is appended.
2. A batch that is or gets compressed is inspected before it is appended (`batch_inspections.py`); one that opens a
   transaction waits until the coordinator has its partition in the transaction (`replication/transaction_verification.py`).
   Nothing of a request is appended before all its batches are judged, and later Produce requests of its connection wait.
3. The first fault found decides the error: `broker/replication/admission.py` has the order. Where the log itself refuses a
   batch, the answer says where that log starts.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.log.log import Appended, PartitionLog
from actors.broker.replication import admission
from actors.broker.replication.admission import CODECS, TRANSACTIONAL, ProducedHeader, RequestRefused
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.metadata.topic_names import INTERNAL_TOPICS
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.replication.appends import Appends
from actors.node.roles.broker.replication.batch_inspections import (
    BATCH_COST_MAX,
    ROOM,
    Inspection,
    InspectionRoom,
    Order,
    rest,
)
from actors.node.roles.broker.replication.transaction_verification import (
    BatchToVerify,
    ClientAbilities,
    TransactionVerification,
    Verification,
)
from actors.node.runtime.answers import Answer, Close, Later, Parked
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount, Steps, go_on
from actors.node.runtime.waiting import FAR_MS
from actors.ports import WorkKind
from actors.settings.topics import TopicSettings
from actors.wire import batch_header
from actors.wire.errors import ErrorCode
from fastpath.meters.traffic import CRC, MAGIC, SEQUENCE

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ProduceRequest

IDS_FROM = 13
ABORTABLE_FROM, ADDS_FROM = 11, 12
JUDGED = frozenset(
    (
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    )
)
"""The errors with which the log itself refused a batch: the answer says where the log starts."""


MAGIC_AT = 16
"""The place of the magic in a record batch."""
TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
WRONG = {
    ErrorCode.CORRUPT_MESSAGE: CRC,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: SEQUENCE,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: SEQUENCE,
}
"""The errors that Apache Kafka counts by what is wrong with the records."""


class Candidate(NamedTuple):
    """A batch that may be appended, as far as was known when it was looked up."""

    partition: Partition
    settings: TopicSettings
    claims: ProducedHeader

    def still_holds(self, replicas: Replicas, topic: bytes | str, number: int) -> bool:
        """Whether the replica and its topic's settings are the same. Leader and ISR are for `Partition.admit` to say."""
        return replicas.get(topic, number) is self.partition and self.partition.settings is self.settings


class Judged:
    """The facts about a request's batches that are known before the first one is appended, by the id of a batch's part
    of the request."""

    __slots__ = ("candidates", "check", "verdicts")

    def __init__(self) -> None:
        self.candidates: dict[int, Candidate] = {}
        self.verdicts: dict[int, Inspection | RequestRefused] = {}
        """The inspection of each batch that is or gets compressed, or why it was refused before. An inspection that could
        not be finished has no verdict."""
        self.check: Verification | None = None
        """The check that the coordinator was asked for; None: it was asked nothing."""


class Produces:
    """The state that the Produce requests of a broker share."""

    __slots__ = ("_appends", "_availability", "_replicas", "_runtime", "order", "verification")

    def __init__(
        self,
        runtime: Runtime,
        replicas: Replicas,
        availability: Availability,
        appends: Appends,
        order: Order,
        verification: TransactionVerification,
    ) -> None:
        self._runtime = runtime
        self._replicas = replicas
        self._availability = availability
        self._appends = appends
        self.order = order
        self.verification = verification

    @property
    def serving(self) -> bool:
        """Whether clients are served now."""
        return self._availability.serving

    @property
    def recompresses(self) -> bool:
        """Whether batches may get another codec here."""
        return self._replicas.cluster.recompresses

    def plain(self, request: "ProduceRequest", connection: int) -> bool:
        """Whether a request can be appended at once, batch by batch: nothing waits before it, and no batch is of a
        transaction, or is or gets compressed. A long request is not looked through at once."""
        if request.transactional_id is not None or self._replicas.cluster.recompresses:
            return False
        if not self.order.free(connection):
            return False
        entries = 0
        for topic in request.topic_data:
            for one in topic.partition_data:
                entries += 1
                if entries == ENTRIES_A_SLICE or admission.compressed(one.records):
                    return False
        return True

    def admit(
        self,
        request: "ProduceRequest",
        version: int,
        topic: bytes | str,
        one: "ProduceRequest.PartitionProduceData",
    ) -> tuple[Partition, ProducedHeader]:
        """The partition, if it may be appended to, and the claims of the batch, if it has the right form and size.
        Raises RequestRefused."""
        acks = request.acks
        if not -1 <= acks <= 1:
            raise RequestRefused(ErrorCode.INVALID_REQUIRED_ACKS)
        partition: Partition | None = self._replicas.get(topic, one.index)
        if partition is None:
            raise RequestRefused(self._availability.absent(topic, one.index))
        if partition.topic in INTERNAL_TOPICS:
            raise RequestRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is written by the cluster only")
        claims = admission.check(one.records, partition.settings, version, request.transactional_id)
        partition.admit(acks)
        return partition, claims

    def candidate(
        self,
        request: "ProduceRequest",
        version: int,
        topic: bytes | str,
        one: "ProduceRequest.PartitionProduceData",
    ) -> Candidate:
        """The batch as `admit` finds it, for an append that comes later. Raises RequestRefused."""
        partition, claims = self.admit(request, version, topic, one)
        return Candidate(partition, partition.settings, claims)

    def append(
        self,
        request: "ProduceRequest",
        version: int,
        topic: bytes | str,
        one: "ProduceRequest.PartitionProduceData",
        judged: Judged | None,
    ) -> tuple[Partition, Appended]:
        """Append one batch. `judged` None: nothing had to be known before. Raises RequestRefused."""
        records, verdict = one.records, None
        candidate = judged.candidates.get(id(one)) if judged is not None else None
        if candidate is not None and candidate.still_holds(self._replicas, topic, one.index):
            partition, claims = candidate.partition, candidate.claims
            partition.admit(request.acks)
        else:
            partition, claims = self.admit(request, version, topic, one)
        try:
            admission.judge(claims)
            if judged is not None:
                verdict = judged.verdicts.get(id(one))
            if verdict is not None or claims.attributes & CODECS:
                records = admission.believe(records, verdict.verdict if isinstance(verdict, Inspection) else verdict)
        except RequestRefused as refused:
            raise _judged(refused, partition.log) from None
        if claims.attributes & TRANSACTIONAL:
            self._verified(request, version, one, partition, claims, judged)
        try:
            appended = self._appends.append(partition, records, client=True)
        except RequestRefused as refused:
            raise _judged(refused, partition.log) from None
        if appended.duplicate:
            partition.traffic.produced(0, 0)
        else:
            partition.traffic.produced(len(records), appended.last_offset - appended.base_offset + 1)
            self._appends.grown(partition)
        return partition, appended

    def refused(self, topic: bytes | str, one: "ProduceRequest.PartitionProduceData", code: ErrorCode) -> None:
        """Count a batch that is answered with an error."""
        partition = self._replicas.get(topic, one.index)
        traffic = self._replicas.traffic if partition is None else partition.traffic
        traffic.refused(len(one.records or b"") if code in TOO_LARGE else 0)
        if one.records is not None and len(one.records) > MAGIC_AT and one.records[MAGIC_AT] != batch_header.MAGIC:
            traffic.wrong(MAGIC)
        elif code in WRONG:
            traffic.wrong(WRONG[code])

    def inspection(self, candidate: Candidate, records: Any, room: InspectionRoom) -> Inspection | None:
        """The inspection of a batch that is or gets compressed, begun as far as the turn allows; None: it is neither."""
        settings, attributes = candidate.settings, candidate.claims.attributes
        target = admission.target(settings, attributes) if self.recompresses else None
        if target is None and not attributes & CODECS:
            return None
        rules = admission.rules(settings, self._runtime.now.wall_ms)
        inspection, order = Inspection(records, rules, settings, target, room), self.order
        if inspection.in_turn and (cost_max := min(order.budget(), BATCH_COST_MAX)) > 0:
            order.spend(inspection.go_on(cost_max))
        return inspection

    def _verified(
        self,
        request: "ProduceRequest",
        version: int,
        one: "ProduceRequest.PartitionProduceData",
        partition: Partition,
        claims: ProducedHeader,
        judged: Judged | None,
    ) -> None:
        """Check that a partition is in the transaction. Raises RequestRefused if it is not. What the coordinator refuses is
        no judgement of this log, save that another batch has to come first."""
        check = judged.check if judged is not None else None
        try:
            self.verification.admit(question(one, partition, claims), check, client(version))
        except RequestRefused as refused:
            if refused.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                _judged(refused, partition.log)
            raise


class ProduceAttempt:
    """A Produce request that cannot be appended at once. Its compressed batches are looked at first, and its partitions
    must be in a transaction, if the batches are of one; when all are judged, it is appended."""

    __slots__ = ("_append", "_connection", "_judged", "_produces", "_request", "_version")

    def __init__(
        self,
        produces: Produces,
        request: "ProduceRequest",
        version: int,
        connection: int,
        append: Callable[[Judged], Steps],
    ) -> None:
        """A request that has not begun. `append`: appends all batches, in slices, and answers."""
        self._produces = produces
        self._request = request
        self._version = version
        self._connection = connection
        self._append = append
        self._judged = Judged()

    def begin(self) -> Answer:
        """Begin at once, unless a Produce request of this connection waits: then behind that one."""
        order, connection = self._produces.order, self._connection
        if order.free(connection):
            return go_on(self._first())
        order.enter(connection, self)
        return self._wait()

    def _first(self) -> Steps:
        """Append at once, unless a batch needs a thread or a coordinator: then later requests of the connection wait."""
        left = yield from self._look()
        if left or self._judged.check is not None:
            self._produces.order.enter(self._connection, self)
            return self._judge(left)
        return (yield from self._append(self._judged))

    def _wait(self) -> Answer:
        return Parked([self._produces.order.key(self._connection)], FAR_MS, self._again)

    def _again(self, expired: bool) -> Answer:
        return go_on(self._next()) if self._produces.order.first(self._connection, self) else self._wait()

    def _next(self) -> Steps:
        left = yield from self._look()
        if left or self._judged.check is not None:
            return self._judge(left)
        return (yield from self._finish())

    def _look(self) -> Generator[None, None, list[Inspection]]:
        """Admit every batch that something must be known of; look at batches that are or get compressed, as far as the
        turn allows, and ask the coordinator about those of a transaction. The inspections that a thread has to
        finish."""
        produces, request, version, judged = self._produces, self._request, self._version, self._judged
        left: list[Inspection] = []
        questions: list[BatchToVerify] = []
        room, recompresses, pace = InspectionRoom(), produces.recompresses, SliceCount()
        for topic in request.topic_data:
            if not topic.partition_data and pace.over():
                yield
            name = topic.topic_id if version >= IDS_FROM else topic.name
            for one in topic.partition_data:
                if pace.over():
                    yield
                inspected = recompresses or admission.compressed(one.records)
                if not inspected and not request.transactional_id:
                    continue
                try:
                    candidate = produces.candidate(request, version, name, one)
                except RequestRefused as refused:
                    if inspected:
                        judged.verdicts[id(one)] = refused
                    continue  # the append says why
                judged.candidates[id(one)] = candidate
                inspection = produces.inspection(candidate, one.records, room) if inspected else None
                if inspection is not None:
                    judged.verdicts[id(one)] = inspection
                    if inspection.verdict is None:
                        left.append(inspection)
                if candidate.claims.attributes & TRANSACTIONAL:
                    questions.append(question(one, candidate.partition, candidate.claims))
        if request.transactional_id:
            judged.check = produces.verification.begin(request.transactional_id, client(version), questions)
        return left

    def _judge(self, left: list[Inspection]) -> Answer:
        if not left:
            return self._verified(False)
        size = sum(one.form_bytes for one in self._judged.verdicts.values() if isinstance(one, Inspection))
        if not self._produces.order.reserve(self._connection, size):
            return Parked([ROOM], FAR_MS, lambda expired: self._judge(left))
        return Later(rest(left), lambda result: self._verified(False), WorkKind.RECORDS)

    def _verified(self, expired: bool) -> Answer:
        check = self._judged.check
        if check is not None and check.left:
            return Parked([check.key], FAR_MS, self._verified)
        return go_on(self._finish())

    def _finish(self) -> Steps:
        """Append, since all batches are judged; a job that failed has left some without a verdict."""
        try:
            if not self._produces.serving:
                return Close("this broker is fenced")
            return (yield from self._append(self._judged))
        finally:
            self._produces.order.leave(self._connection, self)


def question(one: "ProduceRequest.PartitionProduceData", partition: Partition, claims: ProducedHeader) -> BatchToVerify:
    """The question to the coordinator about a batch."""
    return BatchToVerify(id(one), partition, claims.producer_id, claims.producer_epoch, claims.base_sequence)


def client(version: int) -> ClientAbilities:
    """The abilities of a client, by its version of Produce."""
    return ClientAbilities(adds=version >= ADDS_FROM, aborts=version >= ABORTABLE_FROM)


def _judged(refused: RequestRefused, log: PartitionLog) -> RequestRefused:
    """The refusal of a batch by its log, with the log's start. Any other refusal stays as it is."""
    if refused.code in JUDGED:
        refused.log_start_offset = log.log_start_offset
    return refused
