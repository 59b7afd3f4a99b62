"""The logs of topics under a path: which topic a name means, and which copies are of it.

This file alone decides that. Two directories of the same name may be of two topics: a node that was down when a topic was
deleted and made again still has the old one. `partition.metadata` has the topic id. Rules:

1. If a name has several ids, the current one is that of the newest metadata log under the path, if there is one.
2. Without one it is the id whose partition.metadata was written last. That is told, as copying a directory may change times.
3. Directories of another id are left out and named in a warning, `OtherTopic`. Those without an id are copies of the current
   topic, as Apache Kafka before 2.8 wrote them.
4. Records of a topic that the metadata under the path do not have are shown, and named in such a warning: a broker that was
   away has not heard that the topic was deleted, or the metadata here are older than the topic. Streams do not ask, since
   metadata are read as a whole for that.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

from actors.replay.columns.as_of import replay
from actors.replay.logs.copies import alike, newest
from actors.replay.logs.files import (
    METADATA,
    PARTITION_METADATA,
    CorruptLog,
    FamilyUnknown,
    NothingToRead,
    Partition,
    partitions,
    topic_id,
)


class OtherTopic(UserWarning):
    """A directory has the name of a topic's partition, and belongs to another topic."""


def topic_logs(path: str | Path, topics: tuple[str, ...] = ()) -> list[Partition]:
    """Logs of topics under a path, only of `topics` if given, the newest copy of each. Raises NothingToRead if one of these
    is missing, or if there is none; FileNotFoundError."""
    found = [one for one in partitions(path) if one.segments and one.topic not in METADATA]
    found = [one for one in found if not topics or one.topic in topics]
    missing = sorted(set(topics) - {one.topic for one in found})
    if missing or not found:
        raise NothingToRead(f"{path} holds no log of {' or '.join(missing) or 'a topic'}.")
    return [newest(copies) for copies in alike(_current(path, found)).values()]


def tell_deleted(path: str | Path, logs: Sequence[Partition]) -> None:
    """Warn of logs whose topic the metadata under a path do not have."""
    known = set(_known(path).values()) if any(log.topic_id for log in logs) else set()
    strange: dict[str, list[Path]] = {}
    for log in logs:
        if known and log.topic_id and log.topic_id not in known:
            strange.setdefault(log.topic, []).append(log.directory)
    for directories in strange.values():
        more = f" (and {len(directories) - 1} more of its partitions)" if len(directories) > 1 else ""
        warnings.warn(
            f"{directories[0]}{more} is of a topic that the metadata under {path} do not have: it was deleted, or they are "
            f"older than it. Its records are shown.",
            OtherTopic,
            stacklevel=3,
        )


def _current(path: str | Path, logs: list[Partition]) -> list[Partition]:
    """The logs without those of topics that only have the same name."""
    logs = [log._replace(topic_id=topic_id(log.directory) or b"") for log in logs]
    ids: dict[str, set[bytes]] = {}
    for log in logs:
        if log.topic_id:
            ids.setdefault(log.topic, set()).add(log.topic_id)
    several = {name for name, of in ids.items() if len(of) > 1}
    if not several:
        return logs
    known = {name: topic for name, topic in _known(path).items() if topic in ids.get(name, ())}
    current = {name: known.get(name) or _last_made([log for log in logs if log.topic == name]) for name in several}
    kept = []
    for log in logs:
        if log.topic in several and log.topic_id and log.topic_id != current[log.topic]:
            warnings.warn(_other(log, log.topic in known), OtherTopic, stacklevel=3)
        else:
            kept.append(log)
    return kept


def _other(log: Partition, known: bool) -> str:
    why = "" if known else "; which topic is the newer one is judged by the time of its partition.metadata"
    return (
        f"{log.directory} is left out: it is of another topic of that name, which was deleted{why}. To see it, give "
        f"that directory."
    )


def _known(path: str | Path) -> dict[str, bytes]:
    """Topic -> id, as the metadata log under the path has them; empty if there is none that can be read."""
    try:
        image = replay(path).image
    except (NothingToRead, CorruptLog, FamilyUnknown):
        return {}
    return {image.topic_name(row): topic for topic, row in image.topic_rows()}


def _last_made(logs: list[Partition]) -> bytes | None:
    """The topic id that was written last."""
    return topic_id(max(logs, key=lambda log: _made_ns(log.directory)).directory)


def _made_ns(directory: Path) -> int:
    try:
        return (directory / PARTITION_METADATA).stat().st_mtime_ns
    except OSError:
        return -1
