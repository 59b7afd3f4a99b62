"""Avro: a value out of its bytes, by the schema that it was written with (Avro 1.12, binary encoding).

A reader is made once of a schema, as nested functions. What a value claims is checked against the bytes that there are and
against a budget: an array of nulls needs no bytes at all.
"""

import base64
import datetime
import json
import struct
from collections.abc import Callable, Iterable
from typing import Any

from actors.arrow.values.budget import DEPTH_MAX, NAME_CHARS, Budget, TooMuch, Unreadable, real, whole

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NAMED = ("record", "error", "enum", "fixed")
SCHEMA_PARTS_MAX = 20_000


class Bytes:
    """Bytes that are read from the beginning to the end."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self._data = data
        self._at = 0
        self.budget = budget

    @property
    def left(self) -> int:
        """How many were not read."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """The next bytes. Raises Unreadable if there are fewer."""
        if not 0 <= count <= self.left:
            raise Unreadable("it ends in the middle, or claims to be longer than it is")
        self._at += count
        return self._data[self._at - count : self._at]

    def long(self) -> int:
        """The next whole number: zigzag, in at most ten bytes."""
        found = shift = 0
        while True:
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift > 63:
                raise Unreadable("it has a whole number of more than ten bytes")


Read = Callable[[Bytes], Any]


def reader(schema: str, others: Iterable[str] = ()) -> Read:
    """What reads a value that was written with a schema. `others`: schemas to which it refers by name, in order. Raises
    Unreadable for a schema that is none."""
    schemas = _Schemas()
    try:
        for one in others:
            schemas.made(json.loads(one), "")
        return schemas.made(json.loads(schema), "")
    except TooMuch as error:
        raise Unreadable(f"its Avro schema is {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise Unreadable(f"its Avro schema cannot be read: {error}") from None


def value(read: Read, data: bytes, parts: int) -> Any:
    """A value as JSON has it. Raises Unreadable if the bytes are none."""
    source = Bytes(data, Budget(parts))
    found = read(source)
    if source.left:
        raise Unreadable(f"{source.left} bytes stand behind it")
    return found


class _Schemas:
    """The named schemas so far."""

    def __init__(self) -> None:
        self._named: dict[str, Read] = {}
        self._budget = Budget(SCHEMA_PARTS_MAX)

    def made(self, schema: Any, space: str) -> Read:
        """What reads values of a schema; `space`: the namespace around it."""
        with self._budget:
            self._budget.spend()
            if isinstance(schema, list):
                return _union([self.made(one, space) for one in schema])
            if isinstance(schema, str):
                return PRIMITIVE[schema] if schema in PRIMITIVE else self._later(schema, space)
            kind = schema["type"]
            if not isinstance(kind, str):
                return self.made(kind, space)
            if kind in NAMED:
                return self._of_name(kind, schema, space)
            if kind == "array":
                return _array(self.made(schema["items"], space))
            if kind == "map":
                return _map(self.made(schema["values"], space))
            return _logical(schema, self.made(kind, space))

    def _later(self, name: str, space: str) -> Read:
        """What reads values of a named schema, which may be the one that is being made."""
        full = name if "." in name or not space else f"{space}.{name}"
        known = full if full in self._named else name
        if known not in self._named:
            raise Unreadable(f"it knows no {name}")
        return lambda source: self._named[known](source)

    def _of_name(self, kind: str, schema: dict[str, Any], space: str) -> Read:
        name = schema["name"]
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace") or space
        full = name if "." in name or not space else f"{space}.{name}"
        if kind == "fixed":
            size = int(schema["size"])
            made = _logical(schema, lambda source: source.take(size))
            self._named[full] = made
            return made
        if kind == "enum":
            made = _enum([str(one) for one in schema["symbols"]])
            self._named[full] = made
            return made
        fields: list[tuple[str, Read]] = []
        self._named[full] = made = _record(fields)  # before its fields, which may name it
        fields.extend(_named(str(one["name"]), self.made(one["type"], space)) for one in schema["fields"])
        return made


# ---- what reads each kind


def _boolean(source: Bytes) -> bool:
    return source.take(1) != b"\0"


def _text(source: Bytes) -> str:
    return source.take(source.long()).decode("utf-8", "replace")


def _bytes(source: Bytes) -> bytes:
    return source.take(source.long())


def _double(source: Bytes) -> float:
    (found,) = struct.unpack("<d", source.take(8))
    return float(found)


def _float(source: Bytes) -> float:
    (found,) = struct.unpack("<f", source.take(4))
    return float(found)


def _told(found: Any) -> Any:
    """A value of one of the plain kinds as JSON has it."""
    if isinstance(found, bytes):
        return {"base64": base64.b64encode(found).decode()}
    if isinstance(found, bool):
        return found
    return real(found) if isinstance(found, float) else whole(found) if isinstance(found, int) else found


def _plain(read: Read) -> Read:
    def told(source: Bytes) -> Any:
        source.budget.spend()
        return _told(read(source))

    return told


RAW: dict[str, Read] = {
    "null": lambda source: None, "boolean": _boolean, "int": Bytes.long, "long": Bytes.long, "float": _float,
    "double": _double, "bytes": _bytes, "string": _text,
}  # fmt: skip
PRIMITIVE = {name: _plain(read) for name, read in RAW.items()}


def _union(branches: list[Read]) -> Read:
    def told(source: Bytes) -> Any:
        at = source.long()
        if not 0 <= at < len(branches):
            raise Unreadable(f"it has no branch {at} of a union")
        return branches[at](source)

    return told


def _enum(symbols: list[str]) -> Read:
    def told(source: Bytes) -> str:
        source.budget.spend()
        at = source.long()
        if not 0 <= at < len(symbols):
            raise Unreadable(f"it has no symbol {at} of an enum")
        source.budget.name(symbols[at])
        return symbols[at]

    return told


def _named(name: str, read: Read) -> tuple[str, Read]:
    """(the name of a field, what reads it), for which a long name is paid."""
    if len(name) < NAME_CHARS:
        return name, read

    def told(source: Bytes) -> Any:
        source.budget.name(name)
        return read(source)

    return name, told


def _record(fields: list[tuple[str, Read]]) -> Read:
    def told(source: Bytes) -> dict[str, Any]:
        source.budget.spend()
        with source.budget:
            return {name: read(source) for name, read in fields}

    return told


def _blocks(source: Bytes, take: Callable[[], None]) -> None:
    """Calls `take` for each item of an array or a map."""
    source.budget.spend()
    with source.budget:
        while count := source.long():
            if count < 0:
                source.long()  # the bytes of the block
                count = -count
            for _ in range(count):
                source.budget.spend()  # an item may have no bytes
                take()


def _array(read: Read) -> Read:
    def told(source: Bytes) -> list[Any]:
        found: list[Any] = []
        _blocks(source, lambda: found.append(read(source)))
        return found

    return told


def _map(read: Read) -> Read:
    def told(source: Bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def take() -> None:
            name = _text(source)
            found[name] = read(source)

        _blocks(source, take)
        return found

    return told


# ---- logical types


def _time(unit: int) -> Callable[[int, Any], str]:
    """A time since 1970 in so many parts of a second."""

    def told(found: int, _: Any) -> str:
        return (EPOCH + datetime.timedelta(microseconds=found * 1_000_000 // unit)).isoformat()

    return told


def _clock(unit: int) -> Callable[[int, Any], str]:
    """A time of the day in so many parts of a second."""

    def told(found: int, _: Any) -> str:
        return (EPOCH + datetime.timedelta(microseconds=found * 1_000_000 // unit)).time().isoformat()

    return told


def _date(found: int, _: Any) -> str:
    return (EPOCH + datetime.timedelta(days=found)).date().isoformat()


def _decimal(found: bytes, schema: Any) -> str:
    scale = int(schema.get("scale", 0))
    if len(found) > 100 or not 0 <= scale <= 100:
        raise ValueError
    number = int.from_bytes(found, "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


LOGICAL: dict[tuple[str, str], Callable[[Any, Any], str]] = {
    ("int", "date"): _date,
    ("int", "time-millis"): _clock(1_000),
    ("long", "time-micros"): _clock(1_000_000),
    ("long", "timestamp-millis"): _time(1_000),
    ("long", "timestamp-micros"): _time(1_000_000),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
}


def _logical(schema: dict[str, Any], read: Read) -> Read:
    """What reads values of a kind that may mean something; one that no calendar has is told as it is."""
    kind = schema["type"]
    means = LOGICAL.get((kind, schema.get("logicalType", "")))
    raw = RAW.get(kind, read)
    if means is None:
        return read if kind in RAW else _plain(read)

    def told(source: Bytes) -> Any:
        source.budget.spend()
        found = raw(source)
        try:
            return means(found, schema)
        except (ValueError, TypeError, OverflowError):
            return _told(found)

    return told


assert DEPTH_MAX < 200  # each level is a few frames of Python
