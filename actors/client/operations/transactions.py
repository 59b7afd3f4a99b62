"""Transactions of other clients: those that are open in partitions, as the partitions' leaders know them, and those of
transactional ids, as their coordinators do (KIP-664); their commits and aborts; and one that a producer has prepared and
left to be ended (KIP-939).

A partition whose last stable offset is below its end has an open transaction, so only the producers of such partitions are
asked for.

A producer of a two-phase commit writes down its `Prepared` where the decision is made, and may then die. Whoever comes back
keeps the transaction (`keep`), compares, and ends it (`end_kept`, `complete`). Keeping fences everybody before. An end whose
answer was lost is asked for again, and is carried out once.
"""

import enum
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from actors.client.asks import Ask, Coordinator, KeyType, Know, Node, Pause, Purpose, Steps
from actors.client.connection import Lost
from actors.client.errors import Action, ClientError, Unspoken, action, refused
from actors.client.metadata import Metadata
from actors.client.operations.leaders import Part, by_topic, of_leaders
from actors.client.operations.offsets import TRIES_SAMPLED, Found, list_offsets
from actors.client.properties import READ_COMMITTED
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, message

TWO_PHASE_FROM = 6
"""The first version of InitProducerId with two-phase commit. Kafka 4.3.1 calls it unstable."""
END_RAISES_FROM = 5
"""The first version of EndTxn that ends a kept transaction."""
NO_TIMEOUT_MS = (1 << 31) - 1
"""The timeout of a transaction that takes part in a two-phase commit."""
ID_MAX, EPOCH_MAX = (1 << 63) - 1, (1 << 15) - 1
TEXT_MAX = 32
"""The most characters of a prepared transaction's text."""


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    """The offset of its first record."""
    last_timestamp_ms: int
    """The timestamp of its producer's last batch there, ms."""


def open_transactions(parts: Iterable[Part]) -> Steps[list[OpenTransaction]]:
    """The transactions that are open in some partitions (Kafka 2.8 and newer). Partitions that cannot be asked now are left
    out. Raises ClientError."""
    wanted = list(parts)
    ends = yield from list_offsets(wanted, tries=TRIES_SAMPLED)
    stable = yield from list_offsets(wanted, isolation=READ_COMMITTED, tries=TRIES_SAMPLED)
    held = [part for part in wanted if _offset(stable.get(part)) < _offset(ends.get(part))]
    if not held:
        return []
    told = yield from _producers(held)
    return [one for found in told.values() if not isinstance(found, ClientError) for one in found]


def _offset(found: Any) -> int:
    return found.offset if isinstance(found, Found) else -1


def _producers(parts: list[Part]) -> Steps[dict[Part, Any]]:
    """The open transactions of each partition, or its ClientError."""
    kind = message("DescribeProducersRequest")

    def build(version: int, some: list[Part], metadata: Metadata) -> Any:
        return kind(
            topics=[kind.TopicRequest(name=topic, partition_indexes=those) for topic, those in by_topic(some).items()]
        )

    def outcomes(reply: Any) -> Any:
        for topic in reply.message.topics:
            for part in topic.partitions:
                found = [
                    OpenTransaction(
                        topic.name, part.partition_index, one.producer_id, one.producer_epoch, one.current_txn_start_offset,
                        one.last_timestamp,
                    )
                    for one in part.active_producers if one.current_txn_start_offset >= 0
                ]  # fmt: skip
                yield (topic.name, part.partition_index), part.error_code, found

    return (yield from of_leaders("DescribeProducers", parts, build, outcomes, tries=TRIES_SAMPLED))


# ---- transactions of other clients, as their coordinators know them (KIP-98, KIP-664)

ONGOING = "Ongoing"
"""The state of a transaction that is open."""
AT_ONCE = 50
"""How many transactional ids are asked for at once."""
FENCE_TIMEOUT_MS = 1_000
"""The transaction.timeout.ms that an id has behind a fence, until its next producer says another one. Brokers allow no more
than their transaction.max.timeout.ms."""


class Described(NamedTuple):
    """A transactional id as its coordinator knows it."""

    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    """The time that the transaction may take, ms."""
    started_ms: int
    """The time at which it began, ms since 1970 by the coordinator's clock; -1: none is open."""


