"""A log directory: the names in it, and the small files beside the partitions.

This file alone knows Apache Kafka's names:

    <topic>-<partition>/                        a partition's log
    <topic>-<partition>.<32 hex digits>-delete  a deleted one, to be unlinked (`-stray`: its topic is not known)
    <topic>-<partition>.<32 hex digits>-future  a replica on its way here from another directory of this broker (KIP-113)
    <partition>/partition.metadata              "version: 0", "topic_id: <base64url>", no newline at the end; rayft adds
                                                "instance: <number>", which Apache Kafka does not read
    <partition>/leaving, <partition>/arrived    "version: 0", "move: <32 hex digits>": this replica is about to be, or has
                                                been, moved by that move; `arrived` also says by which moves before that,
                                                in "earlier: <32 hex digits> ...". Of two copies with the same move the one
                                                that has arrived counts. Files of rayft's own
    .kafka_cleanshutdown                        written after the last flush of a clean stop, removed at the start
    four checkpoints, and one of rayft's own   see checkpoints.py
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from actors.broker.log.directories.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TOPIC_IDS,
    CorruptCheckpoint,
    Partition,
    T,
    encode_ids,
    encode_offsets,
    identity,
    instance_of,
    parse_ids,
    parse_offsets,
)
from actors.ports import Disk

METADATA_LOGS = ("__kafka_metadata", "__cluster_metadata")
"""The directories of the quorum in the first log directory, in the drafts' and in the released form."""
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LEAVING, ARRIVED = "leaving", "arrived"
STRAY, FUTURE = "stray", "future"
SUFFIXES = ("delete", STRAY, FUTURE)
NAME_BYTES_MAX = 255
MOVES_MAX = 100
"""How many moves `arrived` names."""

Replacement = tuple[Disk, str, bytes]
"""(disk, path, content), as `ports.Sync` takes them."""


class PartitionDirectory(NamedTuple):
    """One directory that holds, or held, a partition."""

    name: str
    topic: str
    number: int
    suffix: str
    """Empty, or one of SUFFIXES; then `topic` may be cut to fit a name."""
    topic_id: bytes | None
    """16 bytes; None when partition.metadata is missing or unreadable."""
    instance: int = 0
    """Which of the logs of this log directory it is (`checkpoints.py`); 0: the file does not say."""


class Checkpointed(NamedTuple):
    """The offsets of one partition in the checkpoints; zeros if they are missing."""

    recovery_point: int
    high_watermark: int
    log_start_offset: int
    cleaned_offset: int
    """The offset below which the log was clean; -1: the checkpoints do not say."""


