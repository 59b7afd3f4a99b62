"""A consumer without a group: it reads every partition of a topic from its beginning, again and again.

One that states leader epochs does as Kafka's clients do (KIP-320): it says in each Fetch which epoch it knows, and when it
hears of a newer one it asks where the epoch of its position ends before it goes on.

One with a rack goes where the leader sends it (KIP-392), and back to the leader when it gets no answer there, or an error.
"""

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.clients.process import Client

FETCH_VERSION, LIST_VERSION, EPOCH_VERSION = 16, 7, 4
EARLIEST = -2


async def fetch(
    client: Client, topic: str, topic_id: bytes, partition: int, offset: int, *, wait_ms: int = 1_000
) -> tuple[ErrorCode | None, list[batches.Record]]:
    """Fetch records of one partition. Returns the error (None: no answer) and whole records from `offset` on."""
    kind = message("FetchRequest")
    stated = client.epochs.get((topic, partition), -1) if client.states_epochs else -1
    wanted = kind.FetchPartition(
        partition=partition, current_leader_epoch=stated, fetch_offset=offset, partition_max_bytes=1 << 16
    )
    request = kind(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1,
                   topics=[kind.FetchTopic(topic_id=topic_id, partitions=[wanted])])  # fmt: skip
    request.rack_id = client.rack
    leader = client.leaders[topic, partition]
    asked_us, follower = client.world.time_us, client.preferred.pop((topic, partition), None)
    reply = await client.ask(follower or leader, "Fetch", FETCH_VERSION, request)
    if reply is None:
        return (None if follower is None else ErrorCode.NONE), []
    if reply.error_code or not reply.responses:
        return ErrorCode(reply.error_code), []
    data = reply.responses[0].partitions[0]
    if data.preferred_read_replica >= 0:
        assert client.rack and follower is None and not data.records
        client.preferred[topic, partition] = f"b{data.preferred_read_replica}"
        client.history.counts["sent to a follower"] += 1
    elif follower is not None:
        if data.error_code:
            return ErrorCode.NONE, []
        client.preferred[topic, partition] = follower
        client.history.counts["answers of followers"] += 1
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        client.history.unserved(topic_id, partition, offset, leader, asked_us)
    found: list[batches.Record] = []
    records = data.records or b""
    for header in batches.headers(records):
        batches.verify(records, header.position)
        if stated >= 0:
            client.history.served(client.name, topic_id, partition, stated, header.epoch, header.base_offset)
            client.read_epochs[topic, partition] = header.epoch
        found.extend(record for record in batches.records(records, header.position) if record.offset >= offset)
    return ErrorCode(data.error_code), found


async def earliest(client: Client, topic: str, partition: int) -> int:
    """The offset at which the partition begins; -1: no answer, or the client has forgotten the leader meanwhile."""
    leader = client.leaders.get((topic, partition))
    if leader is None:
        return -1
    kind = message("ListOffsetsRequest")
    wanted = kind.ListOffsetsPartition(partition_index=partition, timestamp=EARLIEST)
    request = kind(replica_id=-1, topics=[kind.ListOffsetsTopic(name=topic, partitions=[wanted])])
    reply = await client.ask(leader, "ListOffsets", LIST_VERSION, request)
    if reply is None:
        return -1
    offset = int(reply.topics[0].partitions[0].offset)
    client.history.begins(client.topic_ids[topic], partition, offset)
    return offset


async def compare(client: Client, topic: str, partition: int, position: int) -> bool:
    """Ask the leader where the epoch of the last batch ends. False: no answer, or an error; it is asked again."""
    key = topic, partition
    kind = message("OffsetForLeaderEpochRequest")
    epoch, topic_id = client.read_epochs[key], client.topic_ids[topic]
    asked = kind.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=client.epochs[key], leader_epoch=epoch
    )
    request = kind(replica_id=-1, topics=[kind.OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    reply = await client.ask(client.leaders[key], "OffsetForLeaderEpoch", EPOCH_VERSION, request)
    if reply is None:
        return False
    answer = reply.topics[0].partitions[0]
    if answer.error_code:
        return False
    client.history.compared(client.name, topic_id, partition, position, epoch, int(answer.end_offset))
    return True


async def consume(client: Client, topic: str, partition: int) -> None:
    """Read a partition from its beginning until the client stops or the topic is deleted."""
    offset, topic_id, compared = 0, b"", -1
    key = topic, partition
    while not client.stopping and topic not in client.history.deleted:
        if key not in client.leaders:
            if not await client.learn(topic) or key not in client.leaders:
                await client.sleep(200)
            continue
        if client.states_epochs and client.epochs[key] != compared:
            now = client.epochs[key]
            if key in client.read_epochs and not await compare(client, topic, partition, offset):
                client.leaders.pop(key, None)
                await client.sleep(100)
                continue
            compared = now
            continue
        topic_id = client.topic_ids[topic]
        error, records = await fetch(client, topic, topic_id, partition, offset)
        for record in records:
            assert record.value is not None
            client.history.consumed(client.name, topic_id, partition, record.offset, record.value, offset)
            offset = record.offset + 1
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = max(offset, await earliest(client, topic, partition))
            await client.sleep(100)
        elif error is None or error != ErrorCode.NONE:
            client.leaders.pop((topic, partition), None)
            await client.sleep(100)
        else:
            await client.sleep(client.random.randint(100, 800))
