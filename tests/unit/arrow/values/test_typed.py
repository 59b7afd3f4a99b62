"""Values of batches as typed columns: what was begun when a registry went away is left by nobody in a later batch."""

import json
import uuid
from typing import Any

import pyarrow as pa
import pytest

from actors.arrow.values import typed as module
from actors.arrow.values.avro_columns import Layout
from actors.arrow.values.avro_schema import BadSchema, parsed
from actors.arrow.values.json_plan import JsonPlan
from actors.arrow.values.protobuf_plan import ProtobufPlan
from actors.arrow.values.typed import Typed, Wanted
from actors.client.errors import ClientError
from actors.host.client.schema_registry import Unknown, Written
from actors.replay.columns.record_columns import HEADER


class Known:
    """A registry in which each schema is a long, but those that are away, and those that it does not know."""

    name = "http://registry"

    def __init__(self) -> None:
        self.away: set[int] = set()
        self.unknown: set[int] = set()
        self.is_time = False
        self.asked: list[Any] = []

    def version(self, subject: str, version: str) -> int:
        return 1

    def may_be_known(self, id: int) -> bool:
        return self.is_time

    def schema(self, id: int) -> Written | Unknown:
        self.asked.append(id)
        if id in self.away:
            raise ClientError("the registry is away")
        return Unknown("there is none") if id in self.unknown else Written("AVRO", '"long"', {})


def batch(*values: tuple[int, int], first: int = 0) -> pa.RecordBatch:
    """A batch of longs, each with the id of its schema."""
    count = len(values)
    return pa.record_batch({
        "value": pa.array([b"\0\0\0\0" + bytes([id, 2 * one]) for id, one in values], pa.binary()),
        "topic": pa.array(["t"] * count), "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
    })  # fmt: skip


def told(typed: Typed, given: pa.RecordBatch) -> list[tuple[Any, Any]]:
    """(offset, value) of each row."""
    found = []
    for one in typed.batches(given):
        one.validate(full=True)
        found += list(zip(one.column("offset").to_pylist(), one.column("value").to_pylist(), strict=True))
    return found


def typed(known: Any, on_error: str = "null") -> Typed:
    return Typed("value", Wanted("avro", known, None, on_error), ["t"])


def test_what_was_begun_when_the_registry_was_away_is_in_no_later_batch() -> None:
    """The values in front of the one whose schema could not be had were in front of those of the next partition."""
    known = Known()
    known.away = {2}
    reads = typed(known)
    for _ in range(2):
        with pytest.raises(ClientError, match="away"):
            told(reads, batch((1, 1), (1, 2), (2, 3)))
        assert told(reads, batch((1, 7), first=9)) == [(9, 7)]
    known.away = set()
    assert told(reads, batch((1, 1), (2, 3))) == [(0, 1), (1, 3)]


@pytest.mark.parametrize("on_error", ["null", "raw"])
def test_a_schema_that_the_registry_had_not_is_asked_for_again(on_error: str) -> None:
    """A topic is followed for months: values of such a schema were null for as long, once it was asked for too early."""
    known = Known()
    known.unknown = {3, 9}
    reads = typed(known, on_error)
    given = batch((3, 1), (1, 2), (9, 3), (3, 4))
    early = [(0, None), (1, 2), (2, None), (3, None)]
    assert told(reads, given) == early
    known.unknown = {9}
    assert told(reads, given) == early and known.asked == [1, 3, 1, 9], "not before it is time"
    known.is_time = True
    assert told(reads, given) == [(0, 1), (1, 2), (2, None), (3, 4)] == told(reads, given)
    assert known.asked == [1, 3, 1, 9, 3, 9, 9], "what is known is not asked for again"


def test_an_id_that_no_registry_gives_is_none_whatever_a_header_names() -> None:
    """Values that had it were read by the schema of a GUID, or those of the GUID were null."""
    known = Known()
    reads = typed(known)
    numbered, guid = b"\0\x80\0\0\0\2", [{"key": "__value_schema_id", "value": b"\1" + bytes(16)}]

    def given(*rows: tuple[bytes, Any]) -> pa.RecordBatch:
        values, headers = pa.array([row[0] for row in rows], pa.binary()), [row[1] for row in rows]
        plain = batch(*((1, 1) for _ in rows)).set_column(0, "value", values)
        return plain.append_column("headers", pa.array(headers, pa.list_(HEADER)))

    for _ in range(2):
        assert told(reads, given((numbered, None))) == [(0, None)], "without headers"
        assert told(reads, given((b"\2", guid), (numbered, []), (b"\4", guid))) == [(0, 1), (1, None), (2, 2)]
        written = [{"key": "__value_schema_id", "value": numbered[:5]}]
        assert told(reads, given((b"\2", written), (b"\2", guid))) == [(0, None), (1, 1)], "written in a header"
    assert known.asked == [1, str(uuid.UUID(int=0))]


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_a_name_that_stands_in_many_fields_counts_in_each(kind: str) -> None:
    """A schema of 2 MB made 8 GB of names."""
    name, fields = "n" * 20_000, range(100)
    with pytest.raises(BadSchema, match="names have more than"):
        if kind == "avro":
            first = {"type": "record", "name": "d", "fields": [{"name": name, "type": "long"}]}
            of = [{"name": f"p{n}", "type": "d" if n else first} for n in fields]
            Layout(parsed(json.dumps({"type": "record", "name": "r", "fields": of}), []))
        elif kind == "json":
            below = {"properties": {name: {"type": "integer"}}}
            JsonPlan(json.dumps({"properties": {f"p{n}": {"$ref": "#/d"} for n in fields}, "d": below}), {})
        else:
            message = " ".join(f"D p{n} = {n + 1};" for n in fields)
            ProtobufPlan(f'syntax = "proto3"; message R {{ {message} }} message D {{ int64 {name} = 1; }}', {})


@pytest.mark.parametrize("on_error", ["null", "raw"])
@pytest.mark.parametrize("limit", ["PLANS_MAX", "PLAN_BYTES_MAX"])
def test_a_registry_that_has_a_schema_for_each_value_makes_no_plan_for_each(
    on_error: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 10 if limit == "PLANS_MAX" else 500)
    known = Known()
    known.unknown = set(range(2, 256, 3))
    reads = typed(known, on_error)
    for _ in range(2):
        ids = list(range(1, 256))
        given = batch(*[(id, id % 60) for id in ids])
        assert [one for _, one in told(reads, given)] == [None if id in known.unknown else id % 60 for id in ids]
        assert len(reads._planned) <= 10
    assert len(known.asked) > 450, "what has gone is asked for again"
    assert reads._plan_bytes == sum(reads._planned.values())
    told(reads, batch((1, 1)))
    assert len(reads._refused) <= 10
