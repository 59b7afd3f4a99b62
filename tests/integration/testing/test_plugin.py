"""The pytest plugin as a project uses it: a pytest of its own on files of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, until

pytestmark = pytest.mark.timeout(300)
HEADER = """
import pytest
from confluent_kafka import Producer


def sent(kafka, topic, value, **config):
    failed = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **config})
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
    producer.flush()
    return failed[0]

"""
SMALL = """
def test_what_others_write_is_read_and_what_is_written_has_keys_and_headers(kafka):
    topic = kafka.topic("orders", partitions=3, config={"retention.ms": "-1"})
    keys = [str(n % 7) for n in range(100)]
    kafka.produce(topic, [b"%d" % n for n in range(100)], keys=keys, headers=[("a", "b")], timestamp_ms=7)
    found = kafka.consume(topic)
    assert sorted(int(one.value) for one in found) == list(range(100))
    assert {(one.headers, one.timestamp) for one in found} == {(((b"a", b"b"),), 7)}
    assert len({(one.key, one.partition) for one in found}) == 7
    assert sent(kafka, topic, b"x") is None
    assert kafka.consume(topic, 101)[-1].topic == topic
    assert sent(kafka, kafka.name("made-by-a-client"), b"y") is None
    assert kafka.topics() == sorted([topic, kafka.name("made-by-a-client")])
    SEEN.append((kafka.bootstrap_servers, kafka.prefix))


def test_another_test_has_the_same_cluster_and_nothing_of_the_others(kafka):
    (servers, prefix), = SEEN
    assert kafka.bootstrap_servers == servers and kafka.prefix != prefix
    kafka.prefix = prefix
    for _ in range(100):
        if not kafka.topics():
            break
    assert kafka.topics() == []


def test_what_does_not_come_is_told(kafka):
    topic = kafka.topic()
    kafka.produce(topic, ["a"])
    with pytest.raises(TimeoutError, match="has 1 records after 1 s, not 2"):
        kafka.consume(topic, 2, timeout_s=1)


SEEN = []
"""
FAULTS = """
@pytest.mark.rayft(brokers=2, config={"auto.create.topics.enable": False})
class TestFaults:
    def test_a_broker_is_killed_and_another_is_frozen(self, kafka):
        SEEN.append(kafka.bootstrap_servers)
        topic = kafka.topic(replicas=2)
        kafka.cluster.kill(1, restart=False)
        kafka.produce(topic, ["a"])
        kafka.cluster.freeze(2)
        assert sent(kafka, topic, b"x", **{"message.timeout.ms": 1500}) is not None

    def test_all_is_whole_again(self, kafka):
        assert SEEN == [kafka.bootstrap_servers] and set(kafka.cluster.pids) >= {1, 2}
        topic = kafka.topic(replicas=2)
        kafka.produce(topic, ["a"])
        assert [one.value for one in kafka.consume(topic)] == [b"a"]

    @pytest.mark.rayft(brokers=1, own=True)
    def test_a_disk_is_full_and_has_room_again(self, kafka):
        assert kafka.bootstrap_servers not in SEEN
        topic = kafka.topic()
        kafka.produce(topic, ["a"])
        kafka.cluster.fill_disk(1)
        assert sent(kafka, topic, b"x", **{"message.timeout.ms": 2000}) is not None
        kafka.cluster.free_disk(1)
        kafka.produce(topic, ["b"])
        assert [one.value for one in kafka.consume(topic)][::2][:2] in ([b"a"], [b"a", b"b"])


SEEN = []
"""

HARMED = """
import os
import time


@pytest.fixture(autouse=True)
def told(kafka):
    yield
    ports = [kafka.cluster.address(one)[1] for one in (*kafka.cluster.broker_ids, *kafka.cluster.controller_ids)]
    print("pids", *kafka.cluster.pids.values(), "ports", *ports, flush=True)


def written(kafka, **wanted):
    topic = kafka.topic(**wanted)
    kafka.produce(topic, ["a"])
    assert [one.value for one in kafka.consume(topic)] == [b"a"]


@pytest.mark.rayft(brokers=2)
class TestTwo:
    def test_a_broker_is_killed(self, kafka):
        topic = kafka.topic(replicas=2)
        kafka.cluster.kill(1, restart=False)
        kafka.produce(topic, ["a"])

    def test_a_broker_is_killed_and_comes_back(self, kafka):
        kafka.cluster.kill(2)
        kafka.cluster.wait_ready(2)
        written(kafka, replicas=2)

    def test_a_broker_is_frozen(self, kafka):
        topic = kafka.topic(replicas=2)
        kafka.cluster.freeze(1)
        assert sent(kafka, topic, b"x", acks="all", **{"message.timeout.ms": 500}) is not None

    def test_a_broker_is_cut_off(self, kafka):
        topic = kafka.topic(replicas=2)
        kafka.cluster.cut(1)
        assert sent(kafka, topic, b"x", acks="all", **{"message.timeout.ms": 500}) is not None

    def test_a_clock_jumps(self, kafka):
        kafka.cluster.jump_clock(2, 3600)
        written(kafka, replicas=2)

    def test_all_are_whole(self, kafka):
        written(kafka, replicas=2)


def test_a_disk_is_full(kafka):
    topic = kafka.topic()
    kafka.cluster.fill_disk(1)
    assert sent(kafka, topic, b"x", **{"message.timeout.ms": 1000}) is not None


def test_it_has_room_again(kafka):
    written(kafka)


def test_it_is_restarted(kafka):
    kafka.cluster.restart(1)
    written(kafka)


@pytest.mark.rayft(own=True)
def test_the_last_one_is_frozen_when_pytest_is_killed(kafka):
    kafka.cluster.freeze(1)
    print("pids", *kafka.cluster.pids.values(), "ports", kafka.cluster.address(1)[1], flush=True)
    print("frozen", flush=True)
    time.sleep(300)
