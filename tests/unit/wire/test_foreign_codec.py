"""Every released message in every version, against kio: the same bytes mean the same to both, in both directions."""

import dataclasses
import datetime
import importlib
import io
import random
import uuid
from functools import cache
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from actors.wire.errors import ErrorCode
from actors.wire.messages import decode, decode_exact, encode, encode_parts, head, message, names
from actors.wire.schema import Field, snake_case
from tests.rows import rows
from tests.unit.wire.generator import NOTHING, random_message

ROUNDS = 6
KNOWN_CODES = sorted(code.value for code in KioErrorCode)
OURS_ONLY = {
    "ControlRecordTypeSchema", "DefaultPrincipalData", "ProducerSnapshot", "QuorumStateData",
    "AlterIsrRequest", "AlterIsrResponse",
    "ControlledShutdownRequest", "ControlledShutdownResponse", "LeaderAndIsrRequest", "LeaderAndIsrResponse",
    "StopReplicaRequest", "StopReplicaResponse", "UpdateMetadataRequest", "UpdateMetadataResponse",
}  # fmt: skip
"""Without a counterpart in kio, or with one that has another shape. For what controllers push see `test_pushed.py`."""


@cache
def foreign(name: str, version: int) -> type[Any] | None:
    """kio's class of a message, or None."""
    kind, base = EntityType.data, name
    for suffix in ("Request", "Response"):
        if name.endswith(suffix):
            kind, base = EntityType[suffix.lower()], name.removesuffix(suffix)
    path = schema_name_map.get(snake_case(base), {}).get(version, {}).get(kind)
    if path is None:
        return None
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]


OLDER = {"AlterPartitionRequest": 2, "AlterPartitionResponse": 2}
"""Message -> kio's first version of it; what is older is compared in test_pushed.py."""


def cases() -> list[tuple[str, int]]:
    """All pairs of message and version that both know."""
    found = []
    for name in names():
        if name in OURS_ONLY or head(name).kind == "header":
            continue
        first, last = head(name).versions
        first = OLDER.get(name, first)
        found += [(name, version) for version in range(first, last + 1)]
    return found


def foreign_types(name: str, version: int) -> dict[tuple[str, str], str]:
    """kio's type of each field by (struct, attribute) of ours: both keep Kafka's order of fields."""
    found: dict[tuple[str, str], str] = {}

    def walk(ours: type[Any], theirs: type[Any]) -> None:
        mine = [
            (field, child)
            for field, child in zip(ours.__struct__.fields, ours.__layout__.children, strict=True)
            if version in field.versions
        ]
        for (field, child), other in zip(mine, dataclasses.fields(theirs), strict=True):
            if child is None:
                found[ours.__struct__.name, field.attribute] = other.metadata.get("kafka_type", "")
            else:
                walk(child.cls, nested(other.type))

    walk(message(name), foreign(name, version))  # type: ignore[arg-type]
    return found


def nested(annotation: Any) -> type[Any]:
    """The dataclass inside an annotation: `X`, `X | None`, `tuple[X, ...]`."""
    if dataclasses.is_dataclass(annotation):
        return annotation  # type: ignore[return-value]
    for part in getattr(annotation, "__args__", ()):
        if part is not Ellipsis and part is not type(None):
            return nested(part)
    raise AssertionError(annotation)


def pick_for(name: str, version: int) -> Any:
    """Narrow the values to what kio can hold: known error codes, times that its classes can express."""
    kinds = {attribute: kind for (_, attribute), kind in foreign_types(name, version).items()}

    def pick(field: Field, rng: random.Random) -> Any:
        kind = kinds.get(field.attribute, "")
        if kind == "error_code":
            return rng.choice(KNOWN_CODES)
        if kind.startswith("timedelta"):
            return rng.choice((0, 1, -1, 60_000, 2**31 - 1))
        if kind.startswith("datetime"):
            return rng.choice((0, 1, 1_600_000_000_123))
        return NOTHING

    return pick


def same(ours: Any, theirs: Any, version: int, flexible: bool) -> None:
    """Field by field."""
    fields = [field for field in type(ours).__struct__.fields if version in field.versions]
    for field, other in zip(fields, dataclasses.fields(theirs), strict=True):
        if field.tag >= 0 and not flexible:
            continue
        mine, its = getattr(ours, field.attribute), getattr(theirs, other.name)
        if field.type == "struct" and field.tag >= 0 and not field.array and mine is None:
            continue  # kio has an instance at its defaults; the bytes were compared
        if isinstance(mine, list) and its is not None:
            assert len(mine) == len(its)
            for one, another in zip(mine, its, strict=True):
                if field.type == "struct":
                    same(one, another, version, flexible)
                else:
                    assert agrees(field, one, another), field.name
        elif field.type == "struct" and mine is not None and its is not None:
            same(mine, its, version, flexible)
        else:
            assert agrees(field, mine, its), field.name


def agrees(field: Field, mine: Any, its: Any) -> bool:
    """Whether two scalars are the same; the zero uuid is None in kio."""
    return bool(mine == plain(its)) or (field.type == "uuid" and its is None and mine == bytes(16))


def plain(value: Any) -> Any:
    """A value of kio's in our terms."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    return value


@pytest.mark.long
@rows(cases())
def test_both_codecs_agree(name: str, version: int) -> None:
    theirs = foreign(name, version)
    assert theirs is not None, "kio does not have it"
    read, write = entity_reader(theirs), entity_writer(theirs)
    rng = random.Random(f"{name} {version}")
    pick = pick_for(name, version)
    flexible = version in head(name).flexible
    for _ in range(ROUNDS):
        made = random_message(message(name), version, rng, pick)
        encoded = encode(made, version)
        assert b"".join(encode_parts(made, version)) == encoded
        their_view, size = read(encoded, 0)
        assert size == len(encoded)
        same(made, their_view, version, flexible)
        out = io.BytesIO()
        write(out, their_view)
        assert out.getvalue() == encoded
        decoded = decode_exact(name, version, encoded)
        assert decoded == made
        assert decode(name, version, b"xyz" + encoded + b"abc", 3) == (made, len(encoded) + 3)
        assert encode(decoded, version) == encoded


def test_nothing_was_skipped() -> None:
    missing = {name for name, version in cases() if foreign(name, version) is None}
    assert not missing


def test_error_codes_are_kios() -> None:
    for code in KioErrorCode:
        mine = ErrorCode(code.value)
        assert (mine.name.lower(), mine.retriable) == (code.name, code.retriable)
