"""The interfaces that a host implements, and the few values that cross every layer.

This file alone decides what raft, controller and broker may ask of the outside world: randomness, a disk, files. There
is no clock and no network here: time and messages are *inputs* (`Now`, a frame), and effects are returned values.

Rules:

1. Everything is synchronous and deterministic in the simulator.
2. An append goes into the page cache. Nothing here waits for the disk: durability is an effect (`Sync`), and so are
   cold reads, unlinking and any job that takes over a millisecond (`Work`).
3. A failed sync is final for that file handle: the node stops, and recovers from what is on the disk.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Batch(NamedTuple):
    """One record batch (magic 2) with its place in the log. It is never split.

    Invariant: `base_offset <= last_offset`, and `data` holds exactly one batch whose header says the same.
    """

    base_offset: int
    last_offset: int
    epoch: int
    data: Buffer


class Now(NamedTuple):
    """The time on both clocks, read once a turn. `mono_ms` never goes back: leases and timeouts count on it. `wall_ms`
    is the time of day: timestamps and retention."""

    mono_ms: int
    wall_ms: int


class DiskFull(OSError):
    """The disk has no room. Nothing of the append is kept: the file has its old size. A name that was to change is the old
    one."""

    disk: "Disk | None" = None
    """The disk that has no room; None: it is not known."""


class DiskFailed(OSError):
    """The device has returned an error. It is final for the file handle. The message names the file and the
    position."""

    disk: "Disk | None" = None
    """The disk that has failed, which need not be the one that the caller had in mind; None: it is not known."""


class NotMade(Exception):
    """What makes the content of a small file has raised an error, which the message has. The file is as it was, and the
    disk is sound."""


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
        """The name with which it was opened."""

    @property
    def size(self) -> int:
        """Bytes appended so far, durable or not."""

    @property
    def modified_ms(self) -> int | None:
        """Wall clock time of the last write before it was opened, as the file system has it; None: it is new, or that is not
        known."""

    def append(self, parts: Sequence[Buffer]) -> int:
        """Append all parts in order. Returns the new size. Raises DiskFull (nothing is kept) or DiskFailed, which is also
        raised by every other write where the file is missing."""

    def read(self, position: int, size: int) -> memoryview | None:
        """Up to `size` bytes at `position` (fewer at the end). None: not in memory; use `Work` and `read_cold`."""

    def read_cold(self, position: int, size: int) -> memoryview:
        """The bytes at a position, from the disk. It may block, so it is called at start-up and inside `Work` only.
        Raises DiskFailed."""

    def read_at_rest(self, position: int, size: int) -> memoryview:
        """The bytes at a position, as the device has them now: it neither believes what is in memory nor leaves there
        what it reads, as far as the file system lets it. Inside `Work` only. Raises DiskFailed; FileNotFoundError: the
        file is gone."""

    def overwrite(self, position: int, data: Buffer) -> None:
        """Change bytes below `size` in place: of an index, or where they are to be again what they were."""

    def truncate(self, size: int) -> None:
        """Truncate to `size` bytes."""

    def close(self) -> None:
        """Close the handle. A second call does nothing."""


class Directory(Protocol):
    """The names in a directory, as something that a `Sync` makes durable."""

    @property
    def path(self) -> str:
        """The path of the directory on its disk."""


class Space(NamedTuple):
    """The volume that a log directory lies on, in bytes."""

    total_bytes: int
    usable_bytes: int
    """Free, without what the system keeps back."""


class Disk(Protocol):
    """The disk of one log directory. Paths are relative to it, with forward slashes."""

    departures: int
    """How many names have been renamed or removed."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file. Raises FileNotFoundError unless `create`, which also creates missing parent directories."""

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory; empty when it does not exist."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name exists. Raises DiskFull where the kernel has no memory to say it,
        DiskFailed."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; what had the new name is gone. It is durable after a `Sync` that names its directory.
        Until then a power cut may undo any of the renames, in any order. Raises DiskFull, or DiskFailed, also where nothing
        has the old name: nothing has changed."""

    def directory(self, path: str) -> Directory:
        """The names in a directory, to be named in a `Sync`: what was made, renamed or removed there becomes durable."""

    def settle(self, path: str) -> None:
        """Make the names in a directory durable. Blocks: at start-up, in `Work`, and where the metadata log gives up a
        segment, which is rare. Raises DiskFailed."""

    def remove(self, path: str) -> None:
        """Unlink a file, or a directory with all its content. A missing one is no error. Blocks: at start-up and in
        `Work` only."""

    def space(self) -> Space:
        """The size and the free room of the volume. It reads nothing from the device. Raises DiskFailed."""


class SyncClass(Enum):
    """The purpose of a sync. Classes do not wait for each other: each has its own queue and its own order.

    A file belongs to one class for as long as it exists.
    """

    QUORUM = "quorum"
    """The segments of the metadata log, quorum-state and what is written with it: votes and commits wait for these."""
    DATA = "data"
    """Everything else: partitions, their checkpoints, snapshots of the metadata."""


class Run(NamedTuple):
    """What a sync makes durable beside other runs: the files of one log, say, and the small files that go with them. Nothing
    of a run rests upon another run."""

    files: Sequence[File | Directory]
    """One after the other: none is made durable behind one that could not be."""
    replacements: Sequence[tuple[Disk, str, bytes]]
    """Small files like those of `Sync`, but in any order, and behind the files of all runs."""


Content = bytes | Iterable[Buffer]
"""The content of a small file, or what makes that of a large one piece by piece while it is written, in a thread; once more
where there was no room."""


class Sync(NamedTuple):
    """Make files durable one after the other, then write whole small files in place of old ones, each durable too. What
    rests upon another file is named behind it: none is made durable behind one that could not be.

    `runs` come before that, beside each other: where one fails the others may be done or not, each as far as it came. Then
    nothing is made durable that comes behind them.

    The host answers `done(token, None)` or `done(token, error)`. A DiskFailed comes once and is final. A DiskFull says
    that a small file found no room: the files may be durable or not, and the sync may be repeated. A NotMade says that the
    content of a file could not be made.
    """

    token: int
    files: Sequence[File | Directory]
    replacements: Sequence[tuple[Disk, str, Content]]
    """(disk, path, content), made in order after `files`: written to a temporary name, synced, renamed, directory
    synced. What is made while it is written comes in a sync without anything else, and has no order with others."""
    kind: SyncClass = SyncClass.DATA
    runs: Sequence[Run] = ()
    departures: Sequence[int] | None = None
    """`Disk.departures` of each small file's disk, those of runs first, when the sync was asked for. One whose directory
    has been renamed or removed since is not written, even if another directory has that name now. None: since the host got
    it."""

    def asked(self) -> Sequence[int]:
        """`departures`, or as they are now."""
        return departures(self.replacements, self.runs) if self.departures is None else self.departures


def departures(replacements: Sequence[tuple["Disk", str, Content]], runs: Sequence[Run]) -> list[int]:
    """`Disk.departures` of each small file's disk, those of runs first."""
    found = [disk.departures for run in runs for disk, _, _ in run.replacements]
    return [*found, *(disk.departures for disk, _, _ in replacements)]


