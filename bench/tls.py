"""Throughput through TLS 1.3, rayft beside Apache Kafka.

`python -m bench.tls [--rounds 5] [--connections 200] [--out FILE.json]`

Both clusters run at once, a controller and a broker each, with the same certificates on the curve P-256. librdkafka
produces to each with acks=all and reads it back, in rounds that alternate; the first round of each side is not counted. What
counts is the median of the rounds' ratios. Beside the rates stand the processor seconds of the nodes for a million records,
how much longer than without TLS each side takes, and what a connection that has done its handshake and is idle adds to the
broker's resident memory.
"""

import argparse
import datetime
import json
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from actors.host.security.certificates import authority, issue, write
from bench import apache
from bench.end_to_end import RESULTS, Side, consume_seconds, machine, produce_seconds
from bench.ports import free_ports

ROOT = Path(__file__).resolve().parent.parent
SIZES = {100: 600_000, 1000: 250_000}
"""Bytes of a record -> records of a round."""
START_SECONDS_MAX = 60


class Figure(NamedTuple):
    """What a side did in a round."""

    produce: float
    """Records a second."""
    consume: float
    cpu: float
    """Processor seconds of all nodes for a million records, written and read."""


def certificates(home: Path) -> dict[str, str]:
    """A certificate of a node and of its authority, as both sides' settings name them."""
    now = datetime.datetime.now(datetime.UTC)
    by = authority("bench", now)
    write(home / "node.pem", issue(by, "node", now, ["127.0.0.1", "localhost"], "rayft").pem)
    write(home / "ca.pem", by.certificate)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "ca.pem"),
        "ssl.enabled.protocols": "TLSv1.3",
        "group.initial.rebalance.delay.ms": "0",
    }


