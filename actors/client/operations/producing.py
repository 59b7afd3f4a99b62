"""Writing ready-made batches: idempotent by default, in a transaction where the config has a transactional.id.

Rules:

1. Batches of a partition are written in the order in which they are given. The first one of a producer that a partition
   does not know goes alone, since a leader that knows nothing of a producer takes any sequence number. Behind it several
   are under way. What has failed is sent again with its numbers, in order, and a leader leaves out what it has. Without
   numbers (enable.idempotence=false) what is sent again may come behind what was sent later, as with Java's producer.
2. The outcome of a batch whose time is over is unknown. The producer then takes a new producer id; in a transaction, all
   that is left is to abort it. A commit whose outcome is unknown can only be asked for again: an abort would succeed after
   it as well, and an application that writes the records once more then has them twice.
3. A batch that is too large for its topic is divided (`halves.py`), down to one record. The parts have its numbers, so
   nothing changes for the batches behind it.
4. Transactions speak the protocol of transaction version 0 and 1 (the client adds partitions), which all brokers take.
5. With two-phase commit they have no timeout. A prepared one takes nothing more, and is committed or aborted: by this
   producer, or after its death by whoever has its `Prepared` (`transactions.py`). That names one transaction and no other:
   each end is in the protocol of version 2, which raises the epoch, also that of a prepared one without a record.

KIP-98, KIP-360, KIP-447 (offsets with a group's member), KIP-939.
"""

import struct
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from actors.client.asks import AnyNode, Ask, Coordinator, KeyType, Know, Node, Pause, Purpose, Reply, Steps
from actors.client.connection import Lost
from actors.client.errors import NAMES, Action, ClientError, RecordRefused, Unspoken, action, refused
from actors.client.metadata import Metadata
from actors.client.operations.groups import portions
from actors.client.operations.halves import TOO_LARGE, halves
from actors.client.operations.leaders import Part, by_topic, existing
from actors.client.operations.transactions import (
    END_RAISES_FROM,
    TWO_PHASE_FROM,
    Prepared,
    two_phase_refused,
    two_phase_unspoken,
)
from actors.client.properties import ClientConfig
from actors.wire.errors import ErrorCode
from actors.wire.messages import ZERO_UUID, Buffer, message
from fastpath.bytes.crc32c import crc32c
from fastpath.records import batch as batches

TRANSACTIONAL = 0x10
SEQUENCES = 1 << 31
IN_FLIGHT_MAX = 5
"""The most batches of a partition that are under way: a leader knows the last five batches of a producer."""
BY_NAME_LAST = 12
ADDED_BY_CLIENT_LAST = {"Produce": 11, "AddPartitionsToTxn": 3, "AddOffsetsToTxn": 3, "EndTxn": 4, "TxnOffsetCommit": 4}
"""The last versions of the protocol in which the client adds partitions (before KIP-890's second part)."""
_ATTRIBUTES_AT, _CRC_AT = 21, 17
_PRODUCER_AT = 43
_PRODUCER = struct.Struct(">qhi")
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
NOT_COMMITTED = FENCED | {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE}
"""The answers to a commit that say that none was carried out, or that this producer can end nothing any more. Others, such
as a right that was taken away, are about one try only: an earlier one may have been carried out."""


class Placed(NamedTuple):
    """The place at which a batch was written."""

    offset: int
    """The offset of its first record; -1: it is not known (acks=0, or it had been written by an earlier try)."""
    timestamp: int
    """The timestamp of its records, ms, where the log decides the time; else -1."""
    last: int = -1
    """The offset of its last record, if it was divided, since records of others may lie between the parts; else -1."""


class Piece(NamedTuple):
    """Some records of a batch that was divided, which were written."""

    first: int
    """The number of the first one in the batch that was given."""
    records: int
    placed: Placed


class PartlyWritten(ClientError):
    """A batch was divided, and not all of its parts were written."""

    def __init__(self, error: ClientError, pieces: list[Piece]) -> None:
        super().__init__(str(error), error.code)
        self.error = error
        """The error of the first part that was not written."""
        self.pieces = pieces


