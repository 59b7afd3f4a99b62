"""Released Apache Kafka's metadata records, up to 4.3 (metadata.version 7 to 30): read only, for now.

This file alone decides what each released record means as ops. The value of a record is: frame version 1, type uvarint,
version uvarint, flexible body. PartitionRecord (3) and PartitionChangeRecord (5) are read in bulk
(fastpath.image.read_records).

| record | op |
|---|---|
| 0 RegisterBroker, 17 BrokerRegistrationChange, 7 and 8 Fence and Unfence | BrokerSet, BrokerChanged |
| 1 UnregisterBroker | BrokerUnregistered |
| 2 Topic, 9 RemoveTopic | TopicSet, TopicGone |
| 3 Partition, 5 PartitionChange | PartitionsSet, PartitionsChanged |
| 4 Config, 12 FeatureLevel, 15 ProducerIds, 28 ClearElr | ConfigSet, FeatureSet, ProducerIdsSet, ElrCleared |
| 18 and 19 access rules, 14 quotas, 11 and 22 SCRAM, 10 and 26 tokens, 27 controllers | EntitySet, EntityGone |
| 23, 24, 25 transactions | Transaction |
| 20 NoOp, 21 ZkMigrationState | nothing |
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actors.metadata.batches import BatchWriter
from actors.metadata.dialects.entities import entity_gone, entity_set, quota
from actors.metadata.families import RELEASED
from actors.metadata.ops import (
    Arrivals,
    Block,
    BrokerChanged,
    BrokerSet,
    BrokerUnregistered,
    ConfigSet,
    CorruptMetadata,
    ElrCleared,
    EndPoint,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicGone,
    TopicSet,
    Transaction,
)
from actors.ports import Batch
from actors.wire.messages import decode_exact
from fastpath.image.read_records import CorruptRecord, expand

PARTITION = 3
"""The type of the record that holds a whole partition."""

FENCING = {0: None, 1: True, -1: False}
SHUTDOWN = {0: None, 1: True}
"""Meaning of the codes in BrokerRegistrationChangeRecord."""


class Released:
    """The released family as a dialect."""

    family = RELEASED

    def encode(self, ops: Sequence[Op], out: BatchWriter, *, atomic: bool = True) -> int:
        """Always raises ValueError, since this family is only read."""
        raise ValueError("the released dialect is read only")

    def decode(self, batch: Batch, *, together: bool = False) -> Iterator[tuple[int, Op]]:
        """The ops of a batch, as in Dialect.decode; none of this family are put together."""
        try:
            found = expand(batch.data, released=True)
        except CorruptRecord as error:
            raise CorruptMetadata(error.offset, error.reason) from error
        for offset, type_, version, thing in found:
            if isinstance(thing, Block):
                yield offset, PartitionsSet.of(thing) if type_ == PARTITION else PartitionsChanged(thing)
                continue
            if type_ not in RECORDS:
                raise CorruptMetadata(
                    offset, f"record type {type_} version {version} is not known in the released family"
                )
            name, read = RECORDS[type_]
            assert not isinstance(thing, Arrivals), "only what the drafts have is put together"
            try:
                op = read(decode_exact(f"metadata:{name}", version, thing))
            except (ValueError, KeyError) as error:
                raise CorruptMetadata(offset, f"record type {type_} version {version}: {error}") from error
            if op is not None:
                yield offset, op


def _broker(body: Any) -> Op:
    return BrokerSet(
        body.broker_id,
        body.broker_epoch,
        body.incarnation_id,
        tuple(EndPoint(one.name, one.host, one.port, one.security_protocol) for one in body.end_points),
        body.rack,
        tuple(sorted((one.name, one.min_supported_version, one.max_supported_version) for one in body.features)),
        tuple(body.log_dirs),
        body.fenced,
        body.in_controlled_shutdown,
        tuple(body.cordoned_log_dirs or ()),
    )


def _broker_change(body: Any) -> Op:
    cordoned = body.cordoned_log_dirs
    return BrokerChanged(
        body.broker_id,
        body.broker_epoch,
        FENCING[body.fenced],
        SHUTDOWN[body.in_controlled_shutdown],
        tuple(body.log_dirs) or None,
        None if cordoned is None else tuple(cordoned),
    )


RECORDS: dict[int, tuple[str, Callable[[Any], Op | None]]] = {
    0: ("RegisterBrokerRecord", _broker),
    1: ("UnregisterBrokerRecord", lambda body: BrokerUnregistered(body.broker_id, body.broker_epoch)),
    2: ("TopicRecord", lambda body: TopicSet(body.name, body.topic_id)),
    4: ("ConfigRecord", lambda body: ConfigSet(body.resource_type, body.resource_name, body.name, body.value)),
    7: ("FenceBrokerRecord", lambda body: BrokerChanged(body.id, body.epoch, fenced=True)),
    8: ("UnfenceBrokerRecord", lambda body: BrokerChanged(body.id, body.epoch, fenced=False)),
    9: ("RemoveTopicRecord", lambda body: TopicGone(body.topic_id)),
    10: ("DelegationTokenRecord", lambda body: entity_set("token", body)),
    11: ("UserScramCredentialRecord", lambda body: entity_set("scram", body)),
    12: ("FeatureLevelRecord", lambda body: FeatureSet(body.name, body.feature_level)),
    14: ("ClientQuotaRecord", quota),
    15: ("ProducerIdsRecord", lambda body: ProducerIdsSet(body.broker_id, body.broker_epoch, body.next_producer_id)),
    17: ("BrokerRegistrationChangeRecord", _broker_change),
    18: ("AccessControlEntryRecord", lambda body: entity_set("acl_id", body)),
    19: ("RemoveAccessControlEntryRecord", lambda body: entity_gone("acl_id", body)),
    20: ("NoOpRecord", lambda body: None),
    21: ("ZkMigrationStateRecord", lambda body: None),
    22: ("RemoveUserScramCredentialRecord", lambda body: entity_gone("scram", body)),
    23: ("BeginTransactionRecord", lambda body: Transaction("begin")),
    24: ("EndTransactionRecord", lambda body: Transaction("end")),
    25: ("AbortTransactionRecord", lambda body: Transaction("abort")),
    26: ("RemoveDelegationTokenRecord", lambda body: entity_gone("token", body)),
    27: ("RegisterControllerRecord", lambda body: entity_set("controller", body)),
    28: ("ClearElrRecord", lambda body: ElrCleared(body.topic_name)),
}

DIALECT = Released()
