"""JSON by JSON Schema as columns: the same as Python's json reads, refused where that refuses."""

import json
import math
import random
import struct
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.arrow.values import json_schema
from actors.arrow.values.avro_columns import array
from actors.arrow.values.avro_schema import BadSchema
from actors.arrow.values.json_plan import JsonPlan
from actors.arrow.values.typed import Typed, Wanted
from actors.client.errors import ClientError
from actors.host.client.schema_registry import Written
from fastpath.arrow.value_columns import REASONS, ValueColumns

POINT = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/definitions/p"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"}, "x": {"type": ["number", "null"]}, "náme": {"type": "string"}, "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {}, "none": {"type": "null"}, "in": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/p"}]},
    },
    "definitions": {"p": POINT},
}  # fmt: skip


def read(schema: Any, values: list[bytes]) -> tuple[list[Any], dict[int, str]]:
    """(the rows, row -> why it could not be read)."""
    plan = JsonPlan(json.dumps(schema), {})
    columns = ValueColumns(plan.layout.columns, plan.layout.kids)
    columns.add(1, plan.nodes, plan.kids, plan.table, plan.constants, places=plan.places)
    column = pa.array([b"\0\0\0\0\1" + one for one in values], pa.binary())
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    found: list[Any] = []
    whys: dict[int, str] = {}
    at = 0
    while at < len(values):
        after = columns.decode(offsets, memoryview(column.buffers()[2]).cast("B"), None, at, len(values))
        assert after > at
        filled, bad, why = columns.taken()
        made = array(plan.layout.root, filled)
        made.validate(full=True)
        found += made.to_pylist(maps_as_pydicts="strict")
        whys |= {int(row): REASONS[int(one)] for row, one in zip(bad, why, strict=True)}
        at = after
    return found, whys


def strict(data: bytes) -> Any:
    """A value as Python reads it, who reads more than JSON has."""

    def no_number(text: str) -> None:
        raise ValueError(text)

    found = json.loads(data.decode(), parse_constant=no_number)
    json.dumps(found, ensure_ascii=False).encode()  # a half of a character
    return found


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "id": LONG | st.none(), "x": DOUBLE | st.none(), "náme": TEXT, "ok": st.booleans(),
        "tags": st.lists(TEXT | st.none(), max_size=4), "m": st.dictionaries(TEXT, LONG | st.none(), max_size=4),
        "none": st.none(), "in": st.none() | st.fixed_dictionaries({}, optional={"a": LONG}),
        "not wanted": st.recursive(st.none() | st.booleans() | LONG | DOUBLE | TEXT,
                                   lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)),
    },
)  # fmt: skip


