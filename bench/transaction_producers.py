"""Many transactional producers in one process, which send what Apache Kafka's own producers send (KIP-890).

A transaction is one Produce with all its records, to a broker that adds the partition to the transaction by itself, and one
EndTxn when that is answered; the answer brings the epoch of the next transaction. The frames are made once: of each only the
producer id, the epoch and the checksum are new. So nearly all of the time is the brokers', which the clients of
`bench.transactions` leave little of where all share few cores.

`python -m bench.transaction_producers BOOTSTRAP TOPIC PARTITIONS PRODUCERS RECORDS BYTES` is asked by `bench.transactions`
as `Transactions.java` is: seconds go in, and out comes what was committed in them.
"""

import os
import selectors
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from actors.wire import framing
from actors.wire.messages import message
from bench import frames
from fastpath.bytes.crc32c import crc32c
from fastpath.records.batch import Builder

TRANSACTIONAL = 0x10
PRODUCE, END_TXN = 12, 5
"""Versions of transaction version 2."""
CRC, CHECKED, PRODUCER = 17, 21, 43
"""Where a batch has its checksum, where what is checked begins, and where it has its producer's id and epoch."""
RETRIED = {6, 14, 15, 16, 51}
"""No leader yet; the coordinator is loading, not available, or another; the last transaction is not over yet."""
RETRY_SECONDS = 0.002
"""Less than any client of Apache Kafka waits."""
START_SECONDS_MAX = 60


