"""What it costs producers that brokers read what is at rest meanwhile.

    python -m bench.scrubbing [--pairs N] [--seconds S] [--rate BYTES] [--alone]

Three brokers on this machine, one topic with three replicas and records at rest. The setting that reads them
(rayft.log.scrub.bytes.per.second: --rate, or 0) alternates, and a producer of librdkafka measures its rate in each half of
a pair: acks=all, 1 KiB records, lz4. Prints the rates, the CPU time of the brokers for each record, and the median of the
pairs' ratios.

With --alone nobody produces: it prints how much of a core each broker takes to read at that rate, which other users of the
machine hardly distort. A broker that has a core to itself loses that share of its rate at most.
"""

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.host.cluster import probe
from actors.wire.messages import message

TOPIC, PARTITIONS = "at-rest", 6
CONFIG = {"rayft.log.scrub.bytes.per.second": "0", "rayft.log.scrub.interval.ms": "1000"}
SETTINGS = {"segment.bytes": "1048576", "retention.bytes": "100000000"}
AT_REST = 48 << 20
"""So many bytes are there before anything is measured, in sealed segments: what is not sealed is not read."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each half of a pair")
    parser.add_argument("--rate", type=int, default=4194304, help="bytes a second that each broker reads")
    parser.add_argument("--alone", action="store_true", help="what reading takes by itself")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        rayft.Cluster(controllers=1, brokers=3, dir=Path(home) / "c", config=CONFIG) as cluster,
    ):
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        topic = NewTopic(TOPIC, PARTITIONS, replication_factor=3, config=SETTINGS)
        admin = AdminClient(servers)
        admin.create_topics([topic])[TOPIC].result(30)
        producer = Producer(servers | {"acks": "all", "linger.ms": 5, "compression.type": "lz4"})
        brokers = [_process(Path(home) / "c" / f"broker-{id}") for id in (1, 2, 3)]
        _fill(Producer(servers | {"acks": "all", "linger.ms": 5}))
        if options.alone:
            _alone(options, cluster.address(1), brokers)
            return
        ratios, costs = [], []
        for pair in range(options.pairs):
            found = {}
            for rate in (0, options.rate) if pair % 2 else (options.rate, 0):
                _set(cluster.address(1), rate)
                time.sleep(1.5)
                found[rate] = _measured(lambda: _produced(producer, options.seconds), brokers)
            (off, off_cpu), (on, on_cpu) = found[0], found[options.rate]
            ratios.append(on / off)
            costs.append(on_cpu / off_cpu)
            print(
                f"off {off:9.0f} records/s {1e6 * off_cpu:6.2f} us CPU a record   on {on:9.0f} {1e6 * on_cpu:6.2f}   "
                f"rate x{on / off:.3f} CPU x{on_cpu / off_cpu:.3f}",
                flush=True,
            )
        texts = [path.read_text() for path in (Path(home) / "c").glob("broker-*.log")]
        passes = sum(len(re.findall("read what is at rest", text)) for text in texts)
    rate, cost = statistics.median(ratios), statistics.median(costs)
    print(f"median of {len(ratios)} pairs: rate x{rate:.4f}, CPU a record x{cost:.4f}; at least {passes} readings")


def _alone(options: argparse.Namespace, address: tuple[str, int], brokers: list[int]) -> None:
    shares, costs = [], []
    for pair in range(options.pairs):
        found = {}
        for rate in (0, options.rate) if pair % 2 else (options.rate, 0):
            _set(address, rate)
            time.sleep(1.5)
            cpu, read, began = _cpu(brokers), _read(brokers), time.monotonic()
            time.sleep(options.seconds)
            lasted = (time.monotonic() - began) * len(brokers)
            found[rate] = (_cpu(brokers) - cpu) / lasted, (_read(brokers) - read) / lasted
        (off, nothing), (on, size) = found[0], found[options.rate]
        shares.append(on - off)
        costs.append((on - off) / max(size - nothing, 1) * (1 << 20))
        print(
            f"a broker takes {off:.4f} of a core off, {on:.4f} on, {on - off:+.4f}; reads {nothing:9.0f} and {size:9.0f} "
            f"bytes a second: {1000 * costs[-1]:.2f} ms a MiB",
            flush=True,
        )
    cost = statistics.median(costs)
    print(
        f"median of {len(shares)} pairs: {statistics.median(shares):.4f} of a core, {1000 * cost:.2f} ms a MiB; at "
        f"{options.rate} bytes a second {cost * options.rate / (1 << 20):.4f} of a core"
    )


def _process(directory: Path) -> int:
    """The broker's process id."""
    for one in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(directory) in str(path.readlink()) for path in (one / "fd").iterdir()):
                return int(one.name)
        except OSError:
            continue
    raise SystemExit(f"no process has files of {directory} open")


def _cpu(processes: list[int]) -> float:
    """Seconds of CPU so far."""
    found = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in processes]
    return sum(int(one[11]) + int(one[12]) for one in found) / 100


def _read(processes: list[int]) -> int:
    """Bytes that were read so far, from files and sockets."""
    return sum(int(Path(f"/proc/{one}/io").read_text().split()[1]) for one in processes)


def _fill(producer: Producer) -> None:
    value = bytes(range(256)) * 4
    for count in range(AT_REST // len(value)):
        producer.produce(TOPIC, value, partition=count % PARTITIONS)
        if not count % 1000:
            producer.flush(60)
    assert producer.flush(60) == 0


def _measured(run: Callable[[], float], processes: list[int]) -> tuple[float, float]:
    """Records a second, and CPU seconds of the brokers for each."""
    cpu, began = _cpu(processes), time.monotonic()
    count = run()
    return count / (time.monotonic() - began), (_cpu(processes) - cpu) / count


def _produced(producer: Producer, seconds: float) -> float:
    value, count, end = bytes(range(256)) * 4, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(200):
            try:
                producer.produce(TOPIC, value, partition=count % PARTITIONS)
                count += 1
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(60) == 0
    return count


def _set(address: tuple[str, int], rate: int) -> None:
    kind = message("IncrementalAlterConfigsRequest")
    config = kind.AlterableConfig(name="rayft.log.scrub.bytes.per.second", config_operation=0, value=str(rate))
    request = kind(resources=[kind.AlterConfigsResource(resource_type=4, resource_name="", configs=[config])])
    reply = probe.ask(address, "IncrementalAlterConfigs", request, 1, 10)
    assert [one.error_code for one in reply.responses] == [0]


if __name__ == "__main__":
    main()
