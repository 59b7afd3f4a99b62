"""Rows into record batches in plain Python: `fastpath.arrow.columns_to_batches` must agree, byte for byte."""

from typing import NamedTuple

from tests.reference import batch, murmur2

HEADER_BYTES = 61


class Row(NamedTuple):
    """A row as Python has it."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    ms: int
    partition: int | None = None


class Closed(NamedTuple):
    partition: int
    data: bytes
    rows: list[int]


class Batches:
    """The batches of all partitions."""

    def __init__(self, partitions: int, batch_bytes: int, turns: list[int]) -> None:
        self.partitions = partitions
        self.batch_bytes = batch_bytes
        self.turns = turns
        self.open: dict[int, list[tuple[int, batch.Row]]] = {}
        self.sizes: dict[int, int] = {}
        self.closed: list[Closed] = []

    def add(self, number: int, row: Row) -> None:
        record = batch.Row(row.key, row.value, row.ms, tuple(row.headers))
        while True:
            part = self.chosen(row)
            before = self.open.get(part, [])
            base = before[0][1].timestamp if before else row.ms
            more = len(batch.record(record, row.ms - base, len(before)))
            if not before or self.sizes[part] + more <= self.batch_bytes:
                break
            self.close(part)
        self.sizes[part] = self.sizes.get(part, HEADER_BYTES) + more
        self.open.setdefault(part, []).append((number, record))

    def chosen(self, row: Row) -> int:
        if row.partition is not None:
            return row.partition
        return self.turns[0] if row.key is None else murmur2.of_key(row.key, self.partitions)

    def close(self, part: int) -> None:
        some, _ = self.open.pop(part), self.sizes.pop(part)
        self.closed.append(Closed(part, batch.build([record for _, record in some]), [number for number, _ in some]))
        if self.turns[0] == part:
            self.turns = [*self.turns[1:], part]

    def close_all(self) -> None:
        for part in sorted(self.open):
            self.close(part)
