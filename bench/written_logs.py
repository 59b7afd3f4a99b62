"""What many logs that were written to cost a broker: its clean stop, the start after it, and when nobody asks anything.

    python -m bench.written_logs [--logs N] [--times N] [--idle SECONDS]

One controller and one broker. A record goes to each of N partitions, by a producer with acks=all that is idempotent, as
clients are by default: so each log has a segment, two indexes, a table of epochs and a snapshot of its producer to be made
durable. The broker is idle, with the producer connected and without, and ends by SIGTERM; nothing kills it. Each time
prints the seconds of its stop and its processor time, whether it has marked the stop as clean, and the seconds until it
takes a record again.
"""

import argparse
import os
import re
import signal
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.broker.log.directories.directory import CLEAN_SHUTDOWN

TOPIC, PER_TOPIC = "written", 5_000
STOP_SECONDS = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument(
        "--idle", type=float, default=0.0, help="seconds of which the idle broker's processor time is told"
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        rayft.Cluster(controllers=1, brokers=1, dir=Path(home) / "c") as cluster,
    ):
        (broker,) = cluster.broker_ids
        data = Path(home) / "c" / f"broker-{broker}"
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        topics = _created(AdminClient(servers), options.logs)
        for number in range(options.times):
            producer = Producer(servers | {"acks": "all", "enable.idempotence": True, "linger.ms": 5})
            begin = time.monotonic()
            _record_each(producer, topics)
            print(
                f"{options.logs} logs written in {time.monotonic() - begin:.1f} s, {_resident_mb(cluster, broker)} MB",
                end="",
            )
            if options.idle:
                print(f", idle {_idle(cluster, broker, options.idle):.2%} of a core", end="")
                del producer
                print(f", without clients {_idle(cluster, broker, options.idle):.2%}", end="")
            pid = cluster.pids[broker]
            cpu, begin = _cpu_seconds(pid), time.monotonic()
            cluster.kill(broker, signal.SIGTERM, restart=False)
            while _runs(pid):
                assert time.monotonic() < begin + STOP_SECONDS, "it does not end"
                cpu = _cpu_seconds(pid) or cpu
                time.sleep(0.01)
            ended = time.monotonic()
            clean = list(data.rglob(CLEAN_SHUTDOWN))
            cluster.start_node(broker)
            cluster.wait_ready(broker, STOP_SECONDS)
            ready = time.monotonic()
            _record_each(Producer(servers | {"acks": "all"}), {TOPIC + "-0": 1})
            print(
                f"; stop {ended - begin:.2f} s, {'clean' if clean else 'NOT clean'}, load {os.getloadavg()[0]:.1f}; "
                f"start {ready - ended:.2f} s, first record {time.monotonic() - ended:.2f} s ({number + 1})",
                flush=True,
            )


def _created(admin: AdminClient, logs: int) -> dict[str, int]:
    topics = {
        f"{TOPIC}-{place}": min(PER_TOPIC, logs - place * PER_TOPIC)
        for place in range((logs + PER_TOPIC - 1) // PER_TOPIC)
    }
    wanted = [NewTopic(name, count, replication_factor=1) for name, count in topics.items()]
    for future in admin.create_topics(wanted, operation_timeout=60).values():
        future.result(60)
    return topics


def _record_each(producer: Producer, topics: dict[str, int]) -> None:
    """A record to each partition, acknowledged."""
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error:
            failed.append(error)

    for topic, count in topics.items():
        for partition in range(count):
            producer.produce(
                topic, b"x" * 100, partition=partition, on_delivery=lambda error, _: error and failed.append(error)
            )
            producer.poll(0)
    assert producer.flush(300) == 0 and not failed, failed[:3]


def _idle(cluster: rayft.Cluster, broker: int, seconds: float) -> float:
    """The part of a core that the broker takes."""
    time.sleep(6)
    pid = cluster.pids[broker]
    cpu, begin = _cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (_cpu_seconds(pid) - cpu) / (time.monotonic() - begin)


def _cpu_seconds(pid: int) -> float:
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(cluster: rayft.Cluster, broker: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{cluster.pids[broker]}/status").read_text())
    return int(found[1]) // 1024 if found else 0


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


if __name__ == "__main__":
    main()
