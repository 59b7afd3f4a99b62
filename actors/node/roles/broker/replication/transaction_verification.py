"""Before the first batch of a transaction is appended to a partition: is the partition in that transaction (KIP-890)?

The leader of the partition asks the coordinator of the transactional id, with AddPartitionsToTxn. Clients of Produce 12 and
TxnOffsetCommit 5 leave it to the leader to add the partition; for others it only verifies that the client has added it.
This file alone decides when that is asked and what the answer is for the client. Rules:

1. A partition with an open transaction of that producer and epoch is in it: nothing is asked.
2. One request at a time to another broker's coordinator, for what has come up meanwhile, `QUESTIONS_A_REQUEST` at most. The
   coordinator of this broker is asked without a request, and lets a partition wait for the end of the transaction before.
   One producer of a transactional id waits to be asked about, as in Apache Kafka, so that nobody's questions stand in front
   of those about other ids. One with an older epoch is answered at once. Of two that cannot be compared the later one
   waits, and the other may ask again.
3. What was verified holds for one batch, and until the transaction ends: a marker that overtakes the batch takes the
   permission back, else the batch would open a transaction that nobody ends. So does another leadership: the marker may
   have been written by the leader in between.
4. The transaction before may still be ending, which takes milliseconds. A partition is then tried to add again after
   `FIRST_RETRY_MS`, and each time after twice as long, up to `add.partitions.to.txn.retry.backoff.ms`, for
   `add.partitions.to.txn.retry.backoff.max.ms` in all.
5. A coordinator in ZooKeeper mode may be too old to be asked (before 3.6). Then what would be verified counts as verified.
6. Older clients take the coordinator's transient errors for fatal ones: they hear NOT_ENOUGH_REPLICAS, and try again.
7. The batch that opens a transaction is the first one that was asked about: a later one is OUT_OF_ORDER_SEQUENCE_NUMBER, and
   the client sends it again behind that. Where the leader adds the partition, each transaction has an epoch of its own, and
   the first batch of a producer that is not known here has the sequence number 0. Else a batch that was refused for a
   moment could never be written: the partition would go on behind it.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.broker.coordinators.coordination import partition_of
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.partition import Partition
from actors.broker.transactions.coordinator import Coordinator
from actors.broker.transactions.state import TopicPartition
from actors.metadata.topic_names import TRANSACTIONS_TOPIC
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.calls import Lane
from actors.node.runtime.meters import Histogram
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

VERSION = 5
VERSIONS = range(4, VERSION + 1)
ADDED_BY_LEADERS = 2
"""The transaction version of clients that leave it to leaders to add partitions."""
QUESTIONS_A_REQUEST = 10_000
TIMEOUT_MS = 30_000
FIRST_RETRY_MS = 2
CODES = {int(code): code for code in ErrorCode}
PERMISSION_MS = 120_000
"""How long a permission is kept that was not used, ms: then its request is gone."""
PERMISSIONS_MAX = 100_000
"""The most permissions. Above it the oldest goes: its batch is refused for a moment, and sent again."""
TRANSIENT = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    )
)
"""The errors with which the coordinator cannot tell now. UNKNOWN_TOPIC_OR_PARTITION: its metadata is behind the
leader's."""


class OwnCoordinator(Protocol):
    """The coordinator of transactions that this broker is itself, as a leader of partitions asks it."""

    @property
    def machine(self) -> Coordinator:
        """The state machine that decides."""
        ...

    def tell(self, begin: Callable[[int], None], then: Callable[[Any], None]) -> None:
        """Hand a request to the machine; `then` is told its verdict, now or in a later turn."""
        ...


class ClientAbilities(NamedTuple):
    """The abilities of a client, by the version of its request."""

    adds: bool
    """Whether the partition is to be added, not only verified (Produce 12, TxnOffsetCommit 5)."""
    aborts: bool
    """Whether the client knows TRANSACTION_ABORTABLE (Produce 11, TxnOffsetCommit 4)."""


class BatchToVerify(NamedTuple):
    """A batch whose partition must be in a transaction. `id`: by which the caller finds the answer again."""

    id: int
    partition: Partition
    producer_id: int
    producer_epoch: int
    sequence: int = 0
    """The first sequence number of the batch; of offsets, which have none, 0."""


class Verification:
    """The questions that were asked for one request. `refused`: by id of the question. `left`: questions without an
    answer."""

    __slots__ = ("key", "left", "refused")

    def __init__(self, key: object) -> None:
        self.key = key
        """Waiting key: all questions are answered."""
        self.left = 0
        self.refused: dict[int, RequestRefused] = {}


_Guard = tuple[bytes, int, int]
"""The key of a permission: (topic id, number, producer id)."""


