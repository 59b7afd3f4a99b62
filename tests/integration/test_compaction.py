"""Real brokers that compact, with their own clients and Apache Kafka's tools; and killed with -9 while they do."""

import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

import rayft
from actors.wire.messages import message
from fastpath.records import batch
from tests.integration.answers.dialogue import Broker, Closed
from tests.integration.conftest import kafka_libs, until
from tests.integration.files import size_of_all

CONFIG = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "log.retention.check.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "registration.lease.timeout.ms": "3000",
    "registration.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}
TOPIC = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "600000",
    "min.insync.replicas": "1",
}


def created(admin: AdminClient, name: str, factor: int, **changes: str) -> None:
    config = TOPIC | {key.replace("_", "."): value for key, value in changes.items()}
    admin.create_topics([NewTopic(name, 1, factor, config=config)])[name].result(30)


class Writer:
    """Overwrites and deletes keys, and knows what was acknowledged."""

    def __init__(self, servers: dict[str, Any], topic: str, codec: str = "none", seed: int = 1) -> None:
        self.topic = topic
        self.random = random.Random(seed)
        self.producer = Producer(
            servers
            | {
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 2,
                "batch.size": 4000,
                "message.timeout.ms": "120000",
            }
        )
        self.latest: dict[bytes, bytes | None] = {}
        """What the last record of each key says, once `flush` is done."""
        self.failed: list[Any] = []

    def write(self, count: int, keys: int = 50) -> None:
        for _ in range(count):
            key = b"key-%d" % self.random.randrange(keys)
            value = None if not self.random.randrange(8) else self.random.randbytes(60)
            self.producer.produce(self.topic, value, key=key, on_delivery=self._delivered)
            self.latest[key] = value
            self.producer.poll(0)

    def _delivered(self, error: Any, record: Any) -> None:
        if error is not None:
            self.failed.append(error)

    def flush(self) -> None:
        assert self.producer.flush(120) == 0 and not self.failed, self.failed


