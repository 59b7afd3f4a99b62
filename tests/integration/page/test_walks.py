"""The whole walk: every view in a browser, in both widths and schemes and by keyboard alone, of a cluster under load that
loses its active controller and a leader meanwhile, of Apache Kafka by its address, and of files."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from bench import apache
from tests.integration.conftest import ROOT, everywhere
from tests.integration.page.opened import Page, page, until
from tests.integration.page.walking import Walker, chromium, views, walk, wrong
from tests.integration.security.nodes import PLAIN
from tests.unit.replay import metadata_logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
TOPIC = "orders"
REAL = Path(os.environ.get("RAYFT_KAFKA_DATA", ROOT.parent / "shared" / "data" / "apache-kafka-4.3.1"))
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
AWAY = (502, 503)
"""What the API answers where a broker that was asked is being lost."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def load(servers: str, **settings: str) -> Iterator[Callable[[], int]]:
    """A producer that never pauses and a group that reads after it. Gives how many records were acknowledged."""
    stop = threading.Event()
    acknowledged = [0]

    def told(error: Any, message: Any) -> None:
        acknowledged[0] += error is None

    def write() -> None:
        producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 120_000, **settings})
        at = 0
        while not stop.is_set():
            try:
                producer.produce(TOPIC, json.dumps({"order": at}), key=f"k-{at % 97}", on_delivery=told)
                at += 1
            except (BufferError, KafkaException):  # it is full, or does not know yet that it may
                producer.poll(0.1)
            producer.poll(0)
            stop.wait(0.001)
        producer.flush(30)

    def read() -> None:
        group = {"group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": servers, **group, **settings})
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            consumer.consume(500, 0.5)
        consumer.close()

    threads = [threading.Thread(target=one) for one in (write, read)]
    for one in threads:
        one.start()
    try:
        yield lambda: acknowledged[0]
    finally:
        stop.set()
        for one in threads:
            one.join()


def sources(opened: Page) -> tuple[str, list[str]]:
    """Whether the quorum answers, and what is noted."""
    return opened.get("/now")["quorum"]["source"], opened.get("")["notes"]


def made(cluster: rayft.Cluster, partitions: int, replicas: int) -> None:
    """Make the topic, and wait until every node knows it."""
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(TOPIC, partitions, replicas)]))
    everywhere(cluster, TOPIC, partitions)


def test_a_cluster_under_load_that_loses_its_controller_and_a_leader(browser: Any) -> None:
    with rayft.Cluster(controllers=3, brokers=3) as cluster:
        servers = cluster.bootstrap_servers
        made(cluster, 6, 3)
        lost: list[int] = []

        def between(looked: int) -> None:
            if looked == 6:
                lost.append(cluster.leader_id())
                cluster.kill(lost[0], restart=False)
            elif looked == 24:
                lost.append(opened.rows("partitions", where=f"topic = {TOPIC} and leader > 0")[0]["leader"])
                cluster.kill(lost[1], restart=False)
            elif looked == 44:
                for node in lost:
                    cluster.start_node(node)

        with load(servers) as acknowledged, page("-b", servers) as opened:
            until(lambda: acknowledged() > 1_000 and opened.get("/now")["quorum"]["source"] == "quorum")
            walk(browser, opened, TOPIC, between=between, tolerated=AWAY)
            before = acknowledged()
            until(lambda: acknowledged() > before + 100)
            until(lambda: opened.get("")["well"], 120)
            assert len(lost) == 2 and opened.rows("changes", q=f"{lost[1]}", where="kind = fencing")


@pytest.fixture(scope="module")
def jars() -> None:
    if apache.libs() is None:
        pytest.skip("Apache Kafka's jars are not there: `make kafka` fetches them where it can")


def snapshots(kafka: apache.ApacheKafka) -> list[Path]:
    """The snapshots in the log of the controllers, without the one that they began with."""
    found = kafka.directory.glob("data-3*/__cluster_metadata-0/*.checkpoint")
    return [one for one in found if int(one.name.partition("-")[0]) > 0]


