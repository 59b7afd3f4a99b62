"""Which files are read, and what they are: segments and checkpoints of a metadata log, segments of topics.

This file alone decides two things. First, what a path means: a file, or the directory of a partition, a node or a
cluster, and which of a directory's files are its log: those that a node would have after its next start. Which of several
copies of a log is the log is decided in `copies.py`. Second, which family of records a metadata file holds (DESIGN, section
6). That is decided by the option, then meta.properties, then the directory's name (A09), then the first byte of data at
the beginning of the log or in a checkpoint. A single segment that begins later than at offset 1 needs the option, else
FamilyUnknown is raised.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastpath.bytes.mapped_file import MappedFile
from fastpath.records import batch
from fastpath.records.scan import resync, scan

METADATA = {"__kafka_metadata": "drafts", "__cluster_metadata": "released"}
"""Name of the metadata topic -> family."""
FIRST_BYTE = {0x0C: "drafts", 0x01: "released"}
"""The first byte of the first data record -> family: a FeatureLevelRecord without a frame, or a frame of version 1."""
BOOTSTRAP = "bootstrap.checkpoint"
QUORUM_STATE = "quorum-state"
"""The file beside a metadata log in which a node notes the epoch and its leader."""
PARTITION_METADATA = "partition.metadata"
"""The file in a partition's directory that says of which topic it is."""
ID_BYTES = 16
Headers = NDArray[np.void]
"""Headers of batches, as `scan` gives them."""
LOOK_BYTES = 16 << 20
"""How many bytes of a file are read between two checks whether it was truncated."""
TRIES = 5
"""How often a directory is listed again: a file can vanish between its listing and its opening."""
T = TypeVar("T")

_SEGMENT = re.compile(r"(\d{20})\.log")
_SWAP = re.compile(r"(\d{20})\.log\.swap")
"""The name of a segment that a log cleaner has written whole and that takes the place of all that begin inside it:
until it has its own name, it may be the only copy of its records."""
_CLEANED = re.compile(r"(\d{20})\.log\.cleaned")
"""The name of a segment that is being written by a cleaner. Apache Kafka may split a segment into several: from the
first of these on none counts."""
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_ASIDE = r"\.[0-9a-f]{32}-(?:delete|future|stray)"
"""The end of a directory's name that says that it holds no partition any more, or not yet."""
_DIRECTORY = re.compile(rf"(.+)-(\d+)(?:{_ASIDE})?")
_SET_ASIDE = re.compile(rf".+{_ASIDE}")


class CorruptLog(ValueError):
    """Bytes that cannot be read. The message names the file and the position of the batch."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}, byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class FamilyUnknown(ValueError):
    """The family of records in a metadata file cannot be found out."""


class NothingToRead(ValueError):
    """The path holds no log and no checkpoint."""


class FileTruncated(ValueError):
    """A file was truncated while it was read, and what was read of it cannot be told from what was cut off."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was truncated while it was read, as a running node may do: read it again.")


class Damage(NamedTuple):
    """Bytes that were skipped: `[position, end)` of a file."""

    path: str
    position: int
    end: int
    reason: str


class Segment(NamedTuple):
    """One log file of a partition. `next_offset`: base offset of the next segment, -1 for the last."""

    path: Path
    base_offset: int
    next_offset: int = -1


class Checkpoint(NamedTuple):
    """A snapshot of the metadata: everything below `end_offset`."""

    path: Path
    end_offset: int
    epoch: int