def listed(state: str | None = ONGOING) -> Steps[set[str]]:
    """The transactional ids whose transaction has a state, of all coordinators (Kafka 3.0 and newer); None: in any state.
    Raises ClientError if one of the brokers does not tell its own."""
    kind = message("ListTransactionsRequest")
    states = [] if state is None else [state]
    found: set[str] = set()
    attempt = 0
    while True:
        metadata: Metadata = yield Know((), fresh=True)
        asks = [
            Ask(Node(one), "ListTransactions", lambda version: kind(state_filters=states, producer_id_filters=[]))
            for one in metadata.brokers
        ]
        replies = yield asks
        again = False
        for reply in replies:
            if isinstance(reply, Lost):  # a broker that is gone coordinates nothing: others do
                again = True
            elif isinstance(reply, ClientError):
                raise reply
            elif reply.message.error_code:
                if action(reply.message.error_code) is Action.FINAL:
                    raise refused("the list of transactions", reply.message.error_code)
                again = True
            else:
                found |= {one.transactional_id for one in reply.message.transaction_states}
        if not again:
            return found
        yield Pause(attempt=attempt)
        attempt += 1


def described(ids: Iterable[str]) -> Steps[dict[str, Described]]:
    """What coordinators know of transactional ids (Kafka 3.0 and newer). Ids that they do not know are left out. Raises
    ClientError."""
    kind = message("DescribeTransactionsRequest")

    def ask(id: str) -> Ask:
        return _of_coordinator(id, "DescribeTransactions", lambda version: kind(transactional_ids=[id]))

    found: dict[str, Described] = {}
    for id, reply in (yield from _each(ids, ask, lambda reply: int(reply.transaction_states[0].error_code))).items():
        one = reply.transaction_states[0]
        if one.error_code in UNKNOWN:
            continue
        if one.error_code:
            raise refused(f"transactional.id {id}", one.error_code)
        found[id] = Described(
            one.producer_id, one.producer_epoch, one.transaction_state, one.transaction_timeout_ms,
            one.transaction_start_time_ms,
        )  # fmt: skip
    return found


UNKNOWN = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})
OVER = frozenset({
    ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
})  # fmt: skip
"""The answers to a commit that say that the transaction is over, and was not committed now. It may have been before, if its
coordinator has forgotten it since."""


def committed(transactions: Iterable[tuple[str, int, int]]) -> Steps[dict[str, int]]:
    """Commit transactions of other producers: (transactional id, producer id, epoch), each id once. One that was committed
    before stays so. Returns the error code of each that is over, or not known any more; 0 for the others. Raises
    ClientError."""
    kind = message("EndTxnRequest")
    wanted = {id: (producer_id, epoch) for id, producer_id, epoch in transactions}

    def ask(id: str) -> Ask:
        producer_id, epoch = wanted[id]
        return _of_coordinator(
            id, "EndTxn",
            lambda version: kind(transactional_id=id, producer_id=producer_id, producer_epoch=epoch, committed=True),
            LAST_OF_CLIENTS,
        )  # fmt: skip

    found: dict[str, int] = {}
    for id, reply in (yield from _each(wanted, ask, lambda reply: int(reply.error_code))).items():
        if reply.error_code and reply.error_code not in OVER:
            raise refused(f"EndTxn of transactional.id {id}", reply.error_code)
        found[id] = reply.error_code
    return found


LAST_OF_CLIENTS = 4
"""The last version of EndTxn that leaves the epoch as it is, so that it can be asked for again."""


def fenced(ids: Iterable[str]) -> Steps[None]:
    """Abort the transactions of some ids, and fence their producers. Raises ClientError."""
    kind = message("InitProducerIdRequest")

    def ask(id: str) -> Ask:
        return _of_coordinator(
            id, "InitProducerId", lambda version: kind(transactional_id=id, transaction_timeout_ms=FENCE_TIMEOUT_MS)
        )

    for id, reply in (yield from _each(ids, ask, lambda reply: int(reply.error_code))).items():
        if reply.error_code:
            raise refused(f"transactional.id {id}", reply.error_code)


def _of_coordinator(id: str, name: str, build: Callable[[int], Any], last: int = 1 << 15) -> Ask:
    return Ask(Coordinator(KeyType.TRANSACTION, id), name, build, purpose=Purpose.COORDINATOR, versions=(0, last))