def wanted(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """The row of a value."""
    if value is None:
        return None
    row = {name: value.get(name) for name in SCHEMA["properties"]}  # type: ignore[attr-defined]
    if row["in"] is not None:
        row["in"] = {"a": row["in"].get("a"), "b": row["in"].get("b")}
    return row


@settings(deadline=None, max_examples=100)
@given(st.lists(VALUES | st.none(), max_size=8), st.booleans(), st.sampled_from([None, 1]), st.randoms())
def test_rows_are_what_json_says(values: list[Any], ascii_: bool, indent: int | None, rng: random.Random) -> None:
    """In any order of fields, with white space and escapes."""
    data = []
    for one in values:
        if one is not None:
            names = list(one)
            rng.shuffle(names)
            one = {name: one[name] for name in names}
        data.append(json.dumps(one, ensure_ascii=ascii_, indent=indent).encode())
    assert read(SCHEMA, data) == ([wanted(one) for one in values], {})


def test_doubles_are_those_next_to_what_is_written() -> None:
    rng = random.Random(7)
    texts = [repr(rng.randint(-(10**9), 10**9) / 10 ** rng.randint(0, 9)) for _ in range(5000)]
    while len(texts) < 10_000:
        number = struct.unpack("d", rng.randbytes(8))[0]
        if math.isfinite(number):
            texts.append(repr(number))
    texts += [
        "9007199254740993",
        "0.1e1",
        "-0.0",
        "1E400".replace("400", "308"),
        "4.9e-324",
        "1e-400",
        "0." + "3" * 900,
    ]
    texts += [str(10**15 + n) + "." + str(n) for n in range(10)]
    rows, bad = read({"type": "number"}, [one.encode() for one in texts])
    assert not bad
    assert [struct.pack("d", one) for one in rows] == [struct.pack("d", float(one)) for one in texts]


CORPUS = [
    b'{"id": 12, "x": -1.5e3, "n\\u00e1me": "a\\ud83d\\ude00\\n\xc3\xa9", "ok": true, "tags": ["a", null], "m": {"k": 1}}',
    b'{"any": [1, {"a": [false, null]}], "in": {"a": -9223372036854775808, "b": {"a": 1}}, "z": {"y": [[], {}, ""]}}',
]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_no_json_is_refused_and_nothing_else(seed: int) -> None:
    """Bytes of sound values are changed, lost and doubled: a row is what Python says, or is refused."""
    rng = random.Random(seed)
    values = []
    for _ in range(4000):
        data = bytearray(rng.choice(CORPUS))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            how = rng.randrange(4)
            if how == 0:
                data[at] = rng.choice(b'{}[],:"\\ \n0123456789eE.-+tfnu\x00\x1f\x7f\x80\xc3\xed\xf5')
            elif how == 1:
                del data[at : at + rng.randint(1, 4)]
            else:
                data[at:at] = data[at : at + rng.randint(1, 4)] if how == 2 else bytes([rng.choice(b'{}[],:"\\0-.e ')])
        values.append(bytes(data))
    rows, bad = read({}, values)  # any JSON, as it is
    refused = 0
    for number, data in enumerate(values):
        try:
            found = strict(data)
        except ValueError:
            refused += 1
            assert number in bad, data
            continue
        assert number not in bad, (data, bad[number])
        assert (None if rows[number] is None else json.loads(rows[number])) == found
    assert 500 < refused < 3900
    rows, typed_bad = read(SCHEMA, values)
    for number, data in enumerate(values):
        if number in bad:
            assert number in typed_bad, data
        elif number not in typed_bad:
            found = strict(data)
            for name in ("id", "x", "náme", "ok", "tags", "m"):
                assert rows[number][name] == found.get(name), data


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"id": 1.5}', "not whole"), (b'{"id": 1e300}', "more than 64 bits"),
        (b'{"id": 0.99999999999999999999}', "not whole"),
        (b'{"id": 9223372036854775808}', "more than 64 bits"), (b'{"id": -9223372036854775809}', "more than 64 bits"),
        (b'{"id": "1"}', "another type"), (b'{"ok": 1}', "another type"), (b"[]", "another type"), (b'{"m": []}', "another"),
        (b'{"id": 1, "id": 1}', "one name twice"), (b'{"id": 1, "i\\u0064": 1}', "one name twice"),
        (b'{"x": 1e309}', "no double"), (b'{"x": ' + b"1" * 1200 + b"}", "no double"),
        (b'{"n\xc3\xa1me": "\\ud800"}', "not UTF-8"), (b'{"n\xc3\xa1me": "\\udc00\\ud800"}', "not UTF-8"),
        (b'{"z": "\xff"}', "not UTF-8"), (b'{"z": ' + b"[" * 600 + b"]" * 600 + b"}", "deeper than 512"),
        (b'{"id": 1}}', "bytes stand behind"), (b"", "not JSON"), (b" ", "not JSON"), (b'{"id": 01}', "not JSON"),
        (b'{"none": 1}', "another type"), (b'{"id": tru}', "not JSON"), (b'{"id": 1', "not JSON"),
    ],
)  # fmt: skip
def test_why_a_value_is_refused(value: bytes, why: str) -> None:
    """The rows around it are not touched."""
    rows, bad = read(SCHEMA, [b'{"id": 1, "tags": ["a"]}', value, b'{"id": 2, "tags": ["b", "c"]}'])
    assert [row and row["tags"] for row in rows] == [["a"], None, ["b", "c"]]
    assert list(bad) == [1]
    assert why in bad[1]


def test_a_whole_number_may_be_written_as_a_fraction() -> None:
    assert read({"type": "integer"}, [b"1.0", b"-2e2", b"0.0"]) == ([1, -200, 0], {})


