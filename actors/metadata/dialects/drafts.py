"""What both levels of the drafts' family share: the frame, and records that are the same at both.

This file alone decides how the drafts' records and rayft's extension records (A08) carry ops. What differs by level is
data: a `Level`, one in v19.py and one in v28.py. What differs from the released family beyond bytes is in
`actors/metadata/families.py`. Value: type uvarint, version uvarint, flexible body (A05); no frame version. KIP-631, "Record
schemas"; R631-050 to R631-093.

| op | record |
|---|---|
| BrokerSet | 0 BrokerRecord, tags 0 LogDirs, 2 Features, 3 IncarnationId, 4 LeaseMs, 5 ZookeeperMode |
| TopicSet | 1 TopicRecord |
| PartitionsSet | 2 PartitionRecord a row, in bulk by fastpath.image.write_records |
| ConfigSet | 3 ConfigRecord, null value removes (A35) |
| PartitionsChanged | 4 IsrChangeRecord a row, in bulk |
| BrokerGone, TopicGone | by level |
| FeatureSet, ProducerIdsSet | 12, 15 |
| EntitySet, EntityGone | 5 and 19 access rules, 11 and 22 SCRAM, 14 quotas, 10 and 26 tokens |
| EntitySet | 21 how far a ZooKeeper cluster is taken over; it is never removed |
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import v19, v28
from actors.metadata.dialects.entities import body_of, entity_gone, entity_set, quota
from actors.metadata.dialects.levels import EXTENSIONS, FORMAT, Level
from actors.metadata.families import DRAFTS
from actors.metadata.ops import (
    Arrivals,
    Block,
    BrokerGone,
    BrokerSet,
    ConfigSet,
    CorruptMetadata,
    EndPoint,
    EntityGone,
    EntitySet,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicGone,
    TopicSet,
    TopicsSet,
    records,
)
from actors.ports import Batch
from actors.wire.messages import decode_exact, encode, message
from fastpath.image.read_records import CorruptRecord, expand, topic_fields

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.v19 import BrokerRecord as V19BrokerRecord
    from actors.wire.schemas.kip631.v19 import TopicRecord as V19TopicRecord
    from actors.wire.schemas.kip631.v28 import BrokerRecord as V28BrokerRecord
    from actors.wire.schemas.kip631.v28 import TopicRecord as V28TopicRecord

VERSION = 0
"""The only version that the draft records have."""

ENTITY_TYPES = {"acl": (5, 19), "scram": (11, 22), "quota": (14, 14), "token": (10, 26), "zk_migration": (21, 21)}
"""Kind -> the record types that set and remove an entity of this kind."""


LEVELS = {level.number: level for level in (v19.LEVEL, v28.LEVEL)}


def level_of(number: int) -> Level:
    """The level with that number. Raises ValueError."""
    if number not in LEVELS:
        raise ValueError(f"there is no metadata dialect {number}, only {sorted(LEVELS)}")
    return LEVELS[number]


class Drafts:
    """A level of the drafts' family as a dialect."""

    family = DRAFTS

    def __init__(self, level: Level) -> None:
        self.level = level

    # ---- ops to records

    def encode(self, ops: Sequence[Op], out: BatchWriter, *, atomic: bool = True) -> int:
        """Add the records of `ops` to `out`, as in Dialect.encode."""
        if not atomic:
            return sum(self.encode([op], out) for op in ops)
        out.begin()
        try:
            for op in ops:
                if isinstance(op, PartitionsSet):
                    out.add_partitions(op.block)
                elif isinstance(op, PartitionsChanged):
                    out.add_changes(op.block)
                else:
                    out.add(self.record(op))
        except BaseException:
            out.abandon()
            raise
        out.end()
        return sum(records(op) for op in ops)

    def record(self, op: Op) -> bytes:
        """The value of the one record of an op. Raises ValueError when there is none at this level."""
        if type(op) not in WRITE:
            raise ValueError(f"metadata.format {self.level.number} has no record for {op!r}")
        type_, body = WRITE[type(op)](self.level, op)
        return encode(body, VERSION, bytes((type_, VERSION)))

    # ---- records to ops

    def decode(self, batch: Batch, *, together: bool = False) -> Iterator[tuple[int, Op]]:
        """The ops of a batch, as in Dialect.decode."""
        level = self.level
        try:
            found = expand(batch.data, together=together)
        except CorruptRecord as error:
            raise CorruptMetadata(error.offset, error.reason) from error
        for offset, type_, version, thing in found:
            if isinstance(thing, Block):
                yield offset, PartitionsSet.of(thing) if type_ == 2 else PartitionsChanged(thing)
                continue
            if isinstance(thing, Arrivals):
                yield offset, TopicsSet(thing)
                continue
            if type_ == 1 and version == VERSION and (fields := topic_fields(thing)) is not None:
                topic, topic_id, deleting = fields
                gone = deleting and level.deleting_is_gone
                yield offset, TopicGone(topic_id, topic) if gone else TopicSet(topic, topic_id, deleting)
                continue
            name = level.types.get(type_)
            if name is None or version != VERSION:
                reason = f"record type {type_} version {version} is not known at metadata.format {level.number}"
                raise CorruptMetadata(offset, reason)
            try:
                op = READ[type_](level, decode_exact(name, version, thing))
                if isinstance(op, FeatureSet) and op.name == FORMAT:
                    level = level_of(op.level)
            except ValueError as error:
                raise CorruptMetadata(offset, f"record type {type_} version {version}: {error}") from error
            yield offset, op


