"""Transactions a second, and how long a commit takes, beside Apache Kafka.

`python -m bench.transactions [--client frames java librdkafka] [--producers 1 64] [--brokers 1 3] [--windows 5]
[--seconds 4] [--out FILE.json]`

Both clusters run at once, with the same number of brokers, replicas (one, or three with min.insync.replicas=2), partitions
and the same `transaction.state.log.*`. The same client program runs beside each: prepared frames (transaction version 2;
`transaction_producers.py`), Apache Kafka's producer (version 2), or librdkafka's (version 1). All producers of a program
commit transactions of a hundred records of a hundred bytes, one after the other, in windows that alternate; the first two
windows of each side are not counted. The clusters take turns in being first.

What counts is the median of the windows' ratios. A commit is one call of commit_transaction, in which the client also sends
what it still holds. Where client and brokers share few cores the client's own work is in both sides' figures; so the
processor seconds of brokers and of clients for a thousand transactions are beside them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench import apache, end_to_end, frames
from bench.end_to_end import RESULTS, Side, machine
from bench.transaction_producers import serve

CLIENTS = ("frames", "java", "librdkafka")
TOPIC, PARTITIONS = "transactions", 6
RECORDS, RECORD_BYTES = 100, 100
WARM_WINDOWS = 2
RATE_AIM, COMMIT_AIM = 2.0, 0.5
PROGRAM = Path(__file__).parent / "Transactions.java"


class Window(NamedTuple):
    """What one side did in one window."""

    rate: float
    """Transactions a second."""
    p50_ms: float
    p90_ms: float
    p99_ms: float
    broker_cpu: float
    """Processor seconds of all nodes for a thousand transactions."""
    client_cpu: float
    """The same of the client."""


@contextmanager
def running(name: str, brokers: int) -> Iterator[Side]:
    """A cluster of either software, with a controller of its own and the same settings."""
    replicas = min(brokers, 3)
    config = {
        "num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(replicas, 2)),
        "transaction.state.log.num.partitions": "50",
        "min.insync.replicas": str(min(replicas, 2)),
    }
    with end_to_end.running(name, 1, brokers, config) as side:
        yield _with_topic(side, replicas)


def _with_topic(side: Side, replicas: int) -> Side:
    connection = frames.Connection(side.broker)
    frames.check_created(connection.exchange(frames.create_topic(TOPIC, PARTITIONS, replicas)))
    connection.close()
    time.sleep(1)
    return side


class Client:
    """A client program beside one cluster."""

    def __init__(self, side: Side, kind: str, producers: int) -> None:
        self.side = side
        arguments = [side.cluster.bootstrap_servers, TOPIC, *map(str, (PARTITIONS, producers, RECORDS, RECORD_BYTES))]
        if kind == "java":
            folder = apache.libs()
            command = ["java", "-Xmx1g", "-cp", f"{folder}/*", str(PROGRAM), *arguments]
        elif kind == "frames":
            command = [sys.executable, "-m", "bench.transaction_producers", *arguments]
        else:
            command = [sys.executable, "-m", "bench.transactions", "--as-client", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client beside {self.side.name} has ended; its error is above")
        return line

    def window(self, seconds: float) -> Window:
        """Commit for so long."""
        assert self.process.stdin is not None
        cpu = self.side.cpu_seconds()
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        count, took, client_cpu, *times = map(float, self._line().split())
        cpu = self.side.cpu_seconds() - cpu
        return Window(count / took, times[0], times[1], times[2], cpu / count * 1000, client_cpu / count * 1000)

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


class Row(NamedTuple):
    """One client program with one number of producers and brokers."""

    client: str
    producers: int
    brokers: int
    rayft: list[Window]
    kafka: list[Window]

    def ratio(self, field: str) -> float:
        """rayft to Apache Kafka, the median of the windows."""
        pairs = zip(self.rayft, self.kafka, strict=True)
        return statistics.median(getattr(mine, field) / getattr(theirs, field) for mine, theirs in pairs)

    def median(self, side: str, field: str) -> float:
        """Of one side's windows."""
        return statistics.median(getattr(window, field) for window in getattr(self, side))

    @property
    def met(self) -> bool:
        """Both aims."""
        return self.ratio("rate") >= RATE_AIM and self.ratio("p50_ms") <= COMMIT_AIM


