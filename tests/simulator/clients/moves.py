"""Moving partitions between brokers, as kafka-reassign-partitions does."""

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.clients.process import Client

VERSION = 0


async def move(client: Client, topics: list[str], pause_ms: int) -> None:
    """From time to time, until the client stops, assign two or three other replicas to a partition of one of the
    topics, as far as there are brokers, or cancel the reassignment that is under way."""
    random = client.random
    kind = message("AlterPartitionReassignmentsRequest")
    ids = [int(name[1:]) for name in client.brokers]
    while not client.stopping:
        await client.sleep(random.randint(1, 2 * pause_ms))
        topic = random.choice(topics)
        if not await client.learn(topic):
            continue
        partition = random.choice([number for name, number in client.leaders if name == topic] or [0])
        replicas = None if not random.randrange(6) else random.sample(ids, random.choice((2, 3)))
        wanted = kind.ReassignablePartition(partition_index=partition, replicas=replicas)
        request = kind(topics=[kind.ReassignableTopic(name=topic, partitions=[wanted])], timeout_ms=3000)
        reply = await client.ask(client.any_broker(), "AlterPartitionReassignments", VERSION, request)
        if reply is None or reply.error_code != ErrorCode.NONE:
            continue
        if reply.responses[0].partitions[0].error_code == ErrorCode.NONE:
            client.history.counts["moves"] += 1
