"""Consume, transform, produce with librdkafka and aiokafka, while brokers are killed with -9 and transactions are aborted:
each record of the source has one in the target."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.applications.programs import PATIENCE_SECONDS, Reader
from tests.integration.applications.test_streams import CONFIG
from tests.integration.conftest import everywhere

RECORDS = 1500
CHUNK = 20
SECONDS = 20
STEPS = 6
"""One of so many transactions is aborted, and the copier begins again."""


class Copier(threading.Thread):
    """Copies until it is told to stop. After any error it begins again with new clients, as a program would that was started
    anew: first the producer, which ends what its forerunner left open, then the consumer."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.servers = servers
        self.done = threading.Event()
        self.choose = random.Random(1)
        self.committed = self.aborted = self.failed = 0

    def aborts(self) -> bool:
        """Whether the present transaction is to be aborted."""
        return not self.choose.randrange(STEPS)


class WithLibrdkafka(Copier):
    def run(self) -> None:
        while not self.done.is_set():
            producer = Producer(
                {
                    "bootstrap.servers": self.servers,
                    "transactional.id": "copier",
                    "log_level": 0,
                    "transaction.timeout.ms": 10_000,
                }
            )
            consumer = Consumer(
                {
                    "bootstrap.servers": self.servers,
                    "group.id": "copiers",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                    "session.timeout.ms": 6000,
                    "log_level": 0,
                }
            )
            try:
                producer.init_transactions(SECONDS)
                consumer.subscribe(["source"])
                self._copy(consumer, producer)
            except KafkaException:
                self.failed += 1
            finally:
                consumer.close()

    def _copy(self, consumer: Consumer, producer: Producer) -> None:
        while not self.done.is_set():
            taken = [one for one in consumer.consume(CHUNK, 0.3) if one.error() is None]
            if not taken:
                continue
            producer.begin_transaction()
            for one in taken:
                value = one.value()
                assert value is not None
                producer.produce("target", b"copy of " + value, one.key())
            held = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(held, consumer.consumer_group_metadata(), SECONDS)
            if self.aborts():
                producer.abort_transaction(SECONDS)
                self.aborted += 1
                return
            producer.commit_transaction(SECONDS)
            self.committed += 1


class WithAiokafka(Copier):
    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        import aiokafka
        from aiokafka.errors import KafkaError

        while not self.done.is_set():
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.servers, transactional_id="copier", transaction_timeout_ms=10_000
            )
            consumer = aiokafka.AIOKafkaConsumer(
                "source",
                bootstrap_servers=self.servers,
                group_id="copiers",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                session_timeout_ms=6000,
            )
            try:
                await asyncio.wait_for(producer.start(), SECONDS)
                await asyncio.wait_for(consumer.start(), SECONDS)
                await self._copy(consumer, producer)
            except (TimeoutError, KafkaError, OSError, AssertionError):
                self.failed += 1
            finally:
                for client in (consumer, producer):
                    try:
                        await asyncio.wait_for(client.stop(), SECONDS)
                    except (TimeoutError, KafkaError, OSError, AssertionError, asyncio.CancelledError):
                        self.failed += 1  # the last one: stop() raises it out of a fetch that it ends

    async def _copy(self, consumer: "aiokafka.AIOKafkaConsumer", producer: "aiokafka.AIOKafkaProducer") -> None:  # noqa: F821
        while not self.done.is_set():
            taken = await consumer.getmany(timeout_ms=300, max_records=CHUNK)
            if not taken:
                continue
            await producer.begin_transaction()
            for records in taken.values():
                for one in records:
                    await producer.send("target", b"copy of " + one.value, key=one.key)
            offsets = {partition: records[-1].offset + 1 for partition, records in taken.items()}
            await asyncio.wait_for(producer.send_offsets_to_transaction(offsets, "copiers"), SECONDS)
            if self.aborts():
                await asyncio.wait_for(producer.abort_transaction(), SECONDS)
                self.aborted += 1
                return
            await asyncio.wait_for(producer.commit_transaction(), SECONDS)
            self.committed += 1


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", [WithLibrdkafka, WithAiokafka], ids=["librdkafka", "aiokafka"])
@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_each_record_is_copied_once(tmp_path: Path, kind: Callable[[str], Copier], rounds: int) -> None:
    if kind is WithAiokafka:
        pytest.importorskip("aiokafka")
    choose = random.Random(rounds)
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        for future in admin.create_topics([NewTopic(one, 2, 3) for one in ("source", "target")]).values():
            future.result(30)
        for one in ("source", "target"):
            everywhere(cluster, one, 2)
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        count = RECORDS * rounds
        for number in range(count):
            producer.produce("source", f"{number}", f"{number}")
            producer.poll(0)
        assert producer.flush(60) == 0
        copier = kind(servers)
        with Reader(servers, ["target"]) as reader:
            copier.start()
            for number in range(rounds):
                part = RECORDS * number + RECORDS // 3
                assert reader.until(lambda part=part: len(reader.read["target"]) >= part, PATIENCE_SECONDS)
                victim = choose.choice(cluster.broker_ids)
                cluster.kill(victim)
                cluster.wait_ready(victim)
            assert reader.until(lambda: len(reader.read["target"]) >= count, PATIENCE_SECONDS), len(
                reader.read["target"]
            )
            reader.quiet()
            copier.done.set()
            copier.join(60)
            assert not copier.is_alive()
        found = Counter((key, value) for _, _, key, value in reader.read["target"])
        assert found == Counter((b"%d" % number, b"copy of %d" % number) for number in range(count))
        assert copier.aborted >= rounds and copier.committed >= 10 * rounds, (
            copier.aborted,
            copier.committed,
            copier.failed,
        )
