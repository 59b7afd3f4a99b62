"""Transactional producers: transactions over several partitions, with offsets of a group in some, committed or aborted.

They follow the protocol of transaction version 0 or 2 as Kafka's clients do: with 0 the client adds the partitions itself,
with 2 the leaders do, and each end raises the epoch. What a producer cannot go on with it leaves open: it begins anew with
InitProducerId, which aborts that. `Told` keeps what all of them were told.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.checkers.committed_transactions import Told
from tests.simulator.checkers.compacted_records import Keyed
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Client
from tests.simulator.history import Attempt

TRANSACTION = 1
TRANSACTIONAL = 0x10
TIMEOUT_MS = 10_000
KEYS = (4, 40)
"""A record for a compacted topic has one of so many keys."""
MOVED = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
AGAIN = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
LOST = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
)
"""The transaction was aborted by its coordinator, or is to be."""


class GiveUp(Exception):
    """The transaction cannot be gone on with."""


class Late(Exception):
    """A batch has no answer, and is given up: it may yet arrive. The transaction is to be aborted, and the producer begins
    anew, as one does when delivery.timeout.ms is over."""


class Plan(NamedTuple):
    """What transactional clients of a world do."""

    version: int
    """transaction.version of the cluster, 0 or 2."""
    topics: dict[str, int]
    """Topics that are written to in transactions alone, with their partitions."""
    output: str
    """The topic among them that only copiers write to; empty: there are none."""
    writers: int
    copiers: int
    """Clients with one transactional id among them, so that each fences the one before."""
    pause_ms: int
    """Between two transactions of a writer, on the average."""
    keyed: dict[str, int] = {}  # noqa: RUF012
    """Compacted topics that transactions write to as well."""
    preparers: int = 0
    """Transactional ids whose transactions are decided upon elsewhere. Every second one is that of two clients."""


class Transactional:
    """A producer with a transactional id."""

    def __init__(self, client: Client, told: Told, plan: Plan, id: str, group: str) -> None:
        self.client = client
        self.told = told
        self.plan = plan
        self.version = plan.version
        self.transactional_id = id
        self.group = group
        self.id, self.epoch = -1, -1
        self.number = 0
        self._records = 0
        self._sequences: dict[tuple[str, int], int] = {}
        self._coordinators: dict[int, str | None] = {TRANSACTION: None, 0: None}

    def _begins(self) -> str:
        """The name of the next transaction."""
        self.number += 1
        return f"{self.client.name}/{self.number}"

    # ---- the steps

    async def _init(self) -> None:
        request = message("InitProducerIdRequest")(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        reply = await self._ask(TRANSACTION, "InitProducerId", 5, request, lambda reply: reply.error_code)
        self._now(reply.producer_id, reply.producer_epoch)

    async def _write(self, part: tuple[str, int], name: str, values: Sequence[str]) -> None:
        """Records of a topic that is written to in transactions alone: `name:topic:partition:` and a value."""
        records = []
        for one in values:
            self._records += 1
            value = f"{name}:{part[0]}:{part[1]}:{one}".encode()
            self.client.history.attempt(value, Attempt(*part, self.client.name, self._records, -1, True))
            records.append(Keyed(None, value))
        await self._produce(part, records)

    async def _produce(self, part: tuple[str, int], records: Sequence[Keyed]) -> int:
        """Produce one batch in the transaction. Returns its first offset."""
        client = self.client
        if self.version < 2:
            await self._add(part)
        builder = Builder(
            attributes=TRANSACTIONAL,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(part, 0),
            timestamp_ms=1_600_000_000_000 + client.world.time_us // 1000,
        )
        for key, value in records:
            builder.append(key, value)
        data = bytes(builder.build())
        kind = message("ProduceRequest")
        while True:
            leader = client.leaders.get(part)
            if leader is None:
                if not await client.learn(part[0]) or part not in client.leaders:
                    await client.sleep(100)
                continue
            sent = kind.PartitionProduceData(index=part[1], records=bytearray(data))
            topic = kind.TopicProduceData(name=part[0], partition_data=[sent])
            request = kind(transactional_id=self.transactional_id, acks=-1, timeout_ms=3_000, topic_data=[topic])
            reply = await client.ask(leader, "Produce", 12 if self.version >= 2 else 11, request)
            answer = None if reply is None else reply.responses[0].partition_responses[0]
            error = None if answer is None else ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self._sequences[part] = self._sequences.get(part, 0) + len(records)
                return int(answer.base_offset)
            if error in LOST:
                raise GiveUp
            if error is None and not client.random.randrange(3):
                raise Late
            if error is not None and error not in AGAIN and not client.refused(error):
                raise Violation("transaction_errors", f"{leader} answered {client.name}'s batch with {error.name}")
            client.leaders.pop(part, None)
            await client.sleep(50)

    async def _add(self, part: tuple[str, int]) -> None:
        kind = message("AddPartitionsToTxnRequest")
        request = kind(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[kind.AddPartitionsToTxnTopic(name=part[0], partitions=[part[1]])],
        )
        await self._ask(
            TRANSACTION, "AddPartitionsToTxn", 3, request,
            lambda reply: reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )  # fmt: skip

    async def _commit_offset(self, topic: str, partition: int, offset: int) -> None:
        if self.version < 2:
            add = message("AddOffsetsToTxnRequest")(
                transactional_id=self.transactional_id,
                producer_id=self.id,
                producer_epoch=self.epoch,
                group_id=self.group,
            )
            await self._ask(TRANSACTION, "AddOffsetsToTxn", 3, add, lambda reply: reply.error_code)
        kind = message("TxnOffsetCommitRequest")
        part = kind.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = kind(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[kind.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        await self._ask(
            0, "TxnOffsetCommit", 5 if self.version >= 2 else 4, request,
            lambda reply: reply.topics[0].partitions[0].error_code,
        )  # fmt: skip

    async def _end(self, name: str, commit: bool) -> None:
        request = message("EndTxnRequest")(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        reply = await self._ask(
            TRANSACTION, "EndTxn", 5 if self.version >= 2 else 3, request, lambda reply: reply.error_code
        )
        (self.told.committed if commit else self.told.aborted)[name] = None
        self.client.history.counts["transactions committed" if commit else "transactions aborted"] += 1
        if self.version >= 2:
            self._now(reply.producer_id, reply.producer_epoch)

    # ---- inside

    def _now(self, id: int, epoch: int) -> None:
        if (id, epoch) != (self.id, self.epoch):
            self._sequences = {}
        self.id, self.epoch = id, epoch

    async def _ask(self, kind: int, name: str, version: int, request: Any, code: Any) -> Any:
        """Ask a coordinator until it has an answer; GiveUp for an error that ends the transaction."""
        client = self.client
        while True:
            target = self._coordinators[kind]
            if target is None:
                key = self.transactional_id if kind == TRANSACTION else self.group
                find = message("FindCoordinatorRequest")(key_type=kind, coordinator_keys=[key])
                found = await client.ask(client.any_broker(), "FindCoordinator", 4, find)
                if found is None or found.coordinators[0].error_code:
                    await client.sleep(100)
                    continue
                target = self._coordinators[kind] = found.coordinators[0].host
            reply = await client.ask(target, name, version, request, 8_000)
            error = None if reply is None else ErrorCode(code(reply))
            if error is ErrorCode.NONE:
                return reply
            if error is None or error in MOVED:
                self._coordinators[kind] = None
            elif error in LOST:
                raise GiveUp
            elif error not in AGAIN and not client.refused(error):
                raise Violation("transaction_errors", f"{target} answered {client.name}'s {name} with {error.name}")
            await client.sleep(50)


class Writer(Transactional):
    """Writes a few records to some partitions in each transaction, and the number of the transaction as an offset of its
    group in some."""

    async def run(self) -> None:
        """Transactions, until the client stops."""
        client = self.client
        while not client.stopping:
            try:
                await self._init()
                while not client.stopping:
                    await self._transaction()
                    await client.sleep(client.random.randint(1, 2 * self.plan.pause_ms))
            except GiveUp:
                await client.sleep(50)

    async def _transaction(self) -> None:
        random = self.client.random
        name = self._begins()
        try:
            await self._fill(name)
        except Late:
            await self._end(name, False)
            raise GiveUp from None
        if not random.randrange(12):
            # The client dies: its transaction stays open until it is over its time, or a new producer comes.
            await self.client.sleep(random.choice((10, 1_000, 15_000)))
            raise GiveUp
        await self._end(name, random.randrange(4) > 0)

    async def _fill(self, name: str) -> None:
        random, told = self.client.random, self.told
        topics = {topic: count for topic, count in self.plan.topics.items() if topic != self.plan.output}
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        random.shuffle(places)
        parts = {part: random.choice((1, 1, 3)) for part in places[: 1 + random.randrange(3)]}
        told.records[name] = parts
        with_offsets = not random.randrange(3)
        if with_offsets:
            told.offsets.setdefault(self.group, {})[self.number] = name
        for part, count in parts.items():
            await self._write(part, name, [str(one) for one in range(count)])
        if self.plan.keyed and random.randrange(3):
            await self._write_keyed(name)
        if with_offsets:
            await self._commit_offset(next(iter(topics)), 0, self.number)

    async def _write_keyed(self, name: str) -> None:
        """Keys of a compacted topic, with a tombstone among them sometimes."""
        random = self.client.random
        topic = random.choice(list(self.plan.keyed))
        part = topic, random.randrange(self.plan.keyed[topic])
        records = [
            Keyed(b"k%d" % random.randrange(random.choice(KEYS)), f"{name}:{one}".encode() if one else None)
            for one in range(random.randrange(2), 3)
        ]
        offset = await self._produce(part, records)
        topic_id = self.client.topic_ids[topic]
        self.told.keyed.setdefault(name, []).extend(
            (topic_id, part[1], offset + place, one) for place, one in enumerate(records)
        )
