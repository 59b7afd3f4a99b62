"""The slow twin of fastpath.messages.plan: one value after the other, straight from the schema, plain data in and out.

Messages are dicts from Kafka's field name to value; structs are dicts again. No checks beyond what decoding needs.
"""

import struct
from typing import Any

from actors.wire.schema import Field, Schema, Struct

FIXED = {
    "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q", "float64": ">d",
    "bool": ">?", "uuid": ">16s",
}  # fmt: skip


def uvarint(number: int) -> bytes:
    """Base 128, low group first."""
    out = b""
    while number > 127:
        out += bytes([number % 128 + 128])
        number //= 128
    return out + bytes([number])


def encode(schema: Schema, fields: dict[str, Any], version: int) -> bytes:
    """The message in bytes. Tagged fields that are not in `fields` are not written."""
    return _struct(schema.root, fields, version, version in schema.head.flexible)


def _struct(described: Struct, fields: dict[str, Any], version: int, flexible: bool) -> bytes:
    out, tags = b"", []
    for field in described.fields:
        if version not in field.versions:
            continue
        if flexible and version in field.tagged:
            if field.name in fields:
                tags.append((field.tag, _value(field, fields[field.name], version, flexible)))
        else:
            out += _value(field, fields[field.name], version, flexible)
    if flexible:
        out += uvarint(len(tags))
        for tag, value in sorted(tags):
            out += uvarint(tag) + uvarint(len(value)) + value
    return out


def _length(size: int, flexible: bool, wide: bool) -> bytes:
    if flexible:
        return uvarint(size + 1)
    return struct.pack(">i" if wide else ">h", size)


def _value(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    compact = flexible and not field.plain
    if field.array:
        if value is None:
            return _length(-1, compact, True)
        return _length(len(value), compact, True) + b"".join(_one(field, one, version, flexible) for one in value)
    if field.type == "struct" and version in field.nullable:
        null = b"\0" if version in field.tagged else b"\xff"
        return null if value is None else b"\x01" + _one(field, value, version, flexible)
    return _one(field, value, version, flexible)


def _one(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if field.struct is not None:
        return _struct(field.struct, value, version, flexible)
    if field.type in FIXED:
        return struct.pack(FIXED[field.type], value)
    compact, wide = flexible and not field.plain, field.type != "string"
    if value is None:
        return _length(-1, compact, wide)
    raw = value.encode() if field.type == "string" else bytes(value)
    return _length(len(raw), compact, wide) + raw


class Cursor:
    """A place in bytes. `entries`: array elements and tagged fields met so far."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.entries = data, 0, 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size < 0 or self.at + size > len(self.data):
            raise ValueError(f"cut at {self.at}")
        self.at += size
        return self.data[self.at - size : self.at]

    def uvarint(self) -> int:
        """The next unsigned varint."""
        number, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            number += (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number


def decode(schema: Schema, data: bytes, version: int) -> dict[str, Any]:
    """The message that fills `data`; fields that the version lacks and absent tags are missing in the dict."""
    cursor = Cursor(data)
    found = _read_struct(schema.root, cursor, version, version in schema.head.flexible)
    if cursor.at != len(data):
        raise ValueError("bytes left over")
    return found


def entries(schema: Schema, data: bytes, version: int) -> int:
    """How many array elements, at any depth, and tagged fields the message has."""
    cursor = Cursor(data)
    _read_struct(schema.root, cursor, version, version in schema.head.flexible)
    return cursor.entries


def _read_struct(described: Struct, cursor: Cursor, version: int, flexible: bool) -> dict[str, Any]:
    found, tagged = {}, {}
    for field in described.fields:
        if flexible and version in field.tagged:
            tagged[field.tag] = field
        elif version in field.versions:
            found[field.name] = _read(field, cursor, version, flexible)
    if flexible:
        for _ in range(cursor.uvarint()):
            tag = cursor.uvarint()
            value = Cursor(cursor.take(cursor.uvarint()))
            if tag in tagged:
                found[tagged[tag].name] = _read(tagged[tag], value, version, flexible)
            cursor.entries += 1 + value.entries
    return found


def _read_length(cursor: Cursor, flexible: bool, wide: bool) -> int:
    if flexible:
        return cursor.uvarint() - 1
    return int.from_bytes(cursor.take(4 if wide else 2), "big", signed=True)


def _read(field: Field, cursor: Cursor, version: int, flexible: bool) -> Any:
    compact = flexible and not field.plain
    if field.array:
        size = _read_length(cursor, compact, True)
        cursor.entries += max(size, 0)
        return None if size < 0 else [_read_one(field, cursor, version, flexible) for _ in range(size)]
    if field.type == "struct" and version in field.nullable:
        mark = cursor.take(1)[0]
        if mark == 0 if version in field.tagged else mark >= 128:
            return None
    return _read_one(field, cursor, version, flexible)


def _read_one(field: Field, cursor: Cursor, version: int, flexible: bool) -> Any:
    if field.struct is not None:
        return _read_struct(field.struct, cursor, version, flexible)
    if field.type in FIXED:
        return struct.unpack(FIXED[field.type], cursor.take(struct.calcsize(FIXED[field.type])))[0]
    size = _read_length(cursor, flexible and not field.plain, field.type != "string")
    if size < 0:
        return None
    raw = cursor.take(size)
    return raw.decode() if field.type == "string" else raw
