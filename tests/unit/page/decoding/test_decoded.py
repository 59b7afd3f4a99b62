"""Values by schemas that nobody should have written: each is told in a sentence, soon, and ends no reading."""

import json
from typing import Any

import pytest

from actors.arrow.values import proto_text
from actors.arrow.values.budget import DEPTH_MAX
from actors.host.client.schema_registry import Written
from actors.page.decoding import decoded as module
from actors.page.decoding.decoded import TEXT_LISTED, Decoded, Decoder
from actors.page.routes.exports import line

LONG = "a" * 100_000


def read(kind: str, schema: Any, data: bytes, is_whole: bool = False) -> Decoded:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    found = Decoder({1: Written(kind, text, {})}, is_whole).read(b"\0\0\0\0\1" + data)
    assert found is not None
    return found


def unions(depth: int) -> Any:
    found: Any = "A"
    for _ in range(depth):
        found = [found]
    return {"type": "record", "name": "A", "fields": [{"name": "x", "type": found}]}


ODD = [
    ("AVRO", '{"type": "fixed", "name": "f", "size": 1e999}', b""),
    ("AVRO", unions(DEPTH_MAX - 6), bytes(5_000)),
    ("AVRO", ["int"] * 30_000, b"\0\0"),
    ("PROTOBUF", "message M { int32 a = 1; map<string, int32> a = 2; }", b"\0\x08\1\x12\2\x10\1"),
    ("PROTOBUF", "message M { string a = 1; repeated string a = 2; }", b"\0\x0a\1x\x12\1x"),
    ("PROTOBUF", "package google.protobuf; message Timestamp { X seconds = 1; } message X {}", b"\0\x0a\0"),
    ("JSON", "{}", b"no JSON"),
    ("JSON", "{}", b"[" * 30_000),
    ("JSON", "{}", b"NaN"),
    ("JSON", "{}", b"[" + b"9" * 5_000 + b"]"),
    ("JSON", "{}", b'{"a": [-1e999]}'),
    ("JSON", "{}", b"\xff"),
]


@pytest.mark.parametrize(("kind", "schema", "data"), ODD)
def test_a_value_of_an_odd_schema_is_a_sentence_and_ends_no_reading(kind: str, schema: Any, data: bytes) -> None:
    found = read(kind, schema, data, is_whole=True)
    assert found.text == "" and "schema 1" in found.schema and "open it" not in found.schema
    row = {"partition": 0, "offset": 0, "timestamp": 0, "key": None, "value": b"\0\0\0\0\1" + data, "headers": None}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    exported = json.loads(line(row, Decoder({1: Written(kind, text, {})}, True)))
    assert exported["value"], "its bytes are exported instead"


def test_json_with_a_number_that_is_too_long_is_not_called_no_json() -> None:
    assert "whole number of more than 4,300 digits" in read("JSON", "{}", b"-" + b"9" * 4_301, is_whole=True).schema
    for number in (b"-" + b"9" * 4_300, b"0." + b"9" * 5_000):
        assert read("JSON", "{}", number, is_whole=True).text == number.decode()


def test_a_scale_that_is_none_leaves_the_bytes() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "scale": None}
    assert read("AVRO", schema, b"\2\1").text == '{"base64": "AQ=="}'


ENUMS = {"type": "array", "items": {"type": "enum", "name": "e", "symbols": [LONG]}}
FIELDS = {"type": "array", "items": {"type": "record", "name": "r", "fields": [{"name": LONG, "type": "null"}]}}
BOMBS = [
    ("AVRO", ENUMS, b"\xa0\6" + bytes(401)),
    ("AVRO", FIELDS, b"\xa0\6\0"),
    ("PROTOBUF", f"enum E {{ {LONG} = 0; }} message M {{ repeated E a = 1; }}", b"\0\x0a\x90\3" + bytes(400)),
    ("PROTOBUF", f"message M {{ repeated M a = 1; int32 {LONG} = 2; }}", b"\0" + b"\x0a\2\x10\0" * 400),
]


@pytest.mark.parametrize(("kind", "schema", "data"), BOMBS)
def test_names_of_a_schema_are_paid_for_by_a_value_that_repeats_them(kind: str, schema: Any, data: bytes) -> None:
    """Else 400 bytes become 40 MB in a list, and a value that is opened 20 GB."""
    assert read(kind, schema, data) == Decoded("", "it is larger than 1,000 parts: open it")
    found = read(kind, schema, data, is_whole=True)
    assert len(found.text) < 200_000 * 256 + len(data)


def test_a_value_in_a_list_becomes_no_long_text() -> None:
    schema = {"type": "array", "items": {"type": "enum", "name": "e", "symbols": ["b" * 200]}}
    data = b"\xa0\6" + bytes(401)
    assert read("AVRO", schema, data) == Decoded("", f"it has {400 * 204:,} characters: open it")
    assert len(read("AVRO", schema, data, is_whole=True).text) > TEXT_LISTED


@pytest.mark.parametrize("text", ["/*a" * 300, '"' + '\\"' * 300, "'" + "\\'" * 300])
def test_what_is_opened_and_never_closed_is_looked_at_once(text: str) -> None:
    """An expression that looks for the end from each beginning takes an hour for the longest schema, and holds the page."""
    found = list(proto_text.TOKEN.finditer("message M { " + text))
    assert len(found) == 7 and found[-1][0] == text
    assert read("PROTOBUF", text, b"\0").text == ""


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF"])
def test_a_schema_that_is_none_is_read_once_for_all_its_values(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    of = {"AVRO": (module.avro, "reader"), "PROTOBUF": (module.proto_text, "parsed")}[kind]
    made = getattr(*of)
    monkeypatch.setattr(*of, lambda *given: (asked.append(1), made(*given))[1])
    told = {read(kind, f"message {{ none of {kind} twice", b"\0") for _ in range(5)}
    assert len(told) == 1 and len(asked) == 1
