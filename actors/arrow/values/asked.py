"""What a caller of `rayft.read`, `scan` and `follow` asks for about keys and values, and what reads them.

This file alone decides the names of these options, where the registry is named, and which columns are fetched for it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from actors.arrow.values.typed import MORE, NEEDED, Typed, Wanted
from actors.host.client.schemas import Schemas
from actors.replay.columns.record_columns import SCHEMA


class Asked(NamedTuple):
    """How keys and values are to be read. All empty: they are bytes."""

    value_format: str | None = None
    key_format: str | None = None
    schema_registry: str | None = None
    value_schema: int | str | None = None
    key_schema: int | str | None = None
    on_error: str = "fail"

    def of(self, columns: Sequence[str]) -> "Asked":
        """What is asked for where only some columns of records are read."""
        found = self
        if "value" not in columns:
            found = found._replace(value_format=None, value_schema=None)
        if "key" not in columns:
            found = found._replace(key_format=None, key_schema=None)
        return found


BYTES = Asked()
"""Keys and values as they are."""


def needed(columns: Collection[str]) -> list[str]:
    """The columns of records that are read for columns which a caller gets."""
    more = {name: {name, *(f"{name}_{kind}" for kind in MORE)} for name in ("key", "value")}
    return [name for name in SCHEMA.names if not more.get(name, {name}).isdisjoint(columns)]


class Reading:
    """What makes the batches that a caller gets of those that are decoded."""

    def __init__(self, columns: Sequence[str], typed: Sequence[Typed]) -> None:
        self.columns = list(columns)
        """The columns of records that the caller wants."""
        self.decoded = [*columns, *(one for one in NEEDED if typed and one not in columns)]
        """The columns of records that are decoded for it."""
        self._extra = self.decoded[len(self.columns) :]
        self._added: list[str] = []
        self._typed = typed

    @property
    def is_typed(self) -> bool:
        """Whether a column is not bytes."""
        return bool(self._typed)

    def pinned(self, asked: Asked) -> Asked:
        """What was asked for, with the ids of the schemas that were found: another reading gives the same columns."""
        for one in self._typed:
            asked = asked._replace(key_schema=one.id) if one.column == "key" else asked._replace(value_schema=one.id)
        return asked

    def schema(self, of: pa.Schema) -> pa.Schema:
        """The caller's Arrow schema, from that of its columns of records."""
        for one in self._typed:
            of = one.schema(of)
        return of

    def batches(self, decoded: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The caller's batches. Raises ClientError for a value that cannot be read, if that was asked for."""
        found: Iterator[pa.RecordBatch] = iter(decoded)
        for one in self._typed:
            found = _each(one, found)
        if not self._typed:
            return found
        return (batch.drop_columns(self._extra) for batch in found)

    def beside(self, name: str) -> "Reading":
        """A reading of the same with one column more, which `without` takes away."""
        if name in self.columns:
            return self
        found = Reading([*self.columns, name], self._typed)
        found._added = [name]
        return found

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch without the column that was added."""
        return batch.drop_columns(self._added) if self._added else batch


def _each(typed: Typed, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from typed.batches(batch)


def reading(columns: Sequence[str], topics: Sequence[str], asked: Asked, given: Mapping[str, Any]) -> Reading:
    """What reads keys and values as they were asked for. `given`: the client's settings, which may name the registry
    (schema.registry.url, basic.auth.user.info). Asks the registry. Raises ValueError, and ClientError for a registry that is
    away or has no such schema."""
    formats = {"key": asked.key_format, "value": asked.value_format}
    named = {"key": asked.key_schema, "value": asked.value_schema}
    for name, format in formats.items():
        if format is None and named[name] is not None:
            raise ValueError(f"{name}_schema has no meaning without {name}_format")
        if format is not None and name not in columns:
            raise ValueError(f"{name}_format has no meaning without the column {name}")
    wanted = {name: format for name, format in formats.items() if format is not None}
    if not wanted:
        return Reading(columns, [])
    url = asked.schema_registry or str(given.get("schema.registry.url", "")).partition(",")[0].strip()
    if not url:
        raise ValueError("name schema_registry, the URL of the schema registry, or schema.registry.url in the config")
    login = given.get("schema.registry.basic.auth.user.info") or given.get("basic.auth.user.info", "")
    schemas = Schemas(url, str(login))
    return Reading(
        columns,
        [Typed(name, Wanted(format, schemas, named[name], asked.on_error), topics) for name, format in wanted.items()],
    )
