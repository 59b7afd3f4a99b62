"""Values of batches as typed columns: what was begun when a registry went away is left by nobody in a later batch."""

from typing import Any

import pyarrow as pa
import pytest

from actors.arrow.values.typed import Typed, Wanted
from actors.client.errors import ClientError
from actors.host.client.schema_registry import Unknown, Written


class Known:
    """A registry in which each schema is a long, but those that are away, and those that it does not know."""

    name = "http://registry"

    def __init__(self) -> None:
        self.away: set[int] = set()
        self.unknown: set[int] = set()

    def version(self, subject: str, version: str) -> int:
        return 1

    def schema(self, id: int) -> Written | Unknown:
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
