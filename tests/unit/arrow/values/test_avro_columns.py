"""Avro's values as columns: equal to fastavro's for any schema and any values, and damaged bytes cost a row and no more."""

import datetime
import decimal
import io
import json
import math
import os
import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.arrow.values.avro_columns import Layout, array
from actors.arrow.values.avro_plan import Plan
from actors.arrow.values.avro_schema import BadSchema, parsed
from fastpath.arrow.value_columns import REASONS, ValueColumns

fastavro = pytest.importorskip("fastavro")
ID = b"\0\0\0\0\1"
EXAMPLES = int(os.environ.get("EXAMPLES", 100))


def read(
    values: Sequence[bytes | None], reader: Any, writers: dict[int, Any] | None = None
) -> tuple[list[Any], dict[int, str]]:
    """(the values, the reason of each that could not be read, by row) of values with their ids in front."""
    layout = Layout(parsed(json.dumps(reader)))
    columns = ValueColumns(layout.columns, layout.kids)
    for id, writer in (writers or {1: reader}).items():
        plan = Plan(parsed(json.dumps(writer)), layout)
        columns.add(id, plan.nodes, plan.kids, plan.table, plan.constants)
    given = pa.array(values, pa.binary())
    valid, offsets, data = given.buffers()
    present = None
    if given.null_count:
        present = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), count=len(given), bitorder="little")
    places = np.frombuffer(offsets, dtype=np.int32)
    flat = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    found: list[Any] = []
    reasons = {}
    at = 0
    while at < len(values):
        after = columns.decode(places, flat, present, at, len(values))
        assert columns.missing == -1 and after > at
        filled, bad, whys = columns.taken()
        made = array(layout.root, filled)
        made.validate(full=True)
        assert len(made) == after - at
        found += made.to_pylist()
        reasons.update(zip(bad.tolist(), (REASONS[one] for one in whys.tolist()), strict=True))
        at = after
    return found, reasons