"""


def run(project: Path, text: str, *options: str, ini: str = "") -> "subprocess.CompletedProcess[str]":
    """Run pytest on a file with this text."""
    (project / "test_project.py").write_text(HEADER + text)
    (project / "pytest.ini").write_text(f"[pytest]\n{ini}")
    return subprocess.run(
        command(*options), cwd=project, env=environment(), capture_output=True, text=True, timeout=240
    )


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "actors.testing.plugin", "-p", "no:cacheprovider", *options]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def outcome(done: "subprocess.CompletedProcess[str]") -> str:
    return done.stdout.splitlines()[-1].partition(" in ")[0]


def test_tests_share_a_cluster_and_have_topics_of_their_own(tmp_path: Path) -> None:
    done = run(tmp_path, SMALL)
    assert outcome(done) == "3 passed", done.stdout


def test_nodes_are_harmed_and_are_whole_again_for_the_next_test(tmp_path: Path) -> None:
    done = run(tmp_path, FAULTS)
    assert outcome(done) == "3 passed", done.stdout


def test_the_ini_file_and_wrong_words(tmp_path: Path) -> None:
    text = """
def test_settings(kafka):
    assert sent(kafka, kafka.name("t"), b"x", **{"message.timeout.ms": 1000}) is not None


@pytest.mark.rayft(brokers="3")
def test_wrong(kafka):
    pass
"""
    done = run(tmp_path, text, ini="rayft_config =\n  auto.create.topics.enable=false\n")
    assert outcome(done) == "1 passed, 1 error" and "write a number from 1 to 64" in done.stdout, done.stdout


def test_a_kafka_that_is_there_already(tmp_path: Path, cluster: object) -> None:
    text = """
def test_topic(kafka):
    topic = kafka.topic()
    kafka.produce(topic, ["a"])
    assert len(kafka.consume(topic)) == 1
    with pytest.raises(AttributeError, match="was not started by the tests"):
        kafka.cluster.kill(1)


@pytest.mark.rayft(brokers=3)
def test_other(kafka):
    pass
"""
    servers = str(getattr(cluster, "bootstrap_servers"))  # noqa: B009
    done = run(tmp_path, text, "--rayft-bootstrap", servers)
    assert outcome(done) == "1 passed, 1 skipped", done.stdout


@pytest.mark.slow
def test_each_worker_has_a_cluster(tmp_path: Path) -> None:
    text = """
@pytest.mark.parametrize("n", range(4))
def test_topic(kafka, n):
    kafka.produce(kafka.topic(), ["a"])
"""
    done = run(tmp_path, text, "-p", "xdist", "-n", "2")
    assert outcome(done) == "4 passed", done.stdout


def test_a_run_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "test_project.py").write_text("""
import time


def test_long(kafka):
    kafka.produce(kafka.topic(), ["a"])
    print("pids", *kafka.cluster.pids.values(), flush=True)
    time.sleep(100)
""")
    process = subprocess.Popen(
        command("-s"), cwd=tmp_path, env=environment() | {"TMPDIR": str(temporary)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = next(one for one in process.stdout if "pids" in one)
        pids = [int(one) for one in line.partition("pids")[2].split()]
        assert pids and list(temporary.glob("rayft-*"))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    until(lambda: not list(temporary.glob("rayft-*")))


def test_ten_tests_with_faults_and_a_kill_of_pytest_leave_no_process_port_or_directory(tmp_path: Path) -> None:
    """Three clusters have run by then, one with a frozen node."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "test_project.py").write_text(HEADER + HARMED)
    process = subprocess.Popen(
        command("-s", "-vv"), cwd=tmp_path, env=environment() | {"TMPDIR": str(temporary)}, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    pids, ports, passed = {process.pid}, set(), 0
    try:
        assert process.stdout is not None
        for line in process.stdout:
            passed += "PASSED" in line
            assert "FAILED" not in line and "ERROR" not in line, line
            if "pids" in line:
                given, _, open_ports = line.partition("pids")[2].partition("ports")
                pids |= set(map(int, given.split()))
                ports |= set(map(int, open_ports.split()))
            if "frozen" in line.split():
                break
        supervisors = {parent(pid) for pid in alive(pids)} - {os.getpid()}
        assert passed == 9 and len(list(temporary.glob("rayft-*"))) == 3 and len(supervisors) == 3
    finally:
        process.kill()
        process.wait()
    until(lambda: not alive(pids | supervisors))
    until(lambda: not list(temporary.glob("rayft-*")))
    assert not [port for port in ports if listens(port)]


def alive(pids: "set[int]") -> "set[int]":
    return {pid for pid in pids if Path(f"/proc/{pid}/stat").exists()}


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def test_a_cluster_in_the_shape_of_a_container() -> None:
    from confluent_kafka.admin import AdminClient

    from rayft import KafkaContainer

    begun = time.monotonic()
    with (
        KafkaContainer("apache/kafka:4.0.0").with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false").with_kraft() as kafka
    ):
        host, port = kafka.get_container_host_ip(), kafka.get_exposed_port(9093)
        assert f"{host}:{port}" == kafka.get_bootstrap_server()
        assert AdminClient({"bootstrap.servers": f"{host}:{port}"}).list_topics(timeout=20).brokers
    assert time.monotonic() - begun < 120


def test_a_cluster_behind_async_with() -> None:
    import asyncio

    import rayft

    async def used() -> bool:
        async with rayft.Cluster(controllers=1, brokers=1, combined=True) as cluster:
            return cluster.running and not cluster.secure and bool(cluster.bootstrap_servers)

    assert asyncio.run(used())
