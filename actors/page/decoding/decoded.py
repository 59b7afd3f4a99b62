"""Values as they are in topics, by the schema whose id they begin with: a zero, four bytes of the id, the value.

This file alone decides how much of a value is read in a list, and what is said of one that cannot be read.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from actors.arrow.values import proto_text
from actors.arrow.values.budget import TooMuch, Unreadable
from actors.host.client.schema_registry import Registry, Written
from actors.page.decoding import avro, protobuf

MAGIC, PREFIX = 0, 5
PARTS_LISTED, PARTS_WHOLE = 1_000, 200_000
"""How many parts a value may have in a list, and alone."""
BYTES_LISTED, TEXT_LISTED = 32 << 10, 64 << 10
"""The bytes that a value in a list may have, and the characters that it may become."""
SCHEMAS_KEPT = 256
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What reading may raise by a schema that no compiler would take: two fields of one name, numbers without end."""
NAMES = {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON"}


class Decoded(NamedTuple):
    """What a value says."""

    text: str
    """The value as JSON; empty: it cannot be read."""
    schema: str
    """What it was read by, or why it cannot be read."""


def schema_id(data: bytes | None) -> int | None:
    """The id that a value begins with; None: it begins with none."""
    if data is None or len(data) < PREFIX or data[0] != MAGIC:
        return None
    return int.from_bytes(data[1:PREFIX], "big")


class Decoder:
    """What reads the values of some records."""

    def __init__(self, schemas: dict[int, Written | str], is_whole: bool) -> None:
        """`is_whole`: one value is looked at, and not a list of them."""
        self._schemas = schemas
        self._is_whole = is_whole

    def read(self, data: bytes) -> Decoded | None:
        """What a value says; None: it has no schema."""
        id = schema_id(data)
        found = self._schemas.get(id) if id is not None else None
        if id is None or found is None:
            return None
        if isinstance(found, str):
            return Decoded("", found)
        if not self._is_whole and len(data) > BYTES_LISTED:
            return Decoded("", f"it has {len(data):,} bytes: open it")
        parts = PARTS_WHOLE if self._is_whole else PARTS_LISTED
        try:
            name, value = _read(found, data[PREFIX:], parts)
        except TooMuch as error:
            return Decoded("", f"it is {error}{'' if self._is_whole else ': open it'}")
        except Unreadable as error:
            return Decoded("", f"it is no value of schema {id}: {error}")
        except ODD as error:
            return Decoded("", f"it cannot be read by schema {id}, which is an odd one: {type(error).__name__}")
        if not self._is_whole and len(value) > TEXT_LISTED:
            return Decoded("", f"it has {len(value):,} characters: open it")
        kind = NAMES.get(found.kind, found.kind)
        return Decoded(value, f"{name + ', ' if name else ''}{kind}, schema {id}")


async def decoder(registry: Registry, values: Iterable[bytes | None], is_whole: bool = False) -> Decoder:
    """What reads these values. Asks the registry for the schemas that are new."""
    ids = {id for one in values if (id := schema_id(one)) is not None}
    return Decoder(await registry.schemas(ids), is_whole)


def _read(written: Written, data: bytes, parts: int) -> tuple[str, str]:
    """(name of the schema, the value as JSON). Raises Unreadable."""
    others = tuple(written.others.items())
    if written.kind == "AVRO":
        name, read = _avro(written.text, others)
        return name, _json(avro.value(read, data, parts))
    if written.kind == "PROTOBUF":
        schema = _protobuf(written.text, others)
        path, at = protobuf.indexes(data)
        name = schema.named(path)
        return name, _json(protobuf.value(schema, name, data[at:], parts))
    return "", _checked(data)


def _checked(data: bytes) -> str:
    """A value that is JSON itself. Raises Unreadable for one that is none: it is shown, and exported, as JSON."""
    try:
        text = str(data, "utf-8")
        json.loads(text, parse_constant=_no_number, parse_int=_no_huge, parse_float=_no_infinite)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("it is nested too deep") from None
    except ValueError:
        raise Unreadable("it is no JSON") from None
    return text


def _no_number(text: str) -> None:
    """JSON knows no NaN and no infinity, though Python reads them."""
    raise ValueError(text)


def _no_huge(text: str) -> None:
    """A whole number of so many digits is JSON, and Python writes and reads none."""
    if 0 < sys.get_int_max_str_digits() < len(text.lstrip("-")):
        raise Unreadable(f"it has a whole number of more than {sys.get_int_max_str_digits():,} digits")


def _no_infinite(text: str) -> None:
    """1e999 is JSON, and becomes an infinity, which is none."""
    if math.isinf(float(text)):
        raise Unreadable("it has a number that is too large to be read")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


Read = TypeVar("Read")


def _once(made: Callable[[str, tuple[tuple[str, str], ...]], Read]) -> Callable[..., Read]:
    """What makes something of a schema, once for all values. So is a schema refused that is none."""

    @lru_cache(SCHEMAS_KEPT)
    def kept(text: str, others: tuple[tuple[str, str], ...]) -> Read | Unreadable:
        try:
            return made(text, others)
        except Unreadable as error:
            return Unreadable(str(error))
        except ODD as error:
            return Unreadable(f"its schema cannot be read ({type(error).__name__})")

    def told(text: str, others: tuple[tuple[str, str], ...]) -> Read:
        found = kept(text, others)
        if isinstance(found, Unreadable):
            raise Unreadable(str(found))
        return found

    return told


@_once
def _avro(text: str, others: tuple[tuple[str, str], ...]) -> tuple[str, avro.Read]:
    read = avro.reader(text, (one for _, one in others))
    try:
        name = str(json.loads(text).get("name", ""))
    except (ValueError, AttributeError):
        name = ""
    return name, read


@_once
def _protobuf(text: str, others: tuple[tuple[str, str], ...]) -> proto_text.Schema:
    return proto_text.parsed(text, dict(others))
