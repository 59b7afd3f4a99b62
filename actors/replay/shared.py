"""Batches that are decoded once and read by many processes: where they lie, and how a process reads them.

    handle = shared.write(options, "/dev/shm/orders.arrow")      # without Ray: one Arrow IPC file
    handle = ray_cache.share(options)                            # with Ray: its object store, see ray_cache.py
    shared.attach(handle).batches(0)

A handle is text, so that it fits into an option: `file:<path>` or `ray:<name>@<address>`. This file alone decides how
an IPC file is divided into parts. Readers map the file: their arrays are views of its pages, and Arrow's own pool stays
empty.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from actors.replay.read_options import ReadOptions, scan

PART_BYTES = 32 << 20
PARTS_MIN = 8
"""The smallest number of parts, so that every core has work for a small file too."""


class Shared(Protocol):
    """Batches that were decoded before, in parts."""

    schema: pa.Schema
    parts: int

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The batches of a part, in order, without a copy."""
        ...


def write(options: ReadOptions, path: str | Path) -> str:
    """Decode a read once into an Arrow IPC file. Returns its handle. The file appears whole or not at all, and only its
    owner can read it."""
    path = Path(path).absolute()
    found = options.open()
    schema = found.schema(options.columns)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # of its owner alone
    try:
        with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, schema) as out:
            for split in options.planned():
                for batch in scan(options, split, tuple(schema.names)):
                    out.write_batch(batch)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return f"file:{path}"


def attach(handle: str) -> Shared:
    """The batches of a handle. A process attaches once, and again if the file was replaced. Raises ValueError for text
    that is no handle, FileNotFoundError."""
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
    """A mapped Arrow IPC file. Its batches are validated before they are given, because Spark reads them without bounds
    checks: with altered offsets its JVM would end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._sound():
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        self._count: int = self._reader.num_record_batches
        self.schema = self._reader.schema
        self.parts = min(self._count, max(PARTS_MIN, path.stat().st_size // PART_BYTES))

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The batches of a part, as in Shared.batches."""
        for index in range(self._count * part // self.parts, self._count * (part + 1) // self.parts):
            with self._sound():
                batch = self._reader.get_batch(index)
                batch.validate(full=True)
            yield batch

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Turn what Arrow says of a file that is cut or altered into one error that names the file."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{self._path} is damaged: {error}. Write it again with shared.write.") from error
