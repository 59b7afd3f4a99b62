"""Protobuf's values as columns: what Google's library has written is read as it was, and damaged bytes cost a row."""

import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.arrow.values.avro_columns import array
from actors.arrow.values.avro_schema import BadSchema
from actors.arrow.values.protobuf_plan import PARTS_A_BYTE, ProtobufPlan
from fastpath.arrow.value_columns import REASONS, ValueColumns

pytest.importorskip("google.protobuf")
from google.protobuf.message import DecodeError

from tests.unit.page.decoding.test_protobuf import I32, ORDER, TEXT, orders

EXAMPLES = int(os.environ.get("EXAMPLES", 100))
OTHER = "message Other { message Deep { string word = 1; } reserved 4 to 9; }"
FIRST = TEXT.replace(OTHER, "") + OTHER
"""The schema of that test, with Order as its first message."""
FLAT = FIRST.replace("  Order parent = 10;\n", "")
"""The same, without the field that makes a message refer to itself."""
PREFIX = b"\0\0\0\0\1\0"


def wide(field: str, more: str = "") -> str:
    """A schema of messages that each stand for hundreds of columns."""
    fields = " ".join(f"{field} f{n} = {n};" for n in range(1, 901))
    return f'syntax = "proto3"; message M {{ repeated N n = 1; }} message N {{ {fields} }} {more}'


LONG_ENUM = f"enum E {{ {'A' * 10_000} = 0; }}"


def read(values: list[bytes], text: str = FLAT) -> tuple[list[Any], dict[int, str]]:
    """(the values, the reason of each that could not be read, by row)."""
    plan = ProtobufPlan(text, {})
    columns = ValueColumns(plan.columns, plan.column_kids)
    columns.add(1, plan.nodes, plan.kids, plan.table, plan.constants, PARTS_A_BYTE, plan.places)
    given = pa.array(values, pa.binary())
    _, offsets, data = given.buffers()
    flat = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    found: list[Any] = []
    reasons = {}
    at = 0
    while at < len(values):
        after = columns.decode(np.frombuffer(offsets, dtype=np.int32), flat, None, at, len(values))
        assert after > at
        filled, bad, whys = columns.taken()
        made = array(plan.root, filled)
        made.validate(full=True)
        found += made.to_pylist()
        reasons.update(zip(bad.tolist(), (REASONS[one] for one in whys.tolist()), strict=True))
        at = after
    return found, reasons


def told(value: Any) -> dict[str, Any]:
    """What Google's library has, as Arrow gives it."""
    states = {0: "NEW", 1: "PAID", -2: "DONE"}
    oneof = value.WhichOneof("kind")
    return {
        "id": value.id, "delta": value.delta, "state": states.get(value.state, str(value.state)),
        "counts": list(value.counts), "words": list(value.words), "prices": sorted(value.prices.items()),
        "deeps": sorted((key, {"word": one.word}) for key, one in value.deeps.items()),
        "yes": value.yes if oneof == "yes" else None, "raw": value.raw if oneof == "raw" else None,
        "at": {"seconds": value.at.seconds, "nanos": value.at.nanos} if value.HasField("at") else None,
        "big": value.big, "small": value.small, "weight": value.weight, "huge": value.huge,
        "states": [states.get(one, str(one)) for one in value.states],
    }  # fmt: skip


def like(ours: Any) -> Any:
    """Maps have no order, and of a key that is there twice the last counts."""
    return None if ours is None else {
        **ours, "prices": sorted(dict(ours["prices"]).items()),
        "deeps": sorted(dict(ours["deeps"]).items(), key=lambda one: one[0]),
    }  # fmt: skip


@given(st.lists(orders(st.none()), max_size=4), st.none() | st.tuples(I32, I32))
@settings(deadline=None, max_examples=EXAMPLES)
def test_what_google_has_written_is_read_as_it_was(values: list[Any], at: tuple[int, int] | None) -> None:
    for one in values:
        if at is not None:
            one.at.seconds, one.at.nanos = at
    found, reasons = read([PREFIX + one.SerializeToString() for one in values])
    assert reasons == {} and [like(one) for one in found] == [told(one) for one in values]


