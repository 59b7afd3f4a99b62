"""Batches that were decoded once and are read by many: where they lie, and how a process gets at them.

    handle = shared.write(options, "/dev/shm/orders.arrow")      # without Ray: one Arrow IPC file
    handle = ray_cache.share(options)                            # with Ray: its object store, see ray_cache.py
    shared.attach(handle).batches(0)

A handle is text, so that it travels in an option: `file:<path>` or `ray:<name>@<address>`. This file alone decides how an
IPC file is cut into parts. Readers map it: what they get are views of the file's pages, and Arrow's own pool stays empty.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from actors.replay.read_options import ReadOptions, scan

PART_BYTES = 32 << 20
PARTS_MIN = 8
"""So that every core has something of a small file."""


class Shared(Protocol):
    """Batches in parts."""

    schema: pa.Schema
    parts: int

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The batches of a part, in order, without a copy."""
        ...


def write(options: ReadOptions, path: str | Path) -> str:
    """Decode a read into an Arrow IPC file, once; gives its handle. The file is there as a whole or not at all."""
    path = Path(path).absolute()
    found = options.open()
    schema = found.schema(options.columns)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as out:
            for split in options.splits(found):
                for batch in scan(options, split, tuple(schema.names)):
                    out.write_batch(batch)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return f"file:{path}"


def attach(handle: str) -> Shared:
    """What lies there; a process attaches once, and again to a file that was replaced. Raises ValueError for text that is
    no handle, FileNotFoundError."""
    kind, _, where = handle.partition(":")
    if kind == "file" and where:
        found = os.stat(where)
        return _mapped(where, found.st_ino, found.st_mtime_ns)
    if kind == "ray" and where:
        return _ray_cached(where)
    raise ValueError(f"{handle!r} is no handle of shared batches: write file:<path> or ray:<name>@<address>")


@lru_cache(maxsize=16)
def _mapped(path: str, inode: int, time_ns: int) -> Shared:
    return _File(Path(path))


@lru_cache(maxsize=16)
def _ray_cached(where: str) -> Shared:
    from actors.replay.ray_cache import Attached

    return Attached(where)


class _File:
    """A mapped Arrow IPC file."""

    def __init__(self, path: Path) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        self._count: int = self._reader.num_record_batches
        self.schema = self._reader.schema
        self.parts = min(self._count, max(PARTS_MIN, path.stat().st_size // PART_BYTES))

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """As Shared says."""
        for index in range(self._count * part // self.parts, self._count * (part + 1) // self.parts):
            yield self._reader.get_batch(index)
