"""Whole nodes with faults in their surroundings: each fault gets a clear error, and nothing is lost.

Cases that test_processes.py covers (a wrong setting and a taken port for `rayft up`, a directory in use) are not
repeated.
"""

import contextlib
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.host.cluster import existing_directory, probe
from actors.host.cluster import plan as plans
from actors.host.cluster.on_processes import Cluster, ClusterError
from actors.wire import framing
from actors.wire.messages import message
from bench.ports import free_port

ROOT = Path(__file__).parent.parent.parent
MIB = 1 << 20
SECONDS = 30


def node(file: Path, timeout_s: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run `rayft node` until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def until(holds: Any, what: str, timeout_s: float = SECONDS) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


def create(servers: str, topic: str, replicas: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, replicas, config=named)])[topic].result(SECONDS)


def read(servers: str, topic: str) -> list[bytes]:
    """Every value of partition 0."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False, "log_level": 0})
    place = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(place, SECONDS)
    consumer.assign([place])
    found: list[bytes] = []
    position, deadline = 0, time.monotonic() + SECONDS
    while position < end and time.monotonic() < deadline:
        for record in consumer.consume(1000, 0.2):
            assert record.error() is None, record.error()
            found.append(record.value())
            position = record.offset() + 1
    consumer.close()
    assert position >= end, f"read to {position} of {end}"
    return found


class Steady:
    """A producer with acks=all that records what was acknowledged, and the errors."""

    def __init__(self, servers: str, topic: str, timeout_ms: int = 120_000) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._topic, self._number = topic, 0
        self.producer = Producer(
            {
                "bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 0,
                "delivery.timeout.ms": timeout_ms, "retry.backoff.max.ms": 500, "log_level": 0,
            }
        )  # fmt: skip

    def send(self, count: int, size: int = 1000) -> None:
        """Hand records over, without waiting."""
        for _ in range(count):
            value = b"%08d" % self._number + b"." * (size - 8)
            self._number += 1
            self.producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
        self.producer.poll(0)

    def flush(self, seconds: float = SECONDS) -> int:
        """Wait for the ends of all records. Returns how many are still without one."""
        return self.producer.flush(seconds)

    def _delivered(self, error: KafkaError | None, record: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(record.value())


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    """One controller and one broker, for tests that do not hurt them."""
    with rayft.Cluster(1, 1) as one:
        yield one


def planned(directory: Path, controllers: int = 1, brokers: int = 1, **config: str) -> plans.Plan:
    """A cluster whose files are written and formatted, and which is not started."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    return plans.create(directory, controllers, brokers, common=named)


# ---- ports, directories, settings