@given(orders(st.none()), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=EXAMPLES)
def test_damaged_values_cost_their_rows_and_no_others(value: Any, chance: random.Random) -> None:
    good = value.SerializeToString()
    mixed = []
    for _ in range(4):
        bad = bytearray(good)
        for _ in range(chance.randint(0, 4)):
            if bad:
                bad[chance.randrange(len(bad))] = chance.randrange(256)
        mixed += [good, bytes(bad[: chance.randint(0, len(bad))])]
    found, reasons = read([PREFIX + one for one in mixed])
    assert [like(one) for one in found[::2]] == [told(value)] * 4
    for row, data in enumerate(mixed):
        try:
            theirs = ORDER.FromString(data)
        except DecodeError:
            theirs = None
        if row in reasons:
            assert found[row] is None and (theirs is None or reasons[row] in STRICTER), (reasons[row], data)
        elif theirs is not None and not theirs.HasField("parent"):
            assert repr(like(found[row])) == repr(told(theirs)), data


STRICTER = {
    "it has a whole number of more than 64 bits",
    "it has a message in several parts, which are not joined",
    "it has a field without a number, or of a kind that is not read",
}
"""What Google's library lets pass: groups, among other things, and whole numbers whose tenth byte says too much."""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "it ends in the middle"), (b"\x02", "it ends in the middle"), (b"\x02\x02", "another message"),
        (b"\x04\0\0", "another message"), (b"\0\x08", "it ends in the middle"), (b"\0\x2a\x05ab", "it ends in the middle"),
        (b"\0\x2a\x01\xff", "not UTF-8"), (b"\0\x00", "a field without a number"), (b"\0\x0b", "a kind that is not read"),
        (b"\0" + b"\x5a\0" * 2, "in several parts"),
        (b"\0\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "it ends in the middle"),
        (b"\0\x0a\x01a\x12\xff\xff\xff\xff\x0f", "it ends in the middle"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_told(body: bytes, words: str) -> None:
    good = PREFIX + b"\x08\x05"
    found, reasons = read([good, PREFIX[:5] + body, PREFIX[:5] + b"\x02\0\x08\x05"])
    assert list(reasons) == [1] and words in reasons[1]
    assert found[1] is None and found[0] == found[2] and found[0]["id"] == 5


def test_what_is_not_there_is_null_where_that_can_be_told() -> None:
    text = """syntax = "proto3"; message M { int32 a = 1; optional int32 b = 2; N n = 3; repeated N ns = 4;
    map<string, N> m = 5;
    enum E { X = 0; Y = 1; } E e = 6; optional E f = 7; oneof o { int32 p = 8; E q = 9; } } message N { string s = 1; }"""
    none = {"a": 0, "b": None, "n": None, "ns": [], "m": [], "e": "X", "f": None, "p": None, "q": None}
    some = b"\x10\0\x1a\0\x22\0\x22\x03\x0a\x01s\x2a\x03\x0a\x01k\x38\0\x40\5\x48\1"
    other = {**none, "b": 0, "n": {"s": ""}, "ns": [{"s": ""}, {"s": "s"}], "m": [("k", {"s": ""})], "f": "X", "q": "Y"}
    assert read([PREFIX, PREFIX + some], text) == ([none, other], {})
    two = text.replace('syntax = "proto3"; ', "").replace("int32 a", "optional int32 a").replace("E e", "required E e")
    found, reasons = read([PREFIX], two)
    assert reasons == {} and found == [{**none, "a": None, "e": None}]


def test_a_number_has_the_sign_of_its_type() -> None:
    text = "message M { " + " ".join(
        f"optional {kind} f{n} = {n};" for n, kind in enumerate(("int32", "sint32", "sint64", "uint32", "uint64", "bool"), 1)
    ) + " repeated sint64 l = 7; }"  # fmt: skip
    all_ = b"\xff" * 9 + b"\x01"
    body = b"".join(bytes([n << 3]) + all_ for n in range(1, 7)) + b"\x3a\x02\x01\x03" + b"\x38\x02"
    found, reasons = read([PREFIX + body], text)
    assert reasons == {} and list(found[0].values()) == [
        -1, -(1 << 31), -(1 << 63), (1 << 32) - 1, (1 << 64) - 1, True, [-1, -2, 1]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FIRST, r"refers to itself \(shop.v1.Order\)"), ("", "has no message"), ("message M { X a = 1; }", "knows no X"),
        ("message M { optional int32 a = 1; optional int32 a = 2; }", "two fields of one name"),
        ("message M { optional int32 a = 0; }", "the number 0"), ("message", "ends in the middle"),
        (f"message M {{ optional int32 a = 0x{'f' * 10_000}; }}", "is not Protobuf's"),
        ("message M { map<foo, string> a = 1; }", "is not Protobuf's"),
        ('message M { optional string "\ud800" = 1; }', "is not Protobuf's"),
        (f"message M {{ optional {'X' * 100_000} a = 1; }}", "knows no XXX"),
        (f"import '{'x' * 100_000}'; message M {{ }}", "imports xxx"),
        (wide("E", LONG_ENUM), "names of zero have more than 262144 bytes"),
        (
            "message M { optional A0 a = 1; } message A14 { optional int32 a = 1; } " + " ".join(
                f"message A{n} {{ optional A{n + 1} a = 1; optional A{n + 1} b = 2; }}" for n in range(14)
            ), "more than 4000 columns",
        ),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_columns_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(BadSchema, match=words) as told:
        ProtobufPlan(text, {})
    assert len(str(told.value)) < 500, "each value that cannot be read may have the sentence"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (wide("int32"), b"\x0a\0" * 20_000), (wide("repeated int32"), b"\x0a\0" * 20_000),
        (wide("map<string, int32>"), b"\x0a\0" * 20_000),
        (wide("E", LONG_ENUM.replace("A" * 10_000, "A" * 200)), b"\x0a\0" * 1_000),
        (f"message M {{ repeated E e = 1; }} {LONG_ENUM}", b"\x0a\xa0\x9c\1" + bytes(20_000)),
        (f"message M {{ repeated E e = 1; }} {LONG_ENUM}", b"\x08\0" * 20_000),
    ],
    ids=["numbers", "lists", "maps", "names of enums", "packed names", "names one by one"],
)  # fmt: skip
def test_a_value_cannot_have_more_than_its_bytes_pay_for(text: str, body: bytes) -> None:
    """All but the first were as large as one liked: names of enums more than the offsets of a column can tell."""
    found, reasons = read([PREFIX + body, PREFIX + body[:2]], text)
    assert reasons[0] == "it claims more parts than its bytes may have" and len(found) == 2


