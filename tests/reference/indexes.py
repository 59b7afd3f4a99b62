"""The slow twin of fastpath.records.indexes: lists of pairs, linear searches, struct."""

import struct


class OffsetIndex:
    """A list of (offset, position)."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.entries: list[tuple[int, int]] = []

    def append(self, offset: int, position: int) -> None:
        self.entries.append((offset, position))

    def lookup(self, offset: int) -> tuple[int, int]:
        found = (self.base_offset, 0)
        for entry in self.entries:
            if entry[0] <= offset:
                found = entry
        return found

    def truncate(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] < offset]

    def data(self) -> bytes:
        return b"".join(struct.pack(">ii", offset - self.base_offset, position) for offset, position in self.entries)


class TimeIndex:
    """A list of (timestamp, offset)."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.entries: list[tuple[int, int]] = []

    def append(self, timestamp: int, offset: int) -> None:
        if timestamp > (self.entries[-1][0] if self.entries else -1):
            self.entries.append((timestamp, offset))

    def lookup(self, timestamp: int) -> tuple[int, int]:
        found = (-1, self.base_offset)
        for entry in self.entries:
            if entry[0] <= timestamp:
                found = entry
        return found

    def truncate(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    def data(self) -> bytes:
        return b"".join(struct.pack(">qi", timestamp, offset - self.base_offset) for timestamp, offset in self.entries)


def indexes(
    base_offset: int, interval_bytes: int, batches: list[tuple[int, int, int]]
) -> tuple[OffsetIndex, TimeIndex, int]:
    """The indexes over batches (last offset, bytes, max timestamp) of a file, and the largest timestamp."""
    offsets, times = OffsetIndex(base_offset), TimeIndex(base_offset)
    largest, largest_offset = -1, base_offset
    position = since = 0
    for last_offset, size, timestamp in batches:
        if timestamp > largest:
            largest, largest_offset = timestamp, last_offset
        if since > interval_bytes:
            offsets.append(last_offset, position)
            times.append(largest, largest_offset)
            since = 0
        position += size
        since += size
    return offsets, times, largest


def span(
    batches: list[tuple[int, int, int]], first_offset: int, upper_offset: int, bytes_max: int, at_least_one: bool
) -> tuple[int, int, int]:
    """(start, stop, next offset) of the answer from whole batches (base offset, last offset, bytes)."""
    position, start, stop, next_offset = 0, -1, -1, first_offset
    for _, last_offset, size in batches:
        if last_offset >= first_offset:
            if last_offset >= upper_offset:
                break
            if start < 0:
                start = position
            if position + size - start > bytes_max and not (position == start and at_least_one):
                break
            stop, next_offset = position + size, last_offset + 1
        position += size
    return (start, stop, next_offset) if stop >= 0 else (position, position, first_offset)
