"""Apache Kafka's checkpoint files: a version line "0", a line with the number of entries, then one entry a line.

This file alone knows that form. One log directory has three of them with entries "topic partition offset":
`recovery-point-offset-checkpoint` (everything below is on the disk), `replication-offset-checkpoint` (high watermarks)
and `log-start-offset-checkpoint` (where deletion of records has come to). They are written whole, by replacement.
"""

from collections.abc import Iterable, Mapping

from actors.ports import Buffer

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

Partition = tuple[str, int]
"""(topic, number)."""


class CorruptCheckpoint(ValueError):
    """The file does not have the form above; whoever reads it goes on without."""


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
    offsets: dict[Partition, int] = {}
    for line in lines(data):
        try:
            topic, number, offset = line.split(" ")
            offsets[topic, int(number)] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"no 'topic partition offset': {line!r}") from None
    return offsets
