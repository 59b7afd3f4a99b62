"""aiokafka (the oldest versions of every request) and kafka-python, unmodified, on three brokers."""

import asyncio
from typing import Any

import pytest

from tests.integration.transactions.test_confluent import create, read

SECONDS = 30


def test_aiokafka_commits_and_aborts(cluster: Any, name: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    create(cluster, name)

    async def story() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name)
        await producer.start()
        try:
            for number in range(4):
                await producer.begin_transaction()
                for partition in (0, 1):
                    await producer.send_and_wait(name, f"{number}-{partition}".encode(), partition=partition)
                if number == 2:
                    await producer.abort_transaction()
                    continue
                topic = aiokafka.TopicPartition(name, 0)
                await producer.send_offsets_to_transaction({topic: number + 10}, f"{name}-g")
                await producer.commit_transaction()
        finally:
            await producer.stop()
        reader = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id=f"{name}-g", enable_auto_commit=False
        )
        await reader.start()
        try:
            assert await reader.committed(aiokafka.TopicPartition(name, 0)) == 13
        finally:
            await reader.stop()

    asyncio.run(asyncio.wait_for(story(), 2 * SECONDS))
    assert read(cluster, name) == sorted(f"{number}-{partition}" for number in (0, 1, 3) for partition in (0, 1))


def test_kafka_python_commits_and_aborts(cluster: Any, name: str) -> None:
    kafka = pytest.importorskip("kafka")
    create(cluster, name)
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), transactional_id=name)
    try:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send(name, f"{number}-{partition}".encode(), partition=partition)
            if number == 2:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close()
    assert read(cluster, name) == sorted(f"{number}-{partition}" for number in (0, 1, 3) for partition in (0, 1))
