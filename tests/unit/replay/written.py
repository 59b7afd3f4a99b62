"""Logs made for tests of the doors: every record says where it belongs."""

from pathlib import Path

from fastpath.records.batch import Builder

NOW_MS = 1_700_000_000_000


def batches(first: int, last: int, each: int, partition: int = 0) -> bytes:
    """Batches with offsets in `[first, last)`; a record's value is `<partition>:<offset>`, its time NOW_MS + offset."""
    parts = []
    for base in range(first, last, each):
        builder = Builder(base, 3, timestamp_ms=NOW_MS + base)
        for offset in range(base, min(base + each, last)):
            builder.append(
                b"k%d" % (offset % 7), b"%d:%d" % (partition, offset), NOW_MS + offset, [(b"h", b"%d" % offset)]
            )
        parts.append(bytes(builder.build()))
    return b"".join(parts)


def node(directory: Path, topics: dict[str, int], records: int, each: int = 10) -> Path:
    """A node's directory: topic -> partitions, each with so many records."""
    for topic, partitions in topics.items():
        for number in range(partitions):
            append(directory, topic, number, 0, records, each)
    return directory


def append(directory: Path, topic: str, number: int, first: int, last: int, each: int = 10) -> Path:
    """Write offsets `[first, last)` behind what a partition's only segment has."""
    folder = directory / f"{topic}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{0:020}.log"
    with path.open("ab") as file:
        file.write(batches(first, last, each, number))
    return path
