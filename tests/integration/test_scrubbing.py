"""Bits flipped in closed segments and indexes under three running brokers: every one is told, every file is again what it
was, and a foreign client reads everything back."""

import random
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.command import cli
from actors.host.cluster import probe
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.integration.conftest import until

CONFIG = {"rayft.log.scrub.bytes.per.second": "0", "rayft.log.scrub.interval.ms": "1000"}
ON = {"rayft.log.scrub.bytes.per.second": "100000000"}
TOPIC, PARTITIONS = "rotten", 4
ENDINGS = (".log", ".index", ".timeindex")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("bits", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_flipped_bits_are_found_and_mended(tmp_path: Path, bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        values = _filled(admin, servers, 20_000 if bits <= 100 else 60_000)
        sound = _closed(tmp_path / "c")
        assert cli.main(["scrub", "--dir", str(tmp_path / "c")]) == 0
        flips = _flipped(sound, bits)
        assert len(flips) == bits and len({path.parent.parent for path, _ in flips}) == 3
        assert cli.main(["scrub", "--dir", str(tmp_path / "c")]) == 1
        shown = capsys.readouterr().out
        left = _untold(flips, [(line.split(": ")[0].split(" at byte ")[0], line) for line in shown.splitlines()])
        damaged = {path for path, _ in flips}
        assert all(path.suffix != ".log" and path.with_suffix(".log") in damaged for path, _ in left), left
        assert len(left) < bits / 50, "an entry that points into damage is judged when that is mended"

        _turned_on(cluster.address(1))

        until(lambda: all(path.read_bytes() == content for path, content in sound.items()))
        faults = sum(int(count) for count in re.findall(r" bytes read, (\d+) faults", shown))
        until(lambda: _counted(tmp_path / "c")[0] == 3)
        _, found, mended = _counted(tmp_path / "c")
        assert found == mended >= faults
        assert len(admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions) == PARTITIONS
        for partition in admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.values():
            assert sorted(partition.isrs) == [1, 2, 3], "nobody left an ISR"
        assert _read(servers, len(values)) == values
    assert cli.main(["scrub", "--dir", str(tmp_path / "c")]) == 0


def _counted(cluster: Path) -> tuple[int, int, int]:
    """Brokers that have read their directory whole since the flips, and the faults that they have found and mended."""
    texts = [path.read_text() for path in cluster.glob("broker-*.log")]
    found = [re.findall(r"went on, (\d+) faults, (\d+) mended, 0 files stay damaged", text) for text in texts]
    return sum(map(bool, found)), *(sum(int(one[place]) for some in found for one in some) for place in (0, 1))


def _filled(admin: AdminClient, servers: dict[str, object], count: int) -> set[bytes]:
    """A topic on all three brokers, with many closed segments, which are durable."""
    settings = {"internal.segment.bytes": "131072", "index.interval.bytes": "4096", "min.insync.replicas": "2"}
    topic = NewTopic(TOPIC, PARTITIONS, replication_factor=3, config=settings)
    admin.create_topics([topic])[TOPIC].result(30)
    producer = Producer(servers | {"acks": "all", "linger.ms": 5, "batch.size": 4_000})
    values = set()
    for number in range(count):
        value = b"%08d" % number + random.Random(number).randbytes(300)
        values.add(value)
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
        if not number % 500:
            producer.poll(0)
    assert producer.flush(120) == 0
    return values


def _closed(cluster: Path) -> dict[Path, bytes]:
    """The files of closed segments of the topic, on all brokers."""
    found: dict[Path, bytes] = {}
    for directory in cluster.glob(f"**/{TOPIC}-*"):
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        for base in bases[:-1]:
            for ending in ENDINGS:
                path = directory / f"{base:020d}{ending}"
                found[path] = path.read_bytes()
    assert len(found) > 200
    return found


def _flipped(sound: dict[Path, bytes], bits: int) -> list[tuple[Path, int]]:
    """One bit each in that many places, more of them in logs than in indexes; no batch on more than two brokers."""
    choose = random.Random(7)
    flips: list[tuple[Path, int]] = []
    seen: dict[object, set[Path]] = {}
    heads = {path: batches.headers(content) for path, content in sound.items() if path.suffix == ".log"}
    files = sorted(sound)
    while len(flips) < bits:
        path = files[choose.randrange(len(files))]
        if not sound[path]:
            continue
        position = choose.randrange(len(sound[path]))
        if path.suffix == ".log":
            head = next(one for one in heads[path] if one.position <= position < one.position + one.size)
            copies = seen.setdefault((path.parent.name, head.base_offset), set())
            if path in copies or len(copies) == 2:
                continue
            copies.add(path)
        elif (path, "index") in seen:
            continue
        else:
            seen[path, "index"] = set()
        with path.open("r+b") as file:
            file.seek(position)
            file.write(bytes((sound[path][position] ^ (1 << choose.randrange(8)),)))
        flips.append((path, position))
    return flips


def _untold(flips: list[tuple[Path, int]], told: list[tuple[str, str]]) -> list[tuple[Path, int]]:
    """The flips that no line names. In a log file a line names a range of bytes."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for path, line in told:
        place = re.search(r"(?P<size>\d+) bytes at byte (?P<begin>\d+)", line)
        place = place or re.search(r"at byte (?P<begin>\d+): (?P<size>\d+) bytes", line)
        begin, size = (0, 1 << 40) if place is None else (int(place["begin"]), int(place["size"]))
        ranges.setdefault(path, []).append((begin, begin + size))
    return [
        (path, position)
        for path, position in flips
        if not any(begin <= position < end for begin, end in ranges.get(str(path), ()))
    ]


def _turned_on(address: tuple[str, int]) -> None:
    """All brokers begin to read what is at rest."""
    kind = message("IncrementalAlterConfigsRequest")
    configs = [kind.AlterableConfig(name=name, config_operation=0, value=value) for name, value in ON.items()]
    request = kind(resources=[kind.AlterConfigsResource(resource_type=4, resource_name="", configs=configs)])
    reply = probe.ask(address, "IncrementalAlterConfigs", request, 1, 10)
    assert [one.error_code for one in reply.responses] == [0]


def _read(servers: dict[str, object], count: int) -> set[bytes]:
    consumer = Consumer(servers | {"group.id": "reader", "auto.offset.reset": "earliest", "check.crcs": True})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: set[bytes] = set()
    while len(found) < count:
        for one in consumer.consume(1_000, 30):
            assert one.error() is None, one.error()
            found.add(one.value())
    consumer.close()
    return found
