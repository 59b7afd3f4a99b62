"""Creates and deletes topics, as an operator's tool does."""

from collections.abc import Mapping

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.clients.process import Client
from tests.simulator.clients.producer import BY_ID, Producer
from tests.simulator.history import Attempt

CREATE_VERSION, DELETE_VERSION, ALTER_VERSION = 7, 6, 1
TOPIC = 2
"""The resource type of topics."""


async def create(client: Client, name: str, partitions: int, factor: int, configs: Mapping[str, str]) -> bool:
    """Repeat until the topic exists. False when the client stops first."""
    kind = message("CreateTopicsRequest")
    given = [kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=given)
    while not client.stopping:
        reply = await client.ask(
            client.any_broker(), "CreateTopics", CREATE_VERSION, kind(topics=[topic], timeout_ms=3000)
        )
        if reply is not None and reply.topics[0].error_code == ErrorCode.NONE:
            client.history.created(name, bytes(reply.topics[0].topic_id))
            return True
        if reply is not None and reply.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return True
        await client.sleep(200)
    return False


async def alter(client: Client, name: str, configs: Mapping[str, str]) -> None:
    """Change the settings of a topic once it exists. Repeat until that is done or the client stops."""
    kind = message("IncrementalAlterConfigsRequest")
    given = [kind.AlterableConfig(name=key, config_operation=0, value=value) for key, value in configs.items()]
    request = kind(resources=[kind.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=given)])
    while not client.stopping:
        reply = await client.ask(client.any_broker(), "IncrementalAlterConfigs", ALTER_VERSION, request)
        if reply is not None and reply.responses[0].error_code == ErrorCode.NONE:
            return
        await client.sleep(100)


async def delete(client: Client, name: str) -> None:
    """Repeat until the topic is gone or the client stops."""
    client.history.deleted[name] = None
    kind = message("DeleteTopicsRequest")
    request = kind(topics=[kind.DeleteTopicState(name=name)], timeout_ms=3000)
    while not client.stopping:
        reply = await client.ask(client.any_broker(), "DeleteTopics", DELETE_VERSION, request)
        gone = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if reply is not None and reply.responses[0].error_code in gone:
            client.history.counts["topics deleted"] += 1
            if reply.responses[0].error_code == ErrorCode.NONE:
                client.history.gone(name, bytes(reply.responses[0].topic_id))
            return
        await client.sleep(200)


async def churn(client: Client, pause_ms: int, factor: int) -> None:
    """Create and delete topics, sometimes under a name that existed before, until the client stops."""
    random, number = client.random, 0
    while not client.stopping:
        name = f"{client.name}-{number % 3}"
        number += 1
        if not await create(client, name, 1 + random.randrange(3), 1 + random.randrange(factor), {}):
            return
        await client.sleep(random.randint(1, 2 * pause_ms))
        if random.randrange(4):
            await delete(client, name)
        await client.sleep(random.randint(1, 2 * pause_ms))


async def recreate(client: Client, name: str, pause_ms: int, factor: int) -> None:
    """Create a topic, write to it under its id, delete it, and at once do the same under the same name, until the
    client stops."""
    random, number = client.random, 0
    writer = Producer(client, acks=-1, idempotent=False, pause_ms=pause_ms)
    writer.version = BY_ID
    while not client.stopping:
        if not await create(client, name, 1, factor, {}):
            return
        end_us = client.world.time_us + random.randint(pause_ms // 4, 2 * pause_ms) * 1000
        while client.world.time_us < end_us:
            number += 1
            await _write_once(client, writer, name, number)
            await client.sleep(random.randint(1, pause_ms // 4))
        await delete(client, name)
        client.leaders.pop((name, 0), None)


async def _write_once(client: Client, writer: Producer, name: str, number: int) -> None:
    if not await client.learn(name) or (name, 0) not in client.leaders:
        return
    topic_id = client.topic_ids[name]
    value = f"{client.name}:{name}:0:{number}".encode()
    client.history.attempt(value, Attempt(name, 0, client.name, number, -1, False, topic_id))
    await writer._try(client.leaders[name, 0], name, topic_id, 0, [value], 0)
