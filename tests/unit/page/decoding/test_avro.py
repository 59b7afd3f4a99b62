"""Avro values: what another library has written is read as it was, and what nobody would write ends soon."""

import base64
import contextlib
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.arrow.values.budget import DEPTH_MAX, EXACT, Unreadable
from actors.page.decoding import avro

fastavro = pytest.importorskip("fastavro")
PARTS = 10_000
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "price", "type": "double"}, {"name": "weight", "type": "float"},
            {"name": "gift", "type": "boolean"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "raw", "type": "bytes"},
        {"name": "parent", "type": ["null", "Order"]},
    ],
}  # fmt: skip
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def orders(parent: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    line = st.fixed_dictionaries({
        "price": DOUBLES, "weight": st.floats(width=32, allow_nan=False, allow_infinity=False), "gift": st.booleans(),
    })  # fmt: skip
    return st.fixed_dictionaries({
        "id": LONGS, "who": st.none() | st.text(), "state": st.sampled_from(["NEW", "PAID"]),
        "before": st.none() | st.sampled_from(["NEW", "PAID"]), "lines": st.lists(line, max_size=5),
        "tags": st.dictionaries(st.text(), INTS, max_size=5), "hash": st.binary(min_size=4, max_size=4),
        "raw": st.binary(), "parent": parent,
    })  # fmt: skip


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def told(value: Any) -> Any:
    """A value as the page tells it."""
    if isinstance(value, dict):
        return {name: told(one) for name, one in value.items()}
    if isinstance(value, list):
        return [told(one) for one in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        return str(value)
    return value


@given(orders(st.none() | orders(st.none())))
@settings(max_examples=150, deadline=None)
def test_what_fastavro_has_written_is_read_as_it_was(value: dict[str, Any]) -> None:
    read = avro.reader(json.dumps(ORDER))
    found = avro.value(read, written(ORDER, value), PARTS)
    assert found == told(value)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("schema", "data", "shown"),
    [
        ({"type": "int", "logicalType": "date"}, written("int", 20_786), "2026-11-29"),
        ({"type": "int", "logicalType": "time-millis"}, written("int", 51_000_000), "14:10:00"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\x00", "1970-01-01T00:00:00+00:00"),
        ({"type": "long", "logicalType": "timestamp-micros"}, b"\x01", "1969-12-31T23:59:59.999999+00:00"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x04\xff\x85", "-1.23"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\x02\x05", "5"),
        ({"type": "string", "logicalType": "uuid"}, b"\x02a", "a"),
        ("double", b"\0\0\0\0\0\0\xf0\x7f", "Infinity"),
        ("float", b"\0\0\xc0\x7f", "NaN"),
    ],
)
def test_logical_types_and_numbers_that_json_does_not_have(schema: Any, data: bytes, shown: Any) -> None:
    assert avro.value(avro.reader(json.dumps(schema)), data, PARTS) == shown


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    assert avro.value(avro.reader(json.dumps(schema)), written("long", 1 << 62), PARTS) == str(1 << 62)


def test_schemas_that_are_named_in_others() -> None:
    address = (
        '{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "town", "type": "string"}]}'
    )
    person = (
        '{"type": "record", "name": "Person", "namespace": "shop", "fields": [{"name": "home", "type": "Address"}]}'
    )
    assert avro.value(avro.reader(person, [address]), b"\x04Ul", PARTS) == {"home": {"town": "Ul"}}
    with pytest.raises(Unreadable, match="knows no Address"):
        avro.reader(person)


LIST = '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}'


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ('{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ('{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}', b"\xfe\xff\xff\xff\x0f"),
        ('{"type": "map", "values": "null"}', b"\x02\xfe\xff\xff\xff\x0f"),
        ('"string"', b"\xfe\xff\xff\xff\x0fabc"),
        ('"bytes"', b"\x01"),
        ('"long"', b"\xff" * 11),
        ('"long"', b""),
        ('["null"]', b"\x02"),
        ('["null"]', b"\x01"),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', b"\x03"),
        (LIST, b"\x02" * (DEPTH_MAX + 1) + b"\0"),
        ('"int"', b"\x02\x02"),
    ],
)
def test_what_nobody_would_write_is_unreadable_and_costs_little(schema: str, data: bytes) -> None:
    with pytest.raises(Unreadable):
        avro.value(avro.reader(schema), data, PARTS)


@pytest.mark.parametrize(
    "schema",
    [
        "", "{}", "3", '{"type": 3}', '{"type": "record", "name": "R"}', '"missing"', "[" * 5_000,
        '{"type": "array", "items": ' * 70 + '"int"' + "}" * 70,
        '{"type": "fixed", "name": "F", "size": "x"}', '{"type": "enum", "name": "E", "symbols": 3}',
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_told(schema: str) -> None:
    with pytest.raises(Unreadable):
        avro.reader(schema)


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_unreadable(data: bytes) -> None:
    with contextlib.suppress(Unreadable):
        avro.value(avro.reader(json.dumps(ORDER)), data, PARTS)
