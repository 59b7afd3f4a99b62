"""Values in Avro, Protobuf and JSON to typed Arrow columns on one core, beside others: `python -m bench.values`.

A record of eight fields (two longs, two strings of which one may be null, a double, an int, an enum, a boolean), each value
with a schema id in front, as they stand in a binary column of a chunk. Time is that of the processor, not of the wall, and
rounds alternate. Then the same values of an older schema, which lacks two fields and has one that is not wanted; and
the same rows as messages of Protobuf, and as JSON. pyarrow's reader gets those as lines, and knows no row that is bad.
"""

import argparse
import io
import json
import time
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.json
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from actors.arrow.values.avro_columns import Column, Layout, array
from actors.arrow.values.avro_plan import Plan
from actors.arrow.values.avro_schema import parsed
from actors.arrow.values.json_plan import JsonPlan
from actors.arrow.values.protobuf_plan import PARTS_A_BYTE, ProtobufPlan
from fastpath.arrow.value_columns import ValueColumns

STATES = ["NEW", "PAID", "SENT"]
OLD_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "int"},
    {"name": "customer", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "amount", "type": "double"},
    {"name": "count", "type": "int"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "obsolete", "type": "string"},
]
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    *OLD_FIELDS[1:-1],
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": STATES}, "default": "NEW"},
    {"name": "paid", "type": "boolean", "default": False},
]


def record(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}


def written(fields: list[dict[str, Any]], id: int, count: int) -> list[bytes]:
    """Values with their schema id."""
    schema = fastavro.parse_schema(record(fields))
    found = []
    for n in range(count):
        out = io.BytesIO()
        row = {
            "id": n * 7919, "customer": f"customer-{n}", "at": 1_700_000_000_000 + n, "amount": n / 3, "count": n % 100,
            "note": None if n % 3 else f"a note of {n}", "state": STATES[n % 3], "paid": bool(n & 1), "obsolete": "old",
        }  # fmt: skip
        fastavro.schemaless_writer(out, schema, {one["name"]: row[one["name"]] for one in fields})
        found.append(b"\0" + id.to_bytes(4, "big") + out.getvalue())
    return found


PROTO = """syntax = "proto3"; package shop; enum State { NEW = 0; PAID = 1; SENT = 2; }
message Order { int64 id = 1; string customer = 2; int64 at = 3; double amount = 4; int32 count = 5;
optional string note = 6; State state = 7; bool paid = 8; }"""


def message() -> Any:
    """The class of the message in Google's library."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    state = file.enum_type.add(name="State")
    made = file.message_type.add(name="Order")
    for number, name in enumerate(STATES):
        state.value.add(name=name, number=number)
    for number, (name, kind) in enumerate(
        [
            ("id", kinds.TYPE_INT64), ("customer", kinds.TYPE_STRING), ("at", kinds.TYPE_INT64),
            ("amount", kinds.TYPE_DOUBLE), ("count", kinds.TYPE_INT32), ("note", kinds.TYPE_STRING),
            ("state", kinds.TYPE_ENUM), ("paid", kinds.TYPE_BOOL),
        ], 1
    ):  # fmt: skip
        made.field.add(
            name=name, number=number, type=kind, label=1, type_name=".shop.State" if name == "state" else None
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def messages(kind: Any, id: int, count: int) -> list[bytes]:
    """The same rows as messages of Protobuf."""
    found = []
    for n in range(count):
        one = kind(
            id=n * 7919, customer=f"customer-{n}", at=1_700_000_000_000 + n, amount=n / 3, count=n % 100, state=n % 3,
            paid=bool(n & 1), **({} if n % 3 else {"note": f"a note of {n}"}),
        )  # fmt: skip
        found.append(b"\0" + id.to_bytes(4, "big") + b"\0" + one.SerializeToString())
    return found


OF_JSON = {"string": "string", "long": "integer", "double": "number", "int": "integer", "boolean": "boolean"}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        one["name"]: {"type": OF_JSON.get(one["type"] if isinstance(one["type"], str) else "", "string")}
        | ({"type": "integer"} if one["name"] == "at" else {})
        for one in FIELDS
    },
}


def texts(id: int, count: int) -> list[bytes]:
    """The same rows as JSON."""
    return [
        b"\0" + id.to_bytes(4, "big") + json.dumps(
            {
                "id": n * 7919, "customer": f"customer-{n}", "at": 1_700_000_000_000 + n, "amount": n / 3, "count": n % 100,
                "note": None if n % 3 else f"a note of {n}", "state": STATES[n % 3], "paid": bool(n & 1),
            }
        ).encode()
        for n in range(count)
    ]  # fmt: skip


def lines(values: list[bytes], schema: pa.Schema) -> float:
    """The processor's seconds of pyarrow for values as lines."""
    data = b"\n".join(one[5:] for one in values)
    reads = pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    parses = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    begun = time.process_time()
    assert pa.json.read_json(io.BytesIO(data), reads, parses).num_rows == len(values)
    return time.process_time() - begun


