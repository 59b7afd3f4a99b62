"""Two checkouts of rayft side by side: what a change costs, or saves.

`python -m bench.trees OTHER [--rounds 20] [--only NAME ...]`

OTHER is a checkout that is built (its `.venv` is used). A node of each, controller and broker in one process, runs all the
time; a round measures a figure on both, in an order that changes from round to round. The client sends frames that were made
beforehand. Two figures count: the processor time of the node for one request, which other users of the machine hardly
distort, and the time from a request to its answer. What is printed is the median of the rounds' ratios, this checkout over
the other, with the quarter of the rounds below and above.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from actors.wire import framing
from actors.wire.messages import message
from bench import frames
from fastpath.records import batch

HERE = Path(__file__).parents[1]
NODE = """
import sys, rayft
with rayft.Cluster(controllers=1, brokers=1, combined=True, dir=sys.argv[1]) as cluster:
    print(cluster.bootstrap_servers, *cluster.pids.values(), flush=True)
    sys.stdin.read()
"""
PARTITIONS = 50


class Node(NamedTuple):
    """A running node of one checkout."""

    address: tuple[str, int]
    pid: int

    def processor_s(self) -> float:
        """The processor time of all its threads, which the kernel counts by the nanosecond there. `stat` has ticks of 10 ms:
        an idle node takes few of them."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


@contextmanager
def running(tree: Path) -> Iterator[Node]:
    """A node of a checkout, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="rayft-trees-") as room:
        command = [tree / ".venv/bin/python", "-c", NODE, f"{room}/cluster"]
        with subprocess.Popen(command, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdin is not None
            servers, *pids = process.stdout.readline().split()
            host, _, port = servers.rpartition(":")
            try:
                yield Node((host, int(port)), int(pids[0]))
            finally:
                process.stdin.close()


def records(count: int, size: int) -> bytes:
    """One batch."""
    builder = batch.Builder(timestamp_ms=int(time.time() * 1000))
    for _ in range(count):
        builder.append(None, b"x" * size)
    return bytes(builder.build())


def produce(topic: str, data: bytes, acks: int = -1) -> bytes:
    """A Produce to partition 0."""
    Request = message("ProduceRequest")
    part = Request.PartitionProduceData(index=0, records=data)
    rows = [Request.TopicProduceData(name=topic, partition_data=[part])]
    return frames.frame("Produce", 9, Request(acks=acks, timeout_ms=30_000, topic_data=rows))


def fetch(topic: str, partitions: int, offset: int, session: int = 0, epoch: int = -1) -> bytes:
    """A Fetch of version 12; with the defaults one without a session."""
    Request = message("FetchRequest")
    rows = [
        Request.FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1)
        for n in range(partitions)
    ]
    return frames.frame(
        "Fetch",
        12,
        Request(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=session,
            session_epoch=epoch,
            topics=[Request.FetchTopic(topic=topic, partitions=rows)] if partitions else [],
        ),
    )


class Client:
    """A connection to one node, with what the figures need on it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.connection = frames.Connection(node.address)
        self.made = 0
        for topic, partitions in (("one", 1), ("many", PARTITIONS)):
            frames.check_created(self.connection.exchange(frames.create_topic(topic, partitions, 1)))
        large = produce("one", records(1000, 100))
        while _refused(self.connection.exchange(large)):
            time.sleep(0.1)  # a new topic's leader is known only a moment later
        for _ in range(60):
            self.connection.exchange(large)
        reply = self.connection.ask("Fetch", 12, _first())
        self.session, self.epoch = reply.session_id, 0

    def one_by_one(self, frame: bytes, count: int) -> float:
        """Seconds from a request to its answer, the median of `count`."""
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            self.connection.exchange(frame)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def together(self, frame: bytes, count: int, under_way: int = 8) -> float:
        """Seconds for each of `count` requests of which so many are under way."""
        begin = time.perf_counter()
        for n in range(count):
            self.connection.socket.sendall(frame)
            if n >= under_way:
                self.connection.answer()
        for _ in range(under_way):
            self.connection.answer()
        return (time.perf_counter() - begin) / count

    def incremental(self, count: int) -> float:
        """Seconds from an incremental Fetch of 50 partitions without news to its answer, the median of `count`."""
        times = []
        for _ in range(count):
            self.epoch += 1
            frame = fetch("many", 0, 0, self.session, self.epoch)
            begin = time.perf_counter()
            self.connection.exchange(frame)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def create(self, count: int) -> float:
        """Seconds from a CreateTopics to its answer, the median of `count`."""
        times = []
        for _ in range(count):
            self.made += 1
            frame = frames.create_topic(f"made-{self.made}", 1, 1)
            begin = time.perf_counter()
            answer = self.connection.exchange(frame)
            times.append(time.perf_counter() - begin)
            frames.check_created(answer)
        return statistics.median(times)


def _refused(answer: bytes) -> int:
    return int(framing.decode_response("Produce", 9, answer).responses[0].partition_responses[0].error_code)


def _first() -> object:
    Request = message("FetchRequest")
    rows = [Request.FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(PARTITIONS)]
    return Request(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=0, session_id=0, session_epoch=0,
        topics=[Request.FetchTopic(topic="many", partitions=rows)],
    )  # fmt: skip


def _idle(client: Client) -> float:
    time.sleep(2.0)
    return 0.0


SMALL, LARGE = records(1, 100), records(100, 100)
FIGURES: dict[str, tuple[int, Callable[[Client], float]]] = {
    "produce, one record, one by one": (1500, lambda one: one.one_by_one(produce("one", SMALL), 1500)),
    "produce, 100 records, eight under way": (2000, lambda one: one.together(produce("one", LARGE), 2000)),
    "fetch, 1 MiB, one by one": (400, lambda one: one.one_by_one(fetch("one", 1, 0), 400)),
    "fetch, 50 partitions, one by one": (1000, lambda one: one.one_by_one(fetch("many", PARTITIONS, 0), 1000)),
    "fetch, a session without news": (1500, lambda one: one.incremental(1500)),
    "create a topic": (60, lambda one: one.create(60)),
    "idle for two seconds": (1, _idle),
}
"""Name -> (requests, what sends them and returns seconds)."""


def quartiles(ratios: list[float]) -> str:
    """The median, and the quarters below and above it."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:5.2f}  ({low:.2f} to {high:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.trees", description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=list(FIGURES))
    args = parser.parse_args()
    with ExitStack() as kept:
        clients = [Client(kept.enter_context(running(tree))) for tree in (HERE, args.other.resolve())]
        print("this checkout over the other: processor time of the node, time to the answer")
        for name in args.only:
            count, measure = FIGURES[name]
            processor, answer = [], []
            for number in range(args.rounds + 1):
                found: dict[int, tuple[float, float]] = {}
                for side in (0, 1) if number % 2 else (1, 0):
                    begin = clients[side].node.processor_s()
                    seconds = measure(clients[side])
                    found[side] = (clients[side].node.processor_s() - begin) / count, seconds
                if number:  # the first round warms both
                    if found[1][0]:
                        processor.append(found[0][0] / found[1][0])
                    if found[1][1]:
                        answer.append(found[0][1] / found[1][1])
            shown = [quartiles(one) if len(one) > 1 else "-" for one in (processor, answer)]
            print(f"{name:40} {shown[0]:26} {shown[1]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
