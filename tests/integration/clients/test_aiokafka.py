"""aiokafka, unmodified. It uses only the old, inflexible encodings, so this test covers them too."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

aiokafka = pytest.importorskip("aiokafka")

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: E402
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete  # noqa: E402
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # noqa: E402

from tests.integration.conftest import everywhere  # noqa: E402

SECONDS = 30


def run(story: Callable[[], Awaitable[None]]) -> None:
    """Run a story on an event loop of its own."""

    async def bounded() -> None:
        await asyncio.wait_for(story(), 2 * SECONDS)

    asyncio.run(bounded())


async def create(cluster: Any, name: str, partitions: int = 1, **configs: str) -> Any:
    """Create a topic. Returns the admin client that did, which the caller must close."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    await admin.start()
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    reply = await admin.create_topics([NewTopic(name, partitions, 3, topic_configs=settings)])
    assert [error[1] for error in reply.topic_errors] == [0]
    everywhere(cluster, name, partitions)
    return admin


async def produce(cluster: Any, name: str, values: list[bytes], **options: Any) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, **options
    ) as producer:
        sent = [await producer.send(name, value, partition=0) for value in values]
        assert [(await future).offset for future in sent] == list(range(len(values)))


async def consume(reader: Any, count: int) -> list[Any]:
    records: list[Any] = []
    end = time.monotonic() + SECONDS
    while len(records) < count and time.monotonic() < end:
        for batch in (await reader.getmany(timeout_ms=500, max_records=count - len(records))).values():
            records += batch
    return records


def consumer(cluster: Any, *topics: str, **options: Any) -> Any:
    return AIOKafkaConsumer(
        *topics, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **options
    )


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_back(cluster: Any, name: str, codec: str | None) -> None:
    if codec not in (None, "gzip"):
        pytest.importorskip("cramjam", reason=f"aiokafka compresses {codec} with the package cramjam")

    async def story() -> None:
        admin = await create(cluster, name)
        await admin.close()
        values = [b"%d" % n * 20 for n in range(300)]
        await produce(cluster, name, values, compression_type=codec, linger_ms=20)
        async with consumer(cluster) as reader:
            reader.assign([TopicPartition(name, 0)])
            assert [record.value for record in await consume(reader, 300)] == values

    run(story)


def test_a_group_goes_on_where_it_committed(cluster: Any, name: str) -> None:
    async def story() -> None:
        admin = await create(cluster, name)
        values = [b"%d" % n for n in range(100)]
        await produce(cluster, name, values)
        async with consumer(cluster, name, group_id=name, enable_auto_commit=False) as reader:
            some = await consume(reader, 40)
            await reader.commit({TopicPartition(name, 0): some[-1].offset + 1})
        async with consumer(cluster, name, group_id=name) as reader:
            rest = await consume(reader, 60)
        assert [record.value for record in some + rest] == values
        place = TopicPartition(name, 0)
        assert (await admin.list_consumer_group_offsets(name))[place].offset == 100
        assert (name, "consumer") in await admin.list_consumer_groups()
        ((error, group, state, *_),) = (await admin.describe_consumer_groups([name]))[0].groups
        assert (error, group, state) == (0, name, "Empty")
        await admin.close()

    run(story)


def test_two_members_share_the_partitions(cluster: Any, name: str) -> None:
    async def story() -> None:
        admin = await create(cluster, name, 4)
        await admin.close()
        async with (
            consumer(cluster, name, group_id=name) as one,
            consumer(cluster, name, group_id=name) as two,
        ):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end and [len(one.assignment()), len(two.assignment())] != [2, 2]:
                await asyncio.gather(one.getmany(timeout_ms=100), two.getmany(timeout_ms=100))
            mine, theirs = ({place.partition for place in member.assignment()} for member in (one, two))
            assert mine | theirs == {0, 1, 2, 3} and not mine & theirs

    run(story)


def test_offsets_by_time_and_the_ends(cluster: Any, name: str) -> None:
    async def story() -> None:
        admin = await create(cluster, name)
        await admin.close()
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for n in range(10):
                await producer.send_and_wait(name, b"x", partition=0, timestamp_ms=1_600_000_000_000 + n * 1000)
        place = TopicPartition(name, 0)
        async with consumer(cluster) as reader:
            assert await reader.beginning_offsets([place]) == {place: 0}
            assert await reader.end_offsets([place]) == {place: 10}
            found = await reader.offsets_for_times({place: 1_600_000_003_500})
            assert found[place].offset == 4

    run(story)


def test_topics_are_configured_grow_lose_records_and_go(cluster: Any, name: str) -> None:
    async def story() -> None:
        admin = await create(cluster, name, retention_ms="3600000")

        async def retention() -> str:
            (reply,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
            ((error, _, _, _, entries),) = reply.resources
            assert error == 0
            return next(str(entry[1]) for entry in entries if entry[0] == "retention.ms")

        assert await retention() == "3600000"
        change = ConfigResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "7200000"})
        assert (await admin.alter_configs([change]))[0].resources[0][0] == 0
        end = time.monotonic() + SECONDS
        while await retention() != "7200000":
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        await produce(cluster, name, [b"%d" % n for n in range(10)])
        place = TopicPartition(name, 0)
        assert await admin.delete_records({place: RecordsToDelete(before_offset=4)}) == {place: 4}
        await admin.create_partitions({name: NewPartitions(total_count=3)})
        while len((await admin.describe_topics([name]))[0]["partitions"]) < 3:
            assert time.monotonic() < end
        assert (await admin.delete_topics([name])).topic_error_codes == [(name, 0)]
        while name in await admin.list_topics():
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        await admin.close()

    run(story)