def test_a_port_in_use_stops_a_node_with_one_sentence(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    port = plan.member(1001).address("controller")[1]
    with socket.create_server(("127.0.0.1", port)):
        ran = node(tmp_path / "controller-1001.properties")
    assert ran.returncode == 3
    assert ran.stderr.strip().count("\n") == 0
    assert f"127.0.0.1:{port}, which another process uses" in ran.stderr


def test_the_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    planned(tmp_path, brokers=2)
    file = tmp_path / "broker-1.properties"
    file.write_text(file.read_text().replace("/broker-1\n", "/broker-2\n"))
    ran = node(file)
    assert ran.returncode == 3
    assert "belongs to the node with broker.id=2, and this node has broker.id=1" in ran.stderr


def test_a_broker_with_the_directory_of_another_cluster_stops_and_says_so(small: Cluster, tmp_path: Path) -> None:
    """The directory is in order by itself: only the controllers can know that it belongs elsewhere."""
    planned(tmp_path)
    text = (tmp_path / "broker-1.properties").read_text().replace("broker.id=1", "broker.id=7")
    meta = tmp_path / "broker-1" / "meta.properties"
    meta.write_text(meta.read_text().replace("broker.id=1", "broker.id=7").replace("node.id=1", "node.id=7"))
    text = re.sub("controller.connect=.*", f"controller.connect=1001@{small.bootstrap_controllers}", text)
    file = tmp_path / "broker-7.properties"
    file.write_text(text)
    ran = node(file)
    assert ran.returncode == 1, ran.stdout
    own = re.search("cluster.id=(.*)", meta.read_text())
    assert own is not None
    last = ran.stdout.strip().splitlines()[-1]
    assert "of another cluster than this node" in last
    assert own[1] in last
    assert ran.stdout.count("\n") < 10, "it did not ask for ever"
    assert probe.quorum([small.address(1001)]).leader_id == 1001


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("log.retention.hrs=1", "did you mean log.retention.hours?"),
        ("process.roles=broker,observer", "observer"),
        ("registration.lease.timeout.ms=1000", "no broker could keep its lease"),
        ("zookeeper.connect=localhost:2181", "zookeeper.connect"),
        ("num.partitions=none", "num.partitions"),
        ("controller.connect=1001@somewhere", "somewhere"),
        ("listeners=PLAINTEXT://127.0.0.1:99999", "99999"),
        ("security.inter.broker.protocol=SASL_SSL", "SASL_SSL"),
    ],
)
def test_a_setting_that_cannot_be_stops_a_node_with_one_sentence(tmp_path: Path, change: str, words: str) -> None:
    planned(tmp_path)
    file = tmp_path / "broker-1.properties"
    name = change.partition("=")[0]
    lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] != name]
    file.write_text("\n".join([*lines, change]) + "\n")
    ran = node(file)
    assert ran.returncode == 3, ran.stdout
    assert words in ran.stderr
    assert ran.stderr.strip().count("\n") == 0, "one sentence, no stack"


