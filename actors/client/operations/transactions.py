"""Transactions of other clients: those that are open in partitions, as the partitions' leaders know them, and those of
transactional ids, as their coordinators do (KIP-664); their commits and aborts.

A partition whose last stable offset is below its end has an open transaction, so only the producers of such partitions are
asked for.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from actors.client.asks import Ask, Coordinator, KeyType, Know, Node, Pause, Purpose, Steps
from actors.client.connection import Lost
from actors.client.errors import Action, ClientError, action, refused
from actors.client.metadata import Metadata
from actors.client.operations.leaders import Part, by_topic, of_leaders
from actors.client.operations.offsets import Found, list_offsets
from actors.client.properties import READ_COMMITTED
from actors.wire.errors import ErrorCode
from actors.wire.messages import message


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
    ends = yield from list_offsets(wanted)
    stable = yield from list_offsets(wanted, isolation=READ_COMMITTED)
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

    return (yield from of_leaders("DescribeProducers", parts, build, outcomes))


# ---- transactions of other clients, as their coordinators know them (KIP-98, KIP-664)

ONGOING = "Ongoing"
"""The state of a transaction that is open."""
AT_ONCE = 50
"""How many transactional ids are asked for at once."""
FENCE_TIMEOUT_MS = 60_000
"""The transaction.timeout.ms that an id has behind a fence, until its next producer says another one."""


class Described(NamedTuple):
    """A transactional id as its coordinator knows it."""

    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    """The time that the transaction may take, ms."""
    started_ms: int
    """The time at which it began, ms since 1970 by the coordinator's clock; -1: none is open."""


def listed(state: str = ONGOING) -> Steps[set[str]]:
    """The transactional ids whose transaction has a state, of all coordinators (Kafka 3.0 and newer). Raises
    ClientError if one of the brokers does not tell its own."""
    kind = message("ListTransactionsRequest")
    found: set[str] = set()
    attempt = 0
    while True:
        metadata: Metadata = yield Know((), fresh=True)
        asks = [
            Ask(Node(one), "ListTransactions", lambda version: kind(state_filters=[state], producer_id_filters=[]))
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
"""The answers to a commit that say that the transaction is over, and was not committed."""


def committed(transactions: Iterable[tuple[str, int, int]]) -> Steps[dict[str, int]]:
    """Commit transactions of other producers: (transactional id, producer id, epoch), each id once. One that was committed
    before stays so. Returns the error code of each that is over without it, 0 for the others. Raises ClientError."""
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
