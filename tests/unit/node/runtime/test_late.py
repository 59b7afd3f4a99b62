"""Thousands of requests that waited and are woken by one signal, or expire at once, share the time of many turns."""

from typing import Any

import pytest

from actors.node.runtime.calls import Lane
from actors.ports import Now
from actors.wire import framing
from actors.wire.messages import message
from fastpath.records import batch
from tests.simulator.cluster import Client
from tests.unit.node.net.test_request_channel import PLAIN, Lab, versions

FETCHES, CONNECTIONS = 1600, 100
BUDGET_NS = 4_000_000
WAIT_MS = 5000
READING_NS = 50_000
"""How far the stopwatch moves with each reading: a turn has time for 80 requests."""


class Parked:
    """A broker on which many connections fetch from the end of one partition."""

    def __init__(self) -> None:
        self.lab = Lab()
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        made = Client(self.lab.world, "client").call("b1", "CreateTopics", 7, kind(topics=[topic]))
        assert made.topics[0].error_code == 0
        self.lab.world.run_for(1_000)
        self.ns = 0
        self.lab.node.runtime.stopwatch = self.lab.node.runtime.waiting.stopwatch = self._stopwatch
        self.began = self.lab.process.now()
        self.conns = [self.lab.connect(PLAIN) for _ in range(CONNECTIONS)]
        kind = message("FetchRequest")
        wanted = kind.FetchTopic(topic="t", partitions=[kind.FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        request = kind(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
        for number in range(FETCHES):
            self.lab.send(self.conns[number % CONNECTIONS], "Fetch", 12, request)
        while self.lab.node.requests.queue.size(Lane.DATA):
            assert not self.answers(self.turn(0))

    def _stopwatch(self) -> int:
        self.ns += READING_NS
        return self.ns

    def turn(self, after_ms: int) -> Any:
        return self.lab.node.turn(Now(self.began.mono_ms + after_ms, self.began.wall_ms + after_ms), BUDGET_NS)

    def produce(self) -> None:
        kind = message("ProduceRequest")
        records = batch.Builder(timestamp_ms=self.began.wall_ms)
        records.append(None, b"v")
        data = kind.PartitionProduceData(index=0, records=records.build())
        topic = kind.TopicProduceData(name="t", partition_data=[data])
        self.lab.send(self.lab.connect(PLAIN), "Produce", 9, kind(acks=1, timeout_ms=1000, topic_data=[topic]))

    def answers(self, effects: Any) -> list[Any]:
        return [
            framing.decode_response("Fetch", 12, memoryview(bytearray(answer))[4:])
            for conn, parts in effects.send
            if conn in self.conns
            for answer in _frames(b"".join(parts))
        ]


def _frames(data: bytes) -> list[bytes]:
    frames = []
    while data:
        size = int.from_bytes(data[:4], "big") + 4
        frames.append(data[:size])
        data = data[size:]
    return frames


@pytest.mark.parametrize("after_ms", [0, WAIT_MS + 1], ids=["woken", "expired"])
def test_one_turn_answers_no_more_than_it_has_time_for_and_others_are_served_meanwhile(after_ms: int) -> None:
    parked = Parked()
    lab, answers, turns = parked.lab, [], 0
    if not after_ms:
        parked.produce()
    while len(answers) < FETCHES:
        lab.send(other := lab.connect(PLAIN), "ApiVersions", 3, versions())
        effects = parked.turn(after_ms)
        assert other in lab.answered(effects)
        found = parked.answers(effects)
        assert 0 < len(found) <= 3 * BUDGET_NS // READING_NS // 2
        answers += found
        turns += 1
        if len(answers) < FETCHES:
            assert lab.node.deadline_ms() == 0
    assert turns >= FETCHES * READING_NS // BUDGET_NS // 2
    read = [bool(one.responses[0].partitions[0].records) for one in answers]
    assert read == [not after_ms] * FETCHES
    assert not parked.answers(parked.turn(after_ms))
    assert lab.node.deadline_ms() != 0


def test_a_connection_that_closes_takes_its_late_requests_with_it() -> None:
    parked = Parked()
    parked.produce()
    first = parked.answers(parked.turn(0))
    for conn in parked.conns[50:]:
        parked.lab.node.closed(conn, False)
    answers = list(first)
    while parked.lab.node.deadline_ms() == 0:
        answers += parked.answers(parked.turn(0))
    assert len(first) < len(answers) <= len(first) + FETCHES // 2
    assert all(
        one.parked is None for conn in parked.conns[:50] for one in parked.lab.node.requests.connections.get(conn).slots
    )
