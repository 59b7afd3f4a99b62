"""How long a broker takes to obey a new leader while clients keep its queue full: KIP-291's case, measured on both sides.

`python -m bench.overload [--moves 60] [--connections 100] [--bytes 1000000] [--priority equal] [--only WORD ...]
[--out FILE.json]`

A controller and two brokers. The leadership of partitions moves from one broker to the other and back, by ElectLeaders.
What is measured is the time from the commit of a change until the loaded broker has taken it over. Meanwhile --connections
clients send it Produce requests of --bytes bytes, each with the next requests behind it; they stand for other machines, and
have the lowest priority on this one unless told otherwise. The cases: rayft with metadata that is pulled and pushed, and
Apache Kafka 2.8.2 with ZooKeeper, each with the control plane's lane and without it (`overload_rayft.py` and
`overload_kafka.py` say what a commit is, and when it is obeyed). Without --only all run, in turn.

Beside the moves a client writes small records to the moved partitions at the loaded broker, half of them with acks=1 and
half with acks=all (`overload_clients.py`). In the end all that is left is read, and what was acknowledged and is not there
was cut: what is counted is said at `cuts`. A clock shows how late any process is woken on this machine meanwhile.

Beside the JSON stands a chart (FILE.svg). Own commands, which the bench starts by itself: `node`, `load`, `probe`, `clock`.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from bench import overload_clients as clients
from bench.chart import bars
from bench.end_to_end import RESULTS, machine
from bench.overload_kafka import IDLE, LOADED, RELEASE, ROOT, KafkaCluster, Moved
from bench.overload_rayft import RayftCluster, node

PARTITIONS = 20
LOAD_PARTITIONS = 8
WARM_SECONDS = 5
RETENTION_SECONDS = 32
"""On both sides retention begins half a minute after the start. The load waits for it: the memory of what is deleted goes to
what comes next, and where the page cache only grows a virtual machine may wait ten times as long for each page."""
SERIES_SECONDS_MAX = 120
"""A series is over then, however many leaderships have moved: a broker without the lane may obey after seconds."""
SETTLE_SECONDS_MAX = 60
P99_MS_MAX, P99_RATIO_MAX = 20, 3
"""What is aimed at with the lane, under load: milliseconds, and how many times the idle figure."""


class Case(NamedTuple):
    """Who is measured, and how metadata comes to the broker."""

    side: str
    lane: bool

    def __str__(self) -> str:
        return f"{self.side}, {'with' if self.lane else 'without'} the lane"


SIDES = ("rayft, pulled", "rayft, pushed", f"Apache Kafka {RELEASE}")
CASES = [Case(side, lane) for side in SIDES for lane in (True, False)]


class Cluster(Protocol):
    """What a case needs of either side."""

    home: Path
    clients: dict[int, int]
    operator: int

    def committed(self) -> dict[Moved, int]: ...
    def obeyed(self) -> dict[Moved, int]: ...
    def appended(self) -> dict[tuple[int, int], int] | None: ...


# ---- the moves


class Measured(NamedTuple):
    """What a series has shown."""

    obeyed_ms: list[float]
    """Milliseconds from the commit to the loaded broker, one for each leadership that has moved."""
    not_obeyed: int
    """Changes that the broker had not obeyed long after the last move, and that none came after."""


def measure(cluster: Cluster, operator: clients.Operator, moves: int) -> Measured:
    """Move so many leaderships, or as many as there is time for."""
    before = set(cluster.committed())
    leader, other = LOADED, IDLE
    moved = number = 0
    end = time.monotonic() + SERIES_SECONDS_MAX
    while moved < moves and time.monotonic() < end:
        if operator.move("moved", number % PARTITIONS, leader, other):
            moved += 1
        number += 1
        if number % PARTITIONS == 0:
            leader, other = other, leader
        time.sleep(0.01)
    end = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        committed = {key: at for key, at in cluster.committed().items() if key not in before}
        obeyed = cluster.obeyed()
        newest = {key.number: max(one.epoch for one in committed if one.number == key.number) for key in committed}
        missing = [key for key in committed if key not in obeyed and key.epoch == newest[key.number]]
        if not missing or time.monotonic() > end:
            break
        time.sleep(0.2)
    return Measured([(obeyed[key] - at) / 1e6 for key, at in committed.items() if key in obeyed], len(missing))


def quantiles(found: Sequence[float]) -> dict[str, float]:
    """What is shown of a series."""
    ordered = sorted(found)
    return {
        "changes": len(ordered),
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
        "largest_ms": round(ordered[-1], 3),
    }


# ---- what was cut


def read_all(port: int) -> dict[tuple[int, int], str]:
    """Every record of `moved`, by partition and offset."""
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "bench", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition("moved", number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: dict[tuple[int, int], str] = {}
    ended: set[int] = set()
    end = time.monotonic() + SETTLE_SECONDS_MAX
    while len(ended) < PARTITIONS:
        if time.monotonic() > end:
            raise RuntimeError(f"only {len(ended)} partitions can be read to their end")
        record = consumer.poll(1.0)
        if record is None:
            continue
        error, partition, offset = record.error(), record.partition(), record.offset()
        assert partition is not None and offset is not None
        if error is None:
            found[partition, offset] = (record.value() or b"").decode()
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(partition)
    consumer.close()
    return found


def cuts(
    acknowledged: Sequence[clients.Acknowledged],
    left: Mapping[tuple[int, int], str],
    committed: Mapping[Moved, int],
    obeyed: Mapping[Moved, int],
    appended: Mapping[tuple[int, int], int] | None,
) -> dict[str, int | None]:
    """What was acknowledged and is not there any more.

    With acks=1 Kafka promises nothing of what a leader has taken in before it hears of the next one: `cut` counts that, and
    `cut_after_commit` those of them whose answer came when the change was committed. `cut_after_obeyed` was appended when
    the broker had obeyed, and `cut_all` was acknowledged with acks=all: neither may be. None: it cannot be known."""
    lost = [one for one in acknowledged if left.get((one.partition, one.offset)) != one.value]
    after_obeyed = None
    if appended is not None:
        after_obeyed = sum(_demoted(obeyed, one.partition, appended[one.partition, one.offset]) for one in lost)
    return {
        "acknowledged": len(acknowledged),
        "cut": sum(one.acks == 1 for one in lost),
        "cut_after_commit": sum(one.acks == 1 and _demoted(committed, one.partition, one.at_ns) for one in lost),
        "cut_after_obeyed": after_obeyed,
        "cut_all": sum(one.acks != 1 for one in lost),
    }


def _demoted(changes: Mapping[Moved, int], partition: int, at_ns: int) -> bool:
    """Whether the loaded broker was not the leader any more, by the changes up to then."""
    before = [
        (key.epoch, key.leader) for key, since_ns in changes.items() if key.number == partition and since_ns < at_ns
    ]
    return bool(before) and max(before)[1] != LOADED


# ---- one case


@contextmanager
def beside(*arguments: object) -> Iterator[None]:
    """One of the bench's own commands runs meanwhile."""
    process = subprocess.Popen([sys.executable, "-m", "bench.overload", *map(str, arguments)], cwd=ROOT)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{arguments[0]} has ended by itself")
    finally:
        process.kill()
        process.wait()