class _Permission:
    """The permission of one producer to open a transaction in one partition. `given`: the coordinator has said so.
    `sequence`: the lowest that was asked about under this epoch."""

    __slots__ = ("adds", "epoch", "given", "leader_epoch", "sequence", "since_ms")

    def __init__(self, question: BatchToVerify, adds: bool, since_ms: int, before: "_Permission | None") -> None:
        self.epoch = question.producer_epoch
        self.adds = adds
        self.given = False
        self.leader_epoch: int = question.partition.leader_epoch
        self.sequence = question.sequence
        self.since_ms = since_ms
        if before is not None and before.epoch == self.epoch:
            self.sequence = min(self.sequence, before.sequence)

    def holds(self, question: BatchToVerify) -> bool:
        """Whether the permission was given for this batch, in the present leadership."""
        asked = question.producer_epoch, question.partition.leader_epoch
        return self.given and (self.epoch, self.leader_epoch) == asked


class _VerificationRequest(NamedTuple):
    """One question on its way to a coordinator."""

    check: Verification
    question: BatchToVerify
    client: ClientAbilities
    transactional_id: str
    until_ms: int
    retry_ms: int
    asked_ms: int = 0
    """When the batch came."""

    @property
    def transaction(self) -> tuple[str, int, int, bool]:
        """The fields that questions about one transaction have in common in a request."""
        return self.transactional_id, self.question.producer_id, self.question.producer_epoch, self.client.adds


_Queue = OrderedDict[str, deque[_VerificationRequest]]
"""The questions for one coordinator, by transactional id. Invariant: no id is without a question, and all of an id are
about one transaction."""


