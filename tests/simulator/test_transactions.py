"""Transactions of three producers on one partition, while brokers are killed, lose power and stand still.

The coordinator is played by the test: it sends each marker until it is told that it is committed, in transaction version 2.
Readers of committed records see every committed transaction once and whole, and nothing of another.
"""

import random
from typing import Any

import pytest

from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.reference.transactions import ABORT, COMMIT, PLAIN, TRANSACTIONAL, Batch, consumed
from tests.simulator.checkers.changed_replicas import ChangedReplicas
from tests.simulator.checkers.hooks import Hooks
from tests.simulator.checkers.stable_offsets import StableOffsets
from tests.simulator.one_topic import OneTopic
from tests.unit.broker.log.transactions import aborted

RETRIABLE = {3, 5, 6, 7, 19, 20, 56, 74, 75}
SETTINGS = {"internal.segment.bytes": "600", "min.insync.replicas": "2"}
CONFIG = {
    "replica.lag.time.max.ms": "2000",
    "registration.heartbeat.interval.ms": "500",
    "registration.lease.timeout.ms": "3000",
    "transaction.partition.verification.enable": "false",
}
"""The settings of a broker that verifies no partitions: there is no coordinator to ask, and Produce 11 does not have
them added."""


class Scene:
    """The world, its producers, and what they know."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.t = OneTopic(settings=SETTINGS, config=CONFIG)
        hooks = Hooks()
        hooks.add([ChangedReplicas(hooks), StableOffsets()])
        self.t.world.turned.extend(hooks.turned)
        self.t.world.ended.extend(hooks.ended)
        self.next: dict[int, tuple[int, int]] = {1: (0, 0), 2: (0, 0), 3: (0, 0)}
        """(epoch, sequence) of each producer's next batch."""
        self.open: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
        self.certain: list[bytes] = []
        """Committed, or of no producer."""
        self.count = 0
        self.down: Any = None

    def persist(self, name: str, version: int, request: Any, code: Any) -> Any:
        """Ask whoever leads until the answer is final."""
        for _ in range(200):
            active = self.t.cluster.active()
            leader = self.t.leader if active is not None else -1
            if leader in self.t.cluster.brokers:
                try:
                    reply = self.t.client.call(f"b{leader}", name, version, request, 8_000)
                except TimeoutError:
                    reply = None
                if reply is not None and code(reply) not in RETRIABLE:
                    return reply
            self.t.world.run_for(300)
        raise AssertionError(f"{name} never gets an answer")

    def value(self) -> bytes:
        self.count += 1
        return b"%d " % self.count + bytes(self.random.randrange(120))

    def send(self, value: bytes, producer: int = -1) -> None:
        kind = message("ProduceRequest")
        epoch, sequence = self.next.get(producer, (-1, -1))
        attributes = 0x10 if producer >= 0 else 0
        builder = batches.Builder(
            timestamp_ms=1_600_000_000_000,
            attributes=attributes,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        builder.append(None, value)
        data = kind.PartitionProduceData(index=0, records=builder.build())
        request = kind(
            transactional_id="x" if producer >= 0 else None,
            acks=-1,
            timeout_ms=3000,
            topic_data=[kind.TopicProduceData(name="t", partition_data=[data])],
        )
        reply = self.persist("Produce", 11, request, lambda reply: reply.responses[0].partition_responses[0].error_code)
        assert reply.responses[0].partition_responses[0].error_code == 0, reply
        if producer >= 0:
            self.next[producer] = epoch, sequence + 1

    def write(self, producer: int) -> None:
        value = self.value()
        self.open[producer].append(value)
        self.send(value, producer)

    def end(self, producer: int, commit: bool) -> None:
        kind = message("WriteTxnMarkersRequest")
        epoch = self.next[producer][0] + 1
        topic = kind.WritableTxnMarkerTopic(name="t", partition_indexes=[0])
        marker = kind.WritableTxnMarker(
            producer_id=producer,
            producer_epoch=epoch,
            transaction_result=commit,
            coordinator_epoch=0,
            transaction_version=2,
            topics=[topic],
        )
        request = kind(markers=[marker])
        code = lambda reply: reply.markers[0].topics[0].partitions[0].error_code  # noqa: E731
        assert code(self.persist("WriteTxnMarkers", 2, request, code)) == 0
        self.next[producer] = epoch, 0
        if commit:
            self.certain += self.open[producer]
        self.open[producer] = []

    def harm(self) -> None:
        """One broker at a time, so that what is acknowledged stays."""
        if self.down is not None:
            process, self.down = self.down, None
            if process.alive:
                process.thaw()
            else:
                process.start()
            self.t.until(lambda: len(self.t.isr) == 3, 120_000)
            return
        process = self.t.cluster.brokers[self.random.randrange(3) + 1]
        self.down = process
        getattr(process, self.random.choice(("kill", "crash", "freeze")))()

    def read(self) -> list[bytes]:
        """Everything that a reader of committed records takes in."""
        kind = message("FetchRequest")
        topic_id = self.t.image.topic_id(self.t.image.topic("t"))
        found: list[bytes] = []
        position = 0
        while True:
            limit = self.random.choice((1, 300, 1 << 20))
            wanted = kind.FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=limit)
            topic = kind.FetchTopic(topic_id=topic_id, partitions=[wanted])
            request = kind(isolation_level=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic])
            reply = self.persist("Fetch", 16, request, lambda reply: reply.responses[0].partitions[0].error_code)
            data = reply.responses[0].partitions[0]
            assert data.error_code == 0, data
            assert data.last_stable_offset <= data.high_watermark
            if not data.records:
                return found
            whole, values = [], {}
            for header in batches.headers(data.records):
                assert header.last_offset < data.last_stable_offset
                records = list(batches.records(data.records, header.position))
                kinds = (TRANSACTIONAL if header.attributes & 0x10 else PLAIN), ABORT, COMMIT
                control = header.attributes & 0x20
                what = kinds[1 + records[0].key[3]] if control and records[0].key else kinds[0]
                whole.append(Batch(header.base_offset, header.last_offset, what, header.producer_id))
                values[header.base_offset] = records[0].value
                position = header.last_offset + 1
            told = [(one.producer_id, one.first_offset) for one in data.aborted_transactions]
            found += [values[base] or b"" for base in consumed(whole, told)]


@pytest.mark.parametrize("seed", range(6))
def test_readers_of_committed_records_see_whole_transactions(seed: int) -> None:
    scene = Scene(seed)
    choose = scene.random
    for _ in range(60):
        action = choose.randrange(10)
        if action < 5:
            scene.write(choose.randrange(3) + 1)
        elif action < 7:
            scene.end(choose.randrange(3) + 1, choose.randrange(2) == 0)
        elif action < 8:
            value = scene.value()
            scene.certain.append(value)
            scene.send(value)
        elif action < 9:
            scene.harm()
        else:
            seen = scene.read()
            assert len(seen) == len(set(seen)) and set(seen) <= set(scene.certain)
    if scene.down is not None:
        scene.harm()
    for producer in scene.open:
        scene.end(producer, choose.randrange(2) == 0)
    scene.t.world.run_for(3_000)
    assert sorted(scene.read()) == sorted(scene.certain)
    logs = [scene.t.log(id) for id in scene.t.cluster.brokers]
    assert len({log.log_end_offset for log in logs}) == 1
    for log in logs:
        assert log.producers.equals(logs[0].producers) or log.producers.transactions.ended
        assert not log.producers.transactions.open
        assert aborted(log, 0, log.log_end_offset) == aborted(logs[0], 0, log.log_end_offset)
