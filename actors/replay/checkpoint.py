"""The canonical snapshot of a metadata log, made from its files: an older checkpoint and the log behind it.

This file alone decides where each part comes from when no controller runs. The level comes from the log's
FeatureLevelRecords, else from meta.properties; epoch and time from the last batch below the end; the voters from the
newest Voters record. So the bytes are those that a controller writes at that offset (actors/metadata/snapshot.py).

Records beyond the high watermark may still be undone, and the files do not say where the high watermark is. So a
checkpoint that a node will load must end at an offset that was committed.
"""

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from actors.metadata import snapshot
from actors.metadata.dialects import FORMAT, LATEST
from actors.ports import Buffer
from actors.replay.columns.as_of import AsOf, opened
from actors.replay.logs import files
from actors.replay.logs.chunks import ChunkReading
from actors.replay.logs.copies import metadata_log

LEVEL = "rayft.metadata.format"
"""The name in meta.properties of the level that the first leader writes."""


class Compacted(NamedTuple):
    """A snapshot in memory: its parts in order."""

    end_offset: int
    epoch: int
    parts: list[Buffer]

    @property
    def name(self) -> str:
        """The file name that a node gives it."""
        return f"{self.end_offset:020}-{self.epoch:010}.checkpoint"

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(len(part) for part in self.parts)

    def write(self, path: Path) -> Path:
        """Write the snapshot into this file, or under its name into this directory. The file appears whole or not at
        all. Only its owner can read it, since it has credentials and tokens."""
        path = path / self.name if path.is_dir() else path
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # of its owner alone
        try:
            with os.fdopen(descriptor, "wb") as file:
                for part in self.parts:
                    file.write(part)
            return Path(unfinished).replace(path)
        finally:
            Path(unfinished).unlink(missing_ok=True)


def compact(
    path: str | Path, as_of: AsOf = None, family: str | None = None, reading: ChunkReading | None = None
) -> Compacted:
    """The snapshot of everything before `as_of`. Raises ValueError for a log of released Apache Kafka, and as `state`."""
    found = opened(lambda: metadata_log(path), family, reading or ChunkReading(), as_of)
    if found.family != "drafts":
        raise ValueError(
            f"{path} holds released Apache Kafka's records: snapshots are written in the drafts' records only."
        )
    found.run()
    level = found.image.feature(FORMAT) or int(files.property_of(found.log, LEVEL) or LATEST)
    pin = found.image.pin()
    quorum = found.quorum
    parts = list(snapshot.encode(pin, quorum.epoch, level, quorum.timestamp_ms, quorum.voters))
    return Compacted(found.image.next_offset, quorum.epoch, parts)
