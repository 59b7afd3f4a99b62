"""What metrics that are scraped every second cost a node under load: `python -m bench.scraping [--pairs 30]`.

One node, one producer that sends all the time, and windows in which the page is read every second as Prometheus reads it, in
turn with windows in which it is not; two windows are a pair, and the order changes from pair to pair. Said are the medians
over the pairs: the node's CPU time for a record, and records a second. CPU time is what other users of the machine hardly
distort; a node that has a core to itself has as much less throughput as it has more CPU time for a record.
"""

import argparse
import http.client
import multiprocessing
import os
import random
import socket
import statistics
import time
from multiprocessing.sharedctypes import Synchronized
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

import rayft

TOPIC, PARTITIONS, SIZE = "load", 4, 100
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


class Window(NamedTuple):
    """What a node did in some seconds."""

    records: int
    cpu_s: float
    wall_s: float
    scrapes: int


def load(servers: str, stop: "Synchronized[int]") -> None:
    """Send records until told otherwise."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "batch.size": 1 << 16, "acks": "all"})
    value, sent = random.randbytes(SIZE), 0
    while not stop.value:
        try:
            producer.produce(TOPIC, value, partition=sent % PARTITIONS)
            sent += 1
        except BufferError:
            producer.poll(0.01)
    producer.flush(30)


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process, by the clock that the kernel has for it."""
    return time.clock_gettime((~pid << 3) | 2)


def scrape(port: int) -> int:
    """Read the page as Prometheus does; returns its bytes."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    asked.request("GET", "/metrics", headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
    answer = asked.getresponse()
    body = answer.read()
    asked.close()
    assert answer.status == 200, answer.status
    return len(body)


class Node:
    """The node, as it is measured."""

    def __init__(self, cluster: rayft.Cluster, port: int) -> None:
        (self.pid,) = set(cluster.pids.values())
        self.port = port
        self._asking = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})

    def records(self) -> int:
        """The records that the topic has."""
        ends = [self._asking.get_watermark_offsets(TopicPartition(TOPIC, one), 10)[1] for one in range(PARTITIONS)]
        return sum(ends)

    def window(self, scraped: bool, window_s: float) -> Window:
        """What it does in a window."""
        records, cpu, begun, scrapes = self.records(), cpu_s(self.pid), time.monotonic(), 0
        for second in range(1, int(window_s) + 1):
            if scraped:
                scrape(self.port)
                scrapes += 1
            time.sleep(max(0.0, begun + second - time.monotonic()))
        return Window(self.records() - records, cpu_s(self.pid) - cpu, time.monotonic() - begun, scrapes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--window", type=float, default=5.0, metavar="S")
    given = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"rayft.metrics.listen": f"127.0.0.1:{port}", "num.partitions": str(PARTITIONS)}
    settings |= {"log.segment.bytes": str(64 << 20), "log.retention.bytes": str(128 << 20)}
    context = multiprocessing.get_context("spawn")
    stop = context.Value("i", 0)
    with rayft.Cluster(1, 1, config=settings, combined=True) as cluster:
        loading = context.Process(target=load, args=(cluster.bootstrap_servers, stop), daemon=True)
        loading.start()
        time.sleep(5)
        node = Node(cluster, port)
        size = scrape(port)
        pairs: list[tuple[Window, Window]] = []
        for number in range(given.pairs):
            order = (False, True) if number % 2 == 0 else (True, False)
            found = {scraped: node.window(scraped, given.window) for scraped in order}
            pairs.append((found[False], found[True]))
        stop.value = 1
        loading.join(60)
    report(pairs, size)


def report(pairs: list[tuple[Window, Window]], size: int) -> None:
    """Print what came of it."""
    cpu = [b.cpu_s / b.records / (a.cpu_s / a.records) for a, b in pairs]
    rate = [b.records / b.wall_s / (a.records / a.wall_s) for a, b in pairs]
    busy = statistics.median(a.cpu_s / a.wall_s for a, _ in pairs)
    speed = statistics.median(a.records / a.wall_s for a, _ in pairs)
    print(f"{len(pairs)} pairs, load {os.getloadavg()[0]:.1f}; a page has {size} bytes, packed")
    print(f"without scrapes: {speed:,.0f} records/s, the node uses {busy:.2f} of a core")
    for name, column in (("CPU time for a record", cpu), ("records a second", rate)):
        quarters = statistics.quantiles(column, n=4)
        middle = 100 * (statistics.median(column) - 1)
        print(
            f"{name}: {middle:+.2f}% with scrapes (half of the pairs {quarters[0] - 1:+.2%} to {quarters[2] - 1:+.2%})"
        )


if __name__ == "__main__":
    main()
