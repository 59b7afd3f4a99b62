"""What metrics that are scraped every second cost a node under load: `python -m bench.scraping [--pairs 60]`.

One node and one connection with a few requests in flight, each with the same batch, so that the node is busy and a request
costs it much the same however busy the machine is. In turn there are windows in which the page is read every second as
Prometheus reads it, and windows in which it is not; two windows are a pair, and the order changes from pair to pair. Said
are the medians over the pairs: the node's CPU time, all its threads, for a request, requests a second, and what a scrape
costs, as a share of a core: so much of its throughput loses a node that has a core to itself and is busy all the time.

On a busy machine nobody sees what one scrape in a second does: `--each-second 20`, and a twentieth of that, is clearer.
"""

import argparse
import http.client
import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import rayft
from bench import frames
from bench.ports import free_port

TOPIC = "load"
RECORDS, SIZE = 100, 100
"""Records of a request, and bytes of each."""
IN_FLIGHT = 4
"""Requests that the node has at a time: it never waits for the client."""
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


class Window(NamedTuple):
    """What a node did in some seconds."""

    requests: int
    cpu_s: float
    wall_s: float
    scrapes: int = 0


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


class Scraper:
    """Who reads the page: a process of its own, so that its work holds up neither the client nor the node."""

    def __init__(self, port: int) -> None:
        ours, its = multiprocessing.Pipe()
        self._pipe = ours
        self._process = multiprocessing.get_context("spawn").Process(target=_scrapes, args=(port, its), daemon=True)
        self._process.start()
        self.size: int = ours.recv()
        """Bytes of a page."""

    def start(self, interval_s: float) -> None:
        """Begin to read the page so often."""
        self._pipe.send(interval_s)

    def stop(self) -> int:
        """Read it no longer; returns how often it was read."""
        self._pipe.send(None)
        return int(self._pipe.recv())

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(20)


def _scrapes(port: int, pipe: Connection) -> None:
    pipe.send(scrape(port))
    while True:
        try:
            interval_s = pipe.recv()
        except EOFError:
            return
        scrapes, due = 0, time.monotonic() + interval_s / 2  # the window has whole seconds, and as many scrapes
        while not pipe.poll(max(0.0, due - time.monotonic())):
            scrape(port)
            scrapes += 1
            due += interval_s
        pipe.recv()
        pipe.send(scrapes)


class Node:
    """A node under the load of one connection."""

    def __init__(self, cluster: rayft.Cluster, scraper: Scraper) -> None:
        (self.pid,) = set(cluster.pids.values())
        self._scraper = scraper
        self._connection = frames.Connection(cluster.address(1))
        frames.check_created(self._connection.exchange(frames.create_topic(TOPIC)))
        self._request = frames.produce(TOPIC, RECORDS, SIZE)

    def window(self, scrapes: int, window_s: float) -> Window:
        """What it does in a window with so many scrapes a second."""
        if scrapes:
            self._scraper.start(1 / scrapes)
        for _ in range(IN_FLIGHT - 1):
            self._connection.socket.sendall(self._request)
        requests, cpu, begun = 0, cpu_s(self.pid), time.monotonic()
        while time.monotonic() < begun + window_s:
            frames.check_produced(self._connection.exchange(self._request))
            requests += 1
        found = Window(requests, cpu_s(self.pid) - cpu, time.monotonic() - begun)
        for _ in range(IN_FLIGHT - 1):
            frames.check_produced(self._connection.answer())
        return found._replace(scrapes=self._scraper.stop()) if scrapes else found

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--window", type=int, default=2, metavar="S")
    parser.add_argument("--each-second", type=int, default=1, metavar="SCRAPES")
    given = parser.parse_args()
    port = free_port()
    settings = {"rayft.metrics.listen": f"127.0.0.1:{port}", "log.segment.bytes": str(64 << 20)}
    settings |= {"log.retention.bytes": str(128 << 20), "log.retention.check.interval.ms": "5000"}
    pairs: list[tuple[Window, Window]] = []
    with rayft.Cluster(1, 1, config=settings, combined=True) as cluster:
        scraper = Scraper(port)
        node = Node(cluster, scraper)
        node.window(0, 3)
        for number in range(given.pairs):
            order = (0, given.each_second) if number % 2 == 0 else (given.each_second, 0)
            found = {scrapes: node.window(scrapes, given.window) for scrapes in order}
            pairs.append((found[0], found[given.each_second]))
        node.close()
        scraper.close()
    report(pairs, scraper.size)


def report(pairs: list[tuple[Window, Window]], size: int) -> None:
    """Print what came of it."""
    cpu = [b.cpu_s / b.requests / (a.cpu_s / a.requests) for a, b in pairs]
    rate = [b.requests / b.wall_s / (a.requests / a.wall_s) for a, b in pairs]
    busy = statistics.median(a.cpu_s / a.wall_s for a, _ in pairs)
    each = statistics.median(a.cpu_s / a.requests for a, _ in pairs)
    often = statistics.median(b.scrapes / b.wall_s for _, b in pairs)
    scrape_s = [(b.cpu_s - a.cpu_s / a.requests * b.requests) / b.scrapes for a, b in pairs if b.scrapes]
    print(
        f"{len(pairs)} pairs, load {os.getloadavg()[0]:.1f}; a page has {size} bytes, packed; {often:.1f} scrapes a second"
    )
    print(f"without scrapes: {each * 1e6:.0f} us of CPU for a request, the node uses {busy:.2f} of a core")
    for name, column in (("CPU time for a request", cpu), ("requests a second", rate)):
        low, middle, high = (part - 1 for part in statistics.quantiles(column, n=4))
        print(
            f"{name}: {middle:+.2%} with them (half of the pairs {low:+.2%} to {high:+.2%}): {middle / often:+.2%} by one"
        )
    low, middle, high = statistics.quantiles(scrape_s, n=4)
    print(f"a scrape: {1000 * middle:.2f} ms of CPU ({1000 * low:.2f} to {1000 * high:.2f}), {middle:.2%} of a core")


if __name__ == "__main__":
    main()