@pytest.mark.parametrize("seed", range(3))
def test_a_fraction_is_whole_exactly_when_nothing_is_behind_its_point(seed: int) -> None:
    """By way of a double, 0.99999999999999999999 was one, 1e-400 nothing, and 1e18 none of 64 bits."""
    rng = random.Random(seed)
    texts = [
        "1e18",
        "1E+18",
        "-9.223372036854775808e18",
        "9.223372036854775808e18",
        "9223372036854775807.000",
        "1e-400",
        "0e999",
    ]
    texts += ["9007199254740993.0", "0.00e-5", "-0.0", "1" + "0" * 30 + "e-30"]
    for _ in range(2000):
        digits = "".join(rng.choice("00019") for _ in range(rng.randint(1, 22))).lstrip("0") or "0"
        behind = rng.choice(["", "." + "".join(rng.choice("00005") for _ in range(rng.randint(1, 9)))])
        power = rng.choice(["", f"e{rng.randint(-25, 25)}", f"E+{rng.randint(0, 20)}"])
        texts.append(rng.choice(["", "-"]) + digits + behind + power)
    rows, bad = read({"type": "integer"}, [one.encode() for one in texts])
    whole = 0
    for number, text in enumerate(texts):
        exact = Fraction(text)
        if exact.denominator > 1:
            assert "not whole" in bad[number] or abs(exact) >= 1 << 63, text
        elif -(1 << 63) <= exact < 1 << 63:
            assert rows[number] == exact, text
            whole += 1
        else:
            assert "64 bits" in bad[number], text
    assert whole > 300
    far = [b"1e99999999999999999999999", b"1e-99999999999999999999999", b"0e99999999999999999999999"]
    rows, bad = read({"type": "integer"}, far)
    assert rows == [None, None, 0]
    assert "64 bits" in bad[0]
    assert "not whole" in bad[1]


def test_small_values_become_no_large_columns() -> None:
    """Objects without fields in an array of wide ones: what they leave out is paid for."""
    schema = {
        "type": "array",
        "items": {"type": "object", "properties": {f"f{n}": {"type": "integer"} for n in range(3000)}},
    }
    rows, bad = read(schema, [b"[" + b",".join([b"{}"] * 20_000) + b"]", b"[{}]"])
    assert rows[0] is None
    assert "more parts" in bad[0]
    assert len(rows[1]) == 1


def test_numbers_may_be_long() -> None:
    """Of more than 1,100 characters they were refused, whatever they said."""
    texts = [
        b"0." + b"3" * 5000, b"-" + b"1" * 300 + b"." + b"7" * 3000, b"0." + b"0" * 4000 + b"5",
        b"1" + b"0" * 2000 + b"e-2000", b"0." + b"0" * 2000 + b"25e2000",
        b"1" + b"." + b"0" * 100_000, b"0" + b"." + b"0" * 1100 + b"1e1100",
        b"9007199254740992.5" + b"0" * 2000 + b"1", b"9007199254740993." + b"0" * 2000,
        b"9007199254740993." + b"0" * 2000 + b"1",
    ]  # fmt: skip
    assert read({"type": "number"}, texts) == ([float(one) for one in texts], {})
    assert read({"type": "integer"}, texts[5:6]) == ([1], {})


def test_what_is_long_and_no_double_says_so() -> None:
    rows, bad = read({"type": "number"}, [b"1" * 1200, b"-1" + b"0" * 309, b"1" + b"0" * 308])
    assert rows == [None, None, 1e308]
    assert list(bad) == [0, 1] and all("a number that no double can be" in why for why in bad.values())


S, INT = pa.string(), pa.int64()
INNER = {"$id": "http://x/a", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "integer"}}}
"""A schema that stands in another and has a name of its own: what it refers to is in itself."""


@pytest.mark.parametrize(
    ("schema", "arrow"),
    [
        ({"type": "integer"}, pa.int64()), ({"type": ["null", "string"]}, S), ({"enum": ["a", "b"]}, S), ({"const": "a"}, S),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, pa.bool_()), ({"allOf": [{"type": "number"}]}, pa.float64()),
        ({"type": ["string", "integer"]}, S), (True, S), ({}, S), ({"type": "object"}, S), ({"type": "array"}, S),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, S), ({"type": "null"}, pa.null()),
        ({"type": "array", "items": [{"type": "string"}]}, S), ({"enum": ["a", 1]}, S),
        ({"properties": {"a": {"type": "array", "items": {"type": "integer"}}}}, pa.struct([("a", pa.list_(pa.int64()))])),
        ({"type": "object", "additionalProperties": {"type": "string"}}, pa.map_(S, S)),
        (POINT | {"definitions": {"p": POINT}}, pa.struct([("a", INT), ("b", pa.struct([("a", INT), ("b", S)]))])),
        ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "integer"}}}, pa.int64()),
        ({"properties": {"a": {"$ref": "#x"}}, "items": [{"$anchor": "x", "type": "integer"}]}, pa.struct([("a", INT)])),
        ({"properties": {"a": {"$ref": "#x"}}, "$defs": {"y": {"$id": "#x", "type": "integer"}}}, pa.struct([("a", INT)])),
        ({"$ref": "#/$defs/a", "$defs": {"a": INNER, "b": {"type": "string"}}}, pa.struct([("a", INT)])),
        ({"properties": {"b": {"$ref": "http://x/a"}}, "$defs": {"a": INNER}}, pa.struct([("b", pa.struct([("a", INT)]))])),
        ({"properties": {}, "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": INNER}}, pa.struct([("a", INT)])),
        ({"properties": {}, "$ref": "#/$defs/a", "$defs": {"a": INNER}}, pa.struct([("a", INT)])),
    ],
)  # fmt: skip
def test_which_column_a_schema_is(schema: Any, arrow: pa.DataType) -> None:
    assert JsonPlan(json.dumps(schema), {}).layout.root.arrow == arrow


