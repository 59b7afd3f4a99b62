"""Protobuf values: what Google's library has written is read as it was, and what nobody would write ends soon."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.arrow.values import proto_text
from actors.arrow.values.budget import DEPTH_MAX, EXACT, Unreadable
from actors.page.decoding import protobuf

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
from google.protobuf import descriptor_pool, json_format, message_factory  # noqa: E402

PARTS = 10_000
TEXT = """
syntax = "proto3";  // a comment; with { a brace
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "shop { \\" } ";
/* another
   one */
message Other { message Deep { string word = 1; } reserved 4 to 9; }
message Order {
  option deprecated = true;
  enum State { option allow_alias = true; NEW = 0; PAID = 1; DONE = -2; }
  int64 id = 1;
  sint32 delta = 2 [deprecated = true];
  State state = 3;
  repeated uint32 counts = 4;
  repeated string words = 5;
  map<string, double> prices = 6;
  map<int32, Other.Deep> deeps = 7;
  oneof kind { bool yes = 8; bytes raw = 9; }
  Order parent = 10;
  .google.protobuf.Timestamp at = 11;
  fixed64 big = 12; sfixed32 small = 13; float weight = 14; uint64 huge = 15;
  repeated State states = 16;
}
service Shop { rpc Get(Order) returns (Other) { option x = 1; } }
"""
T = descriptor_pb2.FieldDescriptorProto


def order() -> Any:
    """The class of the same messages in Google's library."""
    pool = descriptor_pool.Default()
    file = descriptor_pb2.FileDescriptorProto(name="shop_test.proto", package="shop.v1", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    from google.protobuf import timestamp_pb2  # noqa: F401

    other = file.message_type.add(name="Other")
    other.nested_type.add(name="Deep").field.add(name="word", number=1, type=T.TYPE_STRING, label=1)
    made = file.message_type.add(name="Order")
    state = made.enum_type.add(name="State")
    for name, number in (("NEW", 0), ("PAID", 1), ("DONE", -2)):
        state.value.add(name=name, number=number)
    for name, key, kind, type_name in (
        ("Prices", T.TYPE_STRING, T.TYPE_DOUBLE, ""), ("Deeps", T.TYPE_INT32, T.TYPE_MESSAGE, ".shop.v1.Other.Deep"),
    ):  # fmt: skip
        entry = made.nested_type.add(name=f"{name}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=1)
        entry.field.add(name="value", number=2, type=kind, label=1, type_name=type_name or None)
    made.oneof_decl.add(name="kind")
    for number, (name, kind, label, type_name) in enumerate((
        ("id", T.TYPE_INT64, 1, ""), ("delta", T.TYPE_SINT32, 1, ""), ("state", T.TYPE_ENUM, 1, ".shop.v1.Order.State"),
        ("counts", T.TYPE_UINT32, 3, ""), ("words", T.TYPE_STRING, 3, ""),
        ("prices", T.TYPE_MESSAGE, 3, ".shop.v1.Order.PricesEntry"),
        ("deeps", T.TYPE_MESSAGE, 3, ".shop.v1.Order.DeepsEntry"),
        ("yes", T.TYPE_BOOL, 1, ""), ("raw", T.TYPE_BYTES, 1, ""), ("parent", T.TYPE_MESSAGE, 1, ".shop.v1.Order"),
        ("at", T.TYPE_MESSAGE, 1, ".google.protobuf.Timestamp"), ("big", T.TYPE_FIXED64, 1, ""),
        ("small", T.TYPE_SFIXED32, 1, ""), ("weight", T.TYPE_FLOAT, 1, ""), ("huge", T.TYPE_UINT64, 1, ""),
        ("states", T.TYPE_ENUM, 3, ".shop.v1.Order.State"),
    ), 1):  # fmt: skip
        field = made.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
        if name in ("yes", "raw"):
            field.oneof_index = 0
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.Order"))


ORDER = order()
SCHEMA = proto_text.parsed(TEXT)
I32, I64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)


def orders(parent: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda parent, chosen, **given: ORDER(**given, **({"parent": parent} if parent else {}), **chosen),
        parent=parent, chosen=st.sampled_from([{}, {"yes": True}, {"yes": False}, {"raw": b"\xff"}]),
        id=I64, delta=I32, state=st.sampled_from([0, 1, -2, 77]), counts=st.lists(st.integers(0, (1 << 32) - 1)),
        words=st.lists(st.text()), prices=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
        deeps=st.dictionaries(I32, st.builds(dict, word=st.text())), big=st.integers(0, (1 << 64) - 1), small=I32,
        weight=st.floats(width=32, allow_nan=False, allow_infinity=False), huge=st.integers(0, (1 << 64) - 1),
        states=st.lists(st.sampled_from([0, 1, -2])),
    )  # fmt: skip


def like(ours: Any, theirs: Any) -> bool:
    """Whether both say the same: Google writes every whole number of 64 bits as a text, and rounds a float's digits."""
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and ours.keys() == theirs.keys() and all(like(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(like(*both) for both in zip(ours, theirs, strict=True))
    if isinstance(ours, float):
        return float(theirs) == pytest.approx(ours, rel=1e-6)
    return str(ours) == str(theirs) if isinstance(theirs, str) else bool(ours == theirs)


@given(orders(st.none() | orders(st.none())))
@settings(max_examples=150, deadline=None)
def test_what_google_has_written_is_read_as_it_was(value: Any) -> None:
    found = protobuf.value(SCHEMA, "shop.v1.Order", value.SerializeToString(), PARTS)
    assert like(found, json_format.MessageToDict(value, preserving_proto_field_name=True))
    json.dumps(found, allow_nan=False)


def test_times_of_google() -> None:
    value = ORDER()
    value.at.seconds, value.at.nanos = 1_795_874_520, 5_000_000
    found = protobuf.value(SCHEMA, "shop.v1.Order", value.SerializeToString(), PARTS)
    assert found == {"at": "2026-11-28T14:02:00.005000+00:00"}
    value.at.seconds = 1 << 60
    assert "at" in protobuf.value(SCHEMA, "shop.v1.Order", value.SerializeToString(), PARTS)


def test_structs_and_wrappers_of_google() -> None:
    text = """syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/protobuf/wrappers.proto";
    message M { google.protobuf.Struct any = 1; google.protobuf.UInt64Value n = 2; google.protobuf.StringValue s = 3; }"""
    from google.protobuf import struct_pb2, wrappers_pb2

    inner = struct_pb2.Struct()
    inner.update({"a": [1, None, {"b": True}]})
    one = inner.SerializeToString()
    two = wrappers_pb2.UInt64Value(value=EXACT + 1).SerializeToString()
    data = b"\x0a" + bytes([len(one)]) + one + b"\x12" + bytes([len(two)]) + two + b"\x1a\0"
    found = protobuf.value(proto_text.parsed(text), "M", data, PARTS)
    assert found == {"any": {"a": [1.0, None, {"b": True}]}, "n": str(EXACT + 1), "s": ""}


@pytest.mark.parametrize(("data", "path"), [(b"\0", [0]), (b"\x02\0", [0]), (b"\x02\x02", [1]), (b"\x04\0\0", [0, 0])])
def test_the_message_that_a_value_names(data: bytes, path: list[int]) -> None:
    found, at = protobuf.indexes(data + b"rest")
    assert found == path and (data + b"rest")[at:] == b"rest"
    names = {(0,): "shop.v1.Other", (1,): "shop.v1.Order", (0, 0): "shop.v1.Other.Deep"}
    assert SCHEMA.named(path) == names[tuple(path)]


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff" * 11, b"\x84\x84\x84\x04", b"\x02"])
def test_numbers_that_name_no_message_are_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        protobuf.indexes(data)
    with pytest.raises(Unreadable, match="no message"):
        SCHEMA.named([7])


@pytest.mark.parametrize(
    "data",
    [
        b"\x08", b"\x08" + b"\xff" * 11, b"\x52\xff\xff\xff\xff\x0f", b"\x0b", b"\x0a\x01a", b"\x52\x01\x08", b"\x61abc",
        b"\x22\x01\xff", b"\x6a\x01a", b"\x30\x01",
    ],
)  # fmt: skip
def test_what_nobody_would_write_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        protobuf.value(SCHEMA, "shop.v1.Order", data, PARTS)


def test_what_is_nested_too_deep_or_has_too_many_parts_is_unreadable() -> None:
    data = b""
    for _ in range(DEPTH_MAX + 1):
        size = len(data)
        data = b"\x52" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data
    with pytest.raises(Unreadable, match="nested deeper"):
        protobuf.value(SCHEMA, "shop.v1.Order", data, PARTS)
    with pytest.raises(Unreadable, match="larger than 10,000 parts"):
        protobuf.value(SCHEMA, "shop.v1.Order", b"\x22\xc0\x84\x3d" + b"\0" * 1_000_000, PARTS)


@pytest.mark.parametrize(
    "text",
    [
        "message", "message M", "message M {", "message M { int32 a; }", "message M { int32 a = x; }",
        "message M { Gone a = 1; }",
        'import "other.proto";', "message M { map<int32 x = 1; }", "enum E { A = x; }", "message M { group G = 1 {} }",
        "message M {" * 70 + "}" * 70, "option x = {", "x" * (proto_text.TEXT_MAX + 1),
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_told(text: str) -> None:
    with pytest.raises(Unreadable):
        proto_text.parsed(text)


def test_files_that_are_imported() -> None:
    found = proto_text.parsed(
        'package a; import "b.proto"; message M { b.N n = 1; }', {"b.proto": "package b; message N { string s = 1; }"}
    )
    assert protobuf.value(found, "a.M", b"\x0a\x03\x0a\x01x", PARTS) == {"n": {"s": "x"}}


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_unreadable(data: bytes) -> None:
    with contextlib.suppress(Unreadable):
        protobuf.value(SCHEMA, "shop.v1.Order", data, PARTS)


@pytest.mark.parametrize(
    "package", ["a" * 5_000, "a." * 200 + "a", "a" * 500_000], ids=["characters", "parts", "many characters"]
)
def test_a_name_is_not_longer_than_anybodys(package: str) -> None:
    """Each of the types in a package has its name: a megabyte of schema was twenty gigabytes of names."""
    text = f"package {package}; " + "message a {} " * (500 if len(package) < 10_000 else 5_000)
    with pytest.raises(proto_text.Unreadable, match="a name of more than 1000 characters or 100 parts"):
        proto_text.parsed(text)
    with pytest.raises(proto_text.Unreadable, match="a name of more than"):
        proto_text.parsed(f"message M {{ enum {package} {{ A = 0; }} }}")
    deep = "message abcdefgh { " * 60 + "}" * 60
    assert len(proto_text.parsed(f"package {'a.' * 30}a; {deep}").messages) == 60