def series(cluster: Cluster, operator: clients.Operator, moves: int, name: str) -> dict[str, Any]:
    """One series of moves, with the clock and the records beside it."""
    late, notes = cluster.home / f"{name}.late", cluster.home / f"{name}.acknowledged"
    with beside("clock", late), beside("probe", cluster.clients[LOADED], PARTITIONS, notes):
        time.sleep(1)
        measured = measure(cluster, operator, moves)
    woken = [int(line) / 1e6 for line in late.read_text().split()[:-1]]
    return {**quantiles(measured.obeyed_ms), "not_obeyed": measured.not_obeyed, "woken_late": quantiles(woken)}


def run(case: Case, moves: int, connections: int, size: int, priority: str) -> dict[str, Any]:
    """One case, idle and under load."""
    with tempfile.TemporaryDirectory(prefix="overload-") as home, ExitStack() as stack:
        cluster: Cluster
        if case.side.startswith("rayft"):
            cluster = RayftCluster(Path(home), "pushed" in case.side, case.lane, stack)
        else:
            cluster = KafkaCluster(Path(home), case.lane, stack)
        stack.push(lambda failed, *_: _show_logs(Path(home)) if failed else None)
        begun = time.monotonic()
        operator = clients.Operator(cluster.operator)
        operator.create("moved", [[LOADED, IDLE]] * PARTITIONS, {})
        retained = {"retention.bytes": "16000000", "segment.bytes": "16000000", "max.message.bytes": str(2 * size)}
        operator.create("load", [[LOADED]] * LOAD_PARTITIONS, retained)
        time.sleep(2)
        measure(cluster, operator, 2 * PARTITIONS)
        found = {"idle": series(cluster, operator, moves, "idle")}
        time.sleep(max(0.0, begun + RETENTION_SECONDS - time.monotonic()))
        with beside("load", cluster.clients[LOADED], connections, size, priority):
            time.sleep(WARM_SECONDS)
            loaded, began = clients.Operator(cluster.clients[LOADED]), time.monotonic()
            before = loaded.records("load", LOAD_PARTITIONS)
            found["loaded"] = series(cluster, operator, moves, "loaded")
            brought = (loaded.records("load", LOAD_PARTITIONS) - before) * size
            found["loaded"]["load_mb_s"] = round(brought / 1e6 / (time.monotonic() - began))
        time.sleep(1)
        left = read_all(cluster.clients[IDLE])
        committed, obeyed, appended = cluster.committed(), cluster.obeyed(), cluster.appended()
        for name, one in found.items():
            notes = clients.acknowledged((cluster.home / f"{name}.acknowledged").read_text())
            one["records"] = cuts(notes, left, committed, obeyed, appended)
        return found