def test_apache_kafka_by_its_address_with_a_snapshot_and_its_failover(browser: Any, jars: None) -> None:
    config = {
        "default.replication.factor": "1", "metadata.log.max.record.bytes.between.snapshots": "2000",
        "metadata.log.max.snapshot.interval.ms": "5000",
    }  # fmt: skip
    with apache.ApacheKafka(brokers=2, controllers=3, config=config, heap="320m") as kafka:
        servers = kafka.bootstrap_servers
        with connect(servers) as client:
            client.run(topics.create([topics.NewTopic(TOPIC, 6, 2)]))
            for number in range(20):
                client.run(topics.create([topics.NewTopic(f"beside-{number}", 2, 1)]))
        until(lambda: snapshots(kafka), 120)
        lost: list[int] = []

        def between(looked: int) -> None:
            if looked == 6:
                lost.append(opened.get("/now")["quorum"]["leader"])
                kafka.kill(lost[0])
            elif looked == 40:
                kafka.start(lost[0])

        with load(servers) as acknowledged, page("-b", servers) as opened:
            until(lambda: acknowledged() > 1_000 and opened.get("/now")["quorum"]["source"] == "quorum", 60)
            assert opened.get("")["notes"] == [], "the log is read, not polled"
            walk(browser, opened, TOPIC, between=between, tolerated=AWAY)
            now = until(lambda: (one := opened.get("/now"))["well"] and one, 120)
            assert now["quorum"]["leader"] not in (-1, lost[0]) and len(now["quorum"]["voters"]) == 3


SASL = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN", "sasl.mechanism.controller.protocol": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:admin",
    "default.replication.factor": "1",
    **{
        f"listener.name.{name}.plain.sasl.jaas.config":
        f'{PLAIN} required username="admin" password="admin-pw" user_admin="admin-pw" user_alice="alice-pw";'
        for name in ("plaintext", "controller")
    },
}  # fmt: skip


def login(user: str) -> dict[str, str]:
    """A user's settings, as librdkafka has them."""
    names = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    return {**names, "sasl.username": user, "sasl.password": f"{user}-pw"}