def read(servers: dict[str, Any], topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """(offset, key, value) of all that a consumer is given from the beginning on."""
    consumer = Consumer(
        servers | {"group.id": f"r{time.monotonic_ns()}", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            for record in consumer.consume(500, 0.5):
                if record.error() is not None:
                    assert record.error().name() == "_PARTITION_EOF", record.error()
                    return found
                found.append((record.offset(), record.key(), record.value()))
    finally:
        consumer.close()
    raise AssertionError(f"{topic} is not read to its end")


def values(found: list[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes | None]:
    assert [one[0] for one in found] == sorted({one[0] for one in found})
    return {key: value for _, key, value in found}


def cleaned(cluster: Any, broker: int, topic: str) -> int:
    """How far the broker says that it has cleaned."""
    found = re.findall(rf"cleaned {topic}-0 below (\d+)", cluster.log(broker))
    return int(found[-1]) if found else -1


@pytest.mark.timeout(240)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_only_the_last_value_of_each_key_is_left(tmp_path: Path, codec: str) -> None:
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        created(admin, "kept", 1)
        writer = Writer(servers, "kept", codec)
        for _ in range(10):
            writer.write(500)
            writer.flush()
        end = 5000
        until(lambda: cleaned(cluster, 1, "kept") > end - 1500)
        clean = cleaned(cluster, 1, "kept")
        found = read(servers, "kept")
        assert values(found) == writer.latest
        below = [key for offset, key, _ in found if offset < clean]
        assert len(below) == len(set(below)) and len(found) < end / 2
        _change(admin, "kept", "delete.retention.ms", "0")
        until(lambda: _fewer_tombstones(servers, writer))
        assert "ERROR" not in cluster.log(1)
        text = (tmp_path / "c" / "broker-1" / "cleaner-offset-checkpoint").read_text()
        assert re.match(r"0\n\d+\n(.*\n)*kept 0 \d+\n", text)


def _fewer_tombstones(servers: dict[str, Any], writer: Writer) -> bool:
    """Every tombstone goes in time, though the last ones stay in the segment that takes appends."""
    writer.write(300)
    writer.flush()
    found = read(servers, "kept")
    tombstones = [key for offset, key, value in found if value is None and offset < found[-1][0] - 1500]
    assert {key: one for key, one in values(found).items() if one is not None} == {
        key: one for key, one in writer.latest.items() if one is not None
    }
    return not tombstones


def _change(admin: AdminClient, topic: str, name: str, value: str, kind: ResourceType = ResourceType.TOPIC) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    for future in admin.incremental_alter_configs([ConfigResource(kind, topic, incremental_configs=[entry])]).values():
        future.result(30)


@pytest.mark.timeout(400)
def test_brokers_are_killed_while_they_clean(tmp_path: Path) -> None:
    """Nothing of the latest values is lost, whoever leads; and a broker that begins empty is given the log with its gaps."""
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        created(admin, "kept", 3)
        writer = Writer(servers, "kept", "lz4")
        # So slow that kills come in the middle.
        for broker in "123":
            _change(admin, broker, "log.cleaner.io.max.bytes.per.second", "300000", ResourceType.BROKER)
        for number in range(9):
            writer.write(1500, keys=200)
            broker = number % 3 + 1
            cluster.kill(broker, restart=False)
            if number == 5:  # it begins empty, behind a log with gaps
                shutil.rmtree(tmp_path / "c" / f"broker-{broker}" / "kept-0")
            writer.write(500, keys=200)
            cluster.start_node(broker)
            writer.flush()
        for broker in "123":
            _change(admin, broker, "log.cleaner.io.max.bytes.per.second", "1e9", ResourceType.BROKER)
        for _ in range(3):
            writer.write(500, keys=200)
            writer.flush()
        for broker in (1, 2, 3):
            until(lambda broker=broker: cleaned(cluster, broker, "kept") > 15_000)
        assert values(read(servers, "kept")) == writer.latest
        for broker in (1, 2, 3):
            assert not [line for line in cluster.log(broker).splitlines() if "cannot be cleaned" in line]
            assert "is damaged" not in cluster.log(broker)
        for leader in (1, 2, 3):  # each of them alone has all of it
            others = [one for one in (1, 2, 3) if one != leader]
            until(lambda: _isr(admin) == {1, 2, 3})
            for other in others:
                cluster.kill(other, restart=False)
            until(lambda leader=leader: _leader(admin) == leader)
            assert values(read(servers, "kept")) == writer.latest
            for other in others:
                cluster.start_node(other)


def _partition(admin: AdminClient) -> Any:
    """As some broker tells of it; None: none does now."""
    try:
        return admin.list_topics("kept", timeout=5).topics["kept"].partitions[0]
    except KafkaException:
        return None


def _isr(admin: AdminClient) -> set[int]:
    return set(getattr(_partition(admin), "isrs", ()))


def _leader(admin: AdminClient) -> int:
    return int(getattr(_partition(admin), "leader", -1))


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_settings_count_while_it_runs_and_both_policies_work(tmp_path: Path) -> None:
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        _change(admin, "1", "log.cleaner.enable", "false", ResourceType.BROKER)
        created(admin, "kept", 1)
        created(admin, "both", 1, cleanup_policy="compact,delete", retention_bytes="60000")
        one, two = Writer(servers, "kept"), Writer(servers, "both")
        for writer in (one, two):
            writer.write(3000, keys=3000)
            writer.flush()
        time.sleep(1)
        assert cleaned(cluster, 1, "kept") < 0
        _change(admin, "1", "log.cleaner.enable", "true", ResourceType.BROKER)
        until(lambda: cleaned(cluster, 1, "kept") > 0 and cleaned(cluster, 1, "both") > 0)
        assert values(read(servers, "kept")) == one.latest
        left = read(servers, "both")
        until(lambda: read(servers, "both")[0][0] > 1000)
        assert set(values(left)) <= set(two.latest)
        assert all(two.latest[key] == value for key, value in values(read(servers, "both")).items())


@pytest.mark.skipif(shutil.which("java") is None or kafka_libs() is None, reason="needs java and Apache Kafka's jars")
@pytest.mark.timeout(200)
def test_apache_kafka_reads_what_is_left(tmp_path: Path) -> None:
    """DumpLogSegments finds every batch valid, with gaps, horizons and empty batches."""
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        created(AdminClient(servers), "kept", 1)
        for codec in ("none", "zstd", "gzip", "snappy", "lz4"):
            writer = Writer(servers, "kept", codec, seed=len(codec))
            for _ in range(6):
                writer.write(300)
                writer.flush()
        until(lambda: cleaned(cluster, 1, "kept") > 8000)
        found = read(servers, "kept")
    directory = tmp_path / "c" / "broker-1" / "kept-0"
    files = sorted(directory.glob("*.log"))
    text = _dump("--deep-iteration", "--files", ",".join(map(str, files)))
    assert "isvalid: false" not in text and "isvalid: true" in text
    offsets = [int(n) for n in re.findall(r"^\| offset: (\d+)", text, re.M)]
    mine = [one for file in files for one in _records(file.read_bytes())]
    assert offsets == [one.offset for one in mine] and set(offsets) <= {offset for offset, _, _ in found}
    assert {one.key: one.value for one in mine} == values(found)
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", text) and re.search(r"count: 0 ", text)
    for suffix in (".index", ".timeindex"):
        text = _dump("--files", ",".join(str(one) for one in sorted(directory.glob(f"*{suffix}"))))
        assert "Mismatches" not in text and "out of order" not in text


def _records(data: bytes) -> list[Any]:
    return [one for head in batch.headers(data) for one in batch.records(data, head.position)]


def _dump(*arguments: str) -> str:
    command = ["java", "-cp", f"{kafka_libs()}/*", "org.apache.kafka.tools.DumpLogSegments", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


OFFSETS = {
    **CONFIG,
    "offsets.topic.num.partitions": "1",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
GROUPS = [f"group-{number}" for number in range(40)]


def _ask(cluster: Any, name: str, version: int, request: Any, done: Callable[[Any], bool]) -> Any:
    """The first answer that will do, however often the broker dies."""
    host, _, port = cluster.bootstrap_servers.partition(":")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            broker = Broker((host, int(port)), 5)
        except OSError:
            time.sleep(0.1)
            continue
        try:
            reply = broker.ask(name, version, request)
            if done(reply):
                return reply
        except (Closed, OSError):
            pass
        finally:
            broker.close()
        time.sleep(0.1)
    raise AssertionError(f"{name} is not answered")


def _commit(cluster: Any, offset: int) -> None:
    """For every group, until it is acknowledged."""
    kind = message("OffsetCommitRequest")
    part = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = kind.OffsetCommitRequestTopic(name="t", partitions=[part])
    for group in GROUPS:
        request = kind(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])
        _ask(cluster, "OffsetCommit", 8, request, lambda reply: reply.topics[0].partitions[0].error_code == 0)


def _committed(cluster: Any) -> set[int]:
    """The offsets of all groups."""
    kind = message("OffsetFetchRequest")
    topic = kind.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = kind(groups=[kind.OffsetFetchRequestGroup(group_id=group, topics=[topic]) for group in GROUPS])
    reply = _ask(cluster, "OffsetFetch", 8, request, lambda reply: not any(one.error_code for one in reply.groups))
    return {group.topics[0].partitions[0].committed_offset for group in reply.groups}


@pytest.mark.timeout(200)
def test_offsets_outlive_a_broker_that_is_killed_while_it_cleans_them(tmp_path: Path) -> None:
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=OFFSETS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        find = message("FindCoordinatorRequest")(key_type=0, coordinator_keys=GROUPS[:1])
        _ask(cluster, "FindCoordinator", 4, find, lambda reply: reply.coordinators[0].error_code == 0)
        _commit(cluster, 0)
        _change(admin, "__consumer_offsets", "internal.segment.bytes", "20000")
        directory = tmp_path / "c" / "broker-1" / "__consumer_offsets-0"
        # So slow that kills come in the middle.
        _change(admin, "1", "log.cleaner.io.max.bytes.per.second", "60000", ResourceType.BROKER)
        offset = 0
        for _ in range(3):
            began, end = offset, time.monotonic() + 40
            while offset < began + 10 or not any(directory.glob("*.cleaned")):
                assert time.monotonic() < end, "nothing is cleaned"
                offset += 1
                _commit(cluster, offset)
                # The cleaner first reads all that is new, as slowly.
                time.sleep(0.05)
            cluster.kill(1, restart=False)
            cluster.start_node(1)
            assert _committed(cluster) == {offset}
        _change(admin, "1", "log.cleaner.io.max.bytes.per.second", "1e9", ResourceType.BROKER)
        last = offset + 12
        for number in range(offset, last + 1):
            _commit(cluster, number)
        until(lambda: cleaned(cluster, 1, "__consumer_offsets") > 40 * (last - 6))
        until(lambda: size_of_all(directory.glob("*.log")) < 60_000)
        cluster.kill(1, restart=False)
        cluster.start_node(1)
        assert _committed(cluster) == {last}
        assert "cannot be cleaned" not in cluster.log(1) and "passed over" not in cluster.log(1)
    if shutil.which("java") is None or kafka_libs() is None:
        return
    files = ",".join(str(one) for one in sorted(directory.glob("*.log")))
    text = _dump("--offsets-decoder", "--files", files)
    found = {group: int(offset) for group, offset in re.findall(r'"group":"(group-\d+)".*?"offset":(\d+)', text)}
    assert found == dict.fromkeys(GROUPS, last) and "isvalid: false" not in text
