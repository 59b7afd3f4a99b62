"""Makes chunks out of files: runs of sound batches whose records lie uncompressed in one buffer.

This file alone decides how much is read at once, what happens to damaged bytes, and how compressed batches are opened.

Rules:

1. A chunk ends behind a batch, and where compressed and uncompressed batches meet. A file is mapped to find its batches.
   Their bytes are copied before they are verified and decoded, because a node may truncate the file, and write other bytes
   into it, at any moment. The compressed batches of a chunk share one more buffer.
2. A batch that is not sound raises CorruptLog with file and position, or is skipped and reported to `on_damage`.
   Reading then goes on at the next place with a valid header and CRC.
3. A batch that the file's end cuts off is being written, or was when the node stopped. It is no damage, and reading
   ends there. The same holds if a node truncates the file meanwhile. If the caller says up to which `end` the file is not
   being written, a batch that is cut off there is damage, and a file that ends before it was truncated: FileTruncated, since
   records that were there would be missing without a word. FileTruncated, too, if a node has truncated the file and written
   other batches since, so that what comes next does not follow what was read.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.ports import Buffer
from actors.replay.logs.files import CorruptLog, Damage, FileTruncated, Headers, mapped, refuse_missing, still_there
from fastpath.bytes.frame_pool import Pool
from fastpath.bytes.mapped_file import MappedFile
from fastpath.records import compression
from fastpath.records.batch import HEADER_SIZE, OUTPUT_BYTES_MAX
from fastpath.records.scan import resync, scan

CODEC, CONTROL = 0x07, 0x20
CHUNK_BYTES = 16 << 20
"""About how much of the file a chunk covers. A compressed chunk holds at most ROOM_BYTES uncompressed, or one batch."""
ROOM_BYTES = 64 << 20
BLOCKS = Pool(4 * CHUNK_BYTES)
"""The memory for copies of batches, so that reading a large file takes a block or two."""


class Chunk(NamedTuple):
    """Some batches of one file. `starts`, `ends`: where the records of each batch lie in `data`."""

    path: Path
    data: Buffer
    headers: Headers
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    position: int
    """The position in the file after the last batch."""

    def part(self, chosen: "NDArray[np.bool_] | slice") -> "Chunk":
        """The chunk with some of its batches only."""
        return self._replace(headers=self.headers[chosen], starts=self.starts[chosen], ends=self.ends[chosen])


class ChunkReading(NamedTuple):
    """How files are read."""

    crc: bool = True
    """Whether checksums are verified."""
    damage: str = "fatal"
    """What happens to damage: `fatal` raises CorruptLog, `skip` reports it."""
    on_damage: Callable[[Damage], None] = lambda _: None
    """Called with what is skipped."""
    chunk_bytes: int = CHUNK_BYTES
    on_progress: Callable[[int], None] = lambda _: None
    """Called with the number of bytes of files read since the last call."""

    @classmethod
    def of(
        cls, verify: bool, on_damage: Callable[[Damage], None] | None, chunk_bytes: int = CHUNK_BYTES
    ) -> "ChunkReading":
        """The way to read files for these arguments: damage raises CorruptLog; with `on_damage` it is reported there
        and skipped."""
        if on_damage is None:
            return cls(verify, chunk_bytes=chunk_bytes)
        return cls(verify, "skip", on_damage, chunk_bytes)

    def damaged(self, path: Path, position: int, end: int, reason: str) -> None:
        """Raise CorruptLog, or report the damage and go on."""
        if self.damage != "skip":
            raise CorruptLog(str(path), position, reason)
        self.on_damage(Damage(str(path), position, end, reason))


class BatchRun(NamedTuple):
    """Sound batches of a file that lie one behind the other, and a copy of their bytes."""

    data: memoryview
    """The bytes of the file from `origin` to `after`. No other process can change them. They are used again for the
    next run once no view of them is left."""
    origin: int
    headers: Headers
    """`position` counts from the beginning of the file."""
    after: int
    """The position in the file after the last batch."""


def batches(
    path: Path, reading: ChunkReading, start: int = 0, end: int | None = None, data: memoryview | None = None
) -> Iterator[BatchRun]:
    """All sound batches that start in `[start, end)` of a file, a chunk at a time. Raises CorruptLog, and FileTruncated if
    the file ends before `end`, or if what was read of it cannot be told from what was cut off."""
    data = mapped(path) if data is None else data
    before: Headers | None = None
    position, limit = start, len(data) if end is None else min(end, len(data))
    while position < (limit := min(limit, stop := still_there(data))):
        room = _room(data, position, stop, min(reading.chunk_bytes, limit - position), reading.crc)
        if room is None:
            found, after, fault = scan(data, position, stop, reading.crc, records_max=1)
        else:
            found, after, fault = scan(data, position, stop, reading.crc, bytes_max=limit - position, into=room)
        if still_there(data) < stop or (room is None and len(found)):
            continue  # the file was truncated or written in between: look at what is left, and at no other byte
        refuse_missing(path, data)
        if before is not None and not _stands(data, before):
            raise FileTruncated(path)
        if len(found):
            before = found[-1:]
            reading.on_progress(after - position)
            assert room is not None
            yield BatchRun(room.toreadonly(), position, found, after)
            forget(data, position, after)
        position = after
        if fault is None:
            continue
        after = resync(data, position + 1, stop)
        if still_there(data) < stop:
            continue
        if after == stop and fault == "the bytes end inside the batch" and (end is None or stop < end):
            break
        reading.damaged(path, position, after, fault)
        position = after
    if end is not None and position < end and still_there(data) < end:
        raise FileTruncated(path)


def _stands(data: memoryview, header: Headers) -> bool:
    """Whether a batch that was read is still in its place. If not, the file was truncated and written anew since."""
    now, _, _ = scan(data, int(header["position"][0]), still_there(data), False, records_max=1)
    return len(now) == 1 and all(now[name][0] == header[name][0] for name in ("base_offset", "size", "crc"))


def _room(data: memoryview, position: int, stop: int, wanted: int, crc: bool) -> memoryview | None:
    """Memory for a copy of the next batches: at least one, and about `wanted` bytes. None if the next one claims to be
    larger and is not sound: bytes that were not written as a batch may claim 2 GiB."""
    first, _, _ = scan(data, position, stop, False, records_max=1)
    size = int(first[0]["size"]) if len(first) else 0
    if size > wanted and crc and not len(scan(data, position, stop, True, records_max=1)[0]):
        return None
    return BLOCKS.take(max(wanted, size))


def forget(data: memoryview, start: int, end: int) -> None:
    """Give pages of a mapped file that were read back to the system, so that they do not count as this process's
    memory. They can be read again."""
    if isinstance(data.obj, MappedFile):
        data.obj.forget(start, end)


def chunks(
    path: Path,
    reading: ChunkReading,
    start: int = 0,
    end: int | None = None,
    keep: Callable[[Headers], NDArray[np.bool_]] | None = None,
    data: memoryview | None = None,
) -> Iterator[Chunk]:
    """The sound batches that start in `[start, end)` of a file, as chunks that can be decoded, with only the batches
    that `keep` chooses. Errors as `batches`."""
    for run in batches(path, reading, start, end, data):
        yield from decodable(path, run, reading, keep)


def decodable(
    path: Path, run: BatchRun, reading: ChunkReading, keep: Callable[[Headers], NDArray[np.bool_]] | None = None
) -> Iterator[Chunk]:
    """Sound batches that lie in memory, as chunks that can be decoded, with only the batches that `keep` chooses."""
    headers = run.headers if keep is None else run.headers[keep(run.headers)]
    compressed = headers["attributes"] & CODEC != 0
    edges = np.flatnonzero(np.diff(compressed)) + 1
    for part in np.split(headers, edges):
        if not len(part):
            continue
        if part[0]["attributes"] & CODEC:
            yield from _opened(path, run.data, run.origin, part, run.after, reading)
        else:
            starts = part["position"] - run.origin
            yield Chunk(path, run.data, part, starts + HEADER_SIZE, starts + part["size"], run.after)


def _opened(
    path: Path, data: memoryview, origin: int, headers: Headers, after: int, reading: ChunkReading
) -> Iterator[Chunk]:
    """Chunks of compressed batches, each decompressed once into the buffer of its chunk."""
    room = np.empty(ROOM_BYTES, dtype=np.uint8)
    done: list[int] = []
    ends: list[int] = []
    used = 0

    def chunk() -> Chunk:
        stops = np.array(ends, dtype=np.int64)
        starts = np.concatenate([np.zeros(1, dtype=np.int64), stops[:-1]])
        return Chunk(path, room[:used].data, headers[done], starts, stops, after)

    for index in range(len(headers)):
        codec = int(headers[index]["attributes"]) & CODEC
        position = int(headers[index]["position"])
        at = position - origin
        body = data[at + HEADER_SIZE : at + int(headers[index]["size"])]
        try:
            size = compression.decompress_into(codec, body, room[used:].data)
        except compression.CompressionError:
            if done:
                yield chunk()
            done, ends, used = [], [], 0
            room = np.empty(max(ROOM_BYTES, OUTPUT_BYTES_MAX), dtype=np.uint8)
            try:
                size = compression.decompress_into(codec, body, room.data)
            except compression.CompressionError as error:
                reading.damaged(path, position, position + len(body) + HEADER_SIZE, str(error))
                continue
        used += size
        done.append(index)
        ends.append(used)
    if done:
        yield chunk()
