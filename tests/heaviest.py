"""The heaviest requests of each API, made from the schemas: many entries, each with a name of its own.

A request is *heavy in* one of its lists: that list has as many elements as are asked for, all others have one. So each shape
that a client may choose is made: many topics with a partition each, one topic with many partitions. A new API, or a new list
in an old one, is among them without a line written.
"""

from collections.abc import Iterator
from typing import Any

from actors.wire import limits
from actors.wire.messages import message
from actors.wire.schema import Struct

Path = tuple[str, ...]
"""Attributes from the request to a list."""
NUMBERS: dict[str, int] = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "permission_type_filter": 1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "acks": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "timestamp": -1,
    "response_partition_limit": 2000,
    "replica_id": -1,
    "key_type": 0,
}
"""Values with which a request gets beyond the first check; any other number is that of its entry, or 0."""


def lists(cls: type[Any], version: int) -> list[Path]:
    """The lists of a request in a version; the empty path stands first, for a request that is not heavy."""
    return [(), *_lists(cls.__struct__, version, ())]


def heavy(name: str, version: int, path: Path, count: int) -> Any:
    """A request whose list at `path` has `count` elements."""
    cls = message(f"{name}Request")
    return _made(cls, version, path, count, 0, True)


def elements(name: str, version: int, path: Path, part: int = 1) -> int:
    """How many elements of the list at `path` are let in, or a `part`th of them: an element counts with what is in it."""
    struct = message(f"{name}Request").__struct__
    inner: Struct | None = struct
    for attribute in path:
        assert inner is not None
        inner = next(one for one in inner.fields if one.attribute == attribute).struct
    each = 1 + (_entries(inner, version) if inner is not None else 0)
    return max(1, (limits.entries_max(name) // part - _entries(struct, version)) // each)


def _entries(struct: Struct, version: int) -> int:
    """How many entries a request has whose lists have one element each."""
    count = 0
    for one in struct.fields:
        if version not in one.versions or one.tag >= 0:
            continue
        count += one.array
        if one.struct is not None:
            count += _entries(one.struct, version)
    return count


def _lists(struct: Struct, version: int, above: Path) -> Iterator[Path]:
    for field in struct.fields:
        if version not in field.versions or field.tag >= 0:
            continue
        here = (*above, field.attribute)
        if field.array:
            yield here
        if field.struct is not None:
            yield from _lists(field.struct, version, here)


def _made(cls: type[Any], version: int, path: Path, count: int, place: int, top: bool) -> Any:
    values: dict[str, Any] = {}
    for field, child in zip(cls.__struct__.fields, cls.__layout__.children, strict=True):
        if version not in field.versions or field.tag >= 0:
            continue
        on = bool(path) and path[0] == field.attribute
        rest = path[1:] if on else ()
        if field.array:
            many = count if on and not rest else 1
            values[field.attribute] = [
                _value(field, child, version, rest, count, place if many == 1 and not on else one)
                for one in range(many)
            ]
        elif field.struct is not None and child is not None:
            if on or version not in field.nullable:
                values[field.attribute] = _made(child.cls, version, rest, count, place, False)
        elif not top or field.type in ("string", "bool") or field.attribute in NUMBERS:
            values[field.attribute] = _value(field, child, version, (), count, place)
    return cls(**values)


def _value(field: Any, child: Any, version: int, path: Path, count: int, place: int) -> Any:
    match field.type:
        case "struct":
            return _made(child.cls, version, path, count, place, False)
        case "string":
            return f"name-{place % 2}-{place}"
        case "bool":
            return True
        case "bytes":
            return b""
        case "records":
            return None if version in field.nullable else b""
        case "uuid":
            return (place + 1).to_bytes(16, "big")
        case "float64":
            return 1.0
        case "int8":
            return NUMBERS.get(field.attribute, place % 100)
        case "int16" | "uint16":
            return NUMBERS.get(field.attribute, place % 30_000)
    return NUMBERS.get(field.attribute, place)
