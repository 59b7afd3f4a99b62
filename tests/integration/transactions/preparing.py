"""A producer that prepares one transaction, prints its text, and then waits to be killed.

python -m tests.integration.transactions.preparing SERVERS TRANSACTIONAL_ID TOPIC PARTITIONS VALUE
"""

import sys
import time

from actors.client.operations.producing import Placed, Producer
from actors.client.operations.transactions import Prepared
from actors.host.client.blocking import Kafka, connect
from fastpath.records.batch import Builder

CONFIG = {"transaction.two.phase.commit.enable": "true", "retry.backoff.max.ms": "200"}


def prepared(kafka: Kafka, topic: str, partitions: int, value: str, age_s: int = 0) -> Prepared:
    """A transaction with one record in each partition, written so long ago."""
    producer = Producer(kafka.config)
    kafka.run(producer.begin())
    batches = []
    for number in range(partitions):
        builder = Builder(timestamp_ms=time.time_ns() // 1_000_000 - age_s * 1000)
        builder.append(None, value.encode())
        batches.append(((topic, number), builder.build()))
    placed = kafka.run(producer.send(batches))
    assert all(isinstance(one, Placed) for one in placed), placed
    return producer.prepare()


def main(servers: str, id: str, topic: str, partitions: str, value: str) -> None:
    """Prepare, print, and stay."""
    with connect(servers, {**CONFIG, "transactional.id": id}) as kafka:
        print(prepared(kafka, topic, int(partitions), value), flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
