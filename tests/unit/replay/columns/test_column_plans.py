"""Typed columns against the codec: random records of every type and version, tagged fields there and absent, mixed."""

import base64
import random
from pathlib import Path
from typing import Any

import pytest

from actors.metadata.batches import BatchWriter
from actors.replay.columns import column_plans, metadata
from actors.replay.logs.chunks import ChunkReading, chunks
from actors.replay.logs.files import CorruptLog
from actors.settings.secret import shown
from actors.wire.messages import encode, message
from actors.wire.schema import Field, Struct
from fastpath.arrow.metadata_columns import CONTROL_SLOT
from tests.reference import batch as slow

RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def scalar(one: Field, rng: random.Random) -> Any:
    if one.type in RANGES:
        bits = RANGES[one.type]
        return rng.choice((0, -1, 1, rng.randrange(-(1 << bits), 1 << bits)))
    if one.type in ("uint16", "uint32"):
        return rng.randrange(1 << int(one.type[4:]))
    if one.type == "bool":
        return rng.random() < 0.5
    if one.type == "float64":
        return rng.choice((0.0, -1.5, 1e300))
    if one.type == "uuid":
        return rng.choice((bytes(16), bytes([1]) * 16, bytes([17]) * 16, rng.randbytes(16)))
    if one.type == "string":
        return rng.choice(("", "a", "é" * 3, "x" * 300))
    return rng.choice((b"", b"\0", rng.randbytes(200)))


def filled(cls: type[Any], struct: Struct, version: int, rng: random.Random) -> Any:
    """A message with random values in the fields of a version, some left at their default."""
    given: dict[str, Any] = {}
    for one in struct.fields:
        if not (version in one.versions or version in one.tagged) or rng.random() < 0.4:
            continue
        if version in one.nullable and rng.random() < 0.3:
            given[one.attribute] = None
        elif one.struct is not None:
            inner = getattr(cls, one.struct.name)
            make = [filled(inner, one.struct, version, rng) for _ in range(rng.randrange(4) if one.array else 1)]
            given[one.attribute] = make if one.array else make[0]
        elif one.array:
            given[one.attribute] = [scalar(one, rng) for _ in range(rng.randrange(5))]
        else:
            given[one.attribute] = scalar(one, rng)
    return cls(**given)


def expected(body: Any, struct: Struct, version: int) -> dict[str, Any]:
    """The row that Arrow must have."""
    row = {}
    for one in struct.fields:
        if not (version in one.versions or version in one.tagged):
            row[one.attribute] = None
            continue
        value = getattr(body, one.attribute)
        if one.struct is not None:
            inner = one.struct
            plain = [expected(item, inner, version) for item in value] if one.array and value is not None else value
            row[one.attribute] = plain if one.array or value is None else expected(value, inner, version)
        elif one.type == "uuid":
            row[one.attribute] = [text(item) for item in value] if one.array and value is not None else value
            if not one.array:
                row[one.attribute] = text(value)
        else:
            row[one.attribute] = bytes(value) if isinstance(value, memoryview) else value
    return row


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decoded(which: str, values: list[bytes], path: Path) -> metadata.Decoded:
    out = BatchWriter(0, 1, 1000, 600)
    for value in values:
        out.add(value)
    path.write_bytes(b"".join(one.data for one in out.finish()))
    (chunk,) = chunks(path, ChunkReading())
    return metadata.Decoded(column_plans.family(which, None, None, True), chunk, ChunkReading())


@pytest.mark.parametrize("which", ["released", "drafts"])
@pytest.mark.parametrize("seed", range(4))
def test_every_type_and_version_equals_the_codec(which: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    kinds = [kind for kind in column_plans.family(which).kinds.values() if kind.slot < CONTROL_SLOT]
    folder = {name.rpartition(":")[2]: name for name in _names(which)}
    values, rows = [], {kind.slot: [] for kind in kinds}  # type: ignore[var-annotated]
    for _ in range(400):
        kind = rng.choice(kinds)
        version = rng.choice(list(kind.versions))
        body = filled(message(folder[kind.name]), kind.schema.root, version, rng)
        frame = bytes((1, kind.slot, version)) if which == "released" else bytes((kind.slot, version))
        values.append(encode(body, version, frame))
        rows[kind.slot].append((len(values) - 1, version, expected(body, kind.schema.root, version)))
    found = decoded(which, values, tmp_path / "log")
    assert set(found.rows) == {slot for slot, some in rows.items() if some}
    for kind in kinds:
        if not rows[kind.slot]:
            continue
        columns = [array.to_pylist() for array in found.fields(kind)]
        names = [tree.field.attribute for tree in kind.trees]
        for array in found.fields(kind):
            array.validate(full=True)
        made = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []
        offsets, _, _, versions = found.rows[kind.slot]
        wanted = rows[kind.slot]
        assert list(zip(offsets.tolist(), versions.tolist(), strict=True)) == [one[:2] for one in wanted]
        for (_, version, want), got in zip(wanted, made, strict=bool(names)):
            if kind.name == "ConfigRecord":  # no name that is drawn here is that of a setting that is known
                want = want | {"value": shown(want["name"], want["value"])}
            assert got == want, (kind.name, version)


def _names(which: str) -> list[str]:
    from actors.wire import messages

    return [
        name for folder in column_plans.FOLDERS[which] for name in messages.names(folder) if name.endswith("Record")
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"\x01\x02\x00", "ends outside the record"),
        (b"\x02\x02\x00", "make no sense"),
        (b"\x01\x29\x00\x00", "record type 41 has no version 0"),
        (b"\x01\x02\x07\x00", "no version 7"),
        (b"\x01\x14\x00\x00\x00", "left over"),
        (b"\x01\x14\x00\x02\x00\x00", "ends outside the record"),
    ],
)
def test_bytes_that_are_no_record(value: bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptLog, match=sentence):
        decoded("released", [value], tmp_path / "log")


def test_a_record_that_is_not_there_is_named_by_its_own_offset(tmp_path: Path) -> None:
    whole = slow.build([slow.Row(None, b"\x01\x14\x00\x00", 1)] * 2, base_offset=5)
    short = slow.fields(whole)._replace(count=3, last_offset_delta=2)
    (tmp_path / "log").write_bytes(slow.sealed(short, whole[61:]))
    (chunk,) = chunks(tmp_path / "log", ChunkReading())
    with pytest.raises(CorruptLog, match="offset 7: the record's bytes make no sense"):
        metadata.Decoded(column_plans.family("released", None, None, True), chunk, ChunkReading())