class Partition(NamedTuple):
    """The log of one partition: segments and checkpoints by offset."""

    topic: str
    number: int
    segments: tuple[Segment, ...]
    checkpoints: tuple[Checkpoint, ...]
    topic_id: bytes = b""
    """What its directory said when it was listed; empty: not known, or not asked."""

    @property
    def metadata(self) -> bool:
        """Whether its records are the cluster's metadata: by its name or its checkpoints."""
        return self.topic in METADATA or bool(self.checkpoints)

    @property
    def named(self) -> bool:
        """Whether its directory is named as a partition's is."""
        return _DIRECTORY.fullmatch(self.files[0].parent.name) is not None

    @property
    def directory(self) -> Path:
        """The directory in which its files lie."""
        return self.files[0].parent

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, checkpoints first."""
        return (*(one.path for one in self.checkpoints), *(one.path for one in self.segments))


def partitions(path: str | Path) -> list[Partition]:
    """The partitions under a path, by topic and number. Raises NothingToRead, FileNotFoundError."""
    path = Path(os.path.abspath(path))  # so that `.` has a name, and a split can be read from any directory
    if path.is_file():
        found = [_of_file(path)]
    elif not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    else:
        found = list(_of_directory(path)) or [one for child in _children(path) for one in _of_directory(child)]
        if not found:  # a cluster's directory: the nodes are below it
            found = [one for node in _children(path) for child in _children(node) for one in _of_directory(child)]
    if not found:
        raise NothingToRead(f"{path} holds no log and no checkpoint: give a file, a partition's or a node's directory.")
    return sorted(found, key=lambda one: (one.topic, one.number))


def repeated(look: Callable[[], T]) -> T:
    """The result of `look`, which lists files and opens them, and is repeated if one vanished in between, through retention
    or compaction. Raises FileNotFoundError when that goes on."""
    for _ in range(TRIES - 1):
        try:
            return look()
        except FileNotFoundError:
            pass
    try:
        return look()
    except FileNotFoundError as error:
        if error.filename is None:
            raise
        raise FileNotFoundError(
            f"{error.filename} is gone, which was there when its log was listed: read it again."
        ) from None


def behind(path: Path) -> int:
    """The offset after the last batch of a file, -1 if there is none. Headers are read, CRCs are not checked, damage is
    skipped."""
    data, position, end = mapped(path), 0, -1
    while position < (stop := still_there(data)):
        headers, position, fault = scan(data, position, stop, False, bytes_max=LOOK_BYTES)
        end = int(headers[-1]["last_offset"]) + 1 if len(headers) else end
        position = position if fault is None else resync(data, position + 1, stop)
    return end


def _children(path: Path) -> list[Path]:
    """The directories in this one, except those that a node has set aside."""
    return sorted(child for child in path.iterdir() if child.is_dir() and not _SET_ASIDE.fullmatch(child.name))


def _of_file(path: Path) -> Partition:
    directory = _DIRECTORY.fullmatch(path.parent.name)
    topic, number = (directory[1], int(directory[2])) if directory else (path.parent.name, 0)
    checkpoint = _CHECKPOINT.fullmatch(path.name)
    if checkpoint or path.name == BOOTSTRAP:
        end, epoch = (int(checkpoint[1]), int(checkpoint[2])) if checkpoint else (0, 0)
        return Partition(topic, number, (), (Checkpoint(path, end, epoch),))
    segment = _SEGMENT.fullmatch(path.name)
    return Partition(topic, number, (Segment(path, int(segment[1]) if segment else -1),), ())


def _of_directory(path: Path) -> Iterator[Partition]:
    """The partition in this directory, if it is a partition's."""
    directory = _DIRECTORY.fullmatch(path.name)
    names = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
    found = [(int(match[1]), path / name) for name in names if (match := _SEGMENT.fullmatch(name))]
    checkpoints = tuple(
        Checkpoint(path / name, int(match[1]), int(match[2]))
        for name in names
        if (match := _CHECKPOINT.fullmatch(name))
    )
    found = _swapped(path, names, found)
    if not (found or checkpoints):
        return
    following = [*(base for base, _ in found[1:]), -1][: len(found)]
    segments = tuple(Segment(file, base, after) for (base, file), after in zip(found, following, strict=True))
    yield Partition(
        directory[1] if directory else path.name, int(directory[2]) if directory else 0, segments, checkpoints
    )


def _swapped(directory: Path, names: list[str], found: list[tuple[int, Path]]) -> list[tuple[int, Path]]:
    """The segments as a node would have them after its next start, which ends what a crash has left of a cleaning. Raises
    FileNotFoundError if a file gets its name just now."""
    written = min((int(match[1]) for name in names if (match := _CLEANED.fullmatch(name))), default=None)
    for name in names:
        match = _SWAP.fullmatch(name)
        if match and (written is None or int(match[1]) < written):
            base, path = int(match[1]), directory / name
            end = max(behind(path), base + 1)
            found = [one for one in found if not base <= one[0] < end] + [(base, path)]
    return sorted(found)


