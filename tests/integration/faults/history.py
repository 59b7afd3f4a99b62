"""What clients did and saw, as plain data for the checker.

Every value names its producer, its place in that producer's order and its partition, and carries a checksum. So the
value itself shows whether a client sent it and whether it was damaged.
"""

import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Origin(NamedTuple):
    """The facts that a value states about itself."""

    producer: str
    sequence: int
    partition: int


class Seen(NamedTuple):
    """A record as a reader got it, or as it was acknowledged."""

    partition: int
    offset: int
    """-1: the producer was not told."""
    value: bytes


class Told(NamedTuple):
    """The committed offset of a partition, as a member was told it when it was assigned the partition."""

    partition: int
    offset: int
    """Negative: there is none."""
    floor: int
    """The highest offset whose commit had been acknowledged before the member asked; -1: none."""


def value(producer: str, sequence: int, partition: int, padding: int = 0) -> bytes:
    """The value of a producer's record number `sequence`."""
    text = b"%s/%d/%d" % (producer.encode(), sequence, partition)
    return b"%s/%08x%s" % (text, zlib.crc32(text), b"." * padding)


def origin(data: bytes) -> Origin | None:
    """The origin of a value; None if no producer here made it."""
    text, _, check = data.rstrip(b".").rpartition(b"/")
    try:
        producer, sequence, partition = text.split(b"/")
        if int(check, 16) == zlib.crc32(text):
            return Origin(producer.decode(), int(sequence), int(partition))
    except ValueError:
        pass
    return None


@dataclass
class History:
    """One run. Each list is appended to by one client, so that threads need no lock."""

    sent: dict[bytes, int] = field(default_factory=dict)
    """Value -> partition, noted before the value was handed to the client."""
    acknowledged: list[Seen] = field(default_factory=list)
    """Records with the offset that the acknowledgement named; -1 where it named none."""
    unknown: dict[bytes, str] = field(default_factory=dict)
    """Value -> error: the record may be in the log or not."""
    read: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    """Reader -> records in the order of its polls; each partition is read from its beginning."""
    consumed: list[Seen] = field(default_factory=list)
    """Records that members of a consumer group got, any number of times."""
    committed: dict[int, int] = field(default_factory=dict)
    """Partition -> highest offset whose commit was acknowledged."""
    told: list[Told] = field(default_factory=list)
    """Committed offsets, one entry each time a member was assigned partitions."""
    committed_at_end: dict[int, int] = field(default_factory=dict)
    """Partition -> committed offset at the end of the run."""
    final: list[Seen] = field(default_factory=list)
    """The whole log, read at the end of the run, in offset order for each partition."""
    created: set[str] = field(default_factory=set)
    """Topics whose creation was acknowledged and whose deletion was not tried."""
    deleted: set[str] = field(default_factory=set)
    """Topics whose deletion was acknowledged."""
    topics_at_end: set[str] = field(default_factory=set)
    """Topics that exist at the end of the run."""
    broken: list[str] = field(default_factory=list)
    """Clients that gave up, which no fault of a minority of the nodes may cause."""
