"""Brokers are killed with -9 while transactions run: what readers see stays whole."""

import random
import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.conftest import everywhere

SECONDS = 25.0
ROWS = 6
"""Records of a transaction, one to each of three partitions of two topics."""
CONFIG = {
    "registration.lease.timeout.ms": "6000",
    "registration.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
TOPICS = ("one", "two")


class Writer:
    """One transactional id, again and again under a new producer when the one before has failed."""

    def __init__(self, servers: str, id: str) -> None:
        self.servers, self.id = servers, id
        self.committed: list[str] = []
        """Names of transactions whose commit was confirmed."""
        self.aborted: list[str] = []
        """Those whose abort was."""
        self.unsure: list[str] = []
        """Those of which the producer was not told."""
        self.stop = False

    def run(self) -> None:
        number = 0
        while not self.stop:
            producer = Producer(
                {
                    "bootstrap.servers": self.servers,
                    "transactional.id": self.id,
                    "transaction.timeout.ms": 10_000,
                    "log_level": 0,
                }
            )
            try:
                producer.init_transactions(30)
                while not self.stop:
                    number += 1
                    self._one(producer, f"{self.id}/{number}", random.random() < 0.2)
            except KafkaException:
                time.sleep(0.1)

    def _one(self, producer: Producer, name: str, abort: bool) -> None:
        self.unsure.append(name)
        producer.begin_transaction()
        for place in range(ROWS):
            producer.produce(TOPICS[place % 2], name.encode(), partition=place // 2)
        while True:
            try:
                if abort:
                    producer.abort_transaction(30)
                else:
                    producer.commit_transaction(30)
                break
            except KafkaException as error:
                cause = error.args[0]
                if cause.txn_requires_abort():
                    abort = True
                elif not cause.retriable():
                    raise
        self.unsure.remove(name)
        (self.aborted if abort else self.committed).append(name)


def read(servers: str, level: str) -> Counter[str]:
    """Every record, up to the end of what a reader of that level may see."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "nobody",
            "isolation.level": level,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.assign([TopicPartition(topic, number, 0) for topic in TOPICS for number in range(ROWS // 2)])
    found: Counter[str] = Counter()
    last_s = time.monotonic()
    while time.monotonic() - last_s < 5:
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            found[value.decode()] += 1
            last_s = time.monotonic()
    reader.close()
    return found


@pytest.mark.slow
def test_transactions_stay_whole_while_brokers_are_killed() -> None:
    choose = random.Random(19)
    with rayft.Cluster(controllers=3, brokers=3, config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics([NewTopic(topic, ROWS // 2, 3) for topic in TOPICS]).values():
            future.result(30)
        for topic in TOPICS:
            everywhere(cluster, topic, ROWS // 2)
        writers = [Writer(servers, f"w{number}") for number in range(3)]
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
        for thread in threads:
            thread.start()
        end_s = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < end_s:
            time.sleep(choose.uniform(2, 5))
            victim = choose.choice(cluster.broker_ids)
            cluster.kill(victim)
            kills += 1
            cluster.wait_ready(victim)
        before = sum(len(writer.committed) for writer in writers)
        until_s = time.monotonic() + 60
        while sum(len(writer.committed) for writer in writers) < before + 10:
            assert time.monotonic() < until_s, "no transaction is committed any more"
            time.sleep(0.2)
        for writer in writers:
            writer.stop = True
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        # What nobody has ended is over its time after ten seconds, and the markers follow.
        time.sleep(15)
        seen = read(servers, "read_committed")
        everything = read(servers, "read_uncommitted")
    committed = {name for writer in writers for name in writer.committed}
    aborted = {name for writer in writers for name in writer.aborted}
    unsure = {name for writer in writers for name in writer.unsure}
    assert {name: count for name, count in seen.items() if count != ROWS} == {}, (
        "a transaction is there in part, or twice"
    )
    assert committed - set(seen) == set(), "a committed transaction is missing"
    assert aborted & set(seen) == set(), "an aborted transaction is seen"
    assert set(seen) <= committed | unsure
    assert set(seen) <= set(everything)
    assert kills >= 4 and len(committed) > 50, (kills, len(committed))
    print(f"{kills} kills, {len(committed)} committed, {len(aborted)} aborted, {len(unsure)} not known")
