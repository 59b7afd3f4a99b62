"""Share groups beside Apache Kafka: records a second, and how long a record takes from send to poll (KIP-932).

`python -m bench.share [--consumers 1 8] [--rate 0 500] [--windows 5] [--seconds 4] [--out FILE.json]`

Both clusters run at once, with one broker, six partitions and the same settings. The same program runs beside each, with
Apache Kafka's KafkaShareConsumer and producer: its members accept what they were given with the next poll, and share one
topic. With a rate of 0 there is always something to take, and what counts are records a second; with another one records
are sent one by one, and what counts is the time until a member has each. Windows of both sides alternate; the first two of
each are not counted. The clusters take turns in being first.

What counts is the median of the windows' ratios. Where client and brokers share few cores the client's own work is in both
sides' figures; so the processor seconds of brokers and of clients for a thousand records are beside them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench import apache, frames
from bench.end_to_end import RESULTS, Side, machine, running

TOPIC, PARTITIONS, RECORD_BYTES = "shared", 6, 100
WARM_WINDOWS = 2
AIM = 1.0
"""At least as many records a second as Apache Kafka, in no more time."""
PROGRAM = Path(__file__).parent / "ShareConsumers.java"


class Window(NamedTuple):
    """What one side did in one window."""

    rate: float
    """Records a second."""
    p50_ms: float
    p90_ms: float
    p99_ms: float
    broker_cpu: float
    """Processor seconds of all nodes for a thousand records."""
    client_cpu: float
    """The same of the client."""


CONFIG = {
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "10",
}


class Client:
    """A client program beside one cluster, with a topic of its own."""

    def __init__(self, side: Side, topic: str, consumers: int, rate: int) -> None:
        self.side = side
        connection = frames.Connection(side.broker)
        frames.check_created(connection.exchange(frames.create_topic(topic, PARTITIONS, 1)))
        connection.close()
        time.sleep(1)
        arguments = [side.cluster.bootstrap_servers, topic, *map(str, (consumers, RECORD_BYTES, rate))]
        command = ["java", "-Xmx1g", "-cp", f"{apache.libs()}/*", str(PROGRAM), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client beside {self.side.name} has ended; its error is above")
        return line

    def window(self, seconds: float) -> Window:
        """Share for so long."""
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
    """One number of consumers with one rate."""

    consumers: int
    rate: int
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
        """The aim of its kind: throughput, or time."""
        return self.ratio("p50_ms") <= AIM if self.rate else self.ratio("rate") >= AIM


def measured(sides: Sequence[Side], consumers: int, rate: int, windows: int, seconds: float) -> Row:
    """Windows of both sides in turn."""
    with ExitStack() as stack:
        clients: dict[str, Client] = {}
        for side in sides:
            clients[side.name] = Client(side, f"{TOPIC}-{consumers}-{rate}", consumers, rate)
            stack.callback(clients[side.name].close)
        found: dict[str, list[Window]] = {side.name: [] for side in sides}
        for number in range(WARM_WINDOWS + windows):
            for side in sides if number % 2 else sides[::-1]:
                window = clients[side.name].window(seconds)
                if number >= WARM_WINDOWS:
                    found[side.name].append(window)
        return Row(consumers, rate, found["rayft"], found["kafka"])


def main(arguments: list[str] | None = None) -> int:
    """Run and print. Returns 0 if every aim is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--rate", nargs="+", type=int, default=[0, 500])
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if apache.libs() is None:
        print(apache.MISSING, file=sys.stderr)
        return 2
    console, rows = Console(width=140), list[Row]()
    with running("rayft", 1, 1, CONFIG) as mine, running("kafka", 1, 1, CONFIG) as theirs:
        for rate in given.rate:
            for consumers in given.consumers:
                row = measured((mine, theirs), consumers, rate, given.windows, given.seconds)
                rows.append(row)
                console.print(
                    f"{consumers} consumers, {rate or 'all'} records/s: {row.ratio('rate'):.2f} times the records, "
                    f"{row.ratio('p50_ms'):.2f} of the time"
                )
    table = Table(
        *("consumers", "sent/s", "", "1/s", "p50 ms", "p90", "p99", "nodes' s/1000", "client's s/1000", "met")
    )
    for row in rows:
        for side in ("rayft", "kafka"):
            figures = (f"{row.median(side, field):.2f}" for field in Window._fields)
            named = (str(row.consumers), str(row.rate or "all")) if side == "rayft" else ("", "")
            table.add_row(*named, side, *figures, "")
        ratios = (f"{row.ratio(field):.2f}" for field in Window._fields)
        table.add_row("", "", "ratio", *ratios, "yes" if row.met else "no")
    console.print(table)
    out = given.out or RESULTS / f"share-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
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
