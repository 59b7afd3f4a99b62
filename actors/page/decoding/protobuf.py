"""Protobuf: a value out of its bytes, by a schema (the encoding of proto2 and proto3), as JSON has it in Protobuf's mapping.

Fields that the schema does not know are left out. What a value claims is checked against the bytes that there are and
against a budget.
"""

import base64
import datetime
import struct
from collections.abc import Callable, Iterator
from typing import Any

from actors.arrow.values.budget import Budget, Unreadable, real, whole
from actors.arrow.values.proto_text import Field, Schema

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _signed(bits: int) -> Callable[[int], int]:
    def told(found: int) -> int:
        found &= (1 << bits) - 1
        return found - (1 << bits) if found >> (bits - 1) else found

    return told


def _zigzag(found: int) -> int:
    return (found >> 1) ^ -(found & 1)


def _unpacked(form: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack(form, data)[0]


OF_VARINT: dict[str, Callable[[int], Any]] = {
    "int32": _signed(32), "int64": _signed(64), "uint32": lambda found: found & 0xFFFFFFFF, "uint64": int, "sint32": _zigzag,
    "sint64": _zigzag, "bool": bool,
}  # fmt: skip
OF_FIXED: dict[str, tuple[int, Callable[[bytes], Any]]] = {
    "double": (FIXED64, _unpacked("<d")), "fixed64": (FIXED64, _unpacked("<Q")), "sfixed64": (FIXED64, _unpacked("<q")),
    "float": (FIXED32, _unpacked("<f")), "fixed32": (FIXED32, _unpacked("<I")), "sfixed32": (FIXED32, _unpacked("<i")),
}  # fmt: skip
SIZES = {FIXED64: 8, FIXED32: 4}


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(a whole number, where the next thing begins). Raises Unreadable."""
    found = shift = 0
    while True:
        if at >= len(data):
            raise Unreadable("it ends in the middle")
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
        if shift > 63:
            raise Unreadable("it has a whole number of more than ten bytes")


def indexes(data: bytes) -> tuple[list[int], int]:
    """(the place of the message in its file, where the message begins): what serializers write before it. Raises
    Unreadable."""
    count, at = varint(data, 0)
    count = _zigzag(count)
    if not 0 <= count <= 64:
        raise Unreadable("it does not say which message it is")
    found = []
    for _ in range(count):
        one, at = varint(data, at)
        found.append(_zigzag(one))
    return found or [0], at


def value(schema: Schema, name: str, data: bytes, parts: int) -> Any:
    """A message as JSON has it. Raises Unreadable if the bytes are none."""
    return _Message(schema, Budget(parts)).told(name, data)


class _Message:
    """What reads a message and those in it."""

    def __init__(self, schema: Schema, budget: Budget) -> None:
        self._schema = schema
        self._budget = budget

    def told(self, name: str, data: bytes) -> Any:
        """A message of that name."""
        found: dict[str, Any] = {}
        fields = self._schema.messages[name]
        self._budget.spend()
        with self._budget:
            for number, wire, raw in self._raw(data):
                field = fields.get(number)
                if field is not None:
                    self._budget.name(field.name)
                    self._take(found, field, wire, raw)
        meant = WELL_KNOWN.get(name)
        return meant(found) if meant is not None else found

    def _raw(self, data: bytes) -> Iterator[tuple[int, int, Any]]:
        """(number, wire type, what is there) of each field."""
        at = 0
        while at < len(data):
            self._budget.spend()
            tag, at = varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == VARINT:
                raw, at = varint(data, at)
                yield number, wire, raw
                continue
            if wire == BYTES:
                size, at = varint(data, at)
            elif wire in SIZES:
                size = SIZES[wire]
            else:
                raise Unreadable(f"it has a field of kind {wire}, which there is not")
            if size > len(data) - at:
                raise Unreadable("it ends in the middle, or claims to be longer than it is")
            yield number, wire, data[at : at + size]
            at += size

    def _take(self, found: dict[str, Any], field: Field, wire: int, raw: Any) -> None:
        if field.key:
            self._entry(found.setdefault(field.name, {}), field, wire, raw)
        elif not field.is_repeated:
            found[field.name] = self._one(field.kind, wire, raw)
        elif wire == BYTES and self._packs(field.kind):
            found.setdefault(field.name, []).extend(self._packed(field.kind, raw))
        else:
            found.setdefault(field.name, []).append(self._one(field.kind, wire, raw))

    def _entry(self, found: dict[str, Any], field: Field, wire: int, raw: Any) -> None:
        if wire != BYTES:
            raise Unreadable(f"its field {field.name} is of another kind than its schema says")
        key: Any = "" if field.key == "string" else False if field.key == "bool" else 0
        value: Any = None
        for number, inner, one in self._raw(raw):
            if number == 1:
                key = self._one(field.key, inner, one)
            elif number == 2:
                value = self._one(field.kind, inner, one)
        found[str(key).lower() if isinstance(key, bool) else str(key)] = value

    def _packs(self, kind: str) -> bool:
        return kind in OF_VARINT or kind in OF_FIXED or kind in self._schema.enums

    def _packed(self, kind: str, raw: bytes) -> Iterator[Any]:
        at = 0
        while at < len(raw):
            self._budget.spend()
            if kind in OF_FIXED:
                wire = OF_FIXED[kind][0]
                yield self._one(kind, wire, raw[at : at + SIZES[wire]])
                at += SIZES[wire]
            else:
                one, at = varint(raw, at)
                yield self._one(kind, VARINT, one)

    def _one(self, kind: str, wire: int, raw: Any) -> Any:
        """One value of a type. Raises Unreadable if the bytes are of another kind."""
        if kind in OF_VARINT and wire == VARINT:
            found = OF_VARINT[kind](raw)
            return found if isinstance(found, bool) else whole(found)
        if kind in OF_FIXED and wire == OF_FIXED[kind][0] and len(raw) == SIZES[wire]:
            found = OF_FIXED[kind][1](raw)
            return real(found) if isinstance(found, float) else whole(found)
        if kind in self._schema.enums and wire == VARINT:
            number = _signed(32)(raw)
            symbol = self._schema.enums[kind].get(number, "")
            self._budget.name(symbol)
            return symbol or number
        if wire == BYTES and kind == "string":
            return raw.decode("utf-8", "replace")
        if wire == BYTES and kind == "bytes":
            return base64.b64encode(raw).decode()
        if wire == BYTES and kind in self._schema.messages:
            return self.told(kind, raw)
        raise Unreadable("it is of another schema: a field is of another kind")


# ---- messages that everybody has


def _timestamp(found: dict[str, Any]) -> Any:
    try:
        seconds, nanos = int(found.get("seconds", 0)), int(found.get("nanos", 0))
        return (EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanos // 1000)).isoformat()
    except (OverflowError, ValueError):
        return found


def _wrapped(otherwise: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda found: found.get("value", otherwise)


def _struct_value(found: dict[str, Any]) -> Any:
    return next((None if name == "null_value" else one for name, one in found.items()), None)


WELL_KNOWN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Struct": lambda found: found.get("fields", {}),
    "google.protobuf.ListValue": lambda found: found.get("values", []),
    "google.protobuf.Value": _struct_value,
    **{
        f"google.protobuf.{kind}Value": _wrapped(0)
        for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32")
    },
    "google.protobuf.BoolValue": _wrapped(False),
    "google.protobuf.StringValue": _wrapped(""),
    "google.protobuf.BytesValue": _wrapped(""),
}