@pytest.mark.parametrize(
    "beside",
    [
        {"allOf": [{"$ref": "#/$defs/a"}], "properties": {"more": {"type": "string"}}},
        {"anyOf": [{"required": ["more"]}], "properties": {"more": {"type": "string"}}},
        {"$ref": "#/$defs/a", "properties": {"more": {"type": "string"}}},
        {"anyOf": [{"$ref": "#/$defs/a"}], "allOf": [{"properties": {"more": {"type": "string"}}}]},
    ],
)
def test_an_object_whose_properties_stand_in_two_places_loses_none_of_them(beside: Any) -> None:
    """Those of one place were left out of the struct that it was."""
    value = b'{"a":1,"more":"x"}'
    schema = {"properties": {"o": beside}, "$defs": {"a": INNER}}
    assert read(schema, [b'{"o":' + value + b"}"]) == ([{"o": value.decode()}], {})


def named(inside: Any, word: str = "$defs") -> dict[str, Any]:
    """A schema in which `a` is what has the name x, an integer behind what is given."""
    return {
        "properties": {"a": {"$ref": "http://x/x"}},
        word: inside,
        "definitions": {"x": {"$id": "http://x/x", "type": "integer"}},
    }


NO_NAME = {"$id": "http://x/x", "type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        named([NO_NAME], "examples"), named([NO_NAME], "enum"), named(NO_NAME, "const"), named(NO_NAME, "default"),
        named({"b": NO_NAME}, "x-ours"), named({"default": {"examples": [NO_NAME]}}, "patternProperties"),
    ],
)  # fmt: skip
def test_a_value_in_a_schema_gives_nothing_a_name(schema: Any) -> None:
    """One in `examples` was found in place of the schema of that name: whichever stands first."""
    for one in (schema, dict(reversed(schema.items()))):
        assert JsonPlan(json.dumps(one), {}).layout.root.arrow == pa.struct([("a", INT)])


@pytest.mark.parametrize("word", ["default", "enum", "const", "examples"])
def test_a_property_may_be_called_like_a_word_that_has_values(word: str) -> None:
    schema = {
        "properties": {
            word: {"$id": "http://x/x", "type": "integer"},
            "b": {"$ref": "http://x/x"},
            "c": {"not": {"$anchor": "c", "type": "boolean"}, "$ref": "#c"},
        }
    }
    arrow = pa.struct([(word, INT), ("b", INT), ("c", pa.bool_())])
    assert JsonPlan(json.dumps(schema), {}).layout.root.arrow == arrow


def copies(of: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"p": {"$ref": "#/$defs/p"}, "q": {"$ref": "#/$defs/q"}}, "$defs": {"p": of, "q": other}}


BY_ANCHOR = {
    "$id": "http://x/a",
    "properties": {"a": {"$ref": "#b"}},
    "$defs": {"c": {"$anchor": "b", "type": "integer"}},
}


