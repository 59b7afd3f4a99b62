"""What a request makes of a transaction: the next value, or the error that the client gets (KIP-98, 360, 890, 939).

This file alone decides that. It changes nothing and writes nothing. Rules:

1. While a step is being written, or an end has not got all its markers, nothing else begins: CONCURRENT_TRANSACTIONS,
   whoever asks. The client asks again. Java's producer may ask for the next end before it has sent the records of that
   transaction; it sends them before it asks again, so that end must not be refused for good.
2. InitProducerId raises the epoch, so that the producer before is fenced. With the producer id and epoch that the client
   has (KIP-360) it is refused if a newer producer has come, and repeated without a raise if the answer was lost.
3. An open transaction is aborted first, with a raised epoch: the client asks again and gets the one after. From
   transaction version 2 on the producer before may have that raised epoch, if it asks first (KAFKA-19367).
4. Before the last epoch of a producer id is given out, a new producer id takes its place.
5. From transaction version 2 on each end raises the epoch (KIP-890), so a batch or an end that comes late carries an
   epoch that has passed. An end that is repeated is known by the epoch one below the present one.
6. InitProducerId may keep the open transaction instead of aborting it (KIP-939). The client gets the next epoch, or the
   first of a new id, beside the pair that the transaction goes on with. With its own pair it may end the transaction in
   the protocol of version 2, and nothing else (INVALID_TXN_STATE); every other pair is fenced, that of the transaction
   too. The end raises the client's pair once more: an end that comes late, of a try before, must not meet the next
   transaction.
7. A kept transaction keeps its timeout, unless the client that comes back has two-phase commit: then it has none. The
   longest timeout of a transaction that does not take part in one is `NO_TIMEOUT_MS` - 1.
8. A producer that was fenced and names what it was gets PRODUCER_FENCED, and does not abort what is kept or has no timeout:
   that may be prepared, and its decision made. Of other open transactions Apache Kafka aborts those too.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from actors.broker.transactions.state import (
    AT_REST,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    NO_TIME_MS,
    NO_TIMEOUT_MS,
    PREPARED,
    TopicPartition,
    Transaction,
    TransactionState,
    used_up,
)
from actors.wire.errors import ErrorCode

EPOCH_RAISED_FROM = 2
"""The first transaction version in which each end raises the epoch."""
TakeId = Callable[[], int | None]
"""A function that returns a producer id that no other producer has; None: there is none yet."""


class Init(NamedTuple):
    """A request InitProducerId of a transactional id. `producer_id`, `producer_epoch`: what the client has, both NO_ID
    without. `two_phase`: its transactions take part in a two-phase commit. `keep`: an open transaction is not aborted."""

    timeout_ms: int
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    two_phase: bool = False
    keep: bool = False

    @property
    def recovers(self) -> bool:
        """Whether the client names the producer that it was."""
        return self.producer_id != NO_ID

    @property
    def lasts_ms(self) -> int:
        """The timeout of the transactions."""
        return NO_TIMEOUT_MS if self.two_phase else min(self.timeout_ms, NO_TIMEOUT_MS - 1)


class Fence:
    """An open transaction that is to be aborted first, against its producer's will."""


def init(present: Transaction, request: Init, take_id: TakeId, wall_ms: int) -> Transaction | Fence | ErrorCode:
    """The value to write; or the fence that comes first; or PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS while there is no producer id."""
    if present.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if request.recovers and not _was(present, request):
        return ErrorCode.PRODUCER_FENCED
    if present.state is TransactionState.ONGOING:
        return _kept(present, request, take_id, wall_ms) if request.keep else Fence()
    if present.epochs_used_up and (not request.recovers or request.producer_epoch == present.producer_epoch):
        producer_id = take_id()
        if producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        last = present.producer_epoch if request.recovers else NO_EPOCH
        return _initialised(present, request, wall_ms, producer_id, 0, last)
    if not request.recovers:
        epoch, last = present.producer_epoch + 1, NO_EPOCH
    elif present.producer_epoch in (NO_EPOCH, request.producer_epoch):
        epoch, last = present.producer_epoch + 1, present.producer_epoch
    elif request.producer_epoch == present.last_epoch:
        epoch, last = present.producer_epoch, present.last_epoch
    else:
        return ErrorCode.PRODUCER_FENCED
    return _initialised(present, request, wall_ms, present.producer_id, epoch, last)


def _was(present: Transaction, request: Init) -> bool:
    """Whether the producer that the client names may go on: it is the present one, or the one whose epochs were used up,
    or none was given out yet. One that was fenced does not abort what may be prepared."""
    is_open = present.state is TransactionState.ONGOING
    if is_open and not request.keep and (present.kept or present.timeout_ms == NO_TIMEOUT_MS):
        id, epoch = present.held_by
        return request.producer_id == id and request.producer_epoch >= epoch
    if present.kept:
        return request.producer_id == present.next_id
    return (
        present.producer_epoch == NO_EPOCH
        or request.producer_id == present.producer_id
        or (request.producer_id == present.previous_id and used_up(request.producer_epoch))
    )