class Producer:
    """One producer, with a connection to its partition's leader and one to its coordinator, if that is another broker."""

    def __init__(self, address: tuple[str, int], id: str, topic: str, partition: int, records: int, size: int) -> None:
        self.id = id
        first = frames.Connection(address)
        coordinator, leader = _coordinator(first, id), _leader(first, topic, partition)
        first.close()
        to_coordinator = frames.Connection(coordinator)
        self.coordinator = self.leader = to_coordinator.socket
        if leader != coordinator:
            self.leader = frames.Connection(leader).socket
        builder = Builder(0, -1, TRANSACTIONAL, 1, 0, 0, time.time_ns() // 1_000_000)
        for _ in range(records):
            builder.append(None, b"v" * size)
        batch = bytes(builder.build())
        self._produce = bytearray(_produce(id, topic, partition, batch))
        self._batch = self._produce.index(batch)
        self._batch_size = len(batch)
        self._answers_end = False
        """Whether EndTxn was asked last."""
        self.inbox = bytearray()
        self.asked = 0.0
        request = message("InitProducerIdRequest")(transactional_id=id, transaction_timeout_ms=60_000)
        first = _granted(lambda: to_coordinator.ask("InitProducerId", 5, request))
        self._numbered(first.producer_id, first.producer_epoch)

    def _numbered(self, producer_id: int, epoch: int) -> None:
        """The next transaction has this id and epoch."""
        at = self._batch
        struct.pack_into(">qh", self._produce, at + PRODUCER, producer_id, epoch)
        checked = memoryview(self._produce)[at + CHECKED : at + self._batch_size]
        struct.pack_into(">I", self._produce, at + CRC, crc32c(checked))
        request = message("EndTxnRequest")
        self._end = frames.frame(
            "EndTxn",
            END_TXN,
            request(transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, committed=True),
        )

    def begin(self) -> None:
        """Send the records of a transaction."""
        self.asked = time.perf_counter()
        self.again()

    def again(self) -> None:
        """Send what was asked last."""
        if self._answers_end:
            self.coordinator.sendall(self._end)
        else:
            self.leader.sendall(self._produce)

    def take(self, answer: bytes) -> bool | None:
        """Act on an answer. True: the transaction is committed; None: ask again later."""
        if self._answers_end:
            reply = framing.decode_response("EndTxn", END_TXN, answer)
            code = reply.error_code
        else:
            code = framing.decode_response("Produce", PRODUCE, answer).responses[0].partition_responses[0].error_code
        if code in RETRIED:
            return None
        if code:
            raise RuntimeError(f"{self.id}: error {code} of {'EndTxn' if self._answers_end else 'Produce'}")
        if self._answers_end:
            self._answers_end = False
            self._numbered(reply.producer_id, reply.producer_epoch)
            return True
        self._answers_end = True
        self.again()
        return False


def _granted(ask: Callable[[], Any]) -> Any:
    """The first answer without an error; a coordinator may need a moment to be there."""
    end = time.monotonic() + START_SECONDS_MAX
    while (answer := ask()).error_code:
        if answer.error_code not in RETRIED or time.monotonic() > end:
            raise RuntimeError(f"no producer can begin: error {answer.error_code}")
        time.sleep(0.02)
    return answer


def _coordinator(connection: frames.Connection, id: str) -> tuple[str, int]:
    """Where the coordinator of a transactional id is."""
    request = message("FindCoordinatorRequest")(key_type=1, coordinator_keys=[id])
    found = _granted(lambda: connection.ask("FindCoordinator", 4, request).coordinators[0])
    return found.host, found.port


def _leader(connection: frames.Connection, topic: str, partition: int) -> tuple[str, int]:
    """Where the leader of a partition is."""
    kind = message("MetadataRequest")
    reply = connection.ask("Metadata", 9, kind(topics=[kind.MetadataRequestTopic(name=topic)]))
    leaders = {one.partition_index: one.leader_id for one in reply.topics[0].partitions}
    return {one.node_id: (one.host, one.port) for one in reply.brokers}[leaders[partition]]


def _produce(id: str, topic: str, partition: int, batch: bytes) -> bytes:
    kind = message("ProduceRequest")
    data = kind.PartitionProduceData(index=partition, records=batch)
    topics = [kind.TopicProduceData(name=topic, partition_data=[data])]
    return frames.frame("Produce", PRODUCE, kind(transactional_id=id, acks=-1, timeout_ms=30_000, topic_data=topics))


def window(producers: list[Producer], selector: selectors.BaseSelector, seconds: float) -> list[float]:
    """Commit one transaction after the other for so long. The milliseconds that each took."""
    times: list[float] = []
    later: list[tuple[float, Producer]] = []
    end = time.perf_counter() + seconds
    for one in producers:
        one.begin()
    busy = len(producers)
    while busy:
        for key, _ in selector.select(RETRY_SECONDS if later else None):
            one = key.data
            one.inbox += key.fileobj.recv(65536)  # type: ignore[union-attr]
            size = int.from_bytes(one.inbox[:4], "big")
            if len(one.inbox) < 4 + size or len(one.inbox) < 4:
                continue
            answer = bytes(one.inbox[4:])
            one.inbox.clear()
            committed = one.take(answer)
            now = time.perf_counter()
            if committed is None:
                later.append((now + RETRY_SECONDS, one))
            elif committed:
                times.append((now - one.asked) * 1000)
                if now < end:
                    one.begin()
                else:
                    busy -= 1
        while later and later[0][0] <= time.perf_counter():
            later.pop(0)[1].again()
    return times


def serve(window: Callable[[float], list[float]]) -> None:
    """As a client program of `bench.transactions`: seconds come in, and out goes how many transactions were committed, in
    which time, with how much of the processor, and the quantiles of their milliseconds."""
    print("ready", flush=True)
    for line in sys.stdin:
        begun, cpu = time.perf_counter(), sum(os.times()[:2])
        times = sorted(window(float(line)))
        took, cpu = time.perf_counter() - begun, sum(os.times()[:2]) - cpu
        places = (times[len(times) * share // 100] for share in (50, 90, 99))
        print(len(times), took, cpu, *places, flush=True)


def main(bootstrap: str, topic: str, partitions: str, count: str, records: str, size: str) -> None:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    selector: Any = selectors.DefaultSelector()
    producers = []
    for number in range(int(count)):
        one = Producer((host, int(port)), f"frames-{number}", topic, number % int(partitions), int(records), int(size))
        for sock in {one.leader, one.coordinator}:
            selector.register(sock, selectors.EVENT_READ, one)
        producers.append(one)
    serve(lambda seconds: window(producers, selector, seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
