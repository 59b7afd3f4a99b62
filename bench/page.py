"""Measures the page: how soon it answers, what it weighs, how quick the slider is, how soon a change is told.

`python -m bench.page [DIRECTORY] [--moves 40] [--only files told pixel load day] [--pairs 8] [--window 10] [--out FILE]`

DIRECTORY has a metadata log, best a long one; clusters of three controllers and three brokers are started for the rest. The
page is a process of its own, asked over HTTP as a browser asks. Times are in ms: median and p95.

(files) `start`: from its command to the answer with the health. `rss`: its memory then, and after all moves. `slider`: 50
rows of partitions at a moment: at offsets that were shown before, at any offset, and filtered and sorted; beside each time
stands the CPU time of the page, which other work on the machine changes less. `page_bytes`: all that a browser loads.

(told) from the request that creates a topic to the event that tells it, and with ten pages open. `no_leader`: from the end
of all controllers to the event that tells it; how long a page takes to start then, and to its event.

(pixel) from the request that creates a topic to the frame in which Chromium shows its row, in the view of topics. It needs
what the tests of the browser need.

(load) what the page costs a cluster that is full: a producer writes as fast as it can, and windows in which the page's
process is stopped (SIGSTOP) take turns with windows in which it runs and one browser has it open, and with windows of ten.
Each browser hears the events and asks what the page asks in the view with which it opens, as often, over the connections
that Chromium keeps; each has opened SETTLED_S before its window begins. What is told is the ratio of the medians of the
records written, that of the CPU time of the page's process, and the CPU time that the nodes need for a record, which other
work on the machine changes less.

(day) a log of one day of an active controller, two records a second that change nothing and one change in ten seconds, and
a day of samples of 10,000 partitions: what the page holds, against what docs/page.md states.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from actors.page.live.samples import MINUTE_MS, MINUTES, RECENT, Samples
from tests.unit.replay import metadata_logs

ROOT = Path(__file__).parent.parent
CASES = ("files", "told", "pixel", "load", "day")
TOPIC = "full"
OPENED = ("/", "/api/v1/clusters", "/api/v1", "/api/v1/timeline?n=400", "/api/v1/now")
"""What a browser asks when it opens the page, but for the files."""
ASKED = {"/api/v1/now": 30.0, "/api/v1/timeline?n=400": 30.0}
"""What an open page asks beside the events, and how often, s: see actors/page/static/now.js and app.js."""
DAY_S = 86_400
SERIES = 10_000


def cpu_ms(*pids: int) -> float:
    """The CPU time of all threads of some processes so far, ms."""
    found = 0.0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                found += int(task.read_text().split()[0]) / 1e6
    return found


class Page:
    """A page that is asked over one connection."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        split = urlsplit(address)
        self.process = process
        self.where = str(split.hostname), int(split.port or 0)
        self.token = split.query.partition("=")[2]
        self.headers = {"Authorization": f"Bearer {self.token}"}
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
        return cpu_ms(self.process.pid)

    def events(self, conn: http.client.HTTPConnection | None = None) -> Iterator[dict[str, Any]]:
        """What is new, as it comes."""
        conn = conn or http.client.HTTPConnection(*self.where)
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
    return median_and_p95(found)


def median_and_p95(found: list[float]) -> dict[str, float]:
    """The median of some times, and the time within which nineteen of twenty lie."""
    return {"median": round(statistics.median(found), 1), "p95": round(sorted(found)[int(len(found) * 0.95) - 1], 1)}


SHOWN = """(name) => new Promise((found) => {
  const drawn = () => requestAnimationFrame(() => setTimeout(() => found(Date.now())));
  const look = () => document.querySelector("main").innerText.includes(name) && (seen.disconnect(), drawn());
  const seen = new MutationObserver(look);
  seen.observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
})"""
"""The time at which the frame has been drawn in which a text first stands in the page, ms."""


def pixel(moves: int) -> dict[str, float]:
    """How soon a browser shows that a topic was created."""
    from tests.integration.page.walking import chromium

    with (
        rayft.Cluster(controllers=3, brokers=3) as cluster,
        page("-b", cluster.bootstrap_servers) as (opened, _),
        connect(cluster.bootstrap_servers) as kafka,
        chromium() as browser,
        browser.new_context() as context,
    ):
        shown = context.new_page()
        shown.goto("http://{}:{}/?token={}".format(*opened.where, opened.token))
        shown.wait_for_selector("h1:has-text('Well')")
        shown.goto("http://{}:{}/#/topics".format(*opened.where))
        shown.wait_for_selector("h1:has-text('Topics')")
        found = []
        for number in range(moves):
            time.sleep(0.4 + random.random() / 2)
            name = f"pixel-{moves - number:03}"  # the rows are in the order of names, and the newest is in the window
            shown.evaluate(f"void (window.found = ({SHOWN})({json.dumps(name)}))")
            begun = time.time()
            kafka.run(topics.create([topics.NewTopic(name, 3, 3)]))
            found.append(shown.evaluate("() => window.found") - begun * 1000)
        return median_and_p95(found)


