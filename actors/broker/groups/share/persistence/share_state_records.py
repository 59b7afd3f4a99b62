"""What share groups remember, as records of `__share_group_state`, in Apache Kafka's own format.

Key: int16 kind, then group, topic id and partition. Kind 0: a snapshot, all that is remembered of the share partition.
Kind 1: an update, what has changed since. Value: int16 version 0, then fields. Only a snapshot is ever removed, by a null
value, and with it everything of the share partition.

A value of another version was written by later software, and a damaged one by nobody knows whom. `StateLine.strange` says
so, and the coordinator refuses every request for that share partition: to go on without it would deliver again what was
acknowledged.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_state import Batch, ShareState, Update, combine
from actors.wire.errors import WireError
from actors.wire.messages import decode, encode, message

if TYPE_CHECKING:
    from actors.wire.schemas.share import ShareSnapshotValue, ShareUpdateValue

SNAPSHOT, UPDATE = 0, 1
KEYS = {SNAPSHOT: "share:ShareSnapshotKey", UPDATE: "share:ShareUpdateKey"}
VALUES = {SNAPSHOT: "share:ShareSnapshotValue", UPDATE: "share:ShareUpdateValue"}
VERSION = 0
"""The version of all keys and values."""


class StateLine(NamedTuple):
    """A decoded record. `record` None: all of the share partition was removed, or `strange`: a sentence why it cannot
    be read here."""

    key: SharePartitionKey
    record: ShareState | Update | None
    strange: str = ""


def record(key: SharePartitionKey, content: ShareState | Update | None) -> Record:
    """The record of a snapshot or an update, or the removal of a share partition (None)."""
    if isinstance(content, Update):
        fields: dict[str, Any] = {}
        kind = UPDATE
    else:
        kind = SNAPSHOT
        if content is None:
            return _key(kind, key), None
        fields = {
            "state_epoch": content.state_epoch,
            "create_timestamp": content.created_ms,
            "write_timestamp": content.written_ms,
        }
    Value = message(VALUES[kind])
    value = Value(
        snapshot_epoch=content.snapshot_epoch,
        leader_epoch=content.leader_epoch,
        start_offset=content.start_offset,
        delivery_complete_count=content.complete_count,
        state_batches=[
            Value.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in content.batches
        ],
        **fields,
    )
    return _key(kind, key), VERSION.to_bytes(2, "big") + encode(value, VERSION)


def read(key: bytes | None, value: bytes | None) -> StateLine | None:
    """Decode a record. None for kinds of keys that are not ours. Raises WireError on a damaged key."""
    if key is None or len(key) < 2:
        return None
    kind = int.from_bytes(key[:2], "big")
    if kind not in KEYS:
        return None
    named, end = decode(KEYS[kind], VERSION, memoryview(key), 2)
    if end != len(key):
        raise WireError(KEYS[kind], f"has {len(key) - end} bytes behind its end", end)
    place = SharePartitionKey(named.group_id, bytes(named.topic_id), named.partition)
    if value is None:
        return StateLine(place, None, "" if kind == SNAPSHOT else f"an update of {place} has no value")
    version = int.from_bytes(value[:2], "big")
    if version != VERSION:
        return StateLine(place, None, f"{place} has a value of version {version}, known is {VERSION}")
    try:
        data, _ = decode(VALUES[kind], version, memoryview(value), 2)
    except WireError as error:
        return StateLine(place, None, f"{place} has a damaged value: {error}")
    return StateLine(place, _update(data) if kind == UPDATE else _state(data))


def _key(kind: int, key: SharePartitionKey) -> bytes:
    named = message(KEYS[kind])(group_id=key.group, topic_id=key.topic_id, partition=key.number)
    return kind.to_bytes(2, "big") + encode(named, VERSION)


def _state(data: "ShareSnapshotValue") -> ShareState:
    return ShareState(
        data.snapshot_epoch,
        data.state_epoch,
        data.leader_epoch,
        data.start_offset,
        data.delivery_complete_count,
        data.create_timestamp,
        data.write_timestamp,
        combine((), _batches(data), data.start_offset),
    )


def _update(data: "ShareUpdateValue") -> Update:
    return Update(
        data.snapshot_epoch, data.leader_epoch, data.start_offset, data.delivery_complete_count, tuple(_batches(data))
    )


def _batches(data: "ShareSnapshotValue | ShareUpdateValue") -> list[Batch]:
    return [
        Batch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in data.state_batches
    ]
