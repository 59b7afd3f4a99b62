"""A consumer of librdkafka that reads committed records while brokers are killed: it misses nothing and sees nothing twice.

Other than the tests of whole applications this one has few records in a transaction and many transactions, so that leader
epochs change while one is open and while the consumer compares its position with them (KIP-320).
"""

import contextlib
import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.conftest import everywhere

CONFIG = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "4000",
    "registration.lease.timeout.ms": "4000",
    "registration.heartbeat.interval.ms": "800",
}
PARTITIONS = 4
RECORDS_MAX = 120
"""Of a transaction."""
PATIENCE_SECONDS = 120

Place = tuple[int, int]
"""(producer, partition)"""


class Writer:
    """Writes numbers in transactions, until told to stop, and knows which of them were committed."""

    def __init__(self, servers: str, number: int) -> None:
        self._servers = servers
        self._number = number
        self._random = random.Random(number)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.committed: dict[Place, list[int]] = defaultdict(list)
        self.failed: list[BaseException] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the present transaction."""
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive() and not self.failed, self.failed

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.failed.append(error)

    def _write(self) -> None:
        producer, next_number = self._begun(), 0
        while not self._stop.is_set():
            written: list[tuple[int, int]] = []
            try:
                producer.begin_transaction()
                for _ in range(self._random.randint(1, RECORDS_MAX)):
                    partition = self._random.randrange(PARTITIONS)
                    producer.produce("t", f"{self._number}:{next_number}".encode(), partition=partition)
                    written.append((partition, next_number))
                    next_number += 1
                time.sleep(self._random.random() * 0.15)
                producer.commit_transaction(60)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    producer.abort_transaction(60)
                else:
                    producer = self._begun()
                continue
            for partition, number in written:
                self.committed[self._number, partition].append(number)

    def _begun(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": f"writer-{self._number}",
                "transaction.timeout.ms": 20_000,
                "linger.ms": 2,
                "log_level": 0,
            }
        )
        producer.init_transactions(60)
        return producer


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nothing_is_missed_and_nothing_comes_twice(tmp_path: Path) -> None:
    """Sixty kills: without a refusal of earlier leader epochs records were missing after about twenty."""
    choose = random.Random(7)
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(30)
        everywhere(cluster, "t", PARTITIONS)
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "nobody",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        seen: dict[Place, list[int]] = defaultdict(list)

        def read(seconds: float) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for one in consumer.consume(1000, 0.2):
                    if one.error() is None:
                        producer, number = (one.value() or b"").split(b":")
                        seen[int(producer), int(one.partition() or 0)].append(int(number))

        with contextlib.closing(consumer):
            consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
            writers = [Writer(servers, number) for number in range(2)]
            for writer in writers:
                writer.start()
            for _ in range(60):
                victim = choose.choice(cluster.broker_ids)
                cluster.kill(victim)
                read(0.5)
                cluster.wait_ready(victim)
                read(1.5 + choose.random())
            for writer in writers:
                writer.stop()
            wanted = {place: numbers for writer in writers for place, numbers in writer.committed.items()}
            until = time.monotonic() + PATIENCE_SECONDS
            while any(len(seen[place]) < len(wanted[place]) for place in wanted) and time.monotonic() < until:
                read(1)
        for place, numbers in wanted.items():
            assert seen[place] == numbers, (place, sorted(set(numbers) - set(seen[place]))[:5])
        assert sum(map(len, wanted.values())) > 1_000
