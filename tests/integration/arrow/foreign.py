"""What another client reads."""

import uuid
from typing import Any

from confluent_kafka import Consumer, TopicPartition

Row = tuple[Any, ...]
"""(key, value, partition, offset, time in ms, headers)."""


def consumed(kafka: Any, topic: str, isolation: str = "read_uncommitted", partitions: int = 3) -> list[Row]:
    """What librdkafka reads, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers, "group.id": f"g-{uuid.uuid4().hex}",
            "enable.auto.commit": False, "isolation.level": isolation, "enable.partition.eof": True,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
    found: list[Row] = []
    ends = 0
    while ends < partitions:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            ends += 1
            continue
        headers = [(name, value) for name, value in message.headers() or []] or None
        part, offset, time_ms = message.partition(), message.offset(), message.timestamp()[1]
        assert part is not None and offset is not None
        found.append((message.key(), message.value(), part, offset, time_ms, headers))
    consumer.close()
    return sorted(found, key=lambda row: (row[2], row[3]))