def _kept(present: Transaction, request: Init, take_id: TakeId, wall_ms: int) -> Transaction | ErrorCode:
    """The open transaction, kept for the client that comes back: under its own ids, while the client gets the next
    pair."""
    producer_id, epoch = present.held_by
    last = NO_EPOCH
    if request.recovers and present.kept and request.producer_epoch == present.last_epoch:
        last = present.last_epoch  # the answer to this request was lost
    elif request.recovers and request.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    elif used_up(epoch):
        taken = take_id()
        if taken is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        producer_id, epoch = taken, 0
    else:
        last = epoch if request.recovers else NO_EPOCH
        epoch += 1
    return present.step(
        TransactionState.ONGOING,
        next_id=producer_id,
        next_epoch=epoch,
        last_epoch=last,
        timeout_ms=NO_TIMEOUT_MS if request.two_phase else present.timeout_ms,
        updated_ms=wall_ms,
    )


def _initialised(
    present: Transaction, request: Init, wall_ms: int, producer_id: int, epoch: int, last_epoch: int
) -> Transaction:
    return present.step(
        TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=request.lasts_ms,
        partitions=frozenset(),
        started_ms=NO_TIME_MS,
        updated_ms=wall_ms,
    )


def producer_error(present: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    """NONE if a producer is the present one of the transactional id, else the error. A producer whose first epoch was
    not written is the present one of no id. That of a kept transaction may add nothing: INVALID_TXN_STATE."""
    if present.kept:
        code = _holder_error(present, producer_id, producer_epoch)
        return code or ErrorCode.INVALID_TXN_STATE
    if present.producer_id != producer_id or present.producer_epoch == NO_EPOCH:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if present.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _holder_error(present: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    """NONE if a producer is the one that has kept the transaction, else the error: the writer of it is fenced too."""
    if (producer_id, producer_epoch) == present.held_by:
        return ErrorCode.NONE
    known = producer_id in (present.producer_id, present.next_id)
    return ErrorCode.PRODUCER_FENCED if known else ErrorCode.INVALID_PRODUCER_ID_MAPPING


def add(
    present: Transaction, partitions: frozenset[TopicPartition], client_version: int, wall_ms: int
) -> Transaction | ErrorCode:
    """The transaction with more partitions. NONE: it has them. CONCURRENT_TRANSACTIONS: it is being ended."""
    if present.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if present.state is TransactionState.ONGOING and partitions <= present.partitions:
        return ErrorCode.NONE
    return present.step(
        TransactionState.ONGOING,
        partitions=present.partitions | partitions,
        started_ms=wall_ms if present.state in AT_REST else present.started_ms,
        updated_ms=wall_ms,
        client_version=client_version,
    )


def verify(present: Transaction, partitions: Iterable[TopicPartition]) -> ErrorCode | list[ErrorCode]:
    """The error of each partition: NONE if it is in the open transaction, else TRANSACTION_ABORTABLE; or one error for
    all."""
    if present.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return [ErrorCode.NONE if one in present.partitions else ErrorCode.TRANSACTION_ABORTABLE for one in partitions]


class End(NamedTuple):
    """A request to end a transaction (EndTxn). `client_version`: the transaction version of the request; `own`: the
    coordinator itself aborts."""

    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    own: bool = False


class _Outcome(NamedTuple):
    """The answer to an end in a state that has no open transaction. `abort`: an abort without partitions begins."""

    code: ErrorCode
    abort: bool = False


_NONE = _Outcome(ErrorCode.NONE)
_BAD = _Outcome(ErrorCode.INVALID_TXN_STATE)
_FENCED = _Outcome(ErrorCode.PRODUCER_FENCED)
_ABORT = _Outcome(ErrorCode.NONE, True)

ENDS_BEFORE_2: dict[TransactionState, tuple[_Outcome, _Outcome]] = {
    TransactionState.EMPTY: (_BAD, _BAD),
    TransactionState.COMPLETE_COMMIT: (_NONE, _BAD),
    TransactionState.COMPLETE_ABORT: (_BAD, _NONE),
}
"""The answers to (a commit, an abort) by state, up to transaction version 1. An end may be repeated with its epoch."""

ENDS: dict[tuple[TransactionState, bool], tuple[_Outcome, _Outcome]] = {
    (TransactionState.EMPTY, False): (_BAD, _ABORT),
    (TransactionState.EMPTY, True): (_FENCED, _FENCED),
    (TransactionState.COMPLETE_COMMIT, False): (_BAD, _ABORT),
    (TransactionState.COMPLETE_COMMIT, True): (_NONE, _BAD),
    (TransactionState.COMPLETE_ABORT, False): (_BAD, _ABORT),
    (TransactionState.COMPLETE_ABORT, True): (_BAD, _NONE),
}
"""The answers to (a commit, an abort) by (state, whether the epoch is that of the request before), from version 2
on."""


def end(present: Transaction, request: End, take_id: TakeId, wall_ms: int) -> Transaction | ErrorCode:
    """The prepared end to write; NONE: the transaction has ended so already. Else INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, COORDINATOR_LOAD_IN_PROGRESS while there is no producer
    id."""
    if present.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error = _end_error(present, request)
    if error is not ErrorCode.NONE:
        return error
    if present.state is not TransactionState.ONGOING:
        raised = request.client_version >= EPOCH_RAISED_FROM
        outcomes = ENDS[present.state, _again(present, request)] if raised else ENDS_BEFORE_2[present.state]
        outcome = outcomes[0 if request.commit else 1]
        return _prepared(present, request, take_id, wall_ms) if outcome.abort else outcome.code
    return _prepared(present, request, take_id, wall_ms)


def _end_error(present: Transaction, request: End) -> ErrorCode:
    """Whether a producer may ask for an end, or may have asked for the one before: NONE, INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED."""
    if present.kept:
        code = _holder_error(present, request.producer_id, request.producer_epoch)
        # The protocol before version 2 knows no answer with another producer id.
        return code or (ErrorCode.NONE if _raises(request) else ErrorCode.PRODUCER_FENCED)
    again = _again(present, request)
    if (present.producer_id != request.producer_id and not again) or present.producer_epoch == NO_EPOCH:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not request.own and not again and request.producer_epoch != present.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return (
        ErrorCode.PRODUCER_FENCED
        if again and present.state in (TransactionState.ONGOING, TransactionState.EMPTY)
        else ErrorCode.NONE
    )


def _raises(request: End) -> bool:
    return request.client_version >= EPOCH_RAISED_FROM


def _again(present: Transaction, request: End) -> bool:
    """Whether the last end has raised the epoch that this request has: its answer was lost."""
    if request.client_version < EPOCH_RAISED_FROM or request.own:
        return False
    if present.producer_id != request.producer_id:
        return _overflowed(present, request)
    return present.producer_epoch == request.producer_epoch + 1


def _overflowed(present: Transaction, request: End) -> bool:
    """Whether the last end used up the epochs of the producer id of this request, and its answer, the next id, was
    lost."""
    return (
        present.previous_id == request.producer_id
        and request.producer_epoch == EPOCH_MAX - 1
        and present.producer_epoch == 0
    )


def _prepared(present: Transaction, request: End, take_id: TakeId, wall_ms: int) -> Transaction | ErrorCode:
    """The prepared end of a transaction. Its marker has the raised epoch, so that the partitions refuse what the epoch
    before sends later."""
    if present.kept:
        return _prepared_as_kept(present, request, take_id, wall_ms)
    epoch, last, next_id = present.producer_epoch, present.last_epoch, NO_ID
    if _raises(request):
        last = epoch
        if used_up(epoch):
            taken = take_id()
            if taken is None:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            next_id = taken
    elif request.own:
        last = NO_EPOCH
    if request.own or _raises(request):
        epoch = min(epoch + 1, EPOCH_MAX)
    return present.step(
        TransactionState.PREPARE_COMMIT if request.commit else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_epoch=last,
        next_id=next_id,
        started_ms=present.started_ms if present.state is TransactionState.ONGOING else wall_ms,
        updated_ms=wall_ms,
        client_version=request.client_version,
    )


def _prepared_as_kept(present: Transaction, request: End, take_id: TakeId, wall_ms: int) -> Transaction | ErrorCode:
    """The prepared end of a kept transaction: the marker has the raised epoch of the producer that has written it, and
    the client's pair is raised as well. `previous_id` is what the client has, for a request that is repeated."""
    held_id, held_epoch = present.held_by
    next_id, next_epoch = held_id, held_epoch + 1
    if used_up(held_epoch):
        taken = take_id()
        if taken is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        next_id, next_epoch = taken, 0
    return present.step(
        TransactionState.PREPARE_COMMIT if request.commit else TransactionState.PREPARE_ABORT,
        producer_epoch=min(present.producer_epoch + 1, EPOCH_MAX),
        last_epoch=held_epoch,
        previous_id=held_id,
        next_id=next_id,
        next_epoch=next_epoch,
        updated_ms=wall_ms,
        client_version=request.client_version,
    )


def completed(present: Transaction, wall_ms: int) -> Transaction:
    """The transaction that a prepared end becomes when each partition has its marker."""
    kept = present.next_epoch != NO_EPOCH
    overflows = present.client_version >= EPOCH_RAISED_FROM and present.next_id != NO_ID
    return present.step(
        TransactionState.COMPLETE_COMMIT
        if present.state is TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT,
        producer_id=present.next_id if overflows else present.producer_id,
        producer_epoch=max(present.next_epoch, 0) if overflows else present.producer_epoch,
        previous_id=present.previous_id if kept else present.producer_id,
        next_id=NO_ID,
        next_epoch=NO_EPOCH,
        partitions=frozenset(),
        updated_ms=wall_ms,
    )