# ---- families -----------------------------------------------------------------------------------------------------


def family(log: Partition, given: str | None = None) -> str:
    """`drafts` or `released`, decided as the module docstring says. Raises FamilyUnknown, CorruptLog for a file that is
    no log, ValueError for a family that does not exist."""
    if given is not None:
        if given not in FIRST_BYTE.values():
            raise ValueError(f"there is no family {given!r}: write drafts or released.")
        return given
    found = property_of(log, "rayft.metadata.family")
    if found in FIRST_BYTE.values():
        return str(found)
    directory = _DIRECTORY.fullmatch(log.files[0].parent.name)
    if directory and directory[1] in METADATA:
        return METADATA[directory[1]]
    for file in log.files:
        first = first_byte(file)
        if first in FIRST_BYTE:
            return FIRST_BYTE[first]
    data = mapped(log.files[0])
    headers, position, fault = scan(data, 0, len(data), False, 1)
    if fault is not None and not len(headers):
        raise CorruptLog(str(log.files[0]), position, fault)
    raise FamilyUnknown(
        f"nothing says whether {log.files[0]} was written by Apache Kafka or by rayft: "
        f"give the family, released or drafts."
    )


def leader_of(log: Partition, epoch: int) -> int:
    """The leader of an epoch of the quorum, if the node of this directory has noted it; -1: it has not."""
    try:
        state = json.loads((log.directory / QUORUM_STATE).read_bytes())
        return int(state["leaderId"]) if int(state["leaderEpoch"]) == epoch else -1
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return -1


def property_of(log: Partition, name: str) -> str | None:
    """A value from the meta.properties of the directory in which a log lies."""
    folder = log.files[0].parent
    return _property(folder.parent / "meta.properties", name) or _property(folder / "meta.properties", name)


def _property(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text("latin-1").split("\n")
    except OSError:
        return None
    values = [line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == name]
    return values[-1] if values else None


def topic_id(directory: Path) -> bytes | None:
    """The topic id in a directory's partition.metadata, 16 bytes; None if it is missing or unreadable."""
    try:
        text = (directory / PARTITION_METADATA).read_text("latin-1")
    except OSError:
        return None
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            try:
                found = base64.urlsafe_b64decode(value.strip() + "==")
            except (ValueError, binascii.Error):
                return None
            return found if len(found) == ID_BYTES else None
    return None


def first_byte(path: Path) -> int:
    """The first byte of the first data record at the beginning of a log or in a checkpoint; -1 elsewhere, where it says
    nothing."""
    data = mapped(path)
    if len(data) == 0:
        return -1
    checkpoint = path.name.endswith(".checkpoint")
    headers, _, _ = scan(data, 0, len(data), False, 4096)
    if not checkpoint and (not len(headers) or headers[0]["base_offset"] > 1):  # 0 announces the first leader
        return -1
    for one in headers:
        if not one["attributes"] & 0x20:
            try:
                for record in batch.records(data, int(one["position"])):
                    return record.value[0] if record.value else -1
            except batch.CorruptBatch:
                return -1
    return -1


def mapped(path: Path) -> memoryview:
    """The bytes of a file, mapped and read ahead of use. They stay what they are when another file gets the name."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return memoryview(MappedFile(file.fileno(), size) if size else b"")


def still_there(data: memoryview) -> int:
    """How many bytes of a mapped file exist now: a node may truncate it."""
    return min(len(data), data.obj.file_size()) if isinstance(data.obj, MappedFile) else len(data)


def refuse_missing(path: Path, data: memoryview) -> None:
    """Raise FileTruncated if pages of a mapped file were looked at that were not there any more. They read as zeros, so
    what was found in the file may not be true."""
    if isinstance(data.obj, MappedFile) and data.obj.missing:
        raise FileTruncated(path)


def bytes_of(data: memoryview) -> np.ndarray:  # type: ignore[type-arg]
    """The bytes of a mapped file as a numpy array, without a copy."""
    return np.frombuffer(data, dtype=np.uint8)
