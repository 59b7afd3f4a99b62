"""Several brokers with a coordinator of transactions, and one client of it."""

from typing import Any

from actors.metadata import ops
from actors.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch
from tests.unit.node.roles.broker.lab import Lab, Pending

IDS = {TRANSACTIONS_TOPIC: b"\6" * 16, OFFSETS_TOPIC: b"\5" * 16}
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "2000",
}
COORDINATOR, LEADER = 1, 2
"""Broker 1 leads the internal topics, broker 2 the topic t."""


def made(version: int = 2, brokers: int = 3, partitions: int = 2, **settings: str) -> Lab:
    """A cluster with `transaction.version` at that level."""
    lab = Lab(brokers, SETTINGS | {name.replace("_", "."): value for name, value in settings.items()})
    if version:
        lab.commit(ops.FeatureSet("transaction.version", version))
    everybody = list(range(1, brokers + 1))
    lab.topic(everybody, TRANSACTIONS_TOPIC, IDS[TRANSACTIONS_TOPIC])
    lab.topic(everybody, OFFSETS_TOPIC, IDS[OFFSETS_TOPIC])
    lab.topic([*everybody[1:], 1], partitions=partitions)
    return lab


class Client:
    """A transactional producer: its id and epoch are those that it was told last."""

    def __init__(self, lab: Lab, id: str = "x", version: int = 2) -> None:
        self.lab = lab
        self.transactional_id = id
        self.version = version
        """Transaction version: 2 leaves adding to the leaders."""
        self.id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}

    def init(self, timeout_ms: int = 60_000, broker: int = COORDINATOR) -> ErrorCode:
        request = message("InitProducerIdRequest")(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        reply = self.call(broker, "InitProducerId", 5, request).reply
        if reply.error_code == 0:
            self._now(reply.producer_id, reply.producer_epoch)
        return ErrorCode(reply.error_code)

    def add(self, *numbers: int, topic: str = "t", version: int = 3) -> list[ErrorCode]:
        kind = message("AddPartitionsToTxnRequest")
        request = kind(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[kind.AddPartitionsToTxnTopic(name=topic, partitions=list(numbers))],
        )
        reply = self.call(COORDINATOR, "AddPartitionsToTxn", version, request).reply
        return [
            ErrorCode(one.partition_error_code)
            for found in reply.results_by_topic_v3_and_below
            for one in found.results_by_partition
        ]

    def sending(self, *numbers: int, version: int | None = None, broker: int = LEADER, **header: Any) -> Pending:
        """One batch to each of these partitions, in one request; not answered yet."""
        kind = message("ProduceRequest")
        parts = []
        for number in numbers:
            sequence = self.sequences.get(number, 0)
            self.sequences[number] = sequence + 1
            fields = {
                "timestamp_ms": self.lab.now.wall_ms,
                "attributes": 0x10,
                "producer_id": self.id,
                "producer_epoch": self.epoch,
                "base_sequence": sequence,
            }
            builder = batch.Builder(**{**fields, **header})
            builder.append(None, b"v")
            parts.append(kind.PartitionProduceData(index=number, records=builder.build()))
        request = kind(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[kind.TopicProduceData(name="t", partition_data=parts)],
        )
        chosen = version if version is not None else 12 if self.version >= 2 else 11
        return self.lab.call(broker, "Produce", chosen, request, connection=5)

    def send(self, *numbers: int, **more: Any) -> list[ErrorCode]:
        pending = self.sending(*numbers, **more)
        self.lab.settle()
        return codes(pending)

    def end(self, commit: bool, version: int | None = None) -> ErrorCode:
        pending = self.ending(commit, version)
        self.lab.settle()
        return self.ended(pending)

    def ending(self, commit: bool, version: int | None = None) -> Pending:
        request = message("EndTxnRequest")(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        chosen = version if version is not None else 5 if self.version >= 2 else 3
        return self.lab.call(COORDINATOR, "EndTxn", chosen, request, connection=6)

    def ended(self, pending: Pending) -> ErrorCode:
        if pending.reply.error_code == 0 and pending.reply.producer_id >= 0:
            self._now(pending.reply.producer_id, pending.reply.producer_epoch)
        return ErrorCode(pending.reply.error_code)

    def commit_offsets(self, group: str = "g", version: int | None = None, **more: Any) -> list[ErrorCode]:
        """Offset 7 of partition 0 of t."""
        kind = message("TxnOffsetCommitRequest")
        part = kind.TxnOffsetCommitRequestPartition(
            partition_index=more.pop("number", 0), committed_offset=more.pop("offset", 7), committed_metadata=""
        )
        fields = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "topics": [kind.TxnOffsetCommitRequestTopic(name=more.pop("topic", "t"), partitions=[part])],
        }
        chosen = version if version is not None else 5 if self.version >= 2 else 4
        reply = self.call(COORDINATOR, "TxnOffsetCommit", chosen, kind(**{**fields, **more})).reply
        return [ErrorCode(one.error_code) for topic in reply.topics for one in topic.partitions]

    def call(self, broker: int, name: str, version: int, request: Any) -> Pending:
        pending = self.lab.call(broker, name, version, request)
        self.lab.settle()
        assert pending.done, f"{name} is not answered"
        return pending

    def _now(self, id: int, epoch: int) -> None:
        if (id, epoch) != (self.id, self.epoch):
            self.sequences = {}
        self.id, self.epoch = id, epoch


def codes(pending: Pending) -> list[ErrorCode]:
    """Of each partition of a Produce."""
    assert pending.done, "Produce is not answered"
    return [ErrorCode(one.error_code) for topic in pending.reply.responses for one in topic.partition_responses]


def offset(lab: Lab, group: str = "g", *, stable: bool = False, number: int = 0) -> tuple[int, ErrorCode]:
    """What the group has committed for a partition of t."""
    kind = message("OffsetFetchRequest")
    asked = kind.OffsetFetchRequestGroup(
        group_id=group, topics=[kind.OffsetFetchRequestTopics(name="t", partition_indexes=[number])]
    )
    reply = lab.call(COORDINATOR, "OffsetFetch", 8, kind(groups=[asked], require_stable=stable)).reply
    (found,) = reply.groups[0].topics[0].partitions
    return found.committed_offset, ErrorCode(found.error_code)


def states(lab: Lab, broker: int = COORDINATOR) -> dict[str, str]:
    """Transactional ids of a broker, and their states."""
    reply = lab.call(broker, "ListTransactions", 2, message("ListTransactionsRequest")()).reply
    assert reply.error_code == 0
    return {one.transactional_id: one.transaction_state for one in reply.transaction_states}


def stable(lab: Lab, number: int = 0) -> tuple[int, int]:
    """(last stable offset, high watermark) of a partition of t on its leader."""
    partition = lab.partition(LEADER, number)
    return partition.last_stable_offset, partition.high_watermark
