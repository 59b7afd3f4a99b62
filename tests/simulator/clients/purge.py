"""Deletes the oldest records of topics that stay, up to any offset, as kafka-delete-records does."""

from collections.abc import Mapping

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.clients.process import Client

VERSION = 2


async def purge(client: Client, topics: Mapping[str, int], pause_ms: int) -> None:
    """Delete records from time to time, until the client stops. An offset may lie inside a batch."""
    random, history = client.random, client.history
    kind = message("DeleteRecordsRequest")
    while not client.stopping:
        await client.sleep(random.randint(1, 2 * pause_ms))
        topic = random.choice(list(topics))
        partition = random.randrange(topics[topic])
        if not await client.learn(topic) or (topic, partition) not in client.leaders:
            continue
        key = client.topic_ids[topic], partition
        low, high = history.purged.get(key, 0), history.ends.get(key, 0)
        if high <= low:
            continue
        offset = history.purged[key] = random.randint(low, high)
        wanted = kind.DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = kind(topics=[kind.DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=3000)
        reply = await client.ask(client.leaders[topic, partition], "DeleteRecords", VERSION, request)
        if reply is not None and reply.topics[0].partitions[0].error_code == ErrorCode.NONE:
            history.counts["purges"] += 1