class LogDirectory:
    """The content of a log directory's small files at the start."""

    __slots__ = (
        "_ids", "_instances", "_written_cleaned", "_written_ids", "broker_epoch", "clean", "cleaned_offsets", "disk",
        "faults", "high_watermarks", "log_starts", "recovery_points",
    )  # fmt: skip

    def __init__(self, disk: Disk) -> None:
        """Reads the checkpoints and removes the mark of a clean stop. Start-up only. Raises DiskFailed."""
        self.disk = disk
        self.faults: list[str] = []
        """Sentences about files that could not be read."""
        self.clean = disk.exists(CLEAN_SHUTDOWN)
        """Whether the last stop was clean, so that the logs need no scan."""
        self.broker_epoch = self._clean_epoch() if self.clean else -1
        """The broker epoch of the last clean stop; -1: unknown."""
        self.recovery_points = self._read(RECOVERY_POINTS, parse_offsets)
        self.high_watermarks = self._read(HIGH_WATERMARKS, parse_offsets)
        self.log_starts = self._read(LOG_STARTS, parse_offsets)
        self.cleaned_offsets = self._read(CLEANED_OFFSETS, parse_offsets)
        self._written_cleaned: Mapping[Partition, int] = self.cleaned_offsets
        """The offsets of cleaned logs that were last given to be written."""
        self._ids = self._read(TOPIC_IDS, parse_ids) if disk.exists(TOPIC_IDS) else None
        """The topics to which the three files belong; None: there is no such file."""
        self._written_ids = self._ids
        """The topic ids that were last given to be written."""
        self._instances = max(map(instance_of, (self._ids or {}).values()), default=0)
        """The highest instance that a log has here, or had when the checkpoints were written."""
        disk.remove(CLEAN_SHUTDOWN)

    def _clean_epoch(self) -> int:
        try:
            return int(json.loads(_content(self.disk, CLEAN_SHUTDOWN))["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            return -1

    def _read(self, path: str, parse: Callable[[bytes], dict[Partition, T]]) -> dict[Partition, T]:
        if not self.disk.exists(path):
            return {}
        try:
            return parse(_content(self.disk, path))
        except CorruptCheckpoint as fault:
            self.faults.append(f"{path} is not used: {fault}.")
            return {}

    def partitions(self) -> list[PartitionDirectory]:
        """Every directory of a partition, by name. Other names (such as the metadata log) are left out. So is an entry
        with such a name that holds no file: it is a user's own file, or has no data of a topic."""
        found = []
        for name in self.disk.names(""):
            parsed = parse_name(name)
            if parsed is None or parsed[0] in METADATA_LOGS:
                continue
            topic_id, instance = read_identity(self.disk, name)
            self._instances = max(self._instances, instance)
            if topic_id is not None or parsed[2] or self.disk.names(name):
                found.append(PartitionDirectory(name, *parsed, topic_id, instance))
        return found

    @property
    def instances(self) -> int:
        """The highest instance that a log has, or had, here."""
        return self._instances

    def next_instance(self, above: int = 0) -> int:
        """A new instance, above that one, for a log that begins here now."""
        self._instances = max(self._instances, above) + 1
        return self._instances

    def checkpointed(self, partition: Partition, topic_id: bytes, instance: int = 0) -> Checkpointed:
        """The checkpointed offsets of this log; zeros if they belong to another topic of the same name, or to an
        earlier log of this topic."""
        if self._ids is not None and self._ids.get(partition) != identity(topic_id, instance):
            return Checkpointed(0, 0, 0, -1)
        return Checkpointed(
            self.recovery_points.get(partition, 0),
            self.high_watermarks.get(partition, 0),
            self.log_starts.get(partition, 0),
            self.cleaned_offsets.get(partition, -1),
        )

    @property
    def names_logs(self) -> bool:
        """Whether the checkpoints say which logs they are of: rayft has written them, all at one time."""
        return self._ids is not None

    @property
    def used(self) -> bool:
        """Whether a broker has ever written its checkpoints here."""
        return self._ids is not None or self.disk.exists(HIGH_WATERMARKS)

    def had(self, partition: Partition, topic_id: bytes) -> bool:
        """Whether the checkpoints say that a replica of that topic had records here, or is known to be lost."""
        if self._ids is None or self._ids.get(partition, b"")[:16] != topic_id:
            return False
        return self.high_watermarks.get(partition, 1) > 0 or self.recovery_points.get(partition, 1) > 0

    def checkpoints(
        self,
        recovery_points: Mapping[Partition, int],
        high_watermarks: Mapping[Partition, int],
        log_starts: Mapping[Partition, int],
        topic_ids: Mapping[Partition, bytes],
        cleaned: Mapping[Partition, int] | None = None,
    ) -> list[Replacement]:
        """The files with these contents, for a sync that keeps their order; a log start of 0 need not be listed. `cleaned`
        comes first and the ids last, each only if it is other than the last time."""
        files = []
        if cleaned is not None and cleaned != self._written_cleaned:
            # First: what lies below a recovery point is not looked at again, so a log must be known by then to have gaps.
            self._written_cleaned = dict(cleaned)
            files.append((self.disk, CLEANED_OFFSETS, encode_offsets(cleaned)))
        files += [
            (self.disk, RECOVERY_POINTS, encode_offsets(recovery_points)),
            (self.disk, HIGH_WATERMARKS, encode_offsets(high_watermarks)),
            (self.disk, LOG_STARTS, encode_offsets(log_starts)),
        ]
        if topic_ids != self._written_ids:
            self._written_ids = dict(topic_ids)
            files.append((self.disk, TOPIC_IDS, encode_ids(topic_ids)))
        return files

    def forget_written(self) -> None:
        """The files that `checkpoints` returned may not have been written: next time it returns all of them."""
        self._written_ids = None
        self._written_cleaned = {("", -1): 0}

    def clean_shutdown(self, broker_epoch: int) -> Replacement:
        """The mark of a clean stop, for the sync after every log's last flush is done."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        return self.disk, CLEAN_SHUTDOWN, content.encode()


def partition_name(topic: str, number: int) -> str:
    """The directory of a partition."""
    return f"{topic}-{number}"


def parse_name(name: str) -> tuple[str, int, str] | None:
    """(topic, number, suffix) of a directory's name; None when it is no partition's."""
    suffix = ""
    if "." in name:
        stem, _, tail = name.rpartition(".")
        unique, _, ending = tail.partition("-")
        if ending in SUFFIXES and len(unique) == 32:
            name, suffix = stem, ending
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdecimal():
        return None
    return topic, int(number), suffix


def retired_name(topic: str, number: int, suffix: str, unique: bytes) -> str:
    """The name that a partition's directory gets before it is unlinked. `unique`: 16 bytes that no other directory
    has."""
    tail = f"-{number}.{unique.hex()}-{suffix}"
    return topic[: NAME_BYTES_MAX - len(tail)] + tail


def future_name(topic: str, number: int, unique: bytes) -> str | None:
    """The directory of a replica on its way, `unique` as for `retired_name`; None: the topic's name leaves no room."""
    name = f"{topic}-{number}.{unique.hex()}-{FUTURE}"
    return name if len(name) <= NAME_BYTES_MAX else None


def move_mark(unique: str, earlier: Sequence[str] = ()) -> bytes:
    """The content of `leaving` and `arrived`. `unique`: as in the name of the future log. `earlier`: those of the moves
    before it, the last one first."""
    more = f"\nearlier: {' '.join(earlier)}" if earlier else ""
    return f"version: 0\nmove: {unique}{more}".encode()


def move_of(future: str) -> str:
    """The 32 digits in the name of a future log."""
    return future.rpartition(".")[2][:32]


def read_moves(disk: Disk, directory: str, mark: str) -> list[str]:
    """The moves that LEAVING or ARRIVED names in a partition's directory, the last one first; none: it is missing or
    unreadable. Start-up only."""
    try:
        lines = _content(disk, f"{directory}/{mark}").decode().split("\n")
        values = dict(line.split(": ", 1) for line in lines if line)
        return [values["move"], *values.get("earlier", "").split()] if values.get("version") == "0" else []
    except (FileNotFoundError, ValueError, KeyError):
        return []


def write_identity(disk: Disk, directory: str, topic_id: bytes, instance: int = 0) -> None:
    """partition.metadata of a partition, if it has none. Raises DiskFull, DiskFailed."""
    path = f"{directory}/{PARTITION_METADATA}"
    file = disk.open(path, create=True)
    try:
        if not file.size:
            file.append((identity_text(topic_id, instance),))
    finally:
        file.close()


def identity_text(topic_id: bytes, instance: int) -> bytes:
    """The content of partition.metadata."""
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=")
    return b"version: 0\ntopic_id: " + text + (b"\ninstance: %d" % instance if instance else b"")


def read_topic_id(disk: Disk, directory: str) -> bytes | None:
    """The topic id in partition.metadata, 16 bytes; None when it is missing or unreadable. Start-up only."""
    return read_identity(disk, directory)[0]


def read_identity(disk: Disk, directory: str) -> tuple[bytes | None, int]:
    """Topic id and instance in partition.metadata; (None, 0) when it is missing or unreadable. Start-up only."""
    try:
        lines = _content(disk, f"{directory}/{PARTITION_METADATA}").decode().split("\n")
        values = dict(line.split(": ", 1) for line in lines if line)
        topic_id = base64.urlsafe_b64decode(values["topic_id"] + "==")
        instance = int(values.get("instance", 0))
    except (FileNotFoundError, ValueError, KeyError):
        return None, 0
    sound = len(topic_id) == 16 and values.get("version") == "0" and 0 <= instance < 1 << 63
    return (topic_id, instance) if sound else (None, 0)


def _content(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return bytes(file.read_cold(0, file.size))
    finally:
        file.close()