def _show_logs(home: Path) -> None:
    """The case has failed: what the nodes said last."""
    for file in sorted((*home.glob("*.log"), *home.glob("*.out"))):
        print(f"---- {file.name}", *file.read_text(errors="replace").splitlines()[-10:], sep="\n", file=sys.stderr)


def verdict(found: Mapping[str, Any]) -> str:
    """Whether a case with the lane is what is aimed at."""
    idle, loaded = found["idle"]["p99_ms"], found["loaded"]["p99_ms"]
    met = loaded < P99_MS_MAX and loaded <= P99_RATIO_MAX * idle
    return f"p99 {loaded} ms loaded, {idle} ms idle ({loaded / idle:.1f} times): {'met' if met else 'missed'}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=60, help="leaderships that move in each series")
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1_000_000, help="of a Produce request")
    parser.add_argument("--priority", choices=clients.PRIORITIES, default="lowest", help="of the clients' process")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="cases whose name has one of these words"
    )
    parser.add_argument("--out", type=Path, help="where the JSON goes; the chart stands beside it")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no node is left behind
    found = {}
    for case in CASES:
        if any(word in str(case) for word in given.only):
            found[str(case)] = run(case, given.moves, given.connections, given.bytes, given.priority)
            print(f"{case!s:40} {verdict(found[str(case)])}", flush=True)
            for name, one in found[str(case)].items():
                print(f"    {name:8} {one}", flush=True)
    out = given.out or RESULTS / f"overload-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    out.parent.mkdir(exist_ok=True)
    settings = {
        "moves": given.moves,
        "connections": given.connections,
        "bytes": given.bytes,
        "priority": given.priority,
    }
    out.write_text(json.dumps({"machine": dict(machine()), "settings": settings, "cases": found}, indent=1) + "\n")
    rows = [(f"{case}, {state}: p99", one["p99_ms"]) for case, both in found.items() for state, one in both.items()]
    title = f"ms from a commit to the broker, {given.connections} clients of {given.bytes:,} bytes a request"
    out.with_suffix(".svg").write_text(bars(title, rows))
    print(f"written to {out} and {out.with_suffix('.svg')}")
    return 0


if __name__ == "__main__":
    command, own = sys.argv[1:2], sys.argv[2:]
    if command == ["node"]:
        sys.exit(node(own[0], own[1], "--no-lane" not in own))
    elif command == ["load"]:
        clients.load(int(own[0]), int(own[1]), int(own[2]), own[3])
    elif command == ["probe"]:
        clients.probe(int(own[0]), int(own[1]), own[2])
    elif command == ["clock"]:
        clients.clock(own[0])
    sys.exit(main())
