"""Brokers in racks, with real clients: who reads from the closest replica (KIP-392), in which codec a topic is stored
(KIP-390), and how kafka-reassign-partitions.sh moves a replica under a throttle (KIP-73)."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors.host.cluster import plan as plans
from tests.integration.conftest import everywhere, until

confluent_kafka = pytest.importorskip("confluent_kafka")
admin_of = pytest.importorskip("confluent_kafka.admin")

SECONDS = 60
RECORDS, RECORD_BYTES = 2_000, 1_000
TOOLS = "org.apache.kafka.tools."
CONFIG = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator["rayft.Cluster"]:
    """One controller, and broker n in rack rn."""
    home = tmp_path_factory.mktemp("racks") / "cluster"
    plans.create(home, 1, 3, common=CONFIG)
    for number in (1, 2, 3):
        with (home / f"broker-{number}.properties").open("a") as file:
            file.write(f"broker.rack=r{number}\n")
    with rayft.Cluster(controllers=1, brokers=3, dir=home) as running:
        yield running


@pytest.fixture(scope="module")
def admin(racks: Any) -> Any:
    return admin_of.AdminClient({"bootstrap.servers": racks.bootstrap_servers})


def create(racks: Any, admin: Any, name: str, replicas: list[int], **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = admin_of.NewTopic(name, 1, replica_assignment=[replicas], config=settings)
    admin.create_topics([topic])[name].result(SECONDS)
    everywhere(racks, name, 1)


def fill(racks: Any, name: str, **config: Any) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": racks.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5, **config}
    )
    for number in range(RECORDS):
        producer.produce(name, b"%07d" % number + b"-word" * ((RECORD_BYTES - 7) // 5))
    assert producer.flush(SECONDS) == 0


def read(racks: Any, name: str, rack: str) -> dict[int, int]:
    """Read the topic from its beginning. Bytes that were received from each broker."""
    received: dict[int, int] = {}

    def noted(text: str) -> None:
        for one in json.loads(text)["brokers"].values():
            received[one["nodeid"]] = one["rxbytes"]

    settings = {
        "bootstrap.servers": racks.bootstrap_servers, "group.id": name, "client.rack": rack, "enable.auto.commit": False,
        "statistics.interval.ms": 100, "stats_cb": noted, "fetch.message.max.bytes": 20_000,
    }  # fmt: skip
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
    values: list[bytes] = []
    end = time.monotonic() + SECONDS
    while len(values) < RECORDS and time.monotonic() < end:
        values += [one.value()[:7] for one in consumer.consume(500, 1) if one.error() is None]
    consumer.poll(0.5)
    consumer.close()
    assert values == [b"%07d" % number for number in range(RECORDS)]
    return received


@pytest.mark.parametrize(("rack", "serving"), [("r2", 2), ("r1", 1), ("elsewhere", 1), ("", 1)])
def test_librdkafka_reads_from_the_replica_in_its_rack(
    racks: Any, admin: Any, name: str, rack: str, serving: int
) -> None:
    create(racks, admin, name, [1, 2, 3])
    fill(racks, name)
    received = read(racks, name, rack)
    whole = RECORDS * RECORD_BYTES
    assert received[serving] > 0.9 * whole, received
    assert all(size < 0.1 * whole for broker, size in received.items() if broker not in (serving, -1)), received


def test_the_console_consumer_reads_what_the_replica_in_its_rack_has(
    racks: Any, admin: Any, java: Any, name: str
) -> None:
    """Java's consumer; a reader of committed records as well."""
    create(racks, admin, name, [1, 2, 3])
    fill(racks, name)
    for isolation in ("read_uncommitted", "read_committed"):
        read_so = ("--isolation-level", isolation, "--command-property", "client.rack=r3", "--from-beginning")
        text = java.run(
            f"{TOOLS}consumer.ConsoleConsumer", "--bootstrap-server", racks.bootstrap_servers, "--topic", name, *read_so,
            "--max-messages", str(RECORDS),
        )  # fmt: skip
        assert [line[:7] for line in text.split()] == [f"{number:07d}" for number in range(RECORDS)]


@pytest.mark.parametrize(("wanted", "shown"), [("zstd", "zstd"), ("uncompressed", "none")])
def test_kafka_dump_log_finds_the_codec_of_the_topic(
    racks: Any, admin: Any, java: Any, name: str, wanted: str, shown: str
) -> None:
    create(racks, admin, name, [1, 2], compression_type=wanted)
    fill(racks, name, **{"compression.type": "gzip"})
    read(racks, name, "")
    logs = sorted(Path(racks.dir).glob(f"**/{name}-0/*.log"))
    assert len(logs) == 2
    text = java.run(f"{TOOLS}DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, logs)))
    assert set(re.findall(r"compresscodec: (\w+)", text)) == {shown} and "isvalid: false" not in text
    assert len(re.findall(r"\| offset: ", text)) == 2 * RECORDS


@pytest.mark.slow
def test_kafka_reassign_partitions_moves_under_a_throttle_and_takes_it_away(
    racks: Any, admin: Any, java: Any, name: str, tmp_path: Path
) -> None:
    create(racks, admin, name, [1])
    fill(racks, name)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [2]}]}))

    def reassign(*arguments: str) -> str:
        main = f"{TOOLS}reassign.ReassignPartitionsCommand"
        named = ("--bootstrap-server", racks.bootstrap_servers, "--reassignment-json-file", str(plan))
        return str(java.run(main, *named, *arguments))

    assert "Successfully started" in reassign("--execute", "--throttle", "1000")
    described = java.run(
        "kafka.admin.ConfigCommand", "--bootstrap-server", racks.bootstrap_servers, "--describe", "--topic", name
    )
    assert "leader.replication.throttled.replicas=0:1" in described
    assert "follower.replication.throttled.replicas=0:2" in described
    assert "is still in progress" in reassign("--verify", "--preserve-throttles")
    reassign("--execute", "--additional", "--throttle", "100000000")
    until(lambda: "is completed" in reassign("--verify", "--preserve-throttles"))
    text = reassign("--verify")
    assert "Clearing broker-level throttles" in text and "Clearing topic-level throttles" in text
    for entity in (("--topic", name), ("--broker", "1"), ("--broker", "2")):
        described = java.run(
            "kafka.admin.ConfigCommand", "--bootstrap-server", racks.bootstrap_servers, "--describe", *entity
        )
        assert "throttled" not in described
    assert read(racks, name, "")[2] > RECORDS * RECORD_BYTES * 0.9