def dicts(values: list[bytes]) -> float:
    """The processor's seconds of Python's json, as dicts: it makes no columns."""
    begun = time.process_time()
    for one in values:
        json.loads(one[5:])
    return time.process_time() - begun


def rayft(columns: ValueColumns, root: Column, given: pa.Array) -> float:
    """The processor's seconds for a column of values."""
    _, offsets, data = given.buffers()
    begun = time.process_time()
    at = 0
    while at < len(given):
        at = columns.decode(np.frombuffer(offsets, dtype=np.int32), memoryview(data).cast("B"), None, at, len(given))
        filled, bad, _ = columns.taken()
        made = array(root, filled)
        assert len(bad) == 0 and made.null_count == 0
    return time.process_time() - begun


def foreign(values: list[bytes]) -> float:
    """The processor's seconds of fastavro for values, as dicts: it makes no columns."""
    schema = fastavro.parse_schema(record(FIELDS))
    begun = time.process_time()
    for one in values:
        fastavro.schemaless_reader(io.BytesIO(one[5:]), schema, None)
    return time.process_time() - begun


def google(kind: Any, values: list[bytes]) -> float:
    """The processor's seconds of Google's library for messages, as objects: it makes no columns."""
    begun = time.process_time()
    for one in values:
        kind.FromString(one[6:])
    return time.process_time() - begun


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--values", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=6)
    asked = options.parse_args()
    layout = Layout(parsed(json.dumps(record(FIELDS))))
    columns = ValueColumns(layout.columns, layout.kids)
    for id, fields in ((1, FIELDS), (2, OLD_FIELDS)):
        plan = Plan(parsed(json.dumps(record(fields))), layout)
        columns.add(id, plan.nodes, plan.kids, plan.table, plan.constants)
    new, old = written(FIELDS, 1, asked.values), written(OLD_FIELDS, 2, asked.values)
    kind, proto = message(), ProtobufPlan(PROTO, {})
    others = ValueColumns(proto.columns, proto.column_kids)
    others.add(3, proto.nodes, proto.kids, proto.table, proto.constants, PARTS_A_BYTE, proto.places)
    sent = messages(kind, 3, asked.values)
    text = JsonPlan(json.dumps(JSON_SCHEMA), {})
    of_json = ValueColumns(text.layout.columns, text.layout.kids)
    of_json.add(4, text.nodes, text.kids, text.table, text.constants, places=text.places)
    told = texts(4, asked.values)
    given = {
        "avro": (columns, layout.root, pa.array(new, pa.binary())),
        "avro, older schema": (columns, layout.root, pa.array(old, pa.binary())),
        "protobuf": (others, proto.root, pa.array(sent, pa.binary())),
        "json": (of_json, text.layout.root, pa.array(told, pa.binary())),
    }
    few, some = new[: asked.values // 10], sent[: asked.values // 10]
    rates: dict[str, list[float]] = {}
    for _ in range(asked.rounds):
        for name, one in given.items():
            rates.setdefault(name, []).append(asked.values / rayft(*one) / 1e6)
        rates.setdefault("fastavro", []).append(len(few) / foreign(few) / 1e6)
        rates.setdefault("google.protobuf", []).append(len(some) / google(kind, some) / 1e6)
        rates.setdefault("pyarrow.json", []).append(len(told) / lines(told, pa.schema(text.layout.root.arrow)) / 1e6)
        rates.setdefault("json.loads", []).append(len(few) / dicts(told[: len(few)]) / 1e6)
    for name, all_ in rates.items():
        low, middle, high = min(all_), sorted(all_)[len(all_) // 2], max(all_)
        print(f"{name:20} M records/s a core: {low:6.2f} to {high:6.2f}, median {middle:6.2f}")


if __name__ == "__main__":
    main()