@pytest.mark.parametrize("one", [INNER, BY_ANCHOR], ids=["by place", "by anchor"])
@pytest.mark.parametrize(
    "where", ["beside it", "in another schema of the registry", "as another schema of the registry"]
)
def test_each_copy_of_a_schema_finds_what_is_in_itself(one: dict[str, Any], where: str) -> None:
    """A second part of one name took its references for those of the document around it: there were none, or others."""
    made = pa.struct([("a", INT)])
    inner = pa.struct([("p", made), ("q", made)])
    if where == "beside it":
        assert JsonPlan(json.dumps(copies(one, one)), {}).layout.root.arrow == inner
        return
    other = copies(one, {"type": "integer"}) if where.startswith("in") else one
    schema = {"$ref": "#/$defs/all", "$defs": {"all": copies(one, one), "p": one, "q": one, "b": {"type": "string"}}}
    found = JsonPlan(json.dumps(schema | {"not": {"$ref": "more"}}), {"more": json.dumps(other)})
    assert found.layout.root.arrow == inner


def test_of_two_schemas_of_one_name_each_is_itself_and_the_first_has_the_name() -> None:
    text = {"$id": "http://x/a", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}
    schema = copies(INNER, text)
    schema["properties"]["r"] = {"$ref": "http://x/a"}
    a, b = pa.struct([("a", INT)]), pa.struct([("a", S)])
    assert JsonPlan(json.dumps(schema), {}).layout.root.arrow == pa.struct([("p", a), ("q", b), ("r", a)])


def test_a_place_in_a_schema_that_has_a_name_is_in_that_one() -> None:
    schema = {"properties": {"b": {"$ref": "#/$defs/a/properties/a"}}, "$defs": {"a": INNER, "b": {"type": "string"}}}
    assert JsonPlan(json.dumps(schema), {}).layout.root.arrow == pa.struct([("b", INT)])


class Counted(list[Any]):
    """A list that counts what is taken of it."""

    taken = 0

    def __iter__(self) -> Any:
        Counted.taken += len(self)
        return super().__iter__()


