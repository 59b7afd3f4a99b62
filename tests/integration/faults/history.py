"""What clients did and saw, as plain data for the checker.

Every value names its producer, its place in that producer's order and its partition, and carries a checksum: so a value
that nobody sent, or that was damaged on the way, is known by looking at it.
"""

import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Origin(NamedTuple):
    """What a value says about itself."""

    producer: str
    sequence: int
    partition: int


class Seen(NamedTuple):
    """A record as a reader got it."""

    partition: int
    offset: int
    value: bytes


class Told(NamedTuple):
    """The committed offset of a partition, as a member was told it when it got the partition."""

    partition: int
    offset: int
    """Negative: none."""
    floor: int
    """The highest whose commit had been acknowledged before it asked; -1: none."""


def value(producer: str, sequence: int, partition: int, padding: int = 0) -> bytes:
    """The value of a producer's record number `sequence`."""
    text = b"%s/%d/%d" % (producer.encode(), sequence, partition)
    return b"%s/%08x%s" % (text, zlib.crc32(text), b"." * padding)


def origin(data: bytes) -> Origin | None:
    """Who sent it; None for what is no value of ours."""
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
    """One run. Lists are appended by one client each, so that threads need no lock."""

    sent: dict[bytes, int] = field(default_factory=dict)
    """Value -> partition, noted before it was handed to the client."""
    acknowledged: list[Seen] = field(default_factory=list)
    """With the offset that the acknowledgement named; -1 where it named none."""
    unknown: dict[bytes, str] = field(default_factory=dict)
    """Value -> error: it may be in the log or not."""
    read: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    """Reader -> records in the order of its polls, each partition from its beginning."""
    consumed: list[Seen] = field(default_factory=list)
    """What members of a consumer group got, any number of times."""
    committed: dict[int, int] = field(default_factory=dict)
    """Partition -> highest offset whose commit was acknowledged."""
    told: list[Told] = field(default_factory=list)
    """Whenever a member was given partitions."""
    committed_at_end: dict[int, int] = field(default_factory=dict)
    """Partition -> committed offset when all was over."""
    final: list[Seen] = field(default_factory=list)
    """The whole log, read when all was over, in offset order for each partition."""
    created: set[str] = field(default_factory=set)
    """Topics whose creation was acknowledged and whose deletion was not tried."""
    deleted: set[str] = field(default_factory=set)
    """Topics whose deletion was acknowledged."""
    topics_at_end: set[str] = field(default_factory=set)
    """Topics there when all was over."""
    broken: list[str] = field(default_factory=list)
    """Clients that gave up: nothing that a cluster of which a minority is hurt may cause."""
