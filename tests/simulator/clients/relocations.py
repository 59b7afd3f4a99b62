"""Moving replicas between the log directories of their broker, as kafka-reassign-partitions with log_dirs does."""

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.clients.process import Client
from tests.simulator.cluster import DIRECTORIES

VERSION = 2


async def relocate(client: Client, topics: list[str], pause_ms: int) -> None:
    """From time to time, until the client stops, ask a broker for a partition of one of the topics in one of its
    directories: where it is already, where it is not, and also when the broker has no replica of it."""
    random = client.random
    kind = message("AlterReplicaLogDirsRequest")
    while not client.stopping:
        await client.sleep(random.randint(1, 2 * pause_ms))
        topic = random.choice(topics)
        if not await client.learn(topic):
            continue
        partition = random.choice([number for name, number in client.leaders if name == topic] or [0])
        moved = kind.AlterReplicaLogDirTopic(name=topic, partitions=[partition])
        wanted = kind.AlterReplicaLogDir(path=random.choice(DIRECTORIES[:2]), topics=[moved])
        reply = await client.ask(client.any_broker(), "AlterReplicaLogDirs", VERSION, kind(dirs=[wanted]))
        if reply is not None and reply.results[0].partitions[0].error_code == ErrorCode.NONE:
            client.history.counts["relocations"] += 1
