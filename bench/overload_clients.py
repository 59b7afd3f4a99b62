"""What runs beside the cluster of `bench.overload`: clients that keep a queue full, one that notes what is
acknowledged, a clock.

`load` is the clients: connections with requests one behind the other. `probe` writes small records, each with a name of its
own, and notes which were acknowledged when. `clock` sleeps for a millisecond again and again and notes how late it is woken,
which no process on this machine can avoid while the cores are busy. All three run until they are ended.
"""

import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.wire import framing
from actors.wire.messages import message
from bench import frames

IN_FLIGHT = 8
"""Requests that a client of `load` has under way."""
PRIORITIES = ("lowest", "equal")
"""Of the process of `load`. With the lowest it runs where no node wants the core, as if it were on another machine."""
PROBE_S = 0.02
"""The pause of a connection of `probe` after each answer."""
PRODUCE = 9
"""The version of Produce that both sides speak."""


def _produce(topic: str, partition: int, value: bytes, acks: int, correlation: int) -> bytes:
    from fastpath.records.batch import Builder

    builder = Builder(timestamp_ms=time.time_ns() // 1_000_000)
    builder.append(None, value)
    kind = message("ProduceRequest")
    data = kind.PartitionProduceData(index=partition, records=builder.build())
    topics = [kind.TopicProduceData(name=topic, partition_data=[data])]
    request = kind(acks=acks, timeout_ms=30_000, topic_data=topics)
    return frames.frame("Produce", PRODUCE, request, correlation)


# ---- load


def load(port: int, connections: int, size: int, priority: str) -> None:
    """Keep a broker's queue full until this process is ended. `priority`: one of PRIORITIES."""
    if priority == "lowest":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    requests = [_produce("load", number, os.urandom(size), 1, number) for number in range(8)]
    selector = selectors.DefaultSelector()
    for number in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        selector.register(
            sock, selectors.EVENT_READ | selectors.EVENT_WRITE, [memoryview(requests[number % 8]), 0, 0, bytearray()]
        )
    while True:
        for key, events in selector.select():
            _converse(selector, key, events, requests)


def _converse(selector: selectors.BaseSelector, key: Any, events: int, requests: Sequence[bytes]) -> None:
    sock, state = key.fileobj, key.data
    left, sent, answered, read = state
    try:
        if events & selectors.EVENT_READ:
            read += sock.recv(65536)
            while len(read) >= 4 and len(read) >= 4 + int.from_bytes(read[:4], "big"):
                del read[: 4 + int.from_bytes(read[:4], "big")]
                answered += 1
        if events & selectors.EVENT_WRITE and sent - answered < IN_FLIGHT:
            left = left[sock.send(left) :]
            if not left:
                sent += 1
                left = memoryview(requests[sent % len(requests)])
    except BlockingIOError:
        pass
    state[:] = left, sent, answered, read
    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if sent - answered < IN_FLIGHT else 0)
    if wanted != key.events:
        selector.modify(sock, wanted, state)


# ---- probe


class Acknowledged(NamedTuple):
    """One record of `probe` that a broker has acknowledged."""

    partition: int
    offset: int
    value: str
    acks: int
    at_ns: int
    """When the answer was read, by the monotonic clock."""


def probe(port: int, partitions: int, notes: str) -> None:
    """Write records to each partition of `moved`, with acks=1 and acks=all in turn, and note what is acknowledged."""
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    selector = selectors.DefaultSelector()
    due: deque[tuple[float, int, frames.Connection]] = deque()
    for number in range(partitions):
        due.append((0.0, number, frames.Connection(("127.0.0.1", port))))
    count = 0
    while True:
        while due and due[0][0] <= time.monotonic():
            _, number, connection = due.popleft()
            count += 1
            value, acks = f"{os.getpid()}-{count}", (1, -1)[count // partitions % 2]
            connection.socket.sendall(_produce("moved", number, value.encode(), acks, count))
            selector.register(connection.socket, selectors.EVENT_READ, (number, value, acks, connection))
        for key, _ in selector.select(0.005):
            number, value, acks, connection = key.data
            frame = connection.answer()
            at_ns = time.monotonic_ns()
            selector.unregister(connection.socket)
            (answer,) = framing.decode_response("Produce", PRODUCE, frame).responses[0].partition_responses
            if not answer.error_code:
                os.write(out, f"{number} {answer.base_offset} {value} {acks} {at_ns}\n".encode())
            due.append((time.monotonic() + PROBE_S, number, connection))


def acknowledged(text: str) -> list[Acknowledged]:
    """What `probe` has noted."""
    rows = (line.split() for line in text.splitlines())
    return [Acknowledged(int(row[0]), int(row[1]), row[2], int(row[3]), int(row[4])) for row in rows]


# ---- clock


def clock(notes: str) -> None:
    """Note by how many nanoseconds each sleep of a millisecond was longer."""
    with open(notes, "w", buffering=1) as out:
        while True:
            began_ns = time.monotonic_ns()
            time.sleep(0.001)
            out.write(f"{time.monotonic_ns() - began_ns - 1_000_000}\n")


# ---- the operator


class Operator(frames.Connection):
    """Questions to one broker."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), 60)

    def create(self, name: str, assignments: Sequence[Sequence[int]], configs: dict[str, str]) -> None:
        """A topic with these replicas."""
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
                for number, replicas in enumerate(assignments)
            ],
            configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        (result,) = self.ask("CreateTopics", 7, kind(topics=[topic], timeout_ms=30_000)).topics
        if result.error_code:
            raise RuntimeError(f"{name} is not created: error {result.error_code}")

    def records(self, name: str, partitions: int) -> int:
        """How many records partitions that this broker leads have ever had."""
        kind = message("ListOffsetsRequest")
        asked = [kind.ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(partitions)]
        reply = self.ask("ListOffsets", 5, kind(topics=[kind.ListOffsetsTopic(name=name, partitions=asked)]))
        return sum(one.offset for one in reply.topics[0].partitions)

    def move(self, name: str, number: int, leader: int, other: int) -> bool:
        """Make `leader` the leader of a partition; whether it is now."""
        kind = message("AlterPartitionReassignmentsRequest")
        one = kind.ReassignablePartition(partition_index=number, replicas=[leader, other])
        topics = [kind.ReassignableTopic(name=name, partitions=[one])]
        self.ask("AlterPartitionReassignments", 0, kind(topics=topics, timeout_ms=30_000))
        kind = message("ElectLeadersRequest")
        topics = [kind.TopicPartitions(topic=name, partitions=[number])]
        reply = self.ask("ElectLeaders", 2, kind(election_type=0, topic_partitions=topics, timeout_ms=30_000))
        return all(one.error_code == 0 for topic in reply.replica_election_results for one in topic.partition_result)
