"""What a host supplies, and the few values that cross every layer.

This file alone decides what the machines may ask of the outside world: randomness, a disk, files. There is no clock and
no network here: time and messages are *inputs* (`Now`, a frame), and effects are values that a machine returns.

Rules:

1. Everything is synchronous and deterministic in the simulator.
2. An append goes into the page cache. Nothing here waits for the disk: durability is an effect (`Sync`), and so are cold
   reads, unlinking and any job over a millisecond (`Work`).
3. A failed sync is final for that file handle: the node stops and recovers from what is on the disk.
"""

import enum
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Batch(NamedTuple):
    """One record batch (magic 2) with its place in the log. Never split.

    Invariant: `base_offset <= last_offset`, and `data` holds exactly one batch whose header says the same.
    """

    base_offset: int
    last_offset: int
    epoch: int
    data: Buffer


class Now(NamedTuple):
    """Both clocks, read once a turn.

    `mono_ms` never goes back: leases and timeouts count on it. `wall_ms` is the time of day: timestamps and retention.
    """

    mono_ms: int
    wall_ms: int


class DiskFull(OSError):
    """No room. Nothing of the append is kept: the file has the size that it had before."""


class DiskFailed(OSError):
    """The device answered with an error. Final for the file handle; names the file and the position."""


class Random(Protocol):
    """Randomness as an input, so that a seed decides everything in the simulator."""

    def below(self, n: int) -> int:
        """An integer in `[0, n)`."""

    def uuid(self) -> bytes:
        """16 bytes, a version-4 uuid that is never one of Kafka's reserved ids and never starts with '-' in base64."""


class File(Protocol):
    """An append-only file in the page cache."""

    @property
    def path(self) -> str:
        """The name it was opened with."""

    @property
    def size(self) -> int:
        """Bytes appended so far, durable or not."""

    def append(self, parts: Sequence[Buffer]) -> int:
        """Append all parts in order; the new size. Raises DiskFull (nothing kept) or DiskFailed."""

    def read(self, position: int, size: int) -> memoryview | None:
        """Up to `size` bytes at `position` (fewer at the end). None: not in memory, ask with `Work` and `read_cold`."""

    def read_cold(self, position: int, size: int) -> memoryview:
        """The same, from the disk; may block, so it is called at start-up and inside `Work` only. Raises DiskFailed."""

    def overwrite(self, position: int, data: Buffer) -> None:
        """Change bytes below `size` in place. Only for index files."""

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""

    def close(self) -> None:
        """Give the handle back. Idempotent."""


class Disk(Protocol):
    """One log directory. Paths are relative to it, with forward slashes."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Raises FileNotFoundError unless `create`; creates missing parent directories when `create`."""

    def names(self, path: str) -> list[str]:
        """Sorted names in a directory; empty when it does not exist."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name exists."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; durable after a `Sync` that names its directory."""

    def remove(self, path: str) -> None:
        """Unlink a file, or a directory with all that is in it. Missing is fine. Blocking: start-up and `Work` only."""


class SyncClass(Enum):
    """Who waits for a sync. Classes do not wait for each other: each has its own queue and its own order.

    A file belongs to one class for as long as it exists.
    """

    QUORUM = "quorum"
    """The segments of the metadata log, quorum-state and what is written with it: votes and commits wait for these."""
    DATA = "data"
    """Everything else: partitions, their checkpoints, snapshots of the metadata."""


class Sync(NamedTuple):
    """Make files durable, then write whole small files in place of old ones, each durable too.

    Answered by `done(token, None)`, or `done(token, error)` with a DiskFailed, once and final, or with a DiskFull when a
    small file found no room: the files may be durable or not, and it may be asked for again.
    """

    token: int
    files: Sequence[File]
    replacements: Sequence[tuple[Disk, str, bytes]]
    """(disk, path, content): written to a temporary name, synced, renamed, directory synced; in order, after `files`."""
    kind: SyncClass = SyncClass.DATA


class WorkKind(enum.Enum):
    """Whose threads a job runs on. What clients ask for never delays the node's own work."""

    DISK = "disk"
    """Cold reads, unlinking, encoding of snapshots."""
    RECORDS = "records"
    """Decompression: searches by time, checks of what is produced."""
    CLEANING = "cleaning"
    """Compaction of logs."""


Owner = tuple[str, int]
"""Who asked for a job: host and connection. Hosts take turns, and so do the connections of a host."""


class More(NamedTuple):
    """What a job returns that has done a slice and wants to be called again."""

    held_bytes: int
    """Memory that it holds until then."""


class Work(NamedTuple):
    """A job for a thread: cold read, unlink, snapshot encoding, decompression. Pure, or without the GIL.

    Called again as long as it returns `More`. Answered by `done(token, result)`, or `done(token, exception)`.
    """

    token: int
    job: Callable[[], object]
    kind: WorkKind = WorkKind.DISK
    owner: Owner | None = None
    """None: nobody, and no turn is shared."""


def to_end(job: Callable[[], object]) -> object:
    """All slices of a job, for a host that has no threads."""
    while isinstance(result := job(), More):
        pass
    return result
