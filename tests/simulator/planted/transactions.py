"""Mistakes of transactions: their coordinator, markers, the verification of batches, offsets, and what a log knows of
them."""

from collections.abc import Sequence
from typing import Any

from actors.broker.groups.coordinator import Coordinator as Groups
from actors.broker.groups.transactional_offsets import TransactionalOffsets
from actors.broker.log import log, recovery
from actors.broker.log.producers import producers
from actors.broker.log.producers.transaction_index import TransactionIndex
from actors.broker.log.producers.transactions import NO_LIMIT, Ended, Transactions
from actors.broker.replication.partition import Partition
from actors.broker.transactions import records, rules
from actors.broker.transactions.coordinator import Coordinator
from actors.broker.transactions.shard import Shard
from actors.broker.transactions.state import Transaction, TransactionState
from actors.node.roles.broker.replication.transaction_verification import TransactionVerification
from actors.node.roles.broker.transactions.transaction_markers import TransactionMarkers
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.simulator.planted.registry import Patch, instead, mistake


def _nothing(*_: Any, **__: Any) -> None:
    """In the place of a function that does something."""


# ---- the coordinator and its table


@mistake("transactional")
def prepared_ends_forgotten_by_a_new_coordinator() -> Sequence[Patch]:
    """A commit that was answered gets no markers: its transaction stays open for ever."""
    loaded = Coordinator.loaded

    def forgetful(self: Coordinator, partition: int, epoch: int) -> None:
        loaded(self, partition, epoch)
        self.endings.clear()

    return [instead(Coordinator, "loaded", forgetful)]


@mistake("transactional")
def prepared_commit_aborted_by_a_new_coordinator() -> Sequence[Patch]:
    """The producer was told that it is committed."""
    loaded = Coordinator.loaded

    def changed(self: Coordinator, partition: int, epoch: int) -> None:
        for entry in self.shards[partition].entries.values() if partition in self.shards else ():
            if entry.transaction.state is TransactionState.PREPARE_COMMIT:
                entry.transaction = entry.transaction._replace(state=TransactionState.PREPARE_ABORT)
        loaded(self, partition, epoch)

    return [instead(Coordinator, "loaded", changed)]


@mistake("transactional")
def transactions_over_their_time_stay() -> Sequence[Patch]:
    """What a producer that is gone has left open hides all that others write behind it."""
    return [instead(Coordinator, "_abort_timed_out", _nothing)]


@mistake("transactional")
def ids_not_loaded_by_a_new_coordinator() -> Sequence[Patch]:
    """A new coordinator knows no transactions, so that open ones never end."""
    return [instead(Coordinator, "load", lambda self, *args, **more: [])]


@mistake("transactional")
def open_transactions_not_watched_after_a_move() -> Sequence[Patch]:
    """A new coordinator does not look whether one that it has loaded is over its time."""
    note = Shard._note

    def only_new(self: Shard, entry: Any) -> None:
        if self.loaded:
            note(self, entry)

    return [instead(Shard, "_note", only_new)]


@mistake("transactional")
def steps_hold_before_they_are_committed() -> Sequence[Patch]:
    """An end is answered, and its markers are sent, while the record may still be lost with its coordinator."""

    def hasty(self: Coordinator, shard: Shard, entry: Any, following: Transaction, then: Any) -> None:
        version = records.FLEXIBLE if self._version() >= 1 else 0
        self._write(shard, entry.id, [records.record(entry.id, following, version)], _nothing)
        shard.set(entry, following)
        then(ErrorCode.NONE, Now(0, following.updated_ms))

    return [instead(Coordinator, "_step", hasty)]


@mistake("transactional")
def new_producer_keeps_the_epoch() -> Sequence[Patch]:
    """The one before it is not fenced, and both write as one."""
    init = rules.init

    def kept(present: Transaction, *more: Any) -> Any:
        found = init(present, *more)
        if isinstance(found, Transaction) and 0 <= present.producer_epoch < found.producer_epoch:
            return found._replace(producer_epoch=present.producer_epoch)
        return found

    return [instead(rules, "init", kept)]


