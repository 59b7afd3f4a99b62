"""A reader of committed records (isolation.level=read_committed), as Kafka's consumers read: what a fetch tells of aborted
transactions decides what of its own batches is passed over, and nothing is kept from one fetch to the next.
"""

from typing import NamedTuple

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.checkers.committed_transactions import CommittedTransactions
from tests.simulator.clients.consumer import FETCH_VERSION
from tests.simulator.clients.process import Client

READ_COMMITTED = 1
CONTROL = 0x20
PAUSE_MS = 3_000
"""The longest pause between two fetches."""


class Page(NamedTuple):
    """One answer to a fetch of one partition."""

    error: ErrorCode | None
    """The error of the fetch; None: no answer came."""
    records: list[batches.Record]
    """Committed ones from the wanted offset on."""
    next_offset: int
    """Where to go on."""
    ended: bool
    """Whether the leader had no undecided records, and the page reaches to its end."""


async def fetch_committed(
    client: Client, topic: str, partition: int, offset: int, *, wait_ms: int = 100, size: int = 1 << 16
) -> Page:
    """Fetch one partition from its known leader."""
    kind = message("FetchRequest")
    topic_id = client.topic_ids[topic]
    part = kind.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
    request = kind(
        isolation_level=READ_COMMITTED, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1,
        topics=[kind.FetchTopic(topic_id=topic_id, partitions=[part])],
    )  # fmt: skip
    leader, asked_us = client.leaders[topic, partition], client.world.time_us
    reply = await client.ask(leader, "Fetch", FETCH_VERSION, request)
    if reply is None:
        return Page(None, [], offset, False)
    if reply.error_code or not reply.responses:
        return Page(ErrorCode(reply.error_code), [], offset, False)
    data = reply.responses[0].partitions[0]
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        client.history.unserved(topic_id, partition, offset, leader, asked_us)
    if data.error_code:
        return Page(ErrorCode(data.error_code), [], offset, False)
    begins = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
    aborting, found, records = set[int](), list[batches.Record](), data.records or b""
    for header in batches.headers(records):
        batches.verify(records, header.position)
        while begins and begins[0][0] <= header.last_offset:
            aborting.add(begins.pop(0)[1])
        if header.attributes & CONTROL:
            aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            found += [one for one in batches.records(records, header.position) if one.offset >= offset]
        offset = max(offset, header.last_offset + 1)
    ended = offset >= data.high_watermark and data.last_stable_offset == data.high_watermark
    return Page(ErrorCode.NONE, found, offset, ended)


async def read_committed(
    client: Client, checker: CommittedTransactions, topic: str, partition: int, *, whole: bool = False
) -> None:
    """Read a partition from its beginning until the client stops; `whole`: until nothing is undecided at its end."""
    offset = 0
    while whole or not client.stopping:
        if not await find(client, topic, partition):
            continue
        page = await fetch_committed(client, topic, partition, offset)
        for record in page.records:
            checker.read(client.name, (topic, partition), record)
        if whole and page.ended:
            return
        if page.error is None or page.error:
            client.leaders.pop((topic, partition), None)
        if page.next_offset == offset or not whole:
            await client.sleep(client.random.randint(100, 800 if whole else PAUSE_MS))
        offset = page.next_offset


async def find(client: Client, topic: str, partition: int) -> bool:
    """Learn where a partition is led, if that is not known; False after a pause: still not known."""
    if (topic, partition) in client.leaders:
        return True
    if await client.learn(topic) and (topic, partition) in client.leaders:
        return True
    await client.sleep(100)
    return False