def _each(ids: Iterable[str], ask: Callable[[str], Ask], code: Callable[[Any], int]) -> Steps[dict[str, Any]]:
    """The coordinators' answers, some ids at once; those with an error that passes are asked for again."""
    left, found, attempt = list(ids), {}, 0
    while left:
        some = left[:AT_ONCE]
        replies = yield [ask(id) for id in some]
        again = []
        for id, reply in zip(some, replies, strict=True):
            if isinstance(reply, Lost) or (
                not isinstance(reply, ClientError) and action(code(reply.message)) not in (Action.NOTHING, Action.FINAL)
            ):
                again.append(id)
            elif isinstance(reply, ClientError):
                raise reply
            else:
                found[id] = reply.message
        left = again + left[AT_ONCE:]
        if again:
            yield Pause(attempt=attempt)
        attempt = attempt + 1 if again else 0
    return found


class CoordinatedTransaction(NamedTuple):
    """What its coordinator knows of an open transaction."""

    id: str
    """The transactional id."""
    producer_id: int
    timeout_ms: int
    """The time after which its coordinator aborts it; NO_TIMEOUT_MS: never."""
    started_ms: int


def coordinated(producer_ids: Iterable[int]) -> Steps[dict[int, CoordinatedTransaction]]:
    """The open transactions of some producers, by their ids (Kafka 3.0 and newer). Those that no broker coordinates are left
    out. Raises ClientError if one is missing and a broker does not tell its own: it may be there."""
    wanted = set(producer_ids)
    metadata = yield Know(())
    kind, describe = message("ListTransactionsRequest"), message("DescribeTransactionsRequest")
    request = kind(state_filters=[ONGOING], producer_id_filters=sorted(wanted))
    listed = yield [Ask(Node(id), "ListTransactions", _just(request)) for id in sorted(metadata.brokers)]
    untold = [one for one in map(_listing_error, listed) if one is not None]
    ids = [
        (reply.node, sorted({one.transactional_id for one in reply.message.transaction_states}))
        for reply in listed if _listing_error(reply) is None
    ]  # fmt: skip
    asks = [
        Ask(Node(node), "DescribeTransactions", _just(describe(transactional_ids=those)))
        for node, those in ids
        if those
    ]
    found: dict[int, CoordinatedTransaction] = {}
    for reply in (yield asks) if asks else []:
        if isinstance(reply, ClientError):
            untold.append(reply)
            continue
        for one in reply.message.transaction_states:
            if one.error_code and one.error_code not in UNKNOWN:
                untold.append(refused(f"transactional.id {one.transactional_id}", one.error_code))
            elif not one.error_code and one.transaction_state == ONGOING and one.producer_id in wanted:
                found[one.producer_id] = CoordinatedTransaction(
                    one.transactional_id, one.producer_id, one.transaction_timeout_ms, one.transaction_start_time_ms
                )
    if untold and wanted - found.keys():
        raise untold[0]
    return found


def _listing_error(reply: Any) -> ClientError | None:
    """Why a broker does not list the transactions that it coordinates; None: it does."""
    if isinstance(reply, ClientError):
        return reply
    code = reply.message.error_code
    return refused(f"the list of transactions of broker {reply.node}", code) if code else None


def _just(request: Message) -> Callable[[int], Any]:
    """A function that gives one request, whatever the version is."""
    return lambda version: request


# ---- two-phase commit


class Prepared(NamedTuple):
    """A prepared transaction, as its text is kept where the decision is made. Java's `PreparedTxnState` has the same
    text."""

    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}"

    @classmethod
    def of(cls, text: str) -> "Prepared":
        """A prepared transaction from its text. Raises ClientError."""
        found = [int(one) if one.isascii() and one.isdigit() else -1 for one in text[:TEXT_MAX].split(":")]
        if len(text) > TEXT_MAX or len(found) != 2 or not (0 <= found[0] <= ID_MAX and 0 <= found[1] <= EPOCH_MAX):
            raise ClientError(f"{text[:TEXT_MAX]!r} is no prepared transaction: write PRODUCER_ID:EPOCH")
        return cls(*found)


class Kept(NamedTuple):
    """A transactional id that was taken over, with the transaction that was open."""

    id: str
    producer_id: int
    """The producer id with which the transaction is to be ended."""
    producer_epoch: int
    open: Prepared | None
    """The transaction that is open; None: there is none."""


class Completed(enum.Enum):
    """The outcome of completing a prepared transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Another transaction was open, which nobody has prepared: it was aborted."""
    NOTHING = "nothing"
    """No transaction was open: the one that was prepared had ended."""