def _write_broker(level: Level, op: BrokerSet) -> tuple[int, Any]:
    if op.fenced or op.in_controlled_shutdown or op.cordoned_log_dirs:
        raise ValueError("the drafts know no fenced, leaving or cordoned registration")
    if not op.endpoints and level.empty_broker_is_gone:
        raise ValueError(f"broker {op.id} has no endpoint, which at this level says that it is gone")
    cls = message(level.types[0])
    body = cls(
        broker_id=op.id,
        broker_epoch=op.epoch,
        end_points=[
            cls.BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in op.endpoints
        ],
        rack=op.rack,
        log_dirs=list(op.log_dirs),
        features=[
            cls.Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, lowest, highest in op.features
        ],
        incarnation_id=op.incarnation_id,
        lease_ms=op.lease_ms,
        zookeeper_mode=op.zookeeper,
    )
    return 0, body


def _read_broker(level: Level, body: "V19BrokerRecord | V28BrokerRecord") -> Op:
    if not body.end_points and level.empty_broker_is_gone:
        return BrokerGone(body.broker_id, body.broker_epoch)
    return BrokerSet(
        body.broker_id,
        body.broker_epoch,
        body.incarnation_id,
        tuple(EndPoint(one.name, one.host, one.port, one.security_protocol) for one in body.end_points),
        body.rack,
        tuple((one.name, one.min_supported_version, one.max_supported_version) for one in body.features),
        tuple(body.log_dirs),
        lease_ms=body.lease_ms,
        zookeeper=body.zookeeper_mode,
    )


def _write_topic(level: Level, op: TopicSet) -> tuple[int, Any]:
    if op.deleting and level.deleting_is_gone:
        raise ValueError(f"topic {op.name!r} is hidden, which this level cannot say")
    return 1, message(level.types[1])(name=op.name, topic_id=op.id, deleting=op.deleting)


def _read_topic(level: Level, body: "V19TopicRecord | V28TopicRecord") -> Op:
    if body.deleting and level.deleting_is_gone:
        return TopicGone(body.topic_id, body.name)
    return TopicSet(body.name, body.topic_id, body.deleting)


def _write_config(level: Level, op: ConfigSet) -> tuple[int, Any]:
    cls = message(level.types[3])
    return 3, cls(resource_type=op.resource_type, resource_name=op.resource_name, name=op.name, value=op.value)


def _write_entity(level: Level, op: EntitySet | EntityGone) -> tuple[int, Any]:
    if op.kind not in ENTITY_TYPES:
        raise ValueError(f"the drafts' family has no record for a {op.kind}")
    type_ = ENTITY_TYPES[op.kind][isinstance(op, EntityGone)]
    return type_, body_of(message(level.types[type_]), op)


def _write_feature(level: Level, op: FeatureSet) -> tuple[int, Any]:
    return 12, message(EXTENSIONS[12])(name=op.name, feature_level=op.level)


def _write_producer_ids(level: Level, op: ProducerIdsSet) -> tuple[int, Any]:
    cls = message(EXTENSIONS[15])
    return 15, cls(broker_id=op.broker_id, broker_epoch=op.broker_epoch, next_producer_id=op.next_producer_id)


WRITE: dict[type, Callable[[Level, Any], tuple[int, Any]]] = {
    BrokerSet: _write_broker,
    BrokerGone: lambda level, op: level.broker_gone(op),
    TopicSet: _write_topic,
    TopicGone: lambda level, op: level.topic_gone(op),
    ConfigSet: _write_config,
    FeatureSet: _write_feature,
    ProducerIdsSet: _write_producer_ids,
    EntitySet: _write_entity,
    EntityGone: _write_entity,
}

READ: dict[int, Callable[[Level, Any], Op]] = {
    0: _read_broker,
    1: _read_topic,
    3: lambda _, body: ConfigSet(body.resource_type, body.resource_name, body.name, body.value),
    5: lambda _, body: entity_set("acl", body),
    6: lambda _, body: BrokerGone(body.id),
    7: lambda _, body: TopicGone(body.name),
    10: lambda _, body: entity_set("token", body),
    11: lambda _, body: entity_set("scram", body),
    12: lambda _, body: FeatureSet(body.name, body.feature_level),
    14: lambda _, body: quota(body),
    15: lambda _, body: ProducerIdsSet(body.broker_id, body.broker_epoch, body.next_producer_id),
    19: lambda _, body: entity_gone("acl", body),
    21: lambda _, body: entity_set("zk_migration", body),
    22: lambda _, body: entity_gone("scram", body),
    26: lambda _, body: entity_gone("token", body),
}

DIALECTS = {number: Drafts(level) for number, level in LEVELS.items()}
"""Level -> the dialect that writes it."""