def written(schema: Any, value: Any) -> bytes:
    """A value as fastavro writes it, with its id."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return ID + out.getvalue()


# ---- schemas and values of any shape

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}
UTC = datetime.UTC
TIMES = st.datetimes(datetime.datetime(1901, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(UTC))
LOGICAL: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "int", "logicalType": "time-millis"}, st.times().map(lambda one: one.replace(microsecond=0))),
    ({"type": "long", "logicalType": "time-micros"}, st.times()),
    ({"type": "long", "logicalType": "timestamp-millis"}, TIMES.map(lambda one: one.replace(microsecond=1000))),
    ({"type": "long", "logicalType": "timestamp-micros"}, TIMES),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, TIMES.map(lambda one: one.replace(tzinfo=None))),
    *(
        (
            {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 2},
            st.integers(1 - 10**digits, 10**digits - 1).map(lambda one: decimal.Decimal(one).scaleb(-2, WIDE)),
        )
        for digits in (4, 38, 39, 76)
    ),
]
HARMLESS = [one for one in LOGICAL if one[0]["logicalType"] in ("decimal", "time-millis", "time-micros")]
"""Those of which Python has every number that Arrow has."""
WIDE = decimal.Context(prec=100)


class Drawn:
    """A schema, values of it, and those as Arrow gives them."""

    def __init__(self, draw: Any, logical: Sequence[tuple[Any, st.SearchStrategy[Any]]]) -> None:
        self._draw = draw
        self._logical = logical
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"N{self._names}"

    def any(self, depth: int, in_union: bool = False) -> tuple[Any, st.SearchStrategy[Any]]:
        """(schema, pairs of a value as fastavro takes it and as Arrow gives it)."""
        kinds = ["plain", "logical", "fixed", "enum", *(["array", "map", "record", "nullable"] if depth else [])]
        kind = self._draw(st.sampled_from(kinds if not in_union else [one for one in kinds if one != "nullable"]))
        if kind == "plain":
            name = self._draw(st.sampled_from(sorted(PLAIN)))
            return name, PLAIN[name].map(lambda one: (one, one))
        if kind == "logical":
            schema, values = self._draw(st.sampled_from(self._logical))
            return schema, values.map(lambda one: (one, one))
        if kind == "fixed":
            size = self._draw(st.sampled_from([0, 1, 16, 64, 65]))
            schema = {"type": "fixed", "name": self.name(), "size": size}
            return schema, st.binary(min_size=size, max_size=size).map(lambda one: (one, one))
        if kind == "enum":
            symbols = [f"S{n}" for n in range(self._draw(st.integers(1, 4)))]
            schema = {"type": "enum", "name": self.name(), "symbols": symbols}
            return schema, st.sampled_from(symbols).map(lambda one: (one, one))
        if kind == "record":
            fields = [self.any(depth - 1) for _ in range(self._draw(st.integers(0, 4)))]
            named = [{"name": f"f{n}", "type": one} for n, (one, _) in enumerate(fields)]
            schema = {"type": "record", "name": self.name(), "fields": named}
            return schema, st.tuples(*(one for _, one in fields)).map(
                lambda some: (
                    {f"f{n}": one for n, (one, _) in enumerate(some)},
                    {f"f{n}": one for n, (_, one) in enumerate(some)},
                )
            )
        inner, values = self.any(depth - 1, kind == "nullable")
        if kind == "nullable":
            if inner == "null":
                return inner, values
            return self._draw(st.sampled_from([["null", inner], [inner, "null"]])), st.none().map(
                lambda one: (one, one)
            ) | values
        if kind == "array":
            return {"type": "array", "items": inner}, st.lists(values, max_size=4).map(
                lambda some: ([one for one, _ in some], [one for _, one in some])
            )
        return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=4), values, max_size=4).map(
            lambda some: (
                {name: one for name, (one, _) in some.items()},
                [(name, one) for name, (_, one) in some.items()],
            )
        )


@st.composite
def schemas(
    draw: Any, logical: Sequence[tuple[Any, st.SearchStrategy[Any]]] = LOGICAL
) -> tuple[Any, list[tuple[Any, Any]]]:
    schema, values = Drawn(draw, logical).any(3)
    return schema, draw(st.lists(values, max_size=6))


@given(schemas())
@settings(deadline=None, max_examples=EXAMPLES)
def test_any_value_is_as_fastavro_wrote_it(drawn: tuple[Any, list[tuple[Any, Any]]]) -> None:
    schema, values = drawn
    found, reasons = read([written(schema, one) for one, _ in values] + [None], schema)
    assert reasons == {}
    assert found == [*(one for _, one in values), None]


@given(schemas(HARMLESS), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=EXAMPLES)
def test_damaged_values_cost_their_rows_and_no_others(
    drawn: tuple[Any, list[tuple[Any, Any]]], chance: random.Random
) -> None:
    """A row that was read is what fastavro reads of it, and its neighbours are whole."""
    schema, values = drawn
    good = [written(schema, one) for one, _ in values]
    mixed: list[bytes] = []
    for one in good:
        bad = bytearray(one)
        for _ in range(chance.randint(0, 3)):
            if len(bad) > 5:
                bad[chance.randrange(5, len(bad))] = chance.randrange(256)
        mixed += [one, bytes(bad[: chance.randint(5, len(bad))]), bytes(bad) + b"\0" * chance.randint(0, 1)]
    found, reasons = read(mixed, schema)
    assert [found[3 * n] for n in range(len(values))] == [one for _, one in values]
    assert not [row for row in reasons if row % 3 == 0]
    for row, data in enumerate(mixed):
        source = io.BytesIO(data[5:])
        try:
            told = fastavro.schemaless_reader(source, fastavro.parse_schema(schema))
            whole = source.read() == b""
        except Exception:
            whole = False
        if row in reasons:
            assert found[row] is None
            assert not whole or reasons[row] in STRICTER, (reasons[row], told)
        else:
            assert whole, found[row]
            assert written(schema, told)[5:] == written(schema, _back(schema, found[row]))[5:]


STRICTER = {
    "it has an int of more than 32 bits",
    "it has a boolean that is neither 0 nor 1",
    "it has a decimal of more digits than its schema says",
    "it has a time of day outside of a day",
    "it claims more parts than its bytes may have",
    "it has a whole number of more than 64 bits",
    "it has a symbol of an enum that the schema has not",
    "it has a branch of a union that the schema has not",
}
"""What fastavro lets pass: places below zero too, which it counts from the end."""


def _back(schema: Any, value: Any) -> Any:
    """What Arrow gives, as fastavro takes it."""
    if isinstance(schema, list):
        return None if value is None else _back(next(one for one in schema if one != "null"), value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "map":
        return {name: _back(schema["values"], one) for name, one in value}
    if kind == "array":
        return [_back(schema["items"], one) for one in value]
    if kind == "record":
        return {one["name"]: _back(one["type"], value[one["name"]]) for one in schema["fields"]}
    return value


# ---- values of another schema


def record(*fields: Any, name: str = "R") -> Any:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type: Any, **more: Any) -> Any:
    return {"name": name, "type": type, **more}


INNER = record(field("n", "int"), name="Inner")
RESOLVED = [
    (record(field("a", "int")), record(field("a", "long")), {"a": 5}),
    (record(field("a", "int")), record(field("a", "float")), {"a": 5}),
    (record(field("a", "long")), record(field("a", "double")), {"a": -5}),
    (record(field("a", "float")), record(field("a", "double")), {"a": 0.5}),
    (record(field("a", "string")), record(field("a", "bytes")), {"a": "ä"}),
    (record(field("a", "bytes")), record(field("a", "string")), {"a": b"b"}),
    (record(field("a", "int"), field("b", "string")), record(field("b", "string")), {"a": 5, "b": "x"}),
    (record(field("b", "string"), field("a", "int")), record(field("a", "int"), field("b", "string")), {"a": 5, "b": "x"}),
    (record(field("a", "int")), record(field("a", "int"), field("b", "string", default="ö")), {"a": 5}),
    (record(field("a", "int")), record(field("b", ["null", "long"], default=None), field("a", "int")), {"a": 5}),
    (record(field("a", "int")), record(field("b", {"type": "array", "items": "int"}, default=[1, -2])), {"a": 5}),
    (record(field("a", "int")), record(field("b", INNER, default={"n": 7})), {"a": 5}),
    (record(field("a", "int")), record(field("b", "long", aliases=["a"])), {"a": 5}),
    (record(field("a", ["null", "int"])), record(field("a", "int", default=3)), {"a": 5}),
    (record(field("a", "int")), record(field("a", ["null", "int"])), {"a": 5}),
    (record(field("a", ["null", "int"])), record(field("a", ["int", "null"])), {"a": None}),
    (
        record(field("a", {"type": "enum", "name": "E", "symbols": ["X", "Y", "Z"]})),
        record(field("a", {"type": "enum", "name": "E", "symbols": ["W", "Y"], "default": "W"})),
        {"a": "Z"},
    ),
    (
        record(
            field("s", {"type": "map", "values": {"type": "array", "items": ["null", "string", INNER]}}), field("a", "int")
        ),
        record(field("a", "int")),
        {"s": {"k": [None, "x", {"n": 5}], "l": []}, "a": 5},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "reader", "value"), RESOLVED, ids=range(len(RESOLVED)))
def test_a_value_is_resolved_to_the_schema_that_is_wanted(writer: Any, reader: Any, value: Any) -> None:
    data = written(writer, value)
    told = fastavro.schemaless_reader(
        io.BytesIO(data[5:]), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )
    own = [one for one in [written(reader, told)] if one]
    found, reasons = read([data, b"\0\0\0\0\2" + own[0][5:], data], reader, {1: writer, 2: reader})
    assert reasons == {} and found == [told] * 3


def test_schemas_of_several_ids_fill_the_same_columns_in_order() -> None:
    old = record(field("a", "int"))
    new = record(field("a", "int"), field("b", ["null", "string"], default=None))
    values = [
        written(old, {"a": n}) if n % 3 else b"\0\0\0\0\2" + written(new, {"a": n, "b": "x"})[5:] for n in range(30)
    ]
    found, reasons = read(values, new, {1: old, 2: new})
    assert reasons == {} and found == [{"a": n, "b": None if n % 3 else "x"} for n in range(30)]


def test_a_union_of_several_types_is_a_struct_of_which_one_field_is_set() -> None:
    schema = ["null", "string", "long", INNER]
    found, reasons = read([written(schema, one) for one in (None, "x", 5, {"n": 1})], schema)
    none = {"string": None, "long": None, "Inner": None}
    assert reasons == {}
    assert found == [None, {**none, "string": "x"}, {**none, "long": 5}, {**none, "Inner": {"n": 1}}]
    narrow, why = read([written(schema, one) for one in (None, "x", 5)], ["null", "string"], {1: schema})
    assert narrow == [None, "x", None] and why == {
        2: "it has a branch of a union that does not fit the schema which it is read by"
    }


@pytest.mark.parametrize(
    ("writer", "reader", "words"),
    [
        (record(field("a", "long")), record(field("a", "int")), "has long where int is wanted"),
        (record(field("a", "int")), record(field("b", "int")), "has no field 'b', for which there is no default"),
        (record(field("a", "int")), record(field("b", "int", default="x")), "whose default is none of its type"),
        (record(field("a", "int")), record(field("a", "int"), name="S"), "no alias says that it is one"),
        (
            {"type": "long", "logicalType": "timestamp-micros"}, {"type": "long", "logicalType": "timestamp-millis"},
            "has timestamp-micros where timestamp-millis is wanted",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "a decimal of other digits",
        ),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "F", "size": 4}, "has 3 bytes of fixed F"),
        ("null", "int", None),
    ],
)  # fmt: skip
def test_what_cannot_be_resolved_is_told(writer: Any, reader: Any, words: str | None) -> None:
    layout = Layout(parsed(json.dumps(reader)))
    if words is None:  # a value as a whole may be null
        assert read([ID], reader, {1: writer}) == ([None], {})
        return
    with pytest.raises(BadSchema, match=words):
        Plan(parsed(json.dumps(writer)), layout)


# ---- hostile schemas and values


def doubled(times: int, last: Any) -> Any:
    """A schema of few bytes that spells out 2 to the power of `times` of another."""
    found = record(field("a", last), name="R0")
    for n in range(1, times):
        found = record(field("a", found), field("b", f"R{n - 1}"), name=f"R{n}")
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(record(field("next", ["null", "R"]))), "refers to itself"),
        (json.dumps(doubled(40, "int")), "has more than 4000 columns"),
        (json.dumps(doubled(40, record(name="Empty"))), "has more than 4000 columns"),
        ("[" * 200 + "]" * 200, "nested deeper"),
        ("[" * 100_000, "is not Avro's"),
        ('{"type": "enum", "name": "E", "symbols": []}', "without symbols"),
        ('{"type": "array"}', "is not Avro's"),
        ('{"type": "fixed", "name": "F", "size": -1}', "has a fixed of -1 bytes"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "R2"}]}', "has no type 'R2'"),
        ('["int", "int"]', "one type twice"),
        ("[]", "no types"),
        ('"\\ud800"', "has no type"),
        (json.dumps(record(field("a", "int"), field("a", "int"))), "two fields of one name"),
    ],
)
def test_a_schema_that_is_none_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(BadSchema, match=words):
        Layout(parsed(text))


def test_a_schema_that_would_be_resolved_for_ever_is_refused() -> None:
    """Neither what is skipped of it, nor a default, nor branches that do not fit."""
    with pytest.raises(BadSchema, match="has more than 20000 parts"):
        Plan(parsed(json.dumps(record(field("x", doubled(40, "int"))))), Layout(parsed(json.dumps(record()))))

    def nested(depth: int, last: str) -> Any:
        found: Any = last
        for n in range(depth):
            found = [record(field("a", found), name=f"A{n}.R{n}"), record(field("a", f"A{n}.R{n}"), name=f"B{n}.R{n}")]
        return record(field("a", found))

    deep = nested(10, "int")
    with pytest.raises(BadSchema):
        Plan(parsed(json.dumps(nested(10, "string"))), Layout(parsed(json.dumps(deep))))


def long(number: int) -> bytes:
    left, data = (number << 1) ^ (number >> 63), bytearray()
    while left >= 0x80:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*data, left])


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "array", "items": "null"}, long(1 << 60) + b"\0"),
        ({"type": "array", "items": "null"}, long(-(1 << 62)) + long(0) + b"\0"),
        ({"type": "array", "items": "null"}, long(-(1 << 63)) + long(0) + b"\0"),
        ({"type": "array", "items": record(name="Empty")}, long(1 << 60) + b"\0"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, long(1 << 60) + b"\0"),
        ({"type": "array", "items": {"type": "array", "items": "null"}}, long(2) + long(1 << 40) + b"\0"),
        ({"type": "array", "items": "int"}, long(1 << 60) + b"\0"),
        ({"type": "map", "values": "null"}, long(1 << 60) + b"\0"),
        (record(field("a", {"type": "array", "items": ["null", doubled(11, "int")]})), long(100_000) + b"\0" * 100_001),
        ("string", long(1 << 62)), ("string", long(-1)), ("bytes", b"\xff" * 11), ("long", b"\xff" * 9 + b"\x02"),
        ("int", long(1 << 31)), ("boolean", b"\2"), ("string", long(1) + b"\xff"), ("string", long(3) + b"\xed\xa0\x80"),
        (["null", "int"], long(2)), (["null", "int"], long(-1)), ("double", b"1234567"), ("int", b"\0\0\0"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(-1)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, long(1) + b"\x64"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, long(40) + b"\x01" + b"\0" * 39),
        ({"type": "int", "logicalType": "time-millis"}, long(86_400_000)),
        ({"type": "long", "logicalType": "time-micros"}, long(-1)),
    ],
)  # fmt: skip
def test_a_value_that_is_none_costs_its_row_only(schema: Any, body: bytes) -> None:
    whole = record(field("first", "string"), field("it", schema), field("last", "long"), name="Whole")
    layout = Layout(parsed(json.dumps(whole)))
    assert layout.columns
    bad = ID + long(1) + b"x" + body
    empty = {"first": "y", "it": _some(schema), "last": 7}
    good = written(whole, empty)
    found, reasons = read([good, bad, good, None, bad, good], whole)
    assert sorted(reasons) == [1, 4] and found[1] is found[3] is found[4] is None
    assert found[0] == found[2] == found[5] and found[0]["first"] == "y" and found[0]["last"] == 7


def _some(schema: Any) -> Any:
    """A value of a schema."""
    if isinstance(schema, list):
        return None
    if isinstance(schema, dict):
        if schema["type"] == "record":
            return {one["name"]: _some(one["type"]) for one in schema["fields"]}
        some = {"array": [], "map": {}, "enum": "A", "bytes": decimal.Decimal(1)}
        return some.get(schema["type"], datetime.time())
    return {"string": "", "bytes": b"", "long": 1, "int": 1, "boolean": True, "double": math.pi}[schema]


def test_what_has_no_id_is_told() -> None:
    assert read([b"", b"\0\0\0\0", b"\1\0\0\0\1\2", ID + b"\2"], "int") == (
        [None, None, None, 1], dict.fromkeys(range(3), "it does not begin with a schema id")
    )  # fmt: skip


def test_much_is_given_in_pieces() -> None:
    """Columns are taken before offsets have no more room, whatever small values become."""
    schema = record(*(field(f"f{n}", ["null", "string"]) for n in range(1000)))
    values: list[bytes | None] = [None] * 20_000 + [ID + b"\0" * 1000]
    layout = Layout(parsed(json.dumps(schema)))
    columns = ValueColumns(layout.columns, layout.kids)
    plan = Plan(parsed(json.dumps(schema)), layout)
    columns.add(1, plan.nodes, plan.kids, plan.table, plan.constants)
    given = pa.array(values, pa.binary())
    valid, offsets, data = (np.frombuffer(one, dtype=np.uint8) for one in given.buffers())
    present = np.unpackbits(valid, count=len(given), bitorder="little")
    at, pieces = 0, 0
    while at < len(values):
        after = columns.decode(offsets.view(np.int32), data, present, at, len(values))
        assert after > at
        filled, bad, _ = columns.taken()
        assert filled[0][0] == after - at and len(bad) == 0
        at, pieces = after, pieces + 1
    assert pieces > 1


PIECES = [bytes([n]) for n in range(0x7E, 0x100)] + [
    b"abcdefgh",
    "é€😀".encode(),
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3).map(str.encode), max_size=8).map(b"".join))
@settings(deadline=None, max_examples=EXAMPLES)
def test_a_text_is_utf_8_where_python_says_so(data: bytes) -> None:
    try:
        expected: tuple[list[str | None], dict[int, str]] = [data.decode()], {}
    except UnicodeDecodeError:
        expected = [None], {0: "it has a text that is not UTF-8"}
    assert read([ID + long(len(data)) + data], "string") == expected


def test_each_form_of_utf_8_and_what_is_next_to_it() -> None:
    ends = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    forms = [bytes([first, *rest]) for first in (0xC1, 0xC2, 0xDF) for rest in product(ends, repeat=1)]
    forms += [bytes([first, *rest]) for first in (0xE0, 0xE1, 0xED, 0xEF) for rest in product(ends, repeat=2)]
    forms += [bytes([first, *rest]) for first in (0xF0, 0xF1, 0xF4, 0xF5) for rest in product(ends, repeat=3)]
    found, reasons = read([ID + long(len(one)) + one for one in forms], "string")
    assert len(found) == len(forms)
    for row, one in enumerate(forms):
        try:
            assert found[row] == one.decode() and row not in reasons
        except UnicodeDecodeError:
            assert found[row] is None and row in reasons, one