class TransactionVerification:
    """The questions of one broker's partitions."""

    def __init__(
        self, runtime: Runtime, channels: Channels, cache: MetadataCache, transactions: OwnCoordinator
    ) -> None:
        """A verification with nothing asked. `transactions`: the coordinator that this broker is itself."""
        self._runtime = runtime
        self._transactions = transactions
        self._channels = channels
        self._cache = cache
        value = runtime.config.value
        self._retry_ms: int = value("add.partitions.to.txn.retry.backoff.ms")
        self._retry_ms_max: int = value("add.partitions.to.txn.retry.backoff.max.ms")
        self._listener = runtime.config.inter_broker_listener
        self.refusals = 0
        """How often a coordinator did not have a partition in its transaction, or could not tell in time."""
        self.spent_ms = Histogram()
        """How long the answers to questions took."""
        self._next_key = 0
        self._permissions: OrderedDict[_Guard, _Permission] = OrderedDict()
        """The permissions that were asked for and not used yet, oldest first."""
        self._queues: dict[int, _Queue] = {}
        """The questions for each coordinating broker. Invariant: no queue is empty."""
        self._asked: set[int] = set()
        """Brokers with a request under way."""

    def begin(
        self, transactional_id: str, client: ClientAbilities, questions: Sequence[BatchToVerify]
    ) -> Verification | None:
        """Ask the coordinator about partitions; None: nothing is to be asked. `Verification.key` is signalled when
        `Verification.left` has become 0."""
        wanted = [one for one in questions if self._needed(one, client)]
        if not wanted:
            return None
        now_ms = self._runtime.now.mono_ms
        self._forget(now_ms)
        self._next_key += 1
        check = Verification(("verified", self._next_key))
        check.left = len(wanted)
        for question in wanted:
            before = self._permissions.get(_guard(question))
            if before is not None and before.epoch > question.producer_epoch:
                check.left -= 1
                check.refused[question.id] = _refused(ErrorCode.PRODUCER_FENCED, client)
                continue
            self._permissions[_guard(question)] = _Permission(question, client.adds, now_ms, before)
            self._permissions.move_to_end(_guard(question))
            self._place(
                _VerificationRequest(
                    check, question, client, transactional_id, now_ms + self._retry_ms_max, FIRST_RETRY_MS, now_ms
                )
            )
        self._send()
        return check

    def admit(self, question: BatchToVerify, check: Verification | None, client: ClientAbilities) -> None:
        """Use the permission of a batch, right before it is appended. Raises RequestRefused if there is none."""
        if check is not None and (refused := check.refused.get(question.id)) is not None:
            raise refused
        if not self._needed(question, client):
            return
        permission = self._permissions.get(_guard(question))
        if permission is not None and permission.epoch == question.producer_epoch:
            _check_order(question, client, permission)
        self._permissions.pop(_guard(question), None)
        if permission is None or not permission.holds(question):
            raise RequestRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction has ended since its coordinator was asked: ask again"
            )

    def transaction_ended(self, partition: Partition, producer_id: int, producer_epoch: int) -> None:
        """Forget the permission of a producer when its marker was written: what was verified before holds no more.
        Where the partition is added, the marker of the transaction before may come in between: it has the epoch of the
        next one, not a higher one."""
        guard = partition.topic_id, partition.number, producer_id
        permission = self._permissions.get(guard)
        if permission is not None and not (permission.adds and producer_epoch <= permission.epoch):
            del self._permissions[guard]

    # ---- inside

    def _needed(self, question: BatchToVerify, client: ClientAbilities) -> bool:
        if not (client.adds or self._cache.value("transaction.partition.verification.enable")):
            return False
        producer = question.partition.log.producers.by_id.get(question.producer_id)
        return producer is None or producer.epoch != question.producer_epoch or producer.transaction_offset < 0

    def _forget(self, now_ms: int) -> None:
        while self._permissions:
            guard, permission = next(iter(self._permissions.items()))
            if permission.since_ms + PERMISSION_MS > now_ms and len(self._permissions) <= PERMISSIONS_MAX:
                return
            del self._permissions[guard]

    def _place(self, ask: _VerificationRequest) -> None:
        image = self._cache.image
        topic = image.topic(TRANSACTIONS_TOPIC)
        count = len(image.topic_partitions(topic)) if topic >= 0 else 0
        row = image.partition(topic, partition_of(ask.transactional_id, count)) if count else -1
        leader = image.leader(row) if row >= 0 else -1
        if leader < 0:
            self._answer(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._enqueue(self._queues.setdefault(leader, OrderedDict()), ask)

    def _enqueue(self, queue: _Queue, ask: _VerificationRequest) -> None:
        """Add a question for a coordinator to those about the same transaction."""
        present = queue.get(ask.transactional_id)
        if present is None:
            queue[ask.transactional_id] = deque((ask,))
            return
        known = present[0]
        if known.transaction == ask.transaction:
            present.append(ask)
            return
        same = known.question.producer_id == ask.question.producer_id
        if same and ask.question.producer_epoch < known.question.producer_epoch:
            self._answer(ask, ErrorCode.PRODUCER_FENCED)
            return
        fenced = same and ask.question.producer_epoch > known.question.producer_epoch
        queue[ask.transactional_id] = deque((ask,))
        for one in present:
            self._answer(one, ErrorCode.PRODUCER_FENCED if fenced else ErrorCode.NETWORK_EXCEPTION)
            if not fenced:
                self._drop(one)

    def _ask_own(self, asks: Sequence[_VerificationRequest]) -> None:
        """Put questions to this broker's own coordinator."""
        first, machine = asks[0], self._transactions.machine
        id, producer = first.transactional_id, (first.question.producer_id, first.question.producer_epoch)
        places = [(ask.question.partition.topic, ask.question.partition.number) for ask in asks]
        if not first.client.adds:
            found = machine.verify(id, *producer, places)
            for ask, code in zip(asks, [found] * len(asks) if isinstance(found, ErrorCode) else found, strict=True):
                self._answered(ask, code)
            return

        def added(verdict: Any) -> None:
            for ask in asks:
                self._answered(ask, verdict.error)

        now = self._runtime.now
        self._transactions.tell(
            lambda ticket: machine.add(id, ticket, *producer, frozenset(places), ADDED_BY_LEADERS, now, patient=True),
            added,
        )

    def _send(self) -> None:
        for asks in self._queues.pop(self._runtime.config.broker_id, {}).values():
            self._ask_own(asks)
        for broker in [one for one in self._queues if one not in self._asked]:
            self._ask(broker)

    def _take(self, broker: int) -> dict[str, list[_VerificationRequest]]:
        """The questions for the next request to a broker, by transactional id, oldest first."""
        queue, taken, room = self._queues[broker], dict[str, list[_VerificationRequest]](), QUESTIONS_A_REQUEST
        while queue and room:
            id, asks = queue.popitem(last=False)
            taken[id] = [asks.popleft() for _ in range(min(room, len(asks)))]
            room -= len(taken[id])
            if asks:
                queue[id] = asks
                queue.move_to_end(id, last=False)
        if not queue:
            del self._queues[broker]
        return taken

    def _ask(self, broker: int) -> None:
        taken = self._take(broker)
        endpoint = self._cache.endpoint(broker, self._listener)
        if endpoint is None:
            for asks in taken.values():
                for ask in asks:
                    self._answer(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return

        def answered(reply: "AddPartitionsToTxnResponse") -> None:
            self._asked.discard(broker)
            codes = _codes(reply)
            for asks in taken.values():
                for ask in asks:
                    self._answered(ask, codes(ask))
            self._send()

        self._asked.add(broker)
        self._channels.peer(
            ("verification", broker),
            (endpoint.host, endpoint.port),
            "AddPartitionsToTxn",
            _request(taken),
            answered,
            TIMEOUT_MS,
            VERSION,
            lane=Lane.DATA,
            versions=self._cache.spoken(broker, VERSIONS),
        )

    def _answered(self, ask: _VerificationRequest, code: ErrorCode) -> None:
        now_ms = self._runtime.now.mono_ms
        retry_ms = min(ask.retry_ms, self._retry_ms)
        if ask.client.adds and code is ErrorCode.CONCURRENT_TRANSACTIONS and now_ms + retry_ms <= ask.until_ms:
            later = ask._replace(retry_ms=2 * retry_ms)
            self._runtime.waiting.timers.at(now_ms + retry_ms, lambda: self._again(later))
        else:
            self._answer(ask, code)

    def _again(self, ask: _VerificationRequest) -> None:
        self._place(ask)
        self._send()

    def _answer(self, ask: _VerificationRequest, code: ErrorCode) -> None:
        permission = self._permissions.get(_guard(ask.question))
        self.spent_ms.add(self._runtime.now.mono_ms - ask.asked_ms)
        if code is not ErrorCode.NONE:
            self.refusals += 1
            ask.check.refused[ask.question.id] = _refused(code, ask.client)
            if code not in TRANSIENT:
                self._drop(ask)
        elif permission is not None and permission.epoch == ask.question.producer_epoch:
            permission.given = True
        ask.check.left -= 1
        if not ask.check.left:
            self._runtime.waiting.signal(ask.check.key)

    def _drop(self, ask: _VerificationRequest) -> None:
        """Forget what was asked for a batch that was refused for good."""
        permission = self._permissions.get(_guard(ask.question))
        if permission is not None and permission.epoch == ask.question.producer_epoch and not permission.given:
            del self._permissions[_guard(ask.question)]


def _guard(question: BatchToVerify) -> _Guard:
    return question.partition.topic_id, question.partition.number, question.producer_id


def _check_order(question: BatchToVerify, client: ClientAbilities, permission: _Permission) -> None:
    """Check that no other batch has to come before. Raises RequestRefused if one has."""
    unknown = question.producer_id not in question.partition.log.producers.by_id
    first = 0 if client.adds and unknown else permission.sequence
    if question.sequence > first:
        raise RequestRefused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {question.producer_id} opens a transaction with sequence {question.sequence}, expected {first}",
        )


def _refused(code: ErrorCode, client: ClientAbilities) -> RequestRefused:
    """The answer to a client whose batch is not appended."""
    if code is ErrorCode.PRODUCER_FENCED:
        return RequestRefused(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer producer has taken over that transactional id")
    if code is ErrorCode.TRANSACTION_ABORTABLE and not client.aborts:
        return RequestRefused(ErrorCode.INVALID_TXN_STATE, "the partition is not in the transaction")
    if code in TRANSIENT and not (client.adds and code is ErrorCode.CONCURRENT_TRANSACTIONS):
        return RequestRefused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the coordinator cannot say now whether the partition is in the transaction: {code.name}",
        )
    return RequestRefused(code)


def _request(taken: dict[str, list[_VerificationRequest]]) -> "AddPartitionsToTxnRequest":
    kind = message("AddPartitionsToTxnRequest")
    transactions = []
    for id, asks in taken.items():
        topics: dict[str, dict[int, None]] = {}
        for ask in asks:
            partition = ask.question.partition
            topics.setdefault(partition.topic, {})[partition.number] = None
        _, producer_id, producer_epoch, adds = asks[0].transaction
        transactions.append(
            kind.AddPartitionsToTxnTransaction(
                transactional_id=id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=not adds,
                topics=[
                    kind.AddPartitionsToTxnTopic(name=name, partitions=list(numbers))
                    for name, numbers in topics.items()
                ],
            )
        )
    return kind(transactions=transactions)


def _codes(reply: "AddPartitionsToTxnResponse | ChannelError") -> Callable[[_VerificationRequest], ErrorCode]:
    """The error of each question in an answer."""
    if isinstance(reply, ChannelError) and reply.reason == "unsupported":
        return lambda ask: ErrorCode.UNSUPPORTED_VERSION if ask.client.adds else ErrorCode.NONE
    if isinstance(reply, ChannelError):
        return lambda ask: ErrorCode.NETWORK_EXCEPTION
    if reply.error_code != ErrorCode.NONE:
        return lambda ask: CODES.get(reply.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
    found: dict[tuple[str, TopicPartition], int] = {
        (one.transactional_id, (topic.name, part.partition_index)): part.partition_error_code
        for one in reply.results_by_transaction
        for topic in one.topic_results
        for part in topic.results_by_partition
    }

    def code(ask: _VerificationRequest) -> ErrorCode:
        partition = ask.question.partition
        place = ask.transactional_id, (partition.topic, partition.number)
        return CODES.get(found.get(place, -1), ErrorCode.UNKNOWN_SERVER_ERROR)

    return code