def grant(admin: AdminClient, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Allow alice some operations."""
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", one, AclPermissionType.ALLOW)
        for one in operations
    ]
    for one in admin.create_acls(rules).values():
        one.result(30)


def test_apache_kafka_whose_log_the_login_may_not_read(browser: Any, jars: None, tmp_path: Path) -> None:
    config = tmp_path / "alice.properties"
    with apache.ApacheKafka(brokers=1, controllers=1, config=SASL, heap="320m") as kafka:
        servers = kafka.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, **login("admin")})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(30)
        grant(admin, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
        grant(admin, ResourceType.TOPIC, "*", AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
        grant(admin, ResourceType.GROUP, "*", AclOperation.READ)
        config.write_text(
            f"bootstrap.servers={servers}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN} required username="alice" password="alice-pw";\n'
        )
        with load(servers, **login("alice")) as acknowledged, page("--config", str(config)) as opened:
            until(lambda: acknowledged() > 300, 60)
            (note,) = opened.get("")["notes"]
            assert "cannot be read here" in note and "CLUSTER_ACTION" in note
            assert [row["partitions"] for row in opened.rows("topics", where=f"topic = {TOPIC}")] == [3]
            walk(browser, opened, TOPIC)
            admin.create_topics([NewTopic("later", 1, 1)])["later"].result(30)
            until(lambda: opened.rows("changes", where="kind = topic and topic = later"))


def metadata_log(name: str, to: Path) -> Path:
    """A log that Apache Kafka 4.3.1 wrote, as a directory."""
    if name == "golden":
        return GOLDEN
    if not REAL.exists():
        pytest.skip(f"there is no {REAL}: set RAYFT_KAFKA_DATA to what its README calls real input")
    if name == "real":
        return REAL / "__cluster_metadata-0"
    if shutil.which("zstd") is None:
        pytest.skip("zstd is not installed: apt-get install zstd")
    into = to / "__cluster_metadata-0"
    into.mkdir()
    for one in (REAL / "one-million-partitions").glob("*.zst"):
        subprocess.run(["zstd", "-dq", "--long=27", str(one), "-o", str(into / one.stem)], check=True)
    return into


@pytest.mark.parametrize("name", ["golden", "real", "one million partitions"])
def test_files_of_apache_kafka(browser: Any, name: str, tmp_path: Path) -> None:
    with page(str(metadata_log(name, tmp_path))) as opened:
        topic = opened.rows("topics", n=1)[0]["topic"]
        walk(browser, opened, topic)


# ---- what cannot be had is a sentence

SETTLED = """![...document.querySelectorAll("main *")].some((one) => one.checkVisibility()
    && [...one.childNodes].some((node) => node.nodeType === 3 && /^((reading|asking) )?…$/.test(node.data.trim())))
  && !document.querySelector(".progress:not(.hidden)")"""
"""Nothing is being waited for."""


def test_no_view_waits_for_ever_where_every_node_is_gone(browser: Any) -> None:
    with rayft.Cluster(controllers=1, brokers=2) as cluster:
        servers = cluster.bootstrap_servers
        made(cluster, 3, 2)
        with page("-b", servers) as opened, browser.new_context() as context:
            until(lambda: opened.get("/now")["quorum"]["source"] == "quorum")
            nodes = (*cluster.controller_ids, *cluster.broker_ids)
            for node in nodes:
                cluster.kill(node, restart=False)
            walker = Walker(context, opened)
            walker.enter()
            walker.page.wait_for_selector("h1:has-text('Not well: the quorum of controllers does not answer')")
            for view, heading in views(TOPIC).items():
                walker.go(view, heading)
                walker.until(SETTLED)
                if f"/{TOPIC}" in view:
                    walker.page.wait_for_selector("main [role=alert]")
                assert TOPIC in walker.text() or view not in ("topics", "partitions"), "what was known is shown"
            assert wrong(walker, AWAY) == []
            for node in nodes:
                cluster.start_node(node)
            walker.go("now", "Well")


def test_files_that_are_damaged_and_then_deleted(browser: Any, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / GOLDEN.name)
    (log,) = (tmp_path / GOLDEN.name).glob("*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with page(str(tmp_path)) as opened, browser.new_context() as context:
        walker = Walker(context, opened)
        walker.enter()
        walker.page.wait_for_selector(".notes >> text=Damaged bytes were skipped")
        shutil.rmtree(tmp_path / GOLDEN.name)
        walker.page.wait_for_selector(
            ".notes >> text=The log cannot be read any more, so what is shown is what was read"
        )
        for view, heading in views(opened.rows("topics", n=1)[0]["topic"]).items():
            walker.go(view, heading)
            walker.until(SETTLED)
        assert wrong(walker, ()) == []


SIZE = 10_000_000_000


def ten_gigabytes(folder: Path) -> int:
    """A metadata log of SIZE bytes: the ISRs of 8,000 partitions change again and again. Returns where it ends."""
    count, topic = 8_000, metadata_logs.TOPIC
    first = metadata_logs.on_three_brokers(TOPIC, count)
    begun = metadata_logs.released(first, 0)
    turns = [
        metadata_logs.released(
            [(5, 1, "PartitionChangeRecord", {"partition_id": n, "topic_id": topic, "isr": isr}) for n in range(count)]
        ).data
        for isr in ([1, 3], [1, 2, 3])
    ]
    path = metadata_logs.write(folder, [begun], metadata_logs.RELEASED) / f"{0:020}.log"
    end = len(first)
    with path.open("ab") as log:
        while log.tell() < SIZE:
            for data in turns:  # the checksum of a batch does not cover its offset
                log.write(end.to_bytes(8, "big") + data[8:])
                end += count
    return end


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """The directory of such a log, and where it ends."""
    folder = tmp_path_factory.mktemp("long")
    if shutil.disk_usage(folder).free < 2 * SIZE:
        pytest.skip(f"{folder} has no room for a log of 10 GB")
    try:
        yield folder, ten_gigabytes(folder)
    finally:
        shutil.rmtree(folder)


def test_a_log_of_ten_gigabytes(browser: Any, long_log: tuple[Path, int]) -> None:
    folder, end = long_log
    with page(str(folder), patience_s=900) as opened, browser.new_context() as context:
        assert f"{folder} is being opened, which takes a while" in "".join(opened.printed)
        walker = Walker(context, opened)
        walker.enter()
        walker.page.wait_for_selector(".notes >> text=This log is long")
        for view, heading in views(TOPIC).items():
            walker.go(view, heading)
            walker.until(SETTLED)
        assert opened.get("")["extent"]["end"] == end and wrong(walker, ()) == []
        for count, short in ((10_001, 8_000), (10_002, 0)):
            told = opened.get("/tables/partitions", at=8_004 + 8_000 * count, where="under_replicated", n=1)
            assert told["total"] == short, "any moment is exact"
        status = Path(f"/proc/{opened.process.pid}/status").read_text()
        own_mb = int(re.findall(r"RssAnon:\s+(\d+)", status)[0]) / 1024
        assert own_mb < 1_000, f"{own_mb:.0f} MiB of its own"


def test_a_page_that_is_interrupted_while_it_reads_ends(long_log: tuple[Path, int]) -> None:
    """It read the rest of the log before it ended, half a minute or more."""
    words = [sys.executable, "-m", "actors.command.cli", "ui", "--port", "0", str(long_log[0])]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None and "is being opened" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 1
        finally:
            process.kill()