class _Batch:
    """A batch that is to be written."""

    __slots__ = ("count", "data", "first", "found", "part", "pieces", "sequence")

    def __init__(self, part: Part, data: Buffer, first: int = 0) -> None:
        """`first`: the number of its first record in the batch that was given."""
        self.part = part
        self.first = first
        self.pieces: list[_Batch] = []
        """The batches that it was divided into."""
        view = memoryview(data).cast("B")
        self.data = memoryview(bytearray(view)) if view.readonly else view
        try:
            header = batches.header(self.data)
        except batches.CorruptBatch as error:
            raise ClientError(f"a batch for {part[0]}/{part[1]} is none: {error}") from None
        if header.size != len(self.data):
            raise ClientError(
                f"a batch for {part[0]}/{part[1]} has {len(self.data)} bytes, and its header says {header.size}"
            )
        self.count = header.last_offset_delta + 1
        self.sequence = -1
        self.found: Placed | ClientError | None = None

    def stamp(self, producer_id: int, epoch: int, transactional: bool) -> None:
        """Write the producer's id and epoch into the batch, and the CRC."""
        _PRODUCER.pack_into(self.data, _PRODUCER_AT, producer_id, epoch, self.sequence)
        if transactional:
            self.data[_ATTRIBUTES_AT + 1] |= TRANSACTIONAL
        crc = crc32c(self.data[_ATTRIBUTES_AT:])
        self.data[_CRC_AT : _CRC_AT + 4] = crc.to_bytes(4, "big")

    def leaves(self) -> "list[_Batch]":
        """The batches that are sent for it, in order."""
        return [leaf for one in self.pieces for leaf in one.leaves()] if self.pieces else [self]

    def divide(self) -> None:
        """Divide it into two. Raises ClientError."""
        first, second = halves(self.data)
        self.pieces = [_Batch(self.part, first, self.first)]
        self.pieces.append(_Batch(self.part, second, self.first + self.pieces[0].count))
        if self.sequence >= 0:
            self.pieces[0].sequence = self.sequence
            self.pieces[1].sequence = (self.sequence + self.pieces[0].count) % SEQUENCES

    def outcome(self) -> Placed | ClientError | None:
        """The place of the whole batch, or the first error; None: not all of it is decided."""
        leaves = self.leaves()
        if not self.pieces or any(leaf.found is None for leaf in leaves):
            return self.found
        pieces = [Piece(leaf.first, leaf.count, leaf.found) for leaf in leaves if isinstance(leaf.found, Placed)]
        error = next((leaf.found for leaf in leaves if isinstance(leaf.found, ClientError)), None)
        if error is not None:
            return PartlyWritten(error, pieces)
        first = min((piece.placed for piece in pieces), key=lambda placed: placed.offset)
        return first._replace(last=max(_end(piece.placed, piece.records) for piece in pieces))


def _end(placed: Placed, count: int) -> int:
    """The offset of the last record of a batch; -1: it is not known."""
    return placed.offset + count - 1 if placed.offset >= 0 else -1


