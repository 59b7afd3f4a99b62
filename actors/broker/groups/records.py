"""The records of `__consumer_offsets`, in Apache Kafka's own format: committed offsets, and the kinds of groups that
read the others.

Key: int16 number, then fields. Numbers 0 and 1: an offset (group, topic, partition). Every other number belongs to one kind
of group (`kinds.py`), which reads it. A group's name comes first in the key of every record.
Value: int16 version, then fields. Offsets are written in version 3. A null value removes.

Other numbers, values of other versions, and damaged values are never replaced or removed: `ForeignLine` says so, and the
coordinator refuses to write anything of such a group.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.broker.coordinators.coordination import Record
from actors.wire.errors import WireError
from actors.wire.messages import decode, encode, message

OFFSET_KEY, OFFSET_VALUE = 1, 3
OFFSET_KEYS = (0, OFFSET_KEY)
"""The numbers of the keys of offsets; very old versions of Apache Kafka wrote the first."""


class CommittedOffset(NamedTuple):
    """The offset that a group committed for one partition. `wall_ms`: when; `leader_epoch`: -1: unknown."""

    offset: int
    leader_epoch: int
    metadata: str
    wall_ms: int


class OffsetLine(NamedTuple):
    """A decoded offset record. `committed` None: the offset was removed."""

    group: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class GroupLine(NamedTuple):
    """A decoded record of a group. `key`: which one of the group, in the words of its kind. `data` None: the record was
    removed."""

    group: str
    key: Any
    data: Any


class ForeignLine(NamedTuple):
    """A record that cannot be read here, by what can be read of its key. `removed`: it is a removal. `offset`: the
    topic and partition, if it is an offset. `why`: a sentence."""

    group: str
    key: bytes
    removed: bool
    offset: tuple[str, int] | None
    why: str


Reader = Callable[[int, bytes, bytes | None], GroupLine]
"""A function that decodes a record of a kind of group, by the number of its key, its key and its value. Raises
WireError."""


def offset_record(group: str, topic: str, partition: int, committed: CommittedOffset | None) -> Record:
    """The record of an offset, or of its removal."""
    key = versioned(OFFSET_KEY, "group:OffsetCommitKey", 0, group=group, topic=topic, partition=partition)
    if committed is None:
        return key, None
    return key, versioned(
        OFFSET_VALUE,
        "group:OffsetCommitValue",
        OFFSET_VALUE,
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.wall_ms,
    )


def read(
    readers: Mapping[int, Reader], key: bytes | None, value: bytes | None
) -> OffsetLine | ForeignLine | GroupLine | None:
    """Decode a record. `readers`: by the numbers that they read. Returns None for a record that names no group. Raises
    WireError on a damaged key of a number that is known."""
    if key is None or len(key) < 2:
        return None
    number = int.from_bytes(key[:2], "big")
    if number in OFFSET_KEYS:
        return _offset(key, value)
    try:
        id = decode("group:GroupMetadataKey", 0, memoryview(key), 2)[0].group
    except WireError:
        if number in readers:
            raise
        return None
    if number not in readers:
        return ForeignLine(id, key, value is None, None, f"a record of kind {number} of group {id!r}")
    try:
        return readers[number](number, key, value)
    except WireError as error:
        return ForeignLine(id, key, value is None, None, f"group {id!r}: {error}")


def _offset(key: bytes, value: bytes | None) -> OffsetLine | ForeignLine:
    name, _ = decode("group:OffsetCommitKey", 0, memoryview(key), 2)
    place = name.topic, name.partition
    if value is None:
        return OffsetLine(name.group, *place, None)
    try:
        data, _ = decode("group:OffsetCommitValue", version(value), memoryview(value), 2)
    except WireError as error:
        return ForeignLine(name.group, key, False, place, f"an offset of group {name.group!r}: {error}")
    committed = CommittedOffset(data.offset, data.leader_epoch, data.metadata, data.commit_timestamp)
    return OffsetLine(name.group, *place, committed)


def version(value: bytes) -> int:
    """The version in which a value is written."""
    return int.from_bytes(value[:2], "big")


def versioned(number: int, name: str, schema_version: int, **fields: object) -> bytes:
    """A key with its number, or a value with its version, and its fields by their schema."""
    return number.to_bytes(2, "big") + encode(message(name)(**fields), schema_version)
