"""What a value of Avro may cost: an honest one is never refused for what its schema leaves out, and bytes that are few make
no columns that are huge."""

import json
import tracemalloc
from typing import Any

import pytest

from actors.arrow.values.avro_columns import Layout
from actors.arrow.values.avro_plan import Plan, TooMuch
from actors.arrow.values.avro_schema import BadSchema, parsed
from tests.unit.arrow.values.test_avro_columns import ID, read, written

TOO_MANY = "it claims more parts than its bytes may have"


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def wide(fields: int) -> dict[str, Any]:
    return record("Wide", *(field(f"w{n}", ["null", "string"], default=None) for n in range(fields)))


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


NARROW = record("Item", field("id", "int"))
WIDER = record("Item", field("id", "int"), *wide(40)["fields"])


@pytest.mark.parametrize(
    ("writer", "reader", "value", "told"),
    [
        (array(["null", wide(40)]), None, [None] * 300, [None] * 300),
        (array(NARROW), array(WIDER), [{"id": 1}] * 300, [{"id": 1, **{f"w{n}": None for n in range(40)}}] * 300),
        (
            array(record("Item", field("id", "int"), field("more", ["null", wide(80)]))),
            None,
            [{"id": 1, "more": None}] * 300,
            [{"id": 1, "more": None}] * 300,
        ),
        (
            array([wide(100), NARROW]),
            None,
            [("Item", {"id": 7})] * 300,
            [{"Wide": None, "Item": {"id": 7}}] * 300,
        ),
    ],
    ids=["nulls of wide records", "fields that came later", "wide records left out", "wide branches of a union"],
)
def test_what_a_schema_leaves_out_is_read(writer: Any, reader: Any, value: Any, told: Any) -> None:
    found, reasons = read([written(writer, value)], reader or writer, {1: writer})
    assert reasons == {}
    assert found == [told]


EMPTY = record("Empty", *(field(f"e{n}", {"type": "fixed", "size": 0, "name": f"F{n}"}) for n in range(200)))
HOLLOW = record("Hollow", *(field(f"h{n}", record(f"R{n}")) for n in range(200)))
MANY = bytes.fromhex("80897a") + b"\0"  # 1,000,000 items without bytes


@pytest.mark.parametrize("item", [EMPTY, HOLLOW], ids=["fixed of no bytes", "records of no fields"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_each_part_without_bytes_is_paid(item: Any, is_kept: bool) -> None:
    """A thousandth of these parts is what so many bytes may have."""
    writer = record("O", field("pad", "bytes"), field("items", array(item)))
    reader = writer if is_kept else record("O", field("pad", "bytes"))
    pad = bytes(80_000)
    body = ID + bytes.fromhex("80e209") + pad + MANY
    found, reasons = read([body, body], reader, {1: writer})
    assert found == [None, None]
    assert reasons == {0: TOO_MANY, 1: TOO_MANY}


def test_a_default_that_is_used_many_times_is_not_spelt_out() -> None:
    """Each item of the default has the default of a field, a megabyte of text."""
    text = record("R", field("text", "string", default="x" * 1_000_000))
    reader = record("O", field("one", text, default={}), field("many", array("R"), default=[{}] * 100))
    layout = Layout(parsed(json.dumps(reader)))
    writer = parsed(json.dumps(record("O", field("one", record("R", field("text", "string"))))))
    tracemalloc.start()
    try:
        with pytest.raises(TooMuch):
            Plan(writer, layout)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_an_enum_of_many_symbols_and_many_fields_is_not_spelt_out() -> None:
    """Each field would have a table of all symbols."""
    symbols = {"type": "enum", "name": "E", "symbols": [f"s{n}" for n in range(10_000)]}
    schema = parsed(json.dumps(record("R", *(field(f"f{n}", symbols if n == 0 else "E") for n in range(300)))))
    with pytest.raises(TooMuch):
        Plan(schema, Layout(schema))


def test_names_in_sentences_are_obeyed_by_no_terminal() -> None:
    name = "R\x1b[2J\u202e"
    with pytest.raises(BadSchema) as refers:
        parsed(json.dumps(record(name, field("a", name))))
    with pytest.raises(BadSchema) as other:
        Plan(parsed(json.dumps(record(name))), Layout(parsed(json.dumps(record("R")))))
    for told in (refers, other):
        assert str(told.value).isprintable() and r"\x1b[2J\u202e" in str(told.value)
