"""Values in Avro to typed Arrow columns on one core, beside fastavro: `python -m bench.values`.

A record of eight fields (two longs, two strings of which one may be null, a double, an int, an enum, a boolean), each value
with a schema id in front, as they stand in a binary column of a chunk. Time is that of the processor, not of the wall, and
rounds alternate. Then the same values of an older schema, which lacks two fields and has one that is not wanted.
"""

import argparse
import io
import json
import time
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from actors.arrow.values.avro_columns import Layout, array
from actors.arrow.values.avro_plan import Plan
from actors.arrow.values.avro_schema import parsed
from fastpath.arrow.avro_columns import AvroColumns

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


def rayft(columns: AvroColumns, layout: Layout, given: pa.Array) -> float:
    """The processor's seconds for a column of values."""
    _, offsets, data = given.buffers()
    begun = time.process_time()
    at = 0
    while at < len(given):
        at = columns.decode(np.frombuffer(offsets, dtype=np.int32), memoryview(data).cast("B"), None, at, len(given))
        filled, bad, _ = columns.taken()
        made = array(layout.root, filled)
        assert len(bad) == 0 and made.null_count == 0
    return time.process_time() - begun


def foreign(values: list[bytes]) -> float:
    """The processor's seconds of fastavro for values, as dicts: it makes no columns."""
    schema = fastavro.parse_schema(record(FIELDS))
    begun = time.process_time()
    for one in values:
        fastavro.schemaless_reader(io.BytesIO(one[5:]), schema, None)
    return time.process_time() - begun


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--values", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=6)
    asked = options.parse_args()
    layout = Layout(parsed(json.dumps(record(FIELDS))))
    columns = AvroColumns(layout.columns, layout.kids)
    for id, fields in ((1, FIELDS), (2, OLD_FIELDS)):
        plan = Plan(parsed(json.dumps(record(fields))), layout)
        columns.add(id, plan.nodes, plan.kids, plan.table, plan.constants)
    new, old = written(FIELDS, 1, asked.values), written(OLD_FIELDS, 2, asked.values)
    given = {"avro": pa.array(new, pa.binary()), "avro, older schema": pa.array(old, pa.binary())}
    few = new[: asked.values // 10]
    rates: dict[str, list[float]] = {}
    for _ in range(asked.rounds):
        for name, one in given.items():
            rates.setdefault(name, []).append(len(one) / rayft(columns, layout, one) / 1e6)
        rates.setdefault("fastavro", []).append(len(few) / foreign(few) / 1e6)
    for name, some in rates.items():
        print(
            f"{name:20} M records/s a core: {min(some):6.2f} to {max(some):6.2f}, median {sorted(some)[len(some) // 2]:6.2f}"
        )


if __name__ == "__main__":
    main()
