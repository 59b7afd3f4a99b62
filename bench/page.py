"""Measures the page: how soon it answers, what it weighs, how quick the slider is, how soon a change is told.

`python -m bench.page DIRECTORY [--moves 40] [--out FILE.json]`

DIRECTORY has a metadata log, best a long one; a cluster of three controllers and three brokers is started for the rest. The
page is a process of its own, asked over HTTP as a browser asks. (start) from its command to the answer with the health.
(rss) its memory then, and after all moves. (slider) 50 rows of partitions at a moment: at offsets that were shown before, at
any offset, and filtered and sorted; beside each time stands the CPU time of the page, which other work on the machine
changes less. (told) from the request that creates a topic to the event that tells it, and with ten pages open. (page) the
bytes of everything that a browser loads. Times are in ms: median and p95.
"""

import argparse
import contextlib
import http.client
import json
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect

ROOT = Path(__file__).parent.parent


class Page:
    """A page that is asked over one connection."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        split = urlsplit(address)
        self.process = process
        self.where = str(split.hostname), int(split.port or 0)
        self.headers = {"Authorization": f"Bearer {split.query.partition('=')[2]}"}
        self._conn = http.client.HTTPConnection(*self.where)

    def get(self, path: str, **query: Any) -> bytes:
        """The body of an answer."""
        self._conn.request("GET", f"{path}?{urlencode(query)}" if query else path, headers=self.headers)
        answer = self._conn.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body

    def rss_mib(self) -> float:
        """The resident memory of the process, mapped files included, MiB."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def anonymous_mib(self) -> float:
        """What of that is its own: the pages of a mapped log belong to the system's cache, MiB."""
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def cpu_ms(self) -> float:
        """The CPU time of all threads of the process so far, ms."""
        found = 0.0
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                found += int(task.read_text().split()[0]) / 1e6
        return found

    def events(self) -> Iterator[dict[str, Any]]:
        """What is new, as it comes."""
        conn = http.client.HTTPConnection(*self.where)
        conn.request("GET", "/api/v1/events", headers=self.headers)
        answer = conn.getresponse()
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@contextmanager
def page(*words: str) -> Iterator[tuple[Page, float]]:
    """A page, and the ms from its command to its first answer about the health."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "actors.command.cli", "ui", "--port", "0", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(line.strip() for line in process.stdout if "http" in line)
            opened = Page(process, address)
            opened.get("/api/v1")
            yield opened, (time.perf_counter() - begun) * 1000
        finally:
            process.terminate()


def spread(opened: Page, ask: Callable[[], Any], count: int) -> dict[str, float]:
    """The median and p95 of some calls, ms, and the same of the page's CPU time."""
    times, works = [], []
    for _ in range(count):
        begun, worked = time.perf_counter(), opened.cpu_ms()
        ask()
        times.append((time.perf_counter() - begun) * 1000)
        works.append(opened.cpu_ms() - worked)
    named = [("", times), ("cpu_", works)]
    return {
        f"{name}{what}": round(value, 1)
        for name, found in named
        for what, value in (("median", statistics.median(found)), ("p95", sorted(found)[int(count * 0.95) - 1]))
    }


def slider(opened: Page, moves: int) -> dict[str, Any]:
    """How quick the table of partitions is at moments of the past."""
    end = json.loads(opened.get("/api/v1"))["extent"]["end"]
    chance = random.Random(46)
    seen = [chance.randrange(1, end) for _ in range(4)]
    for at in seen:
        opened.get("/api/v1/tables/partitions", at=at, n=50)
    return {
        "seen": spread(opened, lambda: opened.get("/api/v1/tables/partitions", at=chance.choice(seen), n=50), moves),
        "any": spread(
            opened, lambda: opened.get("/api/v1/tables/partitions", at=chance.randrange(1, end), n=50), moves
        ),
        "sorted": spread(
            opened,
            lambda: opened.get(
                "/api/v1/tables/partitions", at=chance.randrange(1, end), n=50, where="leader = 1", sort="-leader_epoch"
            ),
            max(moves // 4, 20),
        ),
    }


def told(opened: Page, bootstrap: str, name: str, moves: int, pages: int = 1) -> dict[str, float]:
    """How soon the creation of a topic is told."""
    arrived: dict[int, float] = {}

    def listen(events: Iterator[dict[str, Any]]) -> None:
        for one in events:
            arrived.setdefault(one["extent"]["end"], time.perf_counter())

    found = []
    for _ in range(pages):
        threading.Thread(target=listen, args=(opened.events(),), daemon=True).start()
    with connect(bootstrap) as kafka:
        for number in range(moves):
            time.sleep(0.4)
            before = max(arrived, default=0)
            begun = time.perf_counter()
            kafka.run(topics.create([topics.NewTopic(f"{name}-{number}", 3, 3)]))
            while max(arrived, default=0) <= before and time.perf_counter() - begun < 10:
                time.sleep(0.001)
            found.append((max(arrived.values()) - begun) * 1000)
    return {"median": round(statistics.median(found), 1), "p95": round(sorted(found)[int(moves * 0.95) - 1], 1)}


def weight(opened: Page) -> int:
    """The bytes of all files that the page is made of."""
    return sum(len(opened.get(f"/{one.name}")) for one in (ROOT / "actors" / "page" / "static").iterdir())


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with page(str(options.directory)) as (opened, ms):
        found["files"] = {
            "start_ms": round(ms),
            "rss_mib": round(opened.rss_mib()),
            "anonymous_mib": round(opened.anonymous_mib()),
        }
        found["slider_ms"] = slider(opened, options.moves)
        found["files"]["rss_after_mib"] = round(opened.rss_mib())
        found["files"]["anonymous_after_mib"] = round(opened.anonymous_mib())
        found["page_bytes"] = weight(opened)
    with rayft.Cluster(controllers=3, brokers=3) as cluster, page("-b", cluster.bootstrap_servers) as (opened, ms):
        found["cluster"] = {"start_ms": round(ms), "rss_mib": round(opened.rss_mib())}
        found["told_ms"] = told(opened, cluster.bootstrap_servers, "one", options.moves)
        found["told_to_ten_ms"] = told(opened, cluster.bootstrap_servers, "ten", options.moves, 10)
        found["cluster"]["rss_after_mib"] = round(opened.rss_mib())
    text = json.dumps(found, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