class Producer:
    """A producer of batches. Its operations run one after the other, but for `send`: behind `introduce` or `begin` several
    may be under way for partitions of their own."""

    def __init__(self, config: ClientConfig) -> None:
        if config.idempotent and config.in_flight_max > IN_FLIGHT_MAX:
            raise ClientError(
                f"max.in.flight.requests.per.connection={config.in_flight_max} is too much for an idempotent producer: "
                f"write {IN_FLIGHT_MAX} or less, or enable.idempotence=false"
            )
        self._config = config
        self._id, self._epoch = -1, -1
        self._sequences: dict[Part, int] = {}
        """The number of the next record that is given to a partition, by partition."""
        self._known: set[Part] = set()
        """The partitions that know this producer, as they have acknowledged something."""
        self._first: dict[Part, int] = {}
        """The number of the first batch that a partition has not acknowledged, by partition."""
        self._added: set[Part | str] = set()
        """The partitions of the transaction, and the groups whose offsets it commits."""
        self._in_transaction = False
        self._abort_only: ClientError | None = None
        self._prepared = False
        self._commits = False
        """What `maybe_committed` says."""
        self._fenced: ClientError | None = None
        """The error if another producer has taken over, so that nothing is sent any more; None: none has."""
        self.divided = 0
        """How many batches were too large for their topics."""

    @property
    def maybe_committed(self) -> bool:
        """Whether a commit was sent whose outcome is not known."""
        return self._commits

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun that is neither committed nor aborted."""
        return self._in_transaction

    @property
    def producer_id(self) -> int:
        """The producer id; -1: there is none yet."""
        return self._id

    @property
    def epoch(self) -> int:
        """The epoch of the producer id; -1: there is none yet."""
        return self._epoch

    # ---- batches

    def introduce(self) -> Steps[None]:
        """Get a producer id, if batches need one."""
        if self._config.idempotent and self._id < 0:
            yield from self._introduce()

    def send(self, data: Iterable[tuple[Part, Buffer]]) -> Steps[list[Placed | ClientError]]:
        """Write whole batches (magic 2, one for each entry), of which a partition may have several. Returns the result
        of each, in the order given. A bytearray is changed in place. Raises ClientError for what concerns all of
        them."""
        given: list[_Batch] = []
        own: set[int] = set()
        for part, one in data:
            given.append(_Batch(part, bytes(one) if id(one) in own else one))  # each has numbers of its own
            own.add(id(one))
        transactional = self._config.transactional_id is not None
        if transactional:
            self._must_not_be_prepared()
            self._transaction()
        yield from self.introduce()
        whole = False
        try:
            if transactional:
                yield from self._add({one.part for one in given})
            yield from self._deliver(given)
            whole = True
        finally:
            if not whole or any(isinstance(one.outcome(), ClientError) for one in given):
                self._uncertain()
        return [one.outcome() or ClientError("nothing is known of it") for one in given]

    def _uncertain(self) -> None:
        """Give up the numbers, since some batches were not written, or may not have been: numbers of later ones would
        not follow."""
        if self._config.transactional_id is not None:
            self._abort_only = ClientError("the transaction has failed: abort it")
        else:
            self._id, self._sequences, self._known = -1, {}, set()

    def _deliver(self, given: list[_Batch]) -> Steps[None]:
        left: dict[Part, list[_Batch]] = {}
        for one in given:
            left.setdefault(one.part, []).append(one)
        attempt, fresh, id = 0, False, (self._id, self._epoch)
        while left:
            metadata: Metadata = yield Know(tuple(dict.fromkeys(topic for topic, _ in left)), fresh=fresh)
            if id != (self._id, self._epoch):
                raise ClientError("other batches of the producer have failed, and their numbers with them")
            self._number(left)
            asks, groups = self._requests(metadata, left)
            replies = yield asks
            again = False
            for some, reply in zip(groups, replies, strict=True):
                again = self._take(some, reply, metadata) or again
            progress = len(left), sum(map(len, left.values()))
            for part in list(left):
                left[part] = [leaf for one in left[part] for leaf in one.leaves() if leaf.found is None]
                if not left[part]:
                    del left[part]
            fresh = again or not asks
            if fresh and left:
                attempt = 0 if (len(left), sum(map(len, left.values()))) != progress else attempt + 1
                yield Pause(attempt=attempt)
                for part in list(left):
                    try:
                        existing(metadata, part)
                    except ClientError as error:
                        if attempt > 8:
                            for one in left.pop(part):
                                one.found = error

    def _number(self, left: Mapping[Part, list[_Batch]]) -> None:
        """Give numbers to batches that have none. A batch that is sent again keeps its own: it may have been
        written."""
        if not self._config.idempotent:
            return
        for part, some in left.items():
            for one in some:
                if one.sequence < 0:
                    one.sequence = self._sequences.get(part, 0)
                    self._sequences[part] = (one.sequence + one.count) % SEQUENCES
                    one.stamp(self._id, self._epoch, self._config.transactional_id is not None)
            self._first[part] = some[0].sequence

    def _requests(
        self, metadata: Metadata, left: Mapping[Part, list[_Batch]]
    ) -> tuple[list[Ask], list[dict[Part, _Batch]]]:
        """The requests to all leaders, those to one leader in order: the first batch of each partition, then the
        second. They are so few that a leader knows all of them when the first is sent again."""
        asks: list[Ask] = []
        groups: list[dict[Part, _Batch]] = []
        for node, parts in metadata.by_leader(left).items():
            if node not in metadata.brokers:
                continue
            queues = {
                part: left[part] if part in self._known or not self._config.idempotent else left[part][:1]
                for part in parts
            }
            for row in range(min(self._config.in_flight_max, max(map(len, queues.values())))):
                group: dict[Part, _Batch] = {}
                size = 0
                for part, queue in queues.items():
                    if row < len(queue):
                        if group and size + len(queue[row].data) > self._config.request_bytes_max:
                            groups.append(group)
                            asks.append(self._ask(metadata, node, group))
                            group, size = {}, 0
                        group[part] = queue[row]
                        size += len(queue[row].data)
                groups.append(group)
                asks.append(self._ask(metadata, node, group))
        return asks, groups

    def _ask(self, metadata: Metadata, node: int, group: Mapping[Part, _Batch]) -> Ask:
        kind, config = message("ProduceRequest"), self._config
        ids = {topic: metadata.topics[topic].id for topic, _ in group}

        def build(version: int) -> Any:
            return kind(
                transactional_id=config.transactional_id,
                acks=config.acks,
                timeout_ms=config.request_timeout_ms,
                topic_data=[
                    kind.TopicProduceData(
                        name=topic,
                        topic_id=ids[topic],
                        partition_data=[
                            kind.PartitionProduceData(index=one, records=group[topic, one].data) for one in numbers
                        ],
                    )
                    for topic, numbers in by_topic(group).items()
                ],
            )

        last = 1 << 15
        if config.transactional_id is not None:
            last = ADDED_BY_CLIENT_LAST["Produce"]
        elif any(id == ZERO_UUID for id in ids.values()):
            last = BY_NAME_LAST
        return Ask(
            Node(node), "Produce", build, timeout_ms=2 * config.request_timeout_ms, purpose=Purpose.PRODUCE,
            versions=(3, last), answered=config.acks != 0,
        )  # fmt: skip

    def _take(self, group: Mapping[Part, _Batch], reply: Reply | ClientError, metadata: Metadata) -> bool:
        """Take in an answer. Returns whether some of it is to be sent again."""
        if isinstance(reply, ClientError):
            if not isinstance(reply, Lost):
                raise reply
            return True
        if reply.message is None:
            for part, one in group.items():
                self._written(part, one, Placed(-1, -1))
            return False
        ids = {metadata.topics[topic].id: topic for topic, _ in group if topic in metadata.topics}
        again, told = False, set()
        for topic in reply.message.responses:
            name = ids.get(bytes(topic.topic_id), "") if reply.version > BY_NAME_LAST else topic.name
            for data in topic.partition_responses:
                part = name, data.index
                batch = group.get(part)
                if batch is not None:
                    told.add(part)
                    if data.current_leader is not None:
                        metadata.new_leader(*part, data.current_leader.leader_id, data.current_leader.leader_epoch)
                    again = self._outcome(part, batch, data) or again
        return again or told != set(group)

    def _outcome(self, part: Part, batch: _Batch, data: Any) -> bool:
        code = data.error_code
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._written(part, batch, Placed(-1, -1))
        elif not code:
            self._written(part, batch, Placed(data.base_offset, data.log_append_time_ms))
        elif code == OUT_OF_ORDER and batch.sequence != self._first.get(part):
            return True  # one before it was not written
        elif action(code) is not Action.FINAL:
            return True
        elif code in FENCED and self._config.transactional_id is not None:
            raise self._fence(code)
        elif code in TOO_LARGE and batch.count > 1:
            self._divide(batch)
        else:
            error = refused(f"partition {part[0]}/{part[1]}", code, data.error_message)
            rows = [one.batch_index for one in data.record_errors or ()] or ([0] if batch.count == 1 else [])
            batch.found = RecordRefused(str(error), code, batch.first + rows[0]) if rows else error
        return False

    def _divide(self, batch: _Batch) -> None:
        """Let a batch be sent in two parts."""
        self.divided += 1
        batch.divide()
        if self._config.idempotent:
            for one in batch.pieces:
                one.stamp(self._id, self._epoch, self._config.transactional_id is not None)

    def _written(self, part: Part, batch: _Batch, placed: Placed) -> None:
        batch.found = placed
        self._known.add(part)

    # ---- transactions

    def begin(self) -> Steps[None]:
        """Begin a transaction. The first one fences any other producer with the transactional.id."""
        if self._fenced is not None:
            raise self._fenced
        if self._config.transactional_id is None:
            raise ClientError("the client has no transactional.id")
        self._must_not_commit()
        if self._in_transaction:
            raise ClientError("a transaction is open: commit or abort it")
        if self._id < 0:
            yield from self._introduce()
        self._in_transaction, self._abort_only, self._added = True, None, set()
        self._prepared = False

    def prepare(self) -> Prepared:
        """Prepare the open transaction for the decision that is made elsewhere: from now on it is only committed or
        aborted. Everything that was given to `send` is written. Raises ClientError if only an abort is left."""
        if not self._config.two_phase:
            raise ClientError("the client has no two-phase commit: write transaction.two.phase.commit.enable=true")
        self._transaction()
        self._prepared = True
        return Prepared(self._id, self._epoch)

    def commit(self) -> Steps[None]:
        """Commit the open transaction. Raises ClientError if only an abort is left."""
        if self._commits:
            self._abort_only = None
        id = self._transaction(commits=True)
        self._commits = bool(self._added)
        try:
            yield from self._end(id, True)
        except ClientError as error:
            self._commits = self._commits and error.code not in NOT_COMMITTED
            raise
        self._commits = False

    def abort(self) -> Steps[None]:
        """Abort the open transaction. The producer goes on with a new epoch if its numbers are uncertain."""
        self._must_not_commit()
        if self._abort_only is not None:
            yield from self._introduce()  # which aborts what is open
            self._in_transaction = False
            return
        yield from self._end(self._transaction(), False)

    def send_offsets(
        self,
        group: str,
        offsets: Mapping[Part, int],
        *,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
    ) -> Steps[None]:
        """Commit offsets of a group with the transaction."""
        self._must_not_be_prepared()
        kind, id = message("AddOffsetsToTxnRequest"), self._transaction()
        to = Coordinator(KeyType.TRANSACTION, id)
        yield from self._transactional(
            to, "AddOffsetsToTxn",
            lambda version: kind(
                transactional_id=id, producer_id=self._id, producer_epoch=self._epoch, group_id=group
            ),
            lambda reply: [reply.error_code],
        )  # fmt: skip
        self._added.add(group)
        commit = message("TxnOffsetCommitRequest")

        def build(some: list[Part], version: int) -> Any:
            return commit(
                transactional_id=id, group_id=group, producer_id=self._id, producer_epoch=self._epoch,
                member_id=member, generation_id=generation, group_instance_id=instance,
                topics=[
                    commit.TxnOffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            commit.TxnOffsetCommitRequestPartition(
                                partition_index=one, committed_offset=offsets[topic, one], committed_metadata=""
                            )
                            for one in numbers
                        ],
                    )
                    for topic, numbers in by_topic(some).items()
                ],
            )  # fmt: skip

        for some in portions(group, dict.fromkeys(offsets, "")):
            yield from self._transactional(
                Coordinator(KeyType.GROUP, group), "TxnOffsetCommit", partial(build, some),
                lambda reply: [one.error_code for topic in reply.topics for one in topic.partitions],
            )  # fmt: skip

    def _must_not_be_prepared(self) -> None:
        if self._prepared and self._in_transaction:
            raise ClientError("the transaction is prepared: commit or abort it")

    def _must_not_commit(self) -> None:
        if self._commits:
            raise ClientError("it is not known whether the transaction was committed: commit again")

    def _transaction(self, commits: bool = False) -> str:
        if not self._in_transaction or self._config.transactional_id is None:
            raise ClientError("no transaction is open: begin one")
        if not commits:
            self._must_not_commit()
        if self._abort_only is not None:
            raise self._abort_only
        return self._config.transactional_id

    def _add(self, parts: set[Part]) -> Steps[None]:
        new, id = sorted(parts.difference(self._added)), self._transaction()
        if not new:
            return
        kind = message("AddPartitionsToTxnRequest")
        topics = [kind.AddPartitionsToTxnTopic(name=topic, partitions=some) for topic, some in by_topic(new).items()]
        yield from self._transactional(
            Coordinator(KeyType.TRANSACTION, id), "AddPartitionsToTxn",
            lambda version: kind(
                v3_and_below_transactional_id=id, v3_and_below_producer_id=self._id,
                v3_and_below_producer_epoch=self._epoch, v3_and_below_topics=topics,
            ),
            lambda reply: [
                one.partition_error_code
                for topic in reply.results_by_topic_v3_and_below for one in topic.results_by_partition
            ],
        )  # fmt: skip
        self._added.update(new)

    def _end(self, id: str, commit: bool) -> Steps[None]:
        kind = message("EndTxnRequest")
        if self._added or self._prepared:
            commit = commit and bool(self._added)  # of nothing an abort is what raises the epoch
            reply = yield from self._transactional(
                Coordinator(KeyType.TRANSACTION, id), "EndTxn",
                lambda version: kind(
                    transactional_id=id, producer_id=self._id, producer_epoch=self._epoch, committed=commit
                ),
                lambda reply: [reply.error_code],
            )  # fmt: skip
            if self._config.two_phase:
                self._id, self._epoch = reply.producer_id, reply.producer_epoch
                self._sequences, self._known = {}, set()
        self._in_transaction, self._added, self._prepared = False, set(), False

    def _transactional(self, to: Any, name: str, build: Any, codes: Any) -> Steps[Any]:
        """Ask a coordinator until it does it. Returns its answer. If anything else comes of it, the transaction can only be
        aborted then."""
        attempt, whole = 0, False
        versions = 0, ADDED_BY_CLIENT_LAST[name]
        if self._config.two_phase and name == "EndTxn":
            versions = END_RAISES_FROM, END_RAISES_FROM
        try:
            while True:
                reply = yield Ask(to, name, build, purpose=Purpose.COORDINATOR, versions=versions)
                found = [code for code in codes(reply.message) if code]
                fatal = [
                    code for code in found if action(code) is Action.FINAL and code != ErrorCode.OPERATION_NOT_ATTEMPTED
                ]
                if fatal:
                    if fatal[0] in FENCED:
                        raise self._fence(fatal[0])
                    raise refused(f"{name} of transactional.id {self._config.transactional_id}", fatal[0])
                if not found:
                    whole = True
                    return reply.message
                yield Pause(attempt=attempt)
                attempt += 1
        finally:
            if not whole:
                self._abort_only = ClientError("the transaction has failed: abort it")

    # ---- who it is

    def _fence(self, code: int) -> ClientError:
        """Note that another producer has the transactional.id. Returns the error for that. Asking for a new epoch would
        fence the other one."""
        self._fenced = ClientError(
            f"transactional.id {self._config.transactional_id} is in use by a newer producer, or the transaction took "
            f"longer than transaction.timeout.ms ({NAMES[code]})",
            code,
        )
        return self._fenced

    def _introduce(self) -> Steps[None]:
        """Get a producer id, or a new epoch of the transactional one."""
        if self._fenced is not None:
            raise self._fenced
        kind, config = message("InitProducerIdRequest"), self._config
        id = config.transactional_id
        to = AnyNode() if id is None else Coordinator(KeyType.TRANSACTION, id)
        attempt = 0
        asked = Ask(
            to,
            "InitProducerId",
            lambda version: kind(
                transactional_id=id,
                transaction_timeout_ms=config.transaction_timeout_ms if id is not None else (1 << 31) - 1,
                enable2_pc=config.two_phase,
            ),
            purpose=Purpose.ORDINARY if id is None else Purpose.COORDINATOR,
        )
        if config.two_phase:
            asked = asked._replace(versions=(TWO_PHASE_FROM, TWO_PHASE_FROM))
        while True:
            try:
                reply = yield asked
            except Unspoken as error:
                raise two_phase_unspoken(id, error) if config.two_phase and id is not None else error from None
            code = reply.message.error_code
            if not code:
                self._id, self._epoch = reply.message.producer_id, reply.message.producer_epoch
                self._sequences, self._known = {}, set()
                self._added, self._abort_only = set(), None
                return
            if action(code) is Action.FINAL:
                if config.two_phase and id is not None:
                    raise two_phase_refused(id, True)(code)
                raise refused("a producer id" if id is None else f"transactional.id {id}", code)
            yield Pause(attempt=attempt)
            attempt += 1
