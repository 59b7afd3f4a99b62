"""Writing one record into a topic."""

import time

from actors.client.errors import ClientError
from actors.client.operations import topics
from actors.client.operations.producing import Placed, Producer
from actors.host.client.asynchronous import Kafka
from actors.page.changes.given import Given
from actors.why.phrases import counted
from fastpath.bytes.murmur2 import partition_of
from fastpath.records.batch import Builder

ANSWER_S = 15.0


async def produce(kafka: Kafka, given: Given) -> str:
    """Write a record: `topic`, `partition` (by the key where it is left out, as in Java), `key`, `value`, `headers`."""
    name, number = given.text("topic"), given.optional("partition")
    key, value = given.data("key"), given.data("value")
    headers = [(header.encode(), data) for header, data in given.pairs("headers")]
    given.end()
    found = (await kafka.run(topics.describe([name], patiently=True), ANSWER_S))[name]
    count = len(found.partitions)
    if number is None:
        number = partition_of(key, count) if key is not None else time.monotonic_ns() % count
    elif number not in found.partitions:
        raise ValueError(f"Topic {name} has {counted(count, 'partition')} and no partition {number}.")
    now_ms = int(time.time() * 1000)
    builder = Builder(timestamp_ms=now_ms)
    builder.append(key, value, now_ms, headers)
    (placed,) = await kafka.run(Producer(kafka.config).send([((name, number), builder.build())]), ANSWER_S)
    if isinstance(placed, ClientError):
        raise placed
    assert isinstance(placed, Placed)
    where = f" at offset {placed.offset}" if placed.offset >= 0 else ""
    return f"The record was written to {name}-{number}{where}."