@mistake("transactional")
def end_without_a_higher_epoch() -> Sequence[Patch]:
    """In version 2 the partitions take the marker for a repetition: the transaction stays open."""
    prepared = rules._prepared

    def same(present: Transaction, *more: Any) -> Any:
        found = prepared(present, *more)
        return found._replace(producer_epoch=present.producer_epoch) if isinstance(found, Transaction) else found

    return [instead(rules, "_prepared", same)]


# ---- markers


@mistake("transactional")
def complete_without_markers() -> Sequence[Patch]:
    """An end is complete as soon as it is prepared."""

    def hasty(self: TransactionMarkers, ending: Any) -> None:
        self._machine.marked(ending, self._runtime.now)

    return [instead(TransactionMarkers, "begin", hasty)]


@mistake("transactional")
def markers_sent_once() -> Sequence[Patch]:
    """A partition whose leader could not be asked gets none."""

    def given_up(self: TransactionMarkers, part: Any) -> None:
        part[0].left.discard(part[1])
        self._look(part[0])

    return [instead(TransactionMarkers, "_retry", given_up)]


# ---- verification


@mistake("transactional")
def partition_is_not_added() -> Sequence[Patch]:
    """The coordinator does not know of it, and sends it no marker."""
    return [instead(TransactionVerification, "_needed", lambda self, question, client: False)]


# ---- offsets of groups


@mistake("transactional")
def aborted_offsets_count() -> Sequence[Patch]:
    """A copier goes on behind records that were not copied."""
    ended = TransactionalOffsets.ended
    return [instead(TransactionalOffsets, "ended", lambda self, id, commit, order: ended(self, id, True, order))]


@mistake("transactional")
def pending_offsets_not_loaded() -> Sequence[Patch]:
    """A new coordinator of the group knows nothing of transactions that are open, and of those that were committed."""
    load = Groups.load

    def partly(self: Groups, partition: int, epoch: int, records: Any, producer_id: int = -1) -> list[str]:
        return [] if producer_id >= 0 else load(self, partition, epoch, records, producer_id)

    return [instead(Groups, "load", partly)]


@mistake("transactional")
def ends_not_loaded_with_offsets() -> Sequence[Patch]:
    """For a new coordinator of the group every transaction is open."""
    return [instead(Groups, "load_end", _nothing)]


@mistake("transactional")
def groups_not_told_of_markers() -> Sequence[Patch]:
    """Offsets of a transaction stay pending until the coordinator of the group changes."""
    return [instead(Groups, "transaction_ended", _nothing)]


# ---- what a log knows


@mistake("transactional")
def last_stable_offset_is_the_high_watermark() -> Sequence[Patch]:
    """Readers of committed records get what may be aborted."""
    return [instead(Partition, "last_stable_offset", property(lambda self: self.high_watermark))]


@mistake("transactional")
def marker_counts_before_it_is_replicated() -> Sequence[Patch]:
    """The last stable offset is behind a transaction whose end another leader may lack."""

    def ended(self: Transactions, producer_id: int, last_offset: int) -> Ended:
        found = Ended(self.open.pop(producer_id), last_offset, producer_id)
        self._look()
        return found

    return [instead(Transactions, "end", ended)]


@mistake("transactional")
def snapshot_without_open_transactions() -> Sequence[Patch]:
    """After a clean stop nobody knows that what is open is undecided."""
    restore = producers._restore

    def closed(by_id: Any, row: Any) -> None:
        restore(by_id, row)
        by_id[row[0]].transaction_offset = -1

    return [instead(producers, "_restore", closed)]


@mistake("transactional")
def aborted_transactions_not_indexed() -> Sequence[Patch]:
    """Readers of committed records are not told what to pass over."""
    return [instead(TransactionIndex, "append", _nothing)]