def weight(opened: Page) -> int:
    """The bytes of all files that the page is made of."""
    return sum(len(opened.get(f"/{one.name}")) for one in (ROOT / "actors" / "page" / "static").iterdir())


def files(directory: Path, moves: int) -> dict[str, Any]:
    """The page of a directory."""
    with page(str(directory)) as (opened, ms):
        begun = {
            "start_ms": round(ms),
            "rss_mib": round(opened.rss_mib()),
            "anonymous_mib": round(opened.anonymous_mib()),
        }
        moved = slider(opened, moves)
        after = {"rss_after_mib": round(opened.rss_mib()), "anonymous_after_mib": round(opened.anonymous_mib())}
        return {"files": {**begun, **after}, "slider_ms": moved, "page_bytes": weight(opened)}


def telling(moves: int) -> dict[str, Any]:
    """How soon a change in a cluster is told, to one page and to ten."""
    with rayft.Cluster(controllers=3, brokers=3) as cluster, page("-b", cluster.bootstrap_servers) as (opened, ms):
        begun = {"start_ms": round(ms), "rss_mib": round(opened.rss_mib())}
        one = told(opened, cluster.bootstrap_servers, "one", moves)
        ten = told(opened, cluster.bootstrap_servers, "ten", moves, 10)
        cluster_ = {**begun, "rss_after_mib": round(opened.rss_mib())}
        return {"cluster": cluster_, "told_ms": one, "told_to_ten_ms": ten, "no_leader_ms": lost(cluster, opened)}


def lost(cluster: rayft.Cluster, opened: Page) -> dict[str, float]:
    """How soon it is told that no controller leads: by a page that is open then, and by one that is opened after it."""
    events = opened.events()
    assert next(events)["well"]
    for node in cluster.controller_ids:
        cluster.kill(node, restart=False)
    begun = time.perf_counter()
    next(one for one in events if not one["well"])
    found = {"open": round((time.perf_counter() - begun) * 1000)}
    with page("-b", cluster.bootstrap_servers) as (late, ms):
        begun = time.perf_counter()
        next(one for one in late.events() if not one["well"])
        return {**found, "start": round(ms), "opened_after": round((time.perf_counter() - begun) * 1000)}


# ---- under load


class Browser:
    """A page that somebody has open: it hears the events, and asks what its views ask, as Chromium does: over a connection
    that was opened with the page and is kept beside that of the events."""

    def __init__(self, opened: Page) -> None:
        self._opened = opened
        self._ended = threading.Event()
        self.has_opened = threading.Event()
        """Set once the page is there, as its reader sees it."""
        self._heard = http.client.HTTPConnection(*opened.where)
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._hear, self._ask)]
        for one in self._threads:
            one.start()

    def _hear(self) -> None:
        with contextlib.suppress(
            OSError, AttributeError, ValueError, http.client.HTTPException
        ):  # it is closed meanwhile
            for _ in self._opened.events(self._heard):
                pass

    def _ask(self) -> None:
        own = Page(self._opened.process, "http://{}:{}/?token={}".format(*self._opened.where, self._opened.token))
        for path in OPENED:
            own.get(path)
        self.has_opened.set()
        due = {path: time.monotonic() + random.random() * every for path, every in ASKED.items()}
        while not self._ended.wait(0.05):
            for path in [one for one, at in due.items() if at <= time.monotonic()]:
                own.get(path)
                due[path] = time.monotonic() + ASKED[path]

    def close(self) -> None:
        """Close the page."""
        self._ended.set()
        self._threads[1].join()
        if self._heard.sock is not None:
            self._heard.sock.shutdown(2)
        self._heard.close()


def produce(servers: str, count: Any) -> None:
    """Write as fast as it goes. `count`: how many records were acknowledged."""
    from confluent_kafka import Producer

    def told(error: Any, message: Any) -> None:
        count.value += error is None

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "acks": "all"})
    value = os.urandom(512)
    while True:
        try:
            producer.produce(TOPIC, value, on_delivery=told)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)


SETTLED_S = 2.0
KEPT = {"retention.bytes": "64000000", "segment.bytes": "32000000"}


def load(pairs: int, window_s: float) -> dict[str, Any]:
    """What the page costs a cluster that is full."""
    # Hundreds of megabytes are written in a second, which no disk has room for.
    with rayft.Cluster(controllers=3, brokers=3, config={"log.retention.check.interval.ms": "2000"}) as cluster:
        servers = cluster.bootstrap_servers
        with connect(servers) as kafka:
            kafka.run(topics.create([topics.NewTopic(TOPIC, 6, 3, KEPT)]))
        context = multiprocessing.get_context("spawn")
        count = context.Value("q", 0, lock=False)
        producer = context.Process(target=produce, args=(servers, count), daemon=True)
        producer.start()
        try:
            with page("-b", servers) as (opened, _):
                return _windows(opened, sorted(set(cluster.pids.values())), count, pairs, window_s)
        finally:
            producer.kill()
            producer.join()


