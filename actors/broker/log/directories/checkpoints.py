"""Apache Kafka's checkpoint files: a version line "0", a line with the number of entries, then one entry a line.

This file alone knows that form. One log directory has four of them with entries "topic partition offset":
`recovery-point-offset-checkpoint` (everything below is on the disk), `replication-offset-checkpoint` (high watermarks),
`log-start-offset-checkpoint` (where deletion of records has come to) and `cleaner-offset-checkpoint` (how far a compacted
log is clean; where there is no such log there is no such file). They are written whole, by replacement.

They name a topic and not its id, so after a crash an entry may be of a deleted namesake. rayft keeps a fifth file in the
same form, `topic-id-checkpoint` with entries "topic partition id", and replaces it last: an entry of the others counts
where this one has the id of the partition's directory. Apache Kafka has no such file, and where it is missing all count.

A topic's id is not enough either: a replica may be moved away and back, or be given up and fetched anew, and its successor
has the same id. So each log has a number of its own in its log directory, its `instance`, which partition.metadata has in a
third line and the fifth file in eight bytes behind the id. A log of Apache Kafka has none: that counts as 0, and nothing is
behind the id.

The number also tells two copies in two log directories apart: it is above all that were given out before, in any directory
and in this broker's lives before. So it is the epoch of the broker, or while it has none yet the end of its metadata, and
behind that `LIFE_BITS` bits (`node/roles/broker/log/log_directories.py`). Earlier versions counted the logs of each
directory by itself, unless another one was offline.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from actors.ports import Buffer

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
TOPIC_IDS = "topic-id-checkpoint"
SCRUBBED = "scrub-checkpoint"

LIFE_BITS = 20
"""How many bits of such a number count the logs of one life of the broker."""
INSTANCE_MAX = 1 << 62
"""No broker comes to such a number; partition.metadata has room for twice as many."""

Partition = tuple[str, int]
"""The name of a partition: (topic, number)."""
T = TypeVar("T")


class CorruptCheckpoint(ValueError):
    """The file does not have the form above. Its reader goes on without it."""


def text(entries: Iterable[str]) -> bytes:
    """The bytes of a checkpoint file with these lines."""
    body = list(entries)
    return "\n".join(["0", str(len(body)), *body, ""]).encode()


def lines(data: Buffer) -> list[str]:
    """The entries of a checkpoint file. Raises CorruptCheckpoint."""
    try:
        version, count, *entries = bytes(data).decode().split("\n")
    except ValueError:
        raise CorruptCheckpoint("neither a version nor a count") from None
    if version != "0":
        raise CorruptCheckpoint(f"version {version!r}, not 0")
    while entries and not entries[-1]:
        entries.pop()
    if not count.isdecimal() or int(count) != len(entries):
        raise CorruptCheckpoint(f"{len(entries)} entries where {count!r} are promised")
    return entries


def encode_offsets(offsets: Mapping[Partition, int]) -> bytes:
    """A file of offsets by (topic, number), sorted."""
    return text(f"{topic} {number} {offset}" for (topic, number), offset in sorted(offsets.items()))


def parse_offsets(data: Buffer) -> dict[Partition, int]:
    """The offsets by (topic, number). Raises CorruptCheckpoint."""
    return _parse(data, int, "offset")


def identity(topic_id: bytes, instance: int) -> bytes:
    """The bytes by which the fifth file names a log: its topic id and its instance."""
    return topic_id + instance.to_bytes(8, "big") if instance else topic_id


def instance_of(found: bytes) -> int:
    """The instance in the bytes by which the fifth file names a log; 0 for one that no log has: a bit has rotted, and a log
    with a higher one would not be found again."""
    instance = int.from_bytes(found[16:], "big")
    return instance if instance < INSTANCE_MAX else 0


def encode_ids(ids: Mapping[Partition, bytes]) -> bytes:
    """A file of identities by (topic, number), sorted."""
    return text(f"{topic} {number} {topic_id.hex()}" for (topic, number), topic_id in sorted(ids.items()))


def parse_ids(data: Buffer) -> dict[Partition, bytes]:
    """The identities by (topic, number). Raises CorruptCheckpoint."""
    return _parse(data, bytes.fromhex, "id")


def _parse(data: Buffer, convert: Callable[[str], T], what: str) -> dict[Partition, T]:
    found: dict[Partition, T] = {}
    for line in lines(data):
        try:
            topic, number, value = line.split(" ")
            found[topic, int(number)] = convert(value)
        except ValueError:
            raise CorruptCheckpoint(f"no 'topic partition {what}': {line!r}") from None
    return found
