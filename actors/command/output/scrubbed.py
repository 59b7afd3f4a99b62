"""`rayft scrub`: what is damaged in the log directories of brokers, read and told, nothing changed.

This file alone decides what is read of a directory of which no broker says what it holds. Rules:

1. Of each partition all segments but the last one, which may be written to: a broker may run meanwhile. What it removes
   under the reading is no fault.
2. A log has gaps where the checkpoint of the cleaner names it. Its epochs are those of its own file, if that can be read.
3. The file of epochs, the name and the indexes of aborted transactions are only checked for what they say themselves: what
   they ought to say a broker knows, which has the log open (`node/roles/broker/log/scrubber.py`).
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from actors.broker.log.directories.checkpoints import (
    CLEANED_OFFSETS,
    LEADER_EPOCHS,
    LOG_STARTS,
    CorruptCheckpoint,
    parse_offsets,
)
from actors.broker.log.directories.directory import METADATA_LOGS, PARTITION_METADATA, parse_name, read_topic_id
from actors.broker.log.leader_epochs import EpochCache
from actors.broker.log.producer_snapshots import SNAPSHOT
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX
from actors.broker.log.scrubbing import SegmentScrub, SmallFiles
from actors.broker.log.segment import LOG
from actors.host.work.disk import LocalDisk
from actors.ports import DiskFailed


class Scrubbed(NamedTuple):
    """The result of scrubbing one directory."""

    segments: int
    bytes: int
    faults: int


def directories(path: Path) -> list[Path]:
    """The log directories below a path: itself, or those of the nodes of a cluster. Raises ValueError if there is
    none."""
    found = [one.parent for one in sorted([*path.glob("meta.properties"), *path.glob("*/**/meta.properties")])]
    if not found:
        raise ValueError(f"{path} has no log directory: name one, or the directory of a cluster (--dir).")
    return found


def scrub(path: Path, out: TextIO) -> Scrubbed:
    """Read one log directory, and print what is damaged. Raises DiskFailed."""
    disk = LocalDisk(str(path.absolute()))
    segments = read = faults = 0
    cleaned, starts = _offsets(disk, CLEANED_OFFSETS), _offsets(disk, LOG_STARTS)
    for name in disk.names(""):
        parsed = parse_name(name)
        if parsed is None or parsed[2] or parsed[0] in METADATA_LOGS:
            continue
        place, epochs = (parsed[0], parsed[1]), _epochs(disk, name)
        told = set(_small(disk, name, epochs))
        for one in _segments(disk, name, cleaned.get(place, -1) >= 0, starts.get(place, 0), epochs):
            try:
                while not one.done:
                    read += one.step()
            except FileNotFoundError:
                continue
            segments += 1
            told.update(
                f"{fault.path} at byte {fault.position}: {fault.size} bytes, offsets {fault.first_offset} to "
                f"{fault.next_offset - 1}: {fault.reason}"
                for fault in one.faults
                if fault.next_offset > starts.get(place, 0)
            )
            told.update(f"{one.path(ending)}: {why}" for ending, why in one.index_faults.items())
        for line in sorted(told):
            out.write(f"{path}/{line}\n")
        faults += len(told)
    out.write(f"{path}: {segments} sealed segments, {read} bytes read, {faults} faults\n")
    return Scrubbed(segments, read, faults)


def _segments(
    disk: LocalDisk, name: str, sparse: bool, start_offset: int, epochs: EpochCache | None
) -> Iterator[SegmentScrub]:
    files = disk.names(name)
    bases = sorted(int(one[:20]) for one in files if one[:20].isdecimal() and one[20:] == LOG)
    table = ((), ()) if epochs is None else (epochs.epochs, epochs.starts)
    for base, end in itertools.pairwise(bases):
        if end <= start_offset:
            continue
        try:
            log = disk.open(f"{name}/{base:020d}{LOG}")
        except FileNotFoundError:
            continue
        aborted = f"{base:020d}{TRANSACTION_INDEX}" in files
        try:
            yield SegmentScrub(
                disk,
                name,
                base,
                end,
                log,
                sparse=sparse,
                start_offset=start_offset,
                epochs=table,
                transactions=aborted,
            )
        finally:
            log.close()


def _small(disk: LocalDisk, name: str, epochs: EpochCache | None) -> Iterator[str]:
    files = disk.names(name)
    if LEADER_EPOCHS in files and epochs is None:
        yield f"{name}/{LEADER_EPOCHS}: it cannot be read"
    if PARTITION_METADATA in files and read_topic_id(disk, name) is None:
        yield f"{name}/{PARTITION_METADATA}: it does not say of which topic these files are"
    snapshots = tuple(int(one[:20]) for one in files if one[:20].isdecimal() and one[20:] == SNAPSHOT)
    for fault in SmallFiles(disk, name, None, None, snapshots).read()[0]:
        if disk.exists(fault.path):
            yield f"{fault.path}: {fault.reason}"


def _epochs(disk: LocalDisk, name: str) -> EpochCache | None:
    try:
        file = disk.open(f"{name}/{LEADER_EPOCHS}")
    except FileNotFoundError:
        return None
    try:
        return EpochCache.parse(file.read_cold(0, file.size))
    except (CorruptCheckpoint, FileNotFoundError):
        return None
    finally:
        file.close()


def _offsets(disk: LocalDisk, path: str) -> dict[tuple[str, int], int]:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return {}
    try:
        return parse_offsets(file.read_cold(0, file.size))
    except (CorruptCheckpoint, DiskFailed):
        return {}
    finally:
        file.close()