def rayft_up(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `rayft up` with something that it must refuse."""
    return subprocess.run(
        [sys.executable, "-m", "actors.command.cli", "up", "--dir", str(directory), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--set num.partitions=6", "node-1.properties has its default for num.partitions, not 6: edit the .properties"),
        ("--set log.retention.hours=2", "has 1 for log.retention.hours, not 2: edit the .properties files there"),
        ("--set log.retention.hrs=1", "did you mean log.retention.hours?"),
        ("--set broker.id=1", "differs from node to node"),
        ("--port 1", "not 1: leave --port out, or take another --dir"),
        ("--host 127.0.0.2", "listens on 127.0.0.1, not on 127.0.0.2: leave --host out"),
        ("--brokers 5", "with 1 brokers, not 5: leave --brokers out"),
        ("--controllers 3", "with 1 controllers, not 3: leave --controllers out"),
        ("--feature metadata.format=1", "formatted for metadata.format=2, not 1: leave --feature out"),
    ],
)
def test_what_shapes_a_new_directory_is_refused_for_an_old_one(tmp_path: Path, arguments: str, words: str) -> None:
    plans.create(tmp_path, 1, 1, common={"log.retention.hours": "1"}, combined=True)
    ran = rayft_up(tmp_path, *arguments.split())
    assert ran.returncode == 1
    assert words in ran.stderr
    assert ran.stderr.strip().count("\n") == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("up --dir {new} --brokers -1", "a cluster of -1 brokers cannot be: write --brokers 0 or more."),
        ("up --dir {new} --controllers 0", "a cluster of 0 controllers cannot be: write --controllers 1 or more."),
        ("up --dir {new} --port 99999", "--port 99999 is not possible: write a number from 1 to 65433,"),
        ("up --dir {new} --port -1", "--port -1 is not possible"),
        ("up --dir /dev/null", "/dev/null cannot be a directory (File exists): name another one with --dir."),
        ("up --dir {new} --config {new}", "cannot be read (No such file or directory): name a properties file."),
        ("node --config {new}", "cannot be read (No such file or directory): name a properties file."),
        ("dump /tmp", "/tmp cannot be read (Is a directory): name log files or checkpoints."),
        ("dump {new}", "cannot be read (No such file or directory): name log files or checkpoints."),
        ("format --config {file} --cluster-id short", "as `rayft random-id` prints them."),
    ],
)
def test_words_that_cannot_be_are_one_sentence_that_helps(tmp_path: Path, words: str, sentence: str) -> None:
    file = tmp_path / "broker.properties"
    file.write_text(f"process.roles=broker\nbroker.id=1\ncontroller.connect=1001@h:1\nlog.dirs={tmp_path / 'd'}\n")
    ran = subprocess.run(
        [sys.executable, "-m", "actors.command.cli", *words.format(new=tmp_path / "new", file=file).split()],
        cwd=ROOT, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert ran.returncode in (1, 3)
    assert sentence in ran.stderr
    assert "Errno" not in ran.stderr
    assert ran.stderr.strip().count("\n") == 0


def test_combined_is_refused_where_processes_are_apart(tmp_path: Path) -> None:
    planned(tmp_path)
    ran = rayft_up(tmp_path, "--combined")
    assert ran.returncode == 1
    assert "have processes of their own: leave --combined out" in ran.stderr


def test_what_an_old_directory_fulfils_may_be_asked_for_again(tmp_path: Path) -> None:
    common = {
        "log.retention.hours": "1",
        "rayft.metrics.listen": "127.0.0.1:9404",
        "broker.heartbeat.interval.ms": "500",
    }
    plan = plans.create(tmp_path, 1, 2, common=common, host="127.0.0.1")
    port = plan.brokers[0].address("client")[1]
    existing_directory.agree(plan, common, controllers=1, brokers=2, host="127.0.0.1", port=port, level=2)
    existing_directory.agree(plan, {"num.partitions": "1"}, port=0)


def test_a_setting_without_effect_is_a_warning(tmp_path: Path) -> None:
    planned(tmp_path, num_io_threads="9")
    file = tmp_path / "broker-1.properties"
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.kill()
    assert " WARN  num.io.threads has no effect. Accepted, does nothing here: one thread serves a whole node." in first


def test_a_damaged_meta_properties_is_one_sentence(tmp_path: Path) -> None:
    planned(tmp_path)
    meta = tmp_path / "broker-1" / "meta.properties"
    meta.write_bytes(meta.read_bytes()[:40])
    ran = node(tmp_path / "broker-1.properties")
    assert ran.returncode == 3
    assert str(meta) in ran.stderr or "not formatted" in ran.stderr


# ---- frames


def resident(pid: int, what: str = "VmRSS") -> int:
    """Memory in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"{what}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) * 1024


def closed(sock: socket.socket) -> bool:
    """Whether the other side ends the connection."""
    sock.settimeout(10)
    try:
        while sock.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def alive(cluster: Cluster) -> None:
    """Both nodes answer, and their processes have not changed."""
    assert probe.quorum([cluster.address(1001)]).leader_id == 1001
    reply = probe.ask(cluster.address(1), "Metadata", message("MetadataRequest")(topics=[]), 9)
    assert reply.brokers[0].node_id == 1


@pytest.mark.parametrize("who", [1, 1001])
@pytest.mark.parametrize("size", [-1, -(1 << 31), (1 << 31) - 1, 100 * MIB + (1 << 20)])
def test_a_frame_of_impossible_size_ends_its_connection_only(small: Cluster, who: int, size: int) -> None:
    pid = small.pids[who]
    with socket.create_connection(small.address(who)) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(size.to_bytes(4, "big", signed=True) + b"x" * 100)
        assert closed(sock)
    alive(small)
    assert small.pids[who] == pid
    assert "closed the connection of 127.0.0.1" in small.log(who)


@pytest.mark.parametrize("who", [1, 1001])
def test_a_frame_cut_short_costs_what_has_arrived(small: Cluster, who: int) -> None:
    """Forty connections that each announce 90 MiB and send little of it."""
    pid = small.pids[who]
    before = resident(pid)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            sock = stack.enter_context(socket.create_connection(small.address(who)))
            sock.sendall((90 * MIB).to_bytes(4, "big") + b"\0" * 10_000)
        alive(small)
        assert resident(pid) - before < 40 * MIB
    alive(small)
    assert small.pids[who] == pid


@pytest.mark.parametrize("who", [1, 1001])
def test_random_frames_do_not_hurt(small: Cluster, who: int) -> None:
    """Noise, noise behind a header that looks right, and real requests with bytes changed."""
    pid, choice = small.pids[who], random.Random(who)
    from actors.wire import framing

    requests = [
        ("Metadata", 12, message("MetadataRequest")(topics=None)),
        ("ApiVersions", 3, message("ApiVersionsRequest")(client_software_name="x", client_software_version="1")),
        ("DescribeQuorum", 1, message("DescribeQuorumRequest")(topics=[])),
        ("CreateTopics", 7, message("CreateTopicsRequest")(topics=[], timeout_ms=1000)),
        ("Produce", 9, message("ProduceRequest")(acks=-1, timeout_ms=100, topic_data=[])),
        ("Fetch", 12, message("FetchRequest")(replica_id=-1, max_wait_ms=1, min_bytes=0, topics=[])),
    ]
    alive(small)
    before = resident(pid)
    for round in range(300):
        kind = round % 3
        if kind == 0:
            frame = choice.randbytes(choice.randrange(200))
        elif kind == 1:
            head = choice.randrange(80).to_bytes(2, "big") + choice.randrange(20).to_bytes(2, "big")
            frame = head + b"\0\0\0\1\0\1x\0" + choice.randbytes(choice.randrange(400))
        else:
            name, version, request = choice.choice(requests)
            data = bytearray(b"".join(framing.encode_request(name, version, 1, "x", request))[4:])
            for _ in range(choice.randrange(1, 4)):
                data[choice.randrange(len(data))] = choice.randrange(256)
            frame = bytes(data[: choice.randrange(len(data)) + 1])
        with contextlib.suppress(OSError), socket.create_connection(small.address(who)) as sock:
            sock.sendall(len(frame).to_bytes(4, "big") + frame)
            sock.settimeout(0.02)
            sock.recv(100)
    alive(small)
    assert small.pids[who] == pid, "it went on, and was not started again"
    assert resident(pid) - before < 30 * MIB


# ---- a full disk


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB. Only root can make it."""
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = (
        shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(place)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("no small file system can be mounted here: that takes root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def moved(directory: Path, name: str, place: Path) -> None:
    """Move a node's data to another place."""
    file = directory / f"{name}.properties"
    shutil.copytree(directory / name, place / name)
    shutil.rmtree(directory / name)
    file.write_text(re.sub("log.dirs=.*", f"log.dirs={place / name}", file.read_text()))


def fill(place: Path) -> Path:
    """Use all the room that is left."""
    ballast = place / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass
    return ballast


def test_a_full_disk_stops_the_acknowledging_and_nothing_else(tmp_path: Path, tiny: Path) -> None:
    """With one broker: it refuses to acknowledge, says why, serves what it has, and goes on when there is room."""
    directory = tmp_path / "c"
    planned(directory)
    moved(directory, "broker-1", tiny)
    with Cluster(dir=directory) as cluster:
        create(cluster.bootstrap_servers, "t")
        steady = Steady(cluster.bootstrap_servers, "t")
        steady.send(50)
        assert steady.flush() == 0
        ballast = fill(tiny)
        have = len(steady.acknowledged)
        steady.send(500)
        steady.flush(3)
        assert len(steady.acknowledged) < have + 50, "there is no room for them"
        until(lambda: "no room" in cluster.log(1), "the broker says why")
        assert len(read(cluster.bootstrap_servers, "t")) >= have, "what is there is served"
        ballast.unlink()
        assert steady.flush(60) == 0
        assert not steady.failed, steady.failed[:3]
        found = read(cluster.bootstrap_servers, "t")
        assert found == sorted(set(found))
        assert set(steady.acknowledged) <= set(found)
        assert len(steady.acknowledged) == 550
        assert cluster.log(1).count("no room") < 200, "it says so, and does not fill the log with it"


def test_a_full_disk_of_one_replica_takes_it_out_of_the_isr_and_back(tmp_path: Path, tiny: Path) -> None:
    """Two other brokers go on without it. When there is room, it catches up."""
    directory = tmp_path / "c"
    planned(directory, brokers=3, replica_lag_time_max_ms="3000")
    moved(directory, "broker-1", tiny)
    with Cluster(dir=directory) as cluster:
        create(cluster.bootstrap_servers, "t", 3, min_insync_replicas="2")
        steady = Steady(cluster.bootstrap_servers, "t")
        steady.send(50)
        assert steady.flush() == 0
        ballast, pid = fill(tiny), cluster.pids[1]
        for number in range(40):
            create(cluster.bootstrap_servers, f"more-{number}", 3)
        steady.send(500)
        assert steady.flush(60) == 0, "two replicas are enough"
        addresses = [cluster.address(id) for id in (2, 3)]
        assert probe.partitions(addresses).under_replicated >= 1
        until(lambda: "no room" in cluster.log(1), "the broker says why")
        ballast.unlink()
        until(lambda: probe.partitions(addresses).under_replicated == 0, "the replica is back", 60)
        steady.send(50)
        assert steady.flush(60) == 0
        assert cluster.pids[1] == pid, "it has waited, for metadata too"
        assert len(steady.acknowledged) == 600
        assert sorted(steady.acknowledged) == read(cluster.bootstrap_servers, "t")


def test_a_full_disk_of_the_only_controller_is_survived(tmp_path: Path, tiny: Path) -> None:
    """Where no room is kept back no metadata change is acknowledged, and the controller says why. Once there is room, it
    goes on."""
    directory = tmp_path / "c"
    planned(directory, rayft_kept_room_bytes="0")
    moved(directory, "controller-1001", tiny)
    with Cluster(dir=directory) as cluster:
        create(cluster.bootstrap_servers, "before")
        ballast = fill(tiny)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        made: set[str] = set()
        for number in range(60):
            name = f"t{number}"
            with contextlib.suppress(Exception):
                admin.create_topics([NewTopic(name, 20, 1)], request_timeout=2, operation_timeout=1)[name].result(3)
                made.add(name)
            if "no room" in cluster.log(1001):
                break
        assert "no room" in cluster.log(1001)
        ballast.unlink()

        def again() -> bool:
            with contextlib.suppress(Exception):
                create(cluster.bootstrap_servers, f"after-{time.monotonic_ns()}")
                return True
            return False

        until(again, "metadata can be changed again", 60)
        assert made | {"before"} <= set(admin.list_topics(timeout=SECONDS).topics)


def test_a_controller_goes_on_with_the_room_that_is_kept_back(tmp_path: Path, tiny: Path) -> None:
    directory = tmp_path / "c"
    planned(directory)
    moved(directory, "controller-1001", tiny)
    with Cluster(dir=directory) as cluster:
        create(cluster.bootstrap_servers, "before")
        ballast, pid = fill(tiny), cluster.pids[1001]
        for number in range(60):
            create(cluster.bootstrap_servers, f"t{number}")
        until(lambda: "is full: no records are taken there" in cluster.log(1001), "the controller says so")
        ballast.unlink()
        until(lambda: "has room again" in cluster.log(1001), "and when it is over")
        assert cluster.pids[1001] == pid
        assert (tiny / "controller-1001" / "rayft.kept-room").exists()


def test_a_full_disk_is_freed_by_deletion(tmp_path: Path, tiny: Path) -> None:
    """Nobody has to make room by hand for the broker to delete, to write its checkpoints and to come back."""
    directory = tmp_path / "c"
    planned(
        directory,
        log_segment_delete_delay_ms="100",
        replica_high_watermark_checkpoint_interval_ms="500",
        log_retention_check_interval_ms="500",
    )
    moved(directory, "broker-1", tiny)
    with Cluster(dir=directory) as cluster:
        create(cluster.bootstrap_servers, "old", segment_bytes="1048576")
        create(cluster.bootstrap_servers, "t")
        large, steady = Steady(cluster.bootstrap_servers, "old"), Steady(cluster.bootstrap_servers, "t")
        for _ in range(60):
            large.producer.produce("old", bytes(100_000))
        assert large.flush() == 0
        steady.send(50)
        assert steady.flush() == 0
        pid = cluster.pids[1]
        fill(tiny)
        # Fits into the last page, and then a checkpoint wants room, or one has before.
        large.producer.produce("old", b"")
        large.flush(3)
        steady.send(500)
        steady.flush(3)
        assert len(steady.acknowledged) < 100, "there is no room for them"
        # the room that was kept back is in use too if a checkpoint was due after that, which is no matter here
        until(
            lambda: any(one in cluster.log(1) for one in (" is taken until there is room", " is full: no records")),
            "full",
        )
        assert len(read(cluster.bootstrap_servers, "t")) >= 50, "what is there is served"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.delete_topics(["old"])["old"].result(SECONDS)
        room = ("has room again", "again: appends are taken")
        until(lambda: any(one in cluster.log(1) for one in room), "the deletion has made room")
        assert steady.flush(60) == 0
        assert cluster.pids[1] == pid and len(steady.acknowledged) == 550
        assert sorted(steady.acknowledged) == read(cluster.bootstrap_servers, "t")


# ---- damaged files


def test_a_torn_tail_of_a_data_log_is_cut_and_reported(tmp_path: Path) -> None:
    with Cluster(1, 1, tmp_path) as cluster:
        create(cluster.bootstrap_servers, "t")
        steady = Steady(cluster.bootstrap_servers, "t")
        for _ in range(5):
            steady.send(10)
            assert steady.flush() == 0
        cluster.kill(1, restart=False)
        log = tmp_path / "broker-1" / "t-0" / f"{0:020d}.log"
        whole = log.read_bytes()
        log.write_bytes(whole + whole[:700])
        cluster.start_node(1)
        cluster.wait_ready(1)
        assert re.search(rf"cut 700 bytes of t-0/{0:020d}.log at {len(whole)}", cluster.log(1)), cluster.log(1)[-2000:]
        assert log.read_bytes() == whole
        assert read(cluster.bootstrap_servers, "t") == steady.acknowledged
        steady.send(10)
        assert steady.flush() == 0
        assert read(cluster.bootstrap_servers, "t") == steady.acknowledged


@pytest.mark.parametrize("who", [1, 1001])
def test_damage_inside_the_metadata_log_stops_the_start_and_is_located(tmp_path: Path, who: int) -> None:
    """A controller must not forget records, and a broker that forgets would serve old metadata. Neither guesses."""
    with Cluster(1, 1, tmp_path) as cluster:
        for number in range(5):
            create(cluster.bootstrap_servers, f"t{number}")
        name = "broker-1" if who == 1 else "controller-1001"
        until(lambda: cluster.quorum().observers.get(1, 0) >= cluster.quorum().high_watermark, "the broker has it all")
    file = next((tmp_path / name / "__kafka_metadata-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    position = len(data) // 2
    data[position] ^= 0xFF
    file.write_bytes(data)
    ran = node(tmp_path / f"{name}.properties")
    assert ran.returncode == 1, ran.stdout[-2000:]
    last = (ran.stdout + ran.stderr).strip().splitlines()[-1]
    assert str(file.name) in last, last
    found = re.search(r"(?:byte|position) (\d+)", last)
    assert found is not None, last
    assert 0 < int(found[1]) <= position
    with pytest.raises(ClusterError, match=re.escape(file.name)):
        Cluster(dir=tmp_path, start_timeout_s=SECONDS).start()
    assert file.read_bytes() == bytes(data), "nothing was repaired"


# ---- a lost id conflict


def impostor(original: Path, data: Path, place: Path) -> tuple[Path, int]:
    """A configuration with the id of another broker, on a copy of its identity. Returns its file and its port."""
    place.mkdir()
    shutil.copy(data / "meta.properties", place)
    port = free_port()
    text = re.sub("log.dirs=.*", f"log.dirs={place}", original.read_text())
    text = re.sub("listeners=PLAINTEXT.*", f"listeners=PLAINTEXT://127.0.0.1:{port}", text)
    file = place / "impostor.properties"
    file.write_text(text)
    return file, port


def test_who_loses_its_id_is_fenced_at_once_and_stops_for_good(tmp_path: Path) -> None:
    """A broker in its first phase wins (R631-175). The loser ends with 78 after three lease periods, and its supervisor
    does not restart it: it would win the id back, and the two would take turns for ever."""
    lease_s = 1.5
    settings = {"registration.lease.timeout.ms": "1500", "registration.heartbeat.interval.ms": "300"}
    events: list[dict[str, Any]] = []
    directory = tmp_path / "c"
    with Cluster(1, 1, directory, settings, on_event=events.append) as cluster:
        loser = cluster.pids[1]
        file, port = impostor(directory / "broker-1.properties", directory / "broker-1", tmp_path / "copy")
        other = subprocess.Popen(
            [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with other:
            try:
                until(lambda: probe.serves(("127.0.0.1", port)), "the other has the id")
                until(lambda: "ACTIVE -> FENCED" in cluster.log(1), "the loser is fenced")
                fenced = time.monotonic()
                assert not probe.serves(cluster.address(1)), "it serves nobody"
                until(lambda: 1 not in cluster.pids, "the loser ends", 60)
                assert time.monotonic() - fenced > 2 * lease_s, "it waits, for the other may be about to go"
                until(lambda: any(one["event"] == "ended" for one in events), "the supervisor tells")
                assert next(one["code"] for one in events if one["event"] == "ended") == 78
                assert f"process {loser} ends: another process has held this broker id" in cluster.log(1)
                time.sleep(1.5)
                assert 1 not in cluster.pids, "and stays away"
                assert probe.serves(("127.0.0.1", port))
            finally:
                other.kill()


# ---- more in memory than is allowed


def test_requests_that_wait_for_followers_do_not_keep_the_followers_out(tmp_path: Path) -> None:
    """What exceeds queued.max.request.bytes is answered once the follower has it, so the follower must still be
    read."""
    config = {"queued.max.request.bytes": "200000"}
    with rayft.Cluster(1, 2, tmp_path / "c", config) as cluster:
        create(cluster.bootstrap_servers, "t", 2, min_insync_replicas="2")
        steady = Steady(cluster.bootstrap_servers, "t", 20_000)
        for _ in range(3):
            steady.send(5, 300_000)
            assert steady.flush() == 0
        assert not steady.failed and len(steady.acknowledged) == 15


def test_answers_that_nobody_reads_hold_little_memory_and_come_when_they_are_read() -> None:
    """Sixteen requests in one packet, each for the most that a consumer may fetch."""
    records, value = 120, bytes(MIB // 2)
    with rayft.Cluster(1, 1) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, "large")
        producer = Producer({"bootstrap.servers": servers, "compression.type": "none", "log_level": 0})
        for _ in range(records):
            producer.produce("large", value)
            producer.poll(0)
        assert producer.flush(SECONDS) == 0
        kind = message("FetchRequest")
        request = kind(
            max_wait_ms=0, min_bytes=1, max_bytes=57_671_680, session_epoch=-1,
            topics=[kind.FetchTopic(topic="large", partitions=[
                kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=57_671_680)
            ])],
        )  # fmt: skip
        before = resident(cluster.pids[1], "RssAnon")
        host, port = servers.split(":")
        with socket.create_connection((host, int(port)), SECONDS) as peer:
            peer.sendall(b"".join(_fetch(number, request) for number in range(16)))
            time.sleep(3.0)
            assert resident(cluster.pids[1], "RssAnon") - before < 200 * MIB
            answers = peer.makefile("rb")
            sizes = [_frame_size(answers) for _ in range(16)]
            assert min(sizes) > MIB // 2 and sizes[0] > 50 * MIB
            peer.sendall(_fetch(16, request))
            assert _frame_size(answers) == sizes[0], "room is there again"


def _fetch(number: int, request: Any) -> bytes:
    return b"".join(framing.encode_request("Fetch", 11, number, "slow", request))


def _frame_size(stream: Any) -> int:
    """Read an answer and drop it."""
    size = left = int.from_bytes(stream.read(4), "big")
    while left:
        left -= len(stream.read(min(left, MIB)))
    return size
