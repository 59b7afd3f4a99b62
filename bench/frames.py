"""A client that sends prepared frames, so that it costs both sides of a comparison almost nothing."""

import selectors
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from actors.wire import framing
from actors.wire.messages import message
from fastpath.records import batch


class Connection:
    """One blocking connection: each frame sent gets one frame back."""

    def __init__(self, address: tuple[str, int], timeout_seconds: float = 30.0) -> None:
        self.socket = socket.create_connection(address, timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def ask(self, name: str, version: int, request: Any) -> Any:
        """Send a request and read its answer."""
        self._correlation += 1
        return framing.decode_response(name, version, self.exchange(frame(name, version, request, self._correlation)))

    def exchange(self, data: bytes) -> bytes:
        """Send a prepared frame. Returns the answer without its length."""
        self.socket.sendall(data)
        return self.answer()

    def answer(self) -> bytes:
        """Read the next frame without its length."""
        size = int.from_bytes(self._read(4), "big")
        return self._read(size)

    def close(self) -> None:
        """Close."""
        self.socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the server closed the connection")
            data += part
        return bytes(data)


def frame(name: str, version: int, request: Any, correlation: int = 1, client: str = "bench") -> bytes:
    """A whole frame."""
    return b"".join(framing.encode_request(name, version, correlation, client, request))


def create_topic(name: str, partitions: int = 1, replicas: int = -1) -> bytes:
    """A prepared CreateTopics of version 5, which both brokers accept."""
    Request = message("CreateTopicsRequest")
    topic = Request.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    return frame("CreateTopics", 5, Request(topics=[topic], timeout_ms=30_000))


def check_created(answer: bytes) -> None:
    """Raise unless the topic was created."""
    reply = framing.decode_response("CreateTopics", 5, answer)
    for topic in reply.topics:
        if topic.error_code:
            raise RuntimeError(f"{topic.name}: {topic.error_code} {topic.error_message}")


def latencies(address: tuple[str, int], frames: Iterable[bytes], check: Callable[[bytes], None]) -> list[float]:
    """Seconds from sending each frame to its answer, one after the other on one connection."""
    connection = Connection(address)
    times = []
    for data in frames:
        begin = time.perf_counter()
        answer = connection.exchange(data)
        times.append(time.perf_counter() - begin)
        check(answer)
    connection.close()
    return times


def rate(address: tuple[str, int], frames: Iterable[bytes], clients: int, check: Callable[[bytes], None]) -> float:
    """Answers a second with `clients` connections, each with one request in flight."""
    todo = iter(frames)
    selector = selectors.DefaultSelector()
    sockets = [socket.create_connection(address) for _ in range(clients)]
    inboxes = {one: bytearray() for one in sockets}
    done = 0
    answers: list[bytes] = []
    begin = time.perf_counter()
    busy = 0
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(one, selectors.EVENT_READ)
        data = next(todo, None)
        if data is not None:
            one.sendall(data)
            busy += 1
    while busy:
        for key, _ in selector.select():
            one = key.fileobj
            assert isinstance(one, socket.socket)
            inbox = inboxes[one]
            part = one.recv(1 << 16)
            if not part:
                raise ConnectionError("the server closed the connection")
            inbox += part
            while len(inbox) >= 4 and len(inbox) >= 4 + int.from_bytes(inbox[:4], "big"):
                size = int.from_bytes(inbox[:4], "big")
                answers.append(bytes(inbox[4 : 4 + size]))
                del inbox[: 4 + size]
                done += 1
                data = next(todo, None)
                if data is None:
                    busy -= 1
                else:
                    one.sendall(data)
    seconds = time.perf_counter() - begin
    for one in sockets:
        one.close()
    for answer in answers:
        check(answer)
    return done / seconds


def produce(topic: str, records: int, size: int) -> bytes:
    """A prepared Produce of version 9 with acks=all: one batch of so many records of `size` bytes for partition 0."""
    Request = message("ProduceRequest")
    builder = batch.Builder(timestamp_ms=int(time.time() * 1000))
    for _ in range(records):
        builder.append(None, b"x" * size)
    part = Request.PartitionProduceData(index=0, records=bytes(builder.build()))
    data = Request.TopicProduceData(name=topic, partition_data=[part])
    return frame("Produce", 9, Request(acks=-1, timeout_ms=30_000, topic_data=[data]))


def check_produced(answer: bytes) -> None:
    """Raise unless the batch was taken."""
    reply = framing.decode_response("Produce", 9, answer)
    if reply.responses[0].partition_responses[0].error_code:
        raise RuntimeError(f"produce: {reply.responses[0].partition_responses[0].error_code}")


def produce_latencies(address: tuple[str, int], topic: str, count: int, size: int = 100) -> list[float]:
    """Seconds from sending a record with acks=all to its acknowledgement, `count` times in turn on one connection."""
    data, check = produce(topic, 1, size), check_produced
    end = time.monotonic() + 10
    while True:  # a new topic's leader is known only a moment later
        try:
            latencies(address, [data], check)
            break
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
    return latencies(address, [data] * count, check)