@pytest.mark.parametrize(
    "dear",
    [
        {"oneOf": [{"type": "null"}] * 2000}, {"anyOf": [{"type": "null"}] * 2000 + [True]}, {"enum": ["a"] * 2000},
        {"allOf": [{}] * 2000}, {"type": ["null"] * 2000 + ["integer"]}, {"oneOf": [{"enum": ["a"] * 2000}]},
    ],
)  # fmt: skip
def test_a_schema_to_which_many_refer_is_gone_through_once(dear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 0.6 MB, with a thousand references to it, it took 3.3 s."""

    def counted(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: counted(one) for name, one in value.items()}
        return Counted(map(counted, value)) if isinstance(value, list) else value

    monkeypatch.setattr(json_schema, "json", SimpleNamespace(loads=lambda text: counted(json.loads(text))))
    monkeypatch.setattr(Counted, "taken", 0)
    schema = {"properties": {f"p{n}": {"$ref": "#/$defs/d"} for n in range(1000)}, "$defs": {"d": dear}}
    assert JsonPlan(json.dumps(schema), {}).layout.root.arrow.num_fields == 1000
    assert Counted.taken < 20_000


class Name(str):
    """A name that counts how often it is made bytes."""

    times = 0

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        Name.times += 1
        return super().encode(encoding, errors)


def test_the_names_of_a_schema_to_which_many_refer_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a name of half a MB and ten thousand references to it, it took 3.9 s to refuse."""
    schema = {"properties": {f"p{n}": {"$ref": "#/$defs/d"} for n in range(50)}}
    parts = json.loads(json.dumps(schema)) | {"$defs": {"d": {"properties": {Name("long"): {"type": "string"}}}}}
    monkeypatch.setattr(json_schema, "json", SimpleNamespace(loads=lambda text: parts))
    monkeypatch.setattr(Name, "times", 0)
    assert len(json_schema.parsed("", {}).fields) == 50
    assert Name.times == 1


def test_an_anchor_in_a_schema_with_an_own_name_is_found_by_the_name_that_the_registry_has() -> None:
    """It was refused, and so was a schema that refers to such an anchor in itself."""
    within = {"x": {"$anchor": "foo", "type": "integer"}, "y": {"$ref": "#foo"}}
    others = {"other.json": json.dumps({"$id": "http://x/o", "$defs": within})}
    for reference in ("other.json#foo", "http://x/o#foo", "other.json#/$defs/y"):
        found = JsonPlan(json.dumps({"$ref": reference}), others).layout.root.arrow
        assert found == INT


def test_other_schemas_of_the_registry_are_found_by_their_names_and_by_their_own() -> None:
    others = {
        "customer.json": json.dumps({"$id": "http://x/c", "definitions": {"n": {"type": "string"}}, "type": "integer"}),
        "more": json.dumps({"type": "object", "properties": {"c": {"$ref": "customer.json#/definitions/n"}}}),
    }
    schema = {
        "properties": {
            "a": {"$ref": "customer.json"},
            "b": {"$ref": "http://x/c#/definitions/n"},
            "m": {"$ref": "more"},
        }
    }
    found = JsonPlan(json.dumps(schema), others).layout.root.arrow
    assert found == pa.struct([("a", pa.int64()), ("b", S), ("m", pa.struct([("c", S)]))])


@pytest.mark.parametrize(
    "schema",
    [
        "nonsense", "[]", '"a"', "1", '{"type": "date"}', '{"$ref": "other.json"}', '{"$ref": "#/definitions/x"}',
        '{"properties": {"a": 1}}', '{"oneOf": ["object"]}',
        '{"properties": [1]}', '{"oneOf": {}}', '{"oneOf": []}', '{"type": 5}', '{"enum": 5}',
        '{"items": {"type": "array", "items": ' * 60 + "{}" + "}}" * 60,
        json.dumps({"properties": {f"f{n}": {"type": "integer"} for n in range(5000)}}),
        json.dumps({"$ref": "#/d/0", "d": {str(n): {"properties": {c: {"$ref": f"#/d/{n + 1}"} for c in "abcdefgh"}}
                                            for n in range(12)} | {"12": {"type": "string"}}}),
        '{"$ref": [1], "$defs": {"a": {"$id": "[1]", "type": "integer"}}}',
        "[" * 5000 + "]" * 5000, '{"properties": {"a": {"$ref": "#x"}}}', '{"properties": {"\\ud800": {"type": "string"}}}',
    ],
)  # fmt: skip
def test_what_is_no_schema_or_too_much_of_one_is_refused(schema: str) -> None:
    if schema.startswith('{"items": {"type"'):
        schema = '{"type": "array", "items": ' * 60 + '{"type": "string"}' + "}" * 60
    with pytest.raises(BadSchema):
        JsonPlan(schema, {})


def test_a_reference_that_stands_in_many_places_is_looked_up_once() -> None:
    """One of 60,000 characters, in 3,000 fields, took 7 s of a processor; it may have 2 million."""
    asked: list[str] = []
    long = "%41" * 20_000
    schema = {
        "properties": {f"p{n}": {"$ref": "#/d"} for n in range(3000)},
        "d": {"$ref": f"#/{long}"},
        "A" * 20_000: {},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_schema, "unquote", lambda one: (asked.append(one), unquote(one))[1])
        assert JsonPlan(json.dumps(schema), {}).layout.root.arrow.num_fields == 3000
    assert len(asked) == 2


class Known:
    """A registry in which 1 and 2 are schemas of JSON and 3 is one of Avro."""

    name = "http://registry"

    def version(self, subject: str, version: str) -> int:
        return 1

    def may_be_known(self, id: int) -> bool:
        return False

    def schema(self, id: int) -> Written:
        return Written("AVRO", '"long"', {}) if id == 3 else Written("JSON", json.dumps(SCHEMA), {})


@pytest.mark.parametrize("on_error", ["fail", "null", "raw"])
def test_values_of_a_read_are_columns_and_bad_ones_what_was_asked_for(on_error: str) -> None:
    values = [b'\0\0\0\0\1{"id": 7}', None, b'\0\0\0\0\2{"id": "x"}', b"\0\0\0\0\3\2", b'\0\0\0\0\2{"id": 8}']
    batch = pa.record_batch({
        "value": pa.array(values, pa.binary()), "topic": pa.array(["t"] * 5), "partition": pa.array([0] * 5, pa.int32()),
        "offset": pa.array(range(5), pa.int64()),
    })  # fmt: skip
    known: Any = Known()
    typed = Typed("value", Wanted("json", known, None, on_error), ["t"])
    if on_error == "fail":
        with pytest.raises(
            ClientError, match=r"partition t/0, offset 2: .*another type than its schema says \(schema 2\)"
        ):
            list(typed.batches(batch))
        return
    found = pa.Table.from_batches(typed.batches(batch), typed.schema(batch.schema))
    assert [row and row["id"] for row in found["value"].to_pylist()] == [7, None, None, None, 8]
    if on_error == "raw":
        assert found["value_raw"].to_pylist() == [None, None, values[2], values[3], None]
        assert "one of AVRO, not of JSON" in found["value_error"][3].as_py()