class WorkKind(enum.Enum):
    """The threads that run a job. Jobs for clients never delay the node's own work."""

    DISK = "disk"
    """Cold reads, unlinking, encoding of snapshots."""
    RECORDS = "records"
    """Decompression: searches by time, checks of what is produced."""
    TELEMETRY = "telemetry"
    """Reading what clients push about themselves: a producer never waits for it."""
    CLEANING = "cleaning"
    """The compaction of logs."""


class Download(NamedTuple):
    """Fetch a small document. The host answers `done(token, bytes)` or `done(token, exception)`, whose text says why in a
    few words."""

    token: int
    url: str
    """`file://`, `http://` or `https://`"""
    trusted: str
    """PEM file with the certificates by which an https server is trusted. Empty: those of the system."""
    bytes_max: int


Owner = tuple[str, int]
"""The peer for which a job runs: host and connection. Hosts take turns, and so do the connections of a host."""


class More(NamedTuple):
    """The result of a job that has done a slice and must be called again."""

    held_bytes: int
    """The memory that it holds until then."""


class Work(NamedTuple):
    """A job for a thread: cold read, unlink, snapshot encoding, decompression. It has no side effects on the node, or
    runs without the GIL.

    It is called again as long as it returns `More`. The host answers `done(token, result)` or `done(token, exception)`.
    """

    token: int
    job: Callable[[], object]
    kind: WorkKind = WorkKind.DISK
    owner: Owner | None = None
    """The peer whose turn the job takes; None: the job is the node's own."""


def to_end(job: Callable[[], object]) -> object:
    """Run all slices of a job, for a host that has no threads."""
    while isinstance(result := job(), More):
        pass
    return result