@contextmanager
def rayft_cluster(home: Path, tls: Mapping[str, str]) -> Iterator[Side]:
    """A controller and a broker; clients speak TLS, or none on the second address."""
    controller, encrypted, plain = free_ports(3)
    common = {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"3001@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        **tls,
    }
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{encrypted}"
    nodes = {
        3001: {
            "process.roles": "controller",
            "controller.id": "3001",
            "listeners": f"CONTROLLER://127.0.0.1:{controller}",
        },
        1: {"process.roles": "broker", "broker.id": "1", "listeners": listeners},
    }
    rayft = [sys.executable, "-m", "actors.command.cli"]
    identity = subprocess.run(
        [*rayft, "random-id"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    with ExitStack() as stack:
        processes: dict[int, subprocess.Popen[bytes]] = {}
        for id, own in nodes.items():
            file, log = home / f"{id}.properties", home / f"{id}.log"
            values = {**common, **own, "log.dirs": str(home / f"data-{id}")}
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            alone = ["--standalone"] if id == 3001 else []
            subprocess.run(
                [*rayft, "format", "--config", str(file), "--cluster-id", identity, *alone],
                cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            out = stack.enter_context(log.open("wb"))
            processes[id] = subprocess.Popen([*rayft, "node", "--config", str(file)], cwd=ROOT, stdout=out, stderr=out)
            stack.callback(processes[id].wait)
            stack.callback(processes[id].terminate)
        end = time.monotonic() + START_SECONDS_MAX
        while "serves clients" not in (home / "1.log").read_text():
            if time.monotonic() > end or any(one.poll() is not None for one in processes.values()):
                raise RuntimeError("rayft did not start:\n" + (home / "1.log").read_text()[-2000:])
            time.sleep(0.05)
        pids = {id: process.pid for id, process in processes.items()}
        yield Side("rayft", _cluster(f"127.0.0.1:{encrypted}", f"127.0.0.1:{plain}", pids))


@contextmanager
def kafka_cluster(tls: Mapping[str, str]) -> Iterator[Side]:
    """The same of Apache Kafka, with one address: its listener speaks TLS."""
    protocols = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SSL"}
    with apache.ApacheKafka(1, 1, {**tls, **protocols}, heap="1g") as kafka:
        pids = {id: process.pid for id, process in kafka.processes.items()}
        yield Side("kafka", _cluster(kafka.bootstrap_servers, "", pids))


def _cluster(encrypted: str, plain: str, pids: Mapping[int, int]) -> Any:
    return SimpleNamespace(bootstrap_servers=encrypted, plain=plain, pids=dict(pids))


def measured(side: Side, number: int, size: int, client: Mapping[str, Any]) -> Figure:
    """One round: a topic of its own, written and read back."""
    topic, count = f"tls-{size}-{number}", SIZES[size]
    admin = AdminClient({"bootstrap.servers": side.cluster.bootstrap_servers, "log_level": 0, **client})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    begun = side.cpu_seconds()
    produce = produce_seconds(side, topic, count, size, **client)
    consume = consume_seconds(side, topic, count, **client)
    cpu = side.cpu_seconds() - begun
    admin.delete_topics([topic])[topic].result(30)
    return Figure(count / produce, count / consume, cpu / count * 1_000_000)


def idle_connection_bytes(side: Side, connections: int, context: ssl.SSLContext) -> float:
    """Resident bytes of the broker for each of so many connections that have done their handshake."""
    pid = side.cluster.pids[1]
    host, _, port = side.cluster.bootstrap_servers.rpartition(":")
    before = apache.resident_bytes(pid)
    held = []
    for _ in range(connections):
        held.append(context.wrap_socket(socket.create_connection((host, int(port))), server_hostname="localhost"))
    time.sleep(1)
    grown = apache.resident_bytes(pid) - before
    for one in held:
        one.close()
    return grown / connections


def main(arguments: list[str] | None = None) -> int:
    """Run and print. Returns 0 if rayft is as fast in each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if apache.libs() is None:
        print(apache.MISSING, file=sys.stderr)
        return 2
    console = Console(width=110)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-tls-")))
        settings = certificates(home)
        sides = (stack.enter_context(rayft_cluster(home, settings)), stack.enter_context(kafka_cluster(settings)))
        client = {"security.protocol": "ssl", "ssl.ca.location": str(home / "ca.pem")}
        rows = []
        for size in SIZES:
            found: dict[str, list[Figure]] = {side.name: [] for side in sides}
            for number in range(1 + given.rounds):
                for side in sides if number % 2 else sides[::-1]:
                    figure = measured(side, number, size, client)
                    if number:
                        found[side.name].append(figure)
                        console.print(f"round {number}: {size} B {side.name} " + _line(figure))
            rows.append(row(size, found))
        context = ssl.create_default_context(cafile=str(home / "ca.pem"))
        memory = {side.name: idle_connection_bytes(side, given.connections, context) for side in sides}
        plain = Side("rayft", SimpleNamespace(bootstrap_servers=sides[0].cluster.plain, pids=sides[0].cluster.pids))
        without = {size: measured(plain, 99, size, {}) for size in SIZES}
    table = Table("record", "", "rayft", f"Kafka {apache.version()}", "ratio", "rayft without TLS")
    for one in rows:
        for field in Figure._fields:
            table.add_row(
                f"{one['size']} B" if field == "produce" else "",
                field,
                f"{one['rayft'][field]:,.2f}",
                f"{one['kafka'][field]:,.2f}",
                f"{one['ratios'][field]:.2f}",
                f"{getattr(without[one['size']], field):,.2f}",
            )
    console.print(table)
    console.print(
        f"an idle connection with TLS: {memory['rayft'] / 1024:.1f} KiB in rayft, {memory['kafka'] / 1024:.1f} in Kafka"
    )
    out = given.out or RESULTS / f"tls-{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "rows": rows, "idle_connection_bytes": memory}, indent=2))
    console.print(f"written to {out}")
    return 0 if all(min(one["ratios"]["produce"], one["ratios"]["consume"]) >= 1 for one in rows) else 1


def row(size: int, found: Mapping[str, list[Figure]]) -> dict[str, Any]:
    """Medians of both sides, and of the rounds' ratios."""
    middle: Callable[[list[float]], float] = statistics.median
    return {
        "size": size,
        **{
            side: {field: middle([getattr(one, field) for one in figures]) for field in Figure._fields}
            for side, figures in found.items()
        },
        "ratios": {
            field: middle(
                [getattr(a, field) / getattr(b, field) for a, b in zip(found["rayft"], found["kafka"], strict=True)]
            )
            for field in Figure._fields
        },
    }


def _line(figure: Figure) -> str:
    return f"{figure.produce:,.0f} written, {figure.consume:,.0f} read a second, {figure.cpu:.2f} s/million"


if __name__ == "__main__":
    sys.exit(main())
