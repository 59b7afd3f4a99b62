"""A transactional producer: transactions over several partitions, with offsets of a group in some, committed or aborted.

It follows the protocol of transaction version 0 or 2 as Kafka's clients do: with 0 it adds the partitions itself, with 2 the
leaders do, and each end raises its epoch. What it cannot go on with it leaves open: it begins anew with InitProducerId,
which aborts that. `Told` keeps what it was told of each transaction.
"""

from typing import Any

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Client
from tests.simulator.history import Attempt

TRANSACTION = 1
TRANSACTIONAL = 0x10
TIMEOUT_MS = 10_000
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


class Told:
    """What all producers were told. A name is that of a transaction: `producer/number`."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[tuple[str, int], ...]] = {}
        """Partitions that it writes one record to."""
        self.committed: list[str] = []
        self.aborted: list[str] = []
        self.offsets: dict[str, dict[int, str]] = {}
        """Group -> offset that a transaction commits for it -> its name."""

    def unsure(self, name: str) -> bool:
        """Nobody was told how it ended."""
        return name in self.parts and name not in self.committed and name not in self.aborted


class GiveUp(Exception):
    """The transaction cannot be gone on with."""


class Transactional:
    """One transactional id. `topics`: partitions of each topic."""

    def __init__(self, client: Client, told: Told, topics: dict[str, int], version: int, pause_ms: int) -> None:
        self.client = client
        self.told = told
        self.topics = topics
        self.version = version
        self.pause_ms = pause_ms
        self.group = f"{client.name}-group"
        self.id, self.epoch = -1, -1
        self.number = 0
        self._sequences: dict[tuple[str, int], int] = {}
        self._coordinators: dict[int, str | None] = {TRANSACTION: None, 0: None}

    async def run(self) -> None:
        """Transactions, until the client stops."""
        client = self.client
        while not client.stopping:
            try:
                await self._init()
                while not client.stopping:
                    await self._transaction()
                    await client.sleep(client.random.randint(1, 2 * self.pause_ms))
            except GiveUp:
                await client.sleep(50)

    # ---- the steps

    async def _init(self) -> None:
        request = message("InitProducerIdRequest")(transactional_id=self.client.name, transaction_timeout_ms=TIMEOUT_MS)
        reply = await self._ask(TRANSACTION, "InitProducerId", 5, request, lambda reply: reply.error_code)
        self._now(reply.producer_id, reply.producer_epoch)

    async def _transaction(self) -> None:
        client, random, told = self.client, self.client.random, self.told
        self.number += 1
        name = f"{client.name}/{self.number}"
        places = [(topic, number) for topic, count in self.topics.items() for number in range(count)]
        random.shuffle(places)
        parts = tuple(places[: 1 + random.randrange(min(4, len(places)))])
        told.parts[name] = parts
        with_offsets = not random.randrange(3)
        if with_offsets:
            told.offsets.setdefault(self.group, {})[self.number] = name
        for part in parts:
            if self.version < 2:
                await self._add(part)
            await self._produce(part, name)
        if with_offsets:
            await self._commit_offsets()
        if not random.randrange(12):
            return await self._forget()
        await self._end(name, random.randrange(4) > 0)

    async def _forget(self) -> None:
        """The client dies: its transaction stays open until it is over its time, or a new producer comes."""
        await self.client.sleep(self.client.random.choice((10, 1_000, 15_000)))
        raise GiveUp

    async def _add(self, part: tuple[str, int]) -> None:
        kind = message("AddPartitionsToTxnRequest")
        request = kind(
            v3_and_below_transactional_id=self.client.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[kind.AddPartitionsToTxnTopic(name=part[0], partitions=[part[1]])],
        )
        await self._ask(
            TRANSACTION, "AddPartitionsToTxn", 3, request,
            lambda reply: reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )  # fmt: skip

    async def _produce(self, part: tuple[str, int], name: str) -> None:
        client = self.client
        kind = message("ProduceRequest")
        builder = Builder(
            attributes=TRANSACTIONAL,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(part, 0),
            timestamp_ms=1_600_000_000_000 + client.world.time_us // 1000,
        )
        value = f"{name}:{part[0]}:{part[1]}".encode()
        client.history.attempt(value, Attempt(*part, client.name, self.number, -1, True))
        builder.append(None, value)
        data = bytes(builder.build())
        while True:
            leader = client.leaders.get(part)
            if leader is None:
                if not await client.learn(part[0]) or part not in client.leaders:
                    await client.sleep(100)
                continue
            topic = kind.TopicProduceData(
                name=part[0], partition_data=[kind.PartitionProduceData(index=part[1], records=bytearray(data))]
            )
            request = kind(transactional_id=client.name, acks=-1, timeout_ms=3_000, topic_data=[topic])
            reply = await client.ask(leader, "Produce", 12 if self.version >= 2 else 11, request)
            error = None if reply is None else ErrorCode(reply.responses[0].partition_responses[0].error_code)
            if error is ErrorCode.NONE:
                self._sequences[part] = self._sequences.get(part, 0) + 1
                return
            if error in LOST:
                raise GiveUp
            if error is not None and error not in AGAIN:
                raise Violation("transaction_errors", f"{leader} answered {client.name}'s batch with {error.name}")
            client.leaders.pop(part, None)
            await client.sleep(50)

    async def _commit_offsets(self) -> None:
        if self.version < 2:
            add = message("AddOffsetsToTxnRequest")(
                transactional_id=self.client.name,
                producer_id=self.id,
                producer_epoch=self.epoch,
                group_id=self.group,
            )
            await self._ask(TRANSACTION, "AddOffsetsToTxn", 3, add, lambda reply: reply.error_code)
        kind = message("TxnOffsetCommitRequest")
        topic = next(iter(self.topics))
        part = kind.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.number, committed_metadata=""
        )
        request = kind(
            transactional_id=self.client.name,
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
            transactional_id=self.client.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        reply = await self._ask(
            TRANSACTION, "EndTxn", 5 if self.version >= 2 else 3, request, lambda reply: reply.error_code
        )
        (self.told.committed if commit else self.told.aborted).append(name)
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
                key = client.name if kind == TRANSACTION else self.group
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
            elif error not in AGAIN:
                raise Violation("transaction_errors", f"{target} answered {client.name}'s {name} with {error.name}")
            await client.sleep(50)