@pytest.mark.parametrize("name", ["NEW", "STATE_OF_AN_ORDER_THAT_NOBODY_HAS_PAID" * 6])
def test_what_an_honest_message_leaves_out_is_read(name: str) -> None:
    """Hundreds of enums with long names that are not there, in each of several messages of no bytes, and packed ones."""
    text = wide("E", f"enum E {{ {name} = 0; }}")
    found, reasons = read([PREFIX, PREFIX + b"\x0a\0" * 40], text)
    assert reasons == {} and [len(one["n"]) for one in found] == [0, 40]
    assert set(found[1]["n"][39].values()) == {name}
    flat = text.replace("repeated N n = 1;", "repeated E e = 1; N n = 2;")
    packed = PREFIX + b"\x0a\x90\x03" + bytes(400) + b"\x12\0"
    found, reasons = read([packed], flat)
    assert reasons == {} and found[0]["e"] == [name] * 400


def test_an_enum_of_many_fields_is_there_once() -> None:
    """An enum of currencies in a hundred fields was said to have names of more than 65,536 bytes."""
    names = " ".join(f"CURRENCY_CODE_{n:03} = {n};" for n in range(200))
    fields = " ".join(f"Currency c{n} = {n};" for n in range(1, 101))
    text = f'syntax = "proto3"; message M {{ {fields} }} enum Currency {{ {names} }}'
    found, reasons = read([PREFIX + b"\x08\x07\xa0\x06\xc7\x01"], text)
    assert reasons == {} and (found[0]["c1"], found[0]["c2"], found[0]["c100"]) == (
        "CURRENCY_CODE_007", "CURRENCY_CODE_000", "CURRENCY_CODE_199"
    )  # fmt: skip