@mistake("transactional")
def index_not_built_again_after_a_crash() -> Sequence[Patch]:
    """What a power cut took from an index is missing in it from then on."""
    return [instead(recovery, "_index_aborted", lambda log, unsure, learnt, indexed, doubtful: [])]


@mistake("transactional")
def index_says_that_all_is_stable() -> Sequence[Patch]:
    """A reader stops looking for aborted transactions too early, where several are open at once."""
    aborted = log.aborted

    def stable(ended: Ended, transactions: Transactions) -> Any:
        return aborted(ended, transactions)._replace(last_stable_offset=ended.last_offset + 1)

    return [instead(log, "aborted", stable)]


@mistake("transactional")
def reader_of_committed_records_reads_to_the_end() -> Sequence[Patch]:
    """The log that a fetch reads does not wait for open transactions."""

    def open_end(self: Transactions, producer_id: int, first_offset: int) -> None:
        self.open[producer_id] = first_offset
        self.first_unstable = NO_LIMIT

    return [instead(Transactions, "begin", open_end)]


# ---- two-phase commit


@mistake("prepared")
def prepared_transactions_have_a_timeout() -> Sequence[Patch]:
    """What was decided to be committed is aborted when the timeout that its client has named is over."""
    return [instead(rules.Init, "lasts_ms", property(lambda request: request.timeout_ms))]


@mistake("prepared")
def who_comes_back_aborts() -> Sequence[Patch]:
    """A client that keeps the open transaction is told so, and it is aborted all the same."""
    init = rules.init

    def aborts(present: Transaction, request: rules.Init, *more: Any) -> Any:
        return init(present, request._replace(keep=False), *more)

    return [instead(rules, "init", aborts)]


@mistake("prepared")
def who_was_before_ends_a_kept_transaction() -> Sequence[Patch]:
    """A client that has lost its transaction to another one aborts or commits it."""
    held = rules._holder_error

    def either(present: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
        found = held(present, producer_id, producer_epoch)
        return ErrorCode.NONE if found is ErrorCode.PRODUCER_FENCED else found

    return [instead(rules, "_holder_error", either)]


@mistake("repeated")
def kept_transaction_marked_with_the_pair_of_the_client() -> Sequence[Patch]:
    """The markers name a producer that has written nothing in the partitions, so the transaction stays open there."""
    prepared = rules._prepared_as_kept

    def marked(present: Transaction, *more: Any) -> Any:
        found = prepared(present, *more)
        if isinstance(found, Transaction):
            return found._replace(producer_id=found.next_id, producer_epoch=found.next_epoch)
        return found

    return [instead(rules, "_prepared_as_kept", marked)]


@mistake("prepared")
def end_of_a_kept_transaction_does_not_raise_the_epoch() -> Sequence[Patch]:
    """An end that was given up, and arrives late, ends the next transaction in the middle."""
    prepared = rules._prepared_as_kept

    def same(present: Transaction, *more: Any) -> Any:
        found = prepared(present, *more)
        if isinstance(found, Transaction):
            return found._replace(next_id=present.next_id, next_epoch=present.next_epoch)
        return found

    return [instead(rules, "_prepared_as_kept", same)]


@mistake("prepared")
def another_pair_is_named_than_goes_on() -> Sequence[Patch]:
    """The client does not find what it has prepared, and aborts it."""
    answer = Coordinator._answer

    def wrong(self: Coordinator, ticket: int, error: ErrorCode, *pairs: int) -> None:
        if len(pairs) == 4 and pairs[2] >= 0:
            pairs = (*pairs[:2], pairs[0], pairs[1])
        answer(self, ticket, error, *pairs)

    return [instead(Coordinator, "_answer", wrong)]


@mistake("repeated")
def kept_epochs_have_no_end() -> Sequence[Patch]:
    """A client that comes back gets an epoch behind the last one."""
    return [instead(rules, "used_up", lambda epoch: False)]