def measured(sides: Sequence[Side], kind: str, producers: int, windows: int, seconds: float) -> Row:
    """Windows of both sides in turn."""
    with ExitStack() as stack:
        clients: dict[str, Client] = {}
        for side in sides:
            clients[side.name] = Client(side, kind, producers)
            stack.callback(clients[side.name].close)
        found: dict[str, list[Window]] = {side.name: [] for side in sides}
        for number in range(WARM_WINDOWS + windows):
            for side in sides if number % 2 else sides[::-1]:
                window = clients[side.name].window(seconds)
                if number >= WARM_WINDOWS:
                    found[side.name].append(window)
        return Row(kind, producers, len(sides[0].cluster.bootstrap_servers.split(",")), found["rayft"], found["kafka"])


# ---- librdkafka's client program


def _commit_until(producer: Producer, end: float, partition: int, times: list[float]) -> None:
    value, produce = b"v" * RECORD_BYTES, producer.produce
    while time.perf_counter() < end:
        producer.begin_transaction()
        for _ in range(RECORDS):
            produce(TOPIC, value, partition=partition)
        asked = time.perf_counter()
        producer.commit_transaction(60)
        times.append(time.perf_counter() - asked)


def client(bootstrap_servers: str, producers: int) -> None:
    """As Transactions.java, with librdkafka's producers, each in a thread."""
    made = [
        Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"librdkafka-{n}", "acks": "all"})
        for n in range(producers)
    ]
    for one in made:
        one.init_transactions(60)

    def window(seconds: float) -> list[float]:
        end = time.perf_counter() + seconds
        times: list[list[float]] = [[] for _ in made]
        threads = [
            threading.Thread(target=_commit_until, args=(one, end, n % PARTITIONS, times[n]))
            for n, one in enumerate(made)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [one * 1000 for several in times for one in several]

    serve(window)


# ---- running


def main(arguments: list[str] | None = None) -> int:
    """Run and print. Returns 0 if every aim is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument("--producers", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--brokers", nargs="+", type=int, choices=[1, 3], default=[1, 3])
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--as-client", nargs=6, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.as_client:
        client(given.as_client[0], int(given.as_client[3]))
        return 0
    if apache.libs() is None:
        print(apache.MISSING, file=sys.stderr)
        return 2
    console, rows = Console(width=140), list[Row]()
    for brokers in given.brokers:
        with running("rayft", brokers) as mine, running("kafka", brokers) as theirs:
            for kind in given.client:
                for producers in given.producers:
                    row = measured((mine, theirs), kind, producers, given.windows, given.seconds)
                    rows.append(row)
                    console.print(
                        f"{brokers} brokers, {kind}, {producers} producers: {row.ratio('rate'):.2f} times the "
                        f"transactions, a commit {row.ratio('p50_ms'):.2f} of the time"
                    )
    table = Table(
        *("brokers", "client", "producers", "", "1/s", "commit p50", "p90", "p99"),
        *("nodes' s/1000", "client's s/1000", "met"),
    )
    for row in rows:
        for side in ("rayft", "kafka"):
            figures = (row.median(side, field) for field in Window._fields)
            named = (str(row.brokers), row.client, str(row.producers)) if side == "rayft" else ("", "", "")
            table.add_row(*named, side, *(f"{one:.2f}" for one in figures), "")
        ratios = (row.ratio(field) for field in Window._fields)
        table.add_row("", "", "", "ratio", *(f"{one:.2f}" for one in ratios), "yes" if row.met else "no")
    console.print(table)
    out = given.out or RESULTS / f"transactions-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    report = [
        {**row._asdict(), "ratios": {field: row.ratio(field) for field in Window._fields}, "met": row.met}
        for row in rows
    ]
    out.write_text(json.dumps({"machine": machine(), "rows": report}, indent=2))
    console.print(f"written to {out}")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