def keep(id: str, *, two_phase: bool = True, timeout_ms: int = 60_000) -> Steps[Kept]:
    """Take a transactional id over without aborting the transaction that is open. All producers with that id are fenced.
    `two_phase`: its transactions have no timeout from then on, for which the server must have two-phase commit on, and the
    principal its right; else an open transaction keeps its timeout, and later ones get `timeout_ms`. Raises
    ClientError."""
    kind = message("InitProducerIdRequest")
    build = kind(transactional_id=id, transaction_timeout_ms=timeout_ms, enable2_pc=two_phase, keep_prepared_txn=True)
    reply = yield from _decided(
        id, "InitProducerId", build, (TWO_PHASE_FROM, TWO_PHASE_FROM), two_phase_refused(id, two_phase)
    )
    open_ = Prepared(reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
    return Kept(id, reply.producer_id, reply.producer_epoch, open_ if open_.producer_id >= 0 else None)


def end_kept(kept: Kept, commit: bool) -> Steps[None]:
    """Commit or abort the transaction that was kept. May be asked for again if its outcome is unknown. Raises
    ClientError: another one may have taken the id over."""
    if kept.open is None:
        raise ClientError(f"transactional.id {kept.id} has no open transaction to end")
    kind = message("EndTxnRequest")
    build = kind(
        transactional_id=kept.id, producer_id=kept.producer_id, producer_epoch=kept.producer_epoch, committed=commit
    )
    yield from _decided(
        kept.id, "EndTxn", build, (END_RAISES_FROM, END_RAISES_FROM), lambda code: _end_refused(kept.id, code)
    )


def complete(
    id: str, prepared: Prepared | None, *, two_phase: bool = True, timeout_ms: int = 60_000
) -> Steps[Completed]:
    """Take a transactional id over and commit its open transaction if it is the one that was prepared; abort any other.
    `prepared`: None if it is decided that there is none. Raises ClientError."""
    kept = yield from keep(id, two_phase=two_phase, timeout_ms=timeout_ms)
    if kept.open is None:
        return Completed.NOTHING
    commit = kept.open == prepared
    yield from end_kept(kept, commit)
    return Completed.COMMITTED if commit else Completed.ABORTED


def _decided(
    id: str, name: str, request: Message, versions: tuple[int, int], error_of: Callable[[int], ClientError]
) -> Steps[Any]:
    """Ask the coordinator of a transactional id until it answers."""
    attempt = 0
    while True:
        try:
            reply = yield Ask(
                Coordinator(KeyType.TRANSACTION, id), name, _just(request), purpose=Purpose.COORDINATOR,
                versions=versions,
            )  # fmt: skip
        except Unspoken as error:
            raise two_phase_unspoken(id, error) from None
        code = reply.message.error_code
        if not code:
            return reply.message
        if action(code) is Action.FINAL:
            raise error_of(code)
        yield Pause(attempt=attempt)
        attempt += 1


def two_phase_unspoken(id: str, error: Unspoken) -> ClientError:
    """The error for a server that has no version with two-phase commit."""
    return Unspoken(
        f"transactional.id {id}: {error}; two-phase commit (KIP-939) needs transaction.two.phase.commit.enable=true on "
        "every broker of rayft; Apache Kafka 4.3 and older do not serve it to clients"
    )


def two_phase_refused(id: str, two_phase: bool) -> Callable[[int], ClientError]:
    """A function that gives the error for the code with which two-phase commit was refused."""

    def of(code: int) -> ClientError:
        told: dict[int, str] = {
            ErrorCode.UNSUPPORTED_VERSION: "the server keeps no open transaction: it is Apache Kafka, which does not do "
            "that up to 4.3.1, or transaction.version is below 2",
        }
        if two_phase:
            told[ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] = (
                "two-phase commit is off (transaction.two.phase.commit.enable), or the principal lacks WRITE or "
                "TWO_PHASE_COMMIT on the transactional id"
            )
        return refused(f"transactional.id {id}", code, told.get(code))

    return of


def _end_refused(id: str, code: int) -> ClientError:
    fenced = code in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
    told = "another client has taken it over, which decides upon its transaction now" if fenced else None
    if code == ErrorCode.INVALID_TXN_STATE:
        told = "its transaction has ended otherwise: it was aborted, or committed, in the meantime"
    return refused(f"transactional.id {id}", code, told)