def test_schemas_that_registries_bring_along_are_known() -> None:
    text = """syntax = "proto3"; import "google/protobuf/descriptor.proto"; import "confluent/meta.proto";
    import "confluent/type/decimal.proto"; import "google/type/date.proto";
    extend google.protobuf.FieldOptions { string unit = 50000; }
    message M { confluent.type.Decimal price = 1 [(unit) = "EUR"]; google.type.Date day = 2; }"""
    found, reasons = read([PREFIX + b"\x0a\x07\x0a\1\x7b\x10\4\x18\2\x12\5\x08\xea\x0f\x10\7"], text)
    assert reasons == {} and found == [
        {"price": {"value": b"{", "precision": 4, "scale": 2}, "day": {"year": 2026, "month": 7, "day": 0}}
    ]


NOW = """syntax = "proto3"; message M { int64 a = 1; repeated int32 b = 2; N n = 3; map<string, N> m = 4; E e = 5;
string s = 6; double d = 7; sint32 z = 8; fixed32 f = 9; } message N { int32 x = 1; } enum E { A = 0; }"""


@pytest.mark.parametrize(
    ("now", "before", "words"),
    [
        ("int64 a", "string a", "has string where int64 is wanted, in the field 1 of M"),
        ("int64 a", "sint64 a", "has sint64 where int64"), ("int64 a", "fixed64 a", "has fixed64 where int64"),
        ("int64 a", "repeated int32 a", "has repeated int32 where int64"),
        ("double d", "fixed64 d", "has fixed64 where double"), ("map<string", "map<foo", "has foo where string"),
        ("int32 x", "sint32 x", "has sint32 where int32 is wanted, in the field 1 of N"),
        ("fixed32 f", "float f", "has float where fixed32"), ("sint32 z", "E z", "has E where sint32"),
        ("map<string, N>", "map<int32, N>", "has int32 where string is wanted, in the field 4"),
        ("map<string, N>", "map<string, int32>", "has int32 where N"), ("map<string, N>", "int32", "has int32 where bytes"),
        ("N n", "K n", "in the field 1 of K"), ("int64 a", "foo a", "knows no foo"),
        ("message M {", "message L {} message M {", "has message L where M is wanted"),
    ],
)  # fmt: skip
def test_a_version_in_which_a_field_means_something_else_is_refused(now: str, before: str, words: str) -> None:
    """Its values would have been read as defaults, or as other numbers."""
    assert now in NOW
    with pytest.raises(BadSchema, match=words):
        ProtobufPlan(NOW, {}).check(NOW.replace(now, before) + " message K { string x = 1; }", {})


def test_a_version_whose_fields_mean_the_same_is_read() -> None:
    plan = ProtobufPlan(NOW, {})
    for now, before in [
        ("int64 a", "bool a"), ("int64 a", "E a"), ("E e", "uint64 e"), ("string s", "bytes s"), ("N n", "bytes n"),
        ("map<string, N>", "repeated N"), ("map<string, N>", "map<bytes, N>"), ("repeated int32 b", "int64 b"),
        ("N n", "repeated N n"), ("sint32 z", "repeated string other = 80; sint64 y"), ("fixed32 f", "sfixed32 f"),
        ("int32 x = 1;", "string other = 5;"), ("int64 a = 1;", ""),
    ]:  # fmt: skip
        assert now in NOW
        plan.check(NOW.replace(now, before), {})
