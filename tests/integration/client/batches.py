"""Batches to write, and what stands in those that were read."""

from typing import Any

from actors.client.operations import offsets
from actors.client.operations.fetching import Fetched, Fetcher
from actors.host.client.blocking import Kafka
from fastpath.records.batch import Builder, headers, records

CONTROL = 0x20
Part = tuple[str, int]


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000) -> bytearray:
    """A batch of records without keys."""
    builder = Builder(timestamp_ms=timestamp_ms)
    for value in values:
        builder.append(None, value)
    return builder.build()


def values(fetched: Fetched) -> list[bytes]:
    """The values of the records behind the position that was asked for; control batches left out."""
    found = []
    for header in headers(fetched.records):
        if not header.attributes & CONTROL:
            read = records(fetched.records, header.position)
            found += [one.value for one in read if one.offset >= fetched.offset and one.value is not None]
    return found


def committed(fetched: Fetched) -> list[bytes]:
    """As `values`, without those of aborted transactions."""
    begins = sorted((first, id) for id, first in fetched.aborted)
    aborting: set[int] = set()
    found = []
    for header in headers(fetched.records):
        while begins and begins[0][0] <= header.last_offset:
            aborting.add(begins.pop(0)[1])
        if header.attributes & CONTROL:
            aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            read = records(fetched.records, header.position)
            found += [one.value for one in read if one.offset >= fetched.offset and one.value is not None]
    return found


def bounds(kafka: Kafka, topic: str, partition: int) -> Any:
    """Where the log of a partition begins and ends, for the message of a failed test."""
    kinds = (offsets.EARLIEST, offsets.LATEST)
    return [kafka.run(offsets.list_offsets([(topic, partition)], kind)) for kind in kinds]


def read_to(kafka: Kafka, fetcher: Fetcher, ends: dict[Part, int], of: Any = values) -> dict[Part, list[bytes]]:
    """Read until positions are reached."""
    found: dict[Part, list[bytes]] = {part: [] for part in ends}
    while any(fetcher.position(*part) < end for part, end in ends.items()):
        for one in kafka.run(fetcher.fetch()):
            assert isinstance(one, Fetched), (one, bounds(kafka, one.topic, one.partition))
            found[one.topic, one.partition] += of(one)
    return found