def _windows(opened: Page, nodes: list[int], count: Any, pairs: int, window_s: float) -> dict[str, Any]:
    rates: dict[int, list[float]] = {0: [], 1: [], 10: []}
    works: dict[int, list[float]] = {0: [], 1: [], 10: []}
    efforts: dict[int, list[float]] = {0: [], 1: [], 10: []}
    time.sleep(window_s)  # until the load has settled
    for number in range(pairs):
        for pages in sorted(rates, reverse=bool(number % 2)):
            opened.process.send_signal(signal.SIGCONT if pages else signal.SIGSTOP)
            browsers = [Browser(opened) for _ in range(pages)]
            for one in browsers:
                assert one.has_opened.wait(60)
            time.sleep(SETTLED_S)
            begun, before, worked, spent = time.monotonic(), count.value, opened.cpu_ms(), cpu_ms(*nodes)
            time.sleep(window_s)
            took, written = time.monotonic() - begun, count.value - before
            rates[pages].append(written / took)
            efforts[pages].append((cpu_ms(*nodes) - spent) * 1000 / max(written, 1))
            works[pages].append((opened.cpu_ms() - worked) / took)
            opened.process.send_signal(signal.SIGCONT)
            for one in browsers:
                one.close()
    median = {pages: statistics.median(some) for pages, some in rates.items()}
    work = {pages: statistics.median(some) for pages, some in works.items()}
    effort = {pages: statistics.median(some) for pages, some in efforts.items()}
    return {
        "records_per_s": {str(pages): round(one) for pages, one in median.items()},
        "open_to_not_open": round(median[1] / median[0], 4),
        "ten_to_not_open": round(median[10] / median[0], 4),
        "each_pair": [round(one / none, 4) for one, none in zip(rates[1], rates[0], strict=True)],
        "nodes_cpu_us_per_record": {str(pages): round(one, 2) for pages, one in effort.items()},
        "nodes_cpu_open_to_not_open": round(effort[1] / effort[0], 4),
        "page_cpu_ms_per_s": {str(pages): round(one, 1) for pages, one in work.items()},
        "ten_to_one_cpu": round(work[10] / work[1], 3),
        "load_of_the_machine": os.getloadavg()[0],
    }


# ---- a day


def day_log(folder: Path) -> Path:
    """The metadata log of a day: records that change nothing twice a second, and a change of a partition in ten seconds."""
    at = int(time.time() - DAY_S) * 1000
    first = metadata_logs.on_three_brokers("orders", 100)
    begun = metadata_logs.released(first, 0, at)
    with (metadata_logs.write(folder, [begun], metadata_logs.RELEASED) / f"{0:020}.log").open("ab") as log:
        for number in range(DAY_S * 2):
            record: metadata_logs.Record = (20, 0, "NoOpRecord", {})
            if number % 20 == 0:
                isr = [1, 2, 3] if number // 2000 % 2 else [1, 3]
                changed = {"partition_id": number // 20 % 100, "topic_id": metadata_logs.TOPIC, "isr": isr}
                record = 5, 1, "PartitionChangeRecord", changed
            log.write(metadata_logs.released([record], len(first) + number, at + number * 500).data)
    return folder


def day() -> dict[str, Any]:
    """What a page holds of a day."""
    with tempfile.TemporaryDirectory() as folder, page(str(day_log(Path(folder)))) as (opened, ms):
        slider(opened, 20)
        held = {
            "start_ms": round(ms),
            "rss_mib": round(opened.rss_mib()),
            "anonymous_mib": round(opened.anonymous_mib()),
        }
        held["changes"] = json.loads(opened.get("/api/v1/tables/changes", n=1))["total"]
    kept, values = Samples(), np.arange(SERIES, dtype=float).tolist()
    for minute in range(
        MINUTES + RECENT + 1
    ):  # every place of the rings is written: by the minute, as they fill up then
        kept.add(minute * MINUTE_MS, {("group", "topic", at): value for at, value in enumerate(values)})
    return {
        **held,
        "samples_mb": round(kept.bytes / 1e6, 1),
        "samples_bound_mb": round(SERIES * (RECENT + MINUTES) * 4 / 1e6),
    }


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--only", nargs="*", choices=CASES, default=CASES)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--window", type=float, default=10.0, help="the length of a window of load, s")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if "files" in options.only and options.directory is not None:
        found |= files(options.directory, options.moves)
    if "told" in options.only:
        found |= telling(options.moves)
    if "pixel" in options.only:
        found["pixel_ms"] = pixel(options.moves)
    if "load" in options.only:
        found["load"] = load(options.pairs, options.window)
    if "day" in options.only:
        found["day"] = day()
    text = json.dumps(found, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
