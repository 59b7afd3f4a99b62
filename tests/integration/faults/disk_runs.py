"""Operations of a real broker on its files, with one failing call each, and what foreign clients read afterwards.

`python -m tests.integration.faults.disk_runs` makes each operation of rayft's with a fault at each of its calls, and prints
a line a run and a sum; `--software kafka` does the same to Apache Kafka, whose jars `make kafka` fetches.

A run: the directories are as they were after many records were written; the node starts; an operation begins, of which one
call fails; the node goes on, loses one directory or ends; records are offered once more; kill -9; the node starts again, and
no call fails; librdkafka reads everything, twice. Then

- each record that was acknowledged is there, at its offset, and of a compacted topic the newest of each key,
- nothing is there that was not sent, no key that was deleted, and to read_committed nothing of an aborted transaction,
- a directory in which no call failed was never taken offline.
"""

import argparse
import contextlib
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench import apache
from bench.ports import free_ports
from tests.integration.answers.dialogue import Broker, Closed, request
from tests.integration.conftest import two_directories
from tests.integration.faults.failing_calls import FOREVER, Calls, Fault, compiled
from tests.integration.files import size_of_all

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 180
CONFIG = {
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "registration.lease.timeout.ms": "1500",
    "registration.heartbeat.interval.ms": "300",
    "rayft.kept.room.bytes": "1048576",
}
SEGMENT = {"internal.segment.bytes": "16000", "min.insync.replicas": "1"}
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "compacted": (1, SEGMENT),
    "retained": (1, SEGMENT),
    "leaves": (1, SEGMENT),
    "arrives": (0, SEGMENT),
    "neighbour": (0, SEGMENT),
}
"""Topic -> its directory, and its settings at first."""
DEGRADED_MS = 2500


class Sent(NamedTuple):
    """A record that was handed over."""

    key: bytes | None
    value: bytes | None


class Ledger:
    """What was sent to each topic, and what was acknowledged, by offset."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, dict[int, Sent]] = {topic: {} for topic in TOPICS}
        self.sent: dict[str, set[Sent]] = {topic: set() for topic in TOPICS}
        self.aborted: dict[str, set[Sent]] = {topic: set() for topic in TOPICS}

    def copy(self) -> "Ledger":
        """One that goes on by itself."""
        other = Ledger()
        for topic in TOPICS:
            other.acknowledged[topic] = dict(self.acknowledged[topic])
            other.sent[topic] = set(self.sent[topic])
            other.aborted[topic] = set(self.aborted[topic])
        return other

    def noted(self, topic: str, one: Sent, *, aborted: bool = False) -> Callable[[Any, Any], None]:
        """Note a record that is sent now. What is returned is told how it ended."""
        (self.aborted if aborted else self.sent)[topic].add(one)

        def ended(error: KafkaError | None, record: Any) -> None:
            if error is None and not aborted:
                self.acknowledged[topic][record.offset()] = one

        return ended


class Software:
    """One node, or two, on a home directory with two log directories."""

    directories: Sequence[Path]
    servers: Mapping[str, Any]
    address: tuple[str, int]

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None
        self.calls: Calls | None = None

    def start(self, *, failing: bool) -> None:
        """Start what runs."""
        raise NotImplementedError

    def end(self, number: int) -> None:
        """Send a signal to the broker, and wait for its end."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        self.process = None

    @property
    def log_file(self) -> Path:
        return self.home / "node.log"

    def log(self) -> str:
        """What the broker has said since the run began."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def run(self, command: Sequence[str], *, failing: bool, log: Path) -> "subprocess.Popen[bytes]":
        """Start a process."""
        environment = dict(os.environ)
        if failing and self.calls is not None:
            environment.update(self.calls.environment)
        with log.open("ab") as output:
            return subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def ready(self, topics: Sequence[str] = (), seconds: float = SECONDS) -> bool:
        """Whether clients are served, and topics led, before the process ends or the time is over."""
        asked = [{"name": topic} for topic in topics]
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process is not None and self.process.poll() is None:
            broker = Broker(self.address, 2)
            try:
                found = broker.ask("Metadata", 5, request("Metadata", topics=asked, allow_auto_topic_creation=False))
                if found.brokers and not any(
                    one.error_code or any(part.leader_id < 0 for part in one.partitions) for one in found.topics
                ):
                    return True
            except (Closed, OSError):
                pass
            finally:
                broker.close()
            time.sleep(0.05)
        return False

    def offline(self) -> set[int]:
        """The directories that the broker has called offline."""
        raise NotImplementedError

    def sentence(self) -> str:
        """The last thing that the broker has said about its end."""
        raise NotImplementedError

    def close(self) -> None:
        """End everything."""
        self.end(signal.SIGKILL)


class Rayft(Software):
    """A controller, and a broker that the faults are for."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        two_directories(home, 1, CONFIG | {"metadata.log.max.record.bytes.between.snapshots": "600"})
        self.directories = [home / "broker-1", home / "second"]
        text = (home / "broker-1.properties").read_text("latin-1")
        port = re.search(r"^listeners=PLAINTEXT://[^:]*:(\d+)", text, re.M)
        assert port is not None, text
        self.address = ("127.0.0.1", int(port[1]))
        self.servers = {"bootstrap.servers": f"127.0.0.1:{port[1]}", "log_level": 0}
        self._controller: subprocess.Popen[bytes] | None = None

    def start(self, *, failing: bool) -> None:
        node = [sys.executable, "-m", "actors.command.cli", "node", "--config"]
        if self._controller is None:
            file, log = self.home / "controller-1001.properties", self.home / "controller.log"
            self._controller = self.run([*node, str(file)], failing=False, log=log)
        self.process = self.run([*node, str(self.home / "broker-1.properties")], failing=failing, log=self.log_file)

    def offline(self) -> set[int]:
        text = self.log()
        return {place for place, one in enumerate(self.directories) if f"log directory {one} is offline" in text}

    def sentence(self) -> str:
        return next((line for line in reversed(self.log().splitlines()) if line.strip()), "")

    def close(self) -> None:
        super().close()
        if self._controller is not None:
            self._controller.kill()
            self._controller.wait()
            self._controller = None


class Kafka(Software):
    """Apache Kafka: one process that is both."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        port, quorum = free_ports(2)
        self.directories = [home / "first", home / "second"]
        self.address = ("127.0.0.1", port)
        self.servers = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
        config = {name: value for name, value in CONFIG.items() if not name.startswith(("rayft.", "registration."))}
        self._file = home / "node.properties"
        lines = config | {
            "process.roles": "broker,controller", "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{quorum}",
            "controller.listener.names": "CONTROLLER", "controller.quorum.voters": f"1@127.0.0.1:{quorum}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": ",".join(map(str, self.directories)), "metadata.log.dir": str(home / "metadata"),
            "log.cleaner.threads": "1", "num.recovery.threads.per.data.dir": "1",
        }  # fmt: skip
        self._file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        made = apache.java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._file))
        subprocess.run(made, check=True, capture_output=True)

    def start(self, *, failing: bool) -> None:
        command = apache.java("kafka.Kafka", str(self._file))
        command[1:1] = ["-XX:TieredStopAtLevel=1", "-Xshare:auto", *_logging(self.home)]
        self.process = self.run(command, failing=failing, log=self.log_file)

    def offline(self) -> set[int]:
        broker = Broker(self.address, 20)
        try:
            found = broker.ask("DescribeLogDirs", 4, request("DescribeLogDirs", topics=None)).results
        except (Closed, OSError):
            return set()
        finally:
            broker.close()
        failed = {one.log_dir for one in found if one.error_code}
        return {place for place, one in enumerate(self.directories) if str(one) in failed}

    def sentence(self) -> str:
        lines = [line for line in self.log().splitlines() if re.search("FATAL|ERROR|Shutdown broker because", line)]
        return lines[-1] if lines else ""


def _logging(home: Path) -> list[str]:
    file = home / "log4j2.yaml"
    if not file.exists():
        file.write_text(
            "Configuration:\n  Appenders:\n    Console:\n      name: out\n      PatternLayout:\n"
            "        pattern: '%p %m (%c)%n'\n  Loggers:\n    Root:\n      level: WARN\n      AppenderRef:\n"
            "        ref: out\n"
        )
    return [f"-Dlog4j2.configurationFile={file}"]


SOFTWARE: Mapping[str, Callable[[Path], Software]] = {"rayft": Rayft, "kafka": Kafka}


# ---- clients


class Client:
    """What the runs ask of a broker."""

    def __init__(self, software: Software) -> None:
        self.software = software
        self.servers = dict(software.servers)

    def raw(self, name: str, version: int, **values: Any) -> Any:
        broker = Broker(self.software.address, 20)
        try:
            return broker.ask(name, version, request(name, **values))
        finally:
            broker.close()

    def place(self, topic: str, directory: int) -> int:
        """Ask for a topic's replica to be in a directory. The error code."""
        wanted = {"path": str(self.software.directories[directory]), "topics": [{"name": topic, "partitions": [0]}]}
        found = self.raw("AlterReplicaLogDirs", 2, dirs=[wanted])
        return int(found.results[0].partitions[0].error_code)

    def is_in(self, topic: str, directory: int) -> bool:
        """Whether the replica is in that directory, and nothing of it in the other one."""
        held = [
            [one.name for one in place.iterdir() if one.name.startswith((f"{topic}-0", f"{topic}."))]
            for place in self.software.directories
        ]
        return held == [[f"{topic}-0"] if number == directory else [] for number in range(2)]

    def configure(self, topic: str, **config: str) -> None:
        """Change settings of a topic."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = AdminClient(self.servers)
        admin.incremental_alter_configs([resource], request_timeout=10)[resource].result(20)

    def produce(self, ledger: Ledger, records: Mapping[str, Sequence[Sent]], patience_ms: int = 60_000) -> None:
        """Send records, and note in the ledger what is acknowledged."""
        producer = Producer(
            self.servers
            | {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": patience_ms, "linger.ms": 2,
               "request.timeout.ms": min(patience_ms, 5000), "retry.backoff.max.ms": 200}
        )  # fmt: skip
        for topic, some in records.items():
            for place, one in enumerate(some):
                producer.produce(topic, one.value, one.key, 0, on_delivery=ledger.noted(topic, one))
                if place % 8 == 7:
                    producer.flush(patience_ms / 1000)  # a batch for every few records
        producer.flush(patience_ms / 1000 + 5)

    def transact(self, ledger: Ledger, topic: str, some: Sequence[Sent], *, commit: bool) -> None:
        """One transaction."""
        producer = Producer(self.servers | {"transactional.id": f"of-{topic}", "linger.ms": 2})
        producer.init_transactions(30)
        producer.begin_transaction()
        for one in some:
            producer.produce(topic, one.value, one.key, 0, on_delivery=ledger.noted(topic, one, aborted=not commit))
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def read(self, isolation: str, seconds: float = SECONDS) -> dict[str, dict[int, Sent]]:
        """Every record of every topic, by offset."""
        consumer = Consumer(
            self.servers
            | {"group.id": "r", "enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": isolation,
               "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50, "topic.metadata.refresh.interval.ms": 500}
        )  # fmt: skip
        found: dict[str, dict[int, Sent]] = {topic: {} for topic in TOPICS}
        ended: set[str] = set()
        errors: Counter[str] = Counter()
        until = time.monotonic() + seconds
        try:
            places = [TopicPartition(topic, 0) for topic in TOPICS]
            for place in places:
                while True:
                    try:
                        place.offset = consumer.get_watermark_offsets(place, 5)[0]
                        break
                    except KafkaException as error:
                        assert time.monotonic() < until, f"{place.topic} is not led: {error}"
                        time.sleep(0.1)
            consumer.assign(places)
            while len(ended) < len(TOPICS):
                assert time.monotonic() < until, f"{set(TOPICS) - ended} cannot be read to the end: {errors}"
                for record in consumer.consume(1000, 0.2):
                    if record.error() is None:
                        assert record.offset() not in found[record.topic()], "read twice"
                        found[record.topic()][record.offset()] = Sent(record.key(), record.value())
                    elif record.error().code() == KafkaError._PARTITION_EOF:
                        ended.add(record.topic())
                    else:
                        errors[str(record.error())] += 1
        finally:
            consumer.close()
        return found


# ---- the operations


class Operation(NamedTuple):
    """What the broker is made to do."""

    directory: int
    """In which calls fail."""
    begin: Callable[[Client], None]
    done: Callable[[Client], bool]
    restarts: bool = False
    """The node starts while calls are counted already."""


def _files(client: Client, directory: int, topic: str) -> list[str]:
    folder = client.software.directories[directory] / f"{topic}-0"
    return [one.name for one in folder.iterdir()] if folder.is_dir() else []


def _smaller(topic: str, bytes_max: int) -> Callable[[Client], bool]:
    def done(client: Client) -> bool:
        folder = client.software.directories[1] / f"{topic}-0"
        names = _files(client, 1, topic)
        if any(one.endswith((".deleted", ".cleaned", ".swap")) for one in names):
            return False
        return size_of_all(folder / one for one in names if one.endswith(".log")) < bytes_max

    return done


def _snapshots(client: Client) -> None:
    for number in range(6):
        client.configure("neighbour", retention_ms=str(100_000_000 + number))


def _has_snapshot(client: Client) -> bool:
    folder = next(client.software.directories[0].glob("__*metadata-0"), None)
    return folder is not None and sum(one.name.endswith(".checkpoint") for one in folder.iterdir()) > 1


OPERATIONS: Mapping[str, Operation] = {
    "cleaning": Operation(1, lambda c: c.configure("compacted", **_underlined(COMPACT)), _smaller("compacted", 60_000)),
    "retention": Operation(1, lambda c: c.configure("retained", retention_bytes="30000"), _smaller("retained", 48_000)),
    "move away": Operation(1, lambda c: _placed(c, "leaves", 0), lambda c: c.is_in("leaves", 0)),
    "move here": Operation(1, lambda c: _placed(c, "arrives", 1), lambda c: c.is_in("arrives", 1)),
    "snapshot": Operation(0, _snapshots, _has_snapshot),
    "restart": Operation(1, lambda c: None, lambda c: True, restarts=True),
    "restart, first directory": Operation(0, lambda c: None, lambda c: True, restarts=True),
}


def _underlined(config: Mapping[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in config.items()}


def _placed(client: Client, topic: str, directory: int) -> None:
    assert client.place(topic, directory) == 0


# ---- a run


class Outcome(NamedTuple):
    """What came of one run."""

    operation: str
    fault: Fault | None
    call: str
    """Which call was the first to fail; empty: it did not come."""
    what: str
    """goes on, offline, or ends."""
    sentence: str
    wrong: str
    """What was lost, or shown; empty: nothing."""
    seconds: float
    calls: int

    def __str__(self) -> str:
        wrong = f" WRONG: {self.wrong}" if self.wrong else ""
        return (
            f"{self.operation}: {self.fault}: {self.call or 'no such call'}: {self.what}{wrong} ({self.seconds:.1f} s)"
        )


class Runs:
    """Many runs of one software from the same files."""

    def __init__(self, software: Software, folder: Path) -> None:
        self.software, self._folder = software, folder
        self.client = Client(software)
        self.ledger = Ledger()
        self._template = folder / "template"
        self._made: list[str] = []
        """The calls of the last run."""
        software.calls = Calls(compiled(folder), folder / "calls")
        self._fill()

    def _fill(self) -> None:
        software, client, ledger = self.software, self.client, self.ledger
        software.start(failing=False)
        assert software.ready(), software.log()
        admin = AdminClient(client.servers)
        for topic, (_, config) in TOPICS.items():
            admin.create_topics([NewTopic(topic, 1, 1, config=dict(config))])[topic].result(30)
        client.produce(ledger, {topic: [Sent(b"begin", b"begin")] for topic in TOPICS})  # its files are made with it
        for topic, (directory, _) in TOPICS.items():
            _until(lambda topic=topic: any(client.is_in(topic, one) for one in range(2)), f"{topic} is made")
            if not client.is_in(topic, directory):
                assert client.place(topic, directory) == 0
        for topic, (directory, _) in TOPICS.items():
            _until(lambda topic=topic, directory=directory: client.is_in(topic, directory), f"{topic} is in its place")
        keyed = [Sent(b"k%d" % (number % 10), b"%06d" % number + bytes(900)) for number in range(60)]
        keyed += [Sent(b"k%d" % number, None) for number in range(5)]
        keyed += [Sent(b"z%d" % number, b"z%06d" % number + bytes(900)) for number in range(16)]
        plain = {
            topic: [Sent(b"%06d" % number, topic.encode() + bytes(900)) for number in range(70)]
            for topic in ("retained", "leaves", "arrives", "neighbour")
        }
        client.produce(ledger, {"compacted": keyed, **plain})
        for topic in ("leaves", "arrives", "compacted"):
            for number in range(1):
                some = [Sent(b"t%d-%d" % (number, one), topic.encode() + bytes(700)) for one in range(6)]
                client.transact(ledger, topic, some, commit=False)
                some = [Sent(b"u%d-%d" % (number, one), topic.encode() + bytes(700)) for one in range(6)]
                client.transact(ledger, topic, some, commit=True)
        client.produce(
            ledger, {topic: [Sent(b"end", b"end" + bytes(900))] * 16 for topic in TOPICS if topic != "neighbour"}
        )
        time.sleep(1.5)
        software.end(signal.SIGKILL)
        software.close()
        shutil.copytree(software.home, self._template)

    def _restore(self) -> None:
        for one in self.software.home.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        shutil.copytree(self._template, self.software.home, dirs_exist_ok=True)

    def count(self, name: str) -> list[str]:
        """The calls that an operation makes when none fails."""
        outcome = self.run(name, None)
        assert not outcome.wrong, outcome
        calls = self.software.calls
        assert calls is not None
        return self._made

    def run(self, name: str, fault: Fault | None) -> Outcome:
        """Make an operation with a fault."""
        began = time.monotonic()
        software, calls, operation = self.software, self.software.calls, OPERATIONS[name]
        assert calls is not None
        self._restore()
        ledger, wrong, what = self.ledger.copy(), "", "goes on"
        failing = software.directories[operation.directory]
        try:
            if operation.restarts:
                calls.arm(failing, fault)
            else:
                calls.disarm()
            software.start(failing=True)
            up = software.ready() if operation.restarts else software.ready([*TOPICS])
            if not operation.restarts:
                assert up, f"it does not start: {software.sentence()}"
                calls.arm(failing, fault)
                with contextlib.suppress(KafkaException, Closed):  # the broker may end meanwhile
                    operation.begin(self.client)
            self._settle(operation, fault)
            made = self._made = calls.made()
            call = (
                "" if fault is None or not calls.failed else made[fault.first - 1] if len(made) >= fault.first else "?"
            )
            assert software.process is not None
            ended = software.process.poll()
            if ended is None:
                more = {topic: [Sent(b"more%d" % one, b"more" + bytes(500)) for one in range(3)] for topic in TOPICS}
                self.client.produce(ledger, more, DEGRADED_MS)
                if operation.directory == 1 and not any(
                    one.key == b"more2" for one in ledger.acknowledged["neighbour"].values()
                ):
                    wrong = "the other directory takes no records"
                ended = software.process.poll()
            offline = software.offline()
            if offline:
                what = "offline"
            if ended is not None:
                what = f"ends with {ended}"
                if "Traceback" in software.log():
                    wrong = "it ends with a traceback"
            if offline - {operation.directory}:
                wrong = "a sound directory is taken offline"
            sentence = software.sentence()
            calls.disarm()
            software.end(signal.SIGKILL)
            software.start(failing=False)
            if not software.ready():
                wrong = f"it does not start again: {software.sentence()}"
            else:
                wrong = wrong or self._read_back(ledger, retained="retention" in name)
        except AssertionError as error:
            wrong, sentence, call = str(error), software.sentence(), ""
        finally:
            calls.disarm()
            software.close()
        return Outcome(name, fault, call, what, sentence, wrong, time.monotonic() - began, len(self._made))

    def _settle(self, operation: Operation, fault: Fault | None) -> None:
        """Wait until the operation is done, or has failed, and what follows from it has come."""
        software, calls = self.software, self.software.calls
        assert calls is not None and software.process is not None
        end = time.monotonic() + (20 if fault is None else 6)
        while time.monotonic() < end and software.process.poll() is None:
            if fault is not None and calls.failed:
                break
            with contextlib.suppress(OSError):
                if operation.done(self.client):
                    break
            time.sleep(0.02)
        if fault is None and not operation.restarts:
            assert operation.done(self.client), f"it is not done: {software.sentence()}"
        time.sleep(1.0)

    def _read_back(self, ledger: Ledger, *, retained: bool) -> str:
        """What is wrong with what is read; empty: nothing."""
        try:
            seen = {one: self.client.read(one) for one in ("read_uncommitted", "read_committed")}
        except (AssertionError, KafkaException) as error:
            return str(error)
        for topic in TOPICS:
            for isolation, all in seen.items():
                found, wanted = all[topic], ledger.acknowledged[topic]
                strange = set(found.values()) - ledger.sent[topic]
                if isolation == "read_uncommitted":
                    strange -= ledger.aborted[topic]
                if strange:
                    return f"{topic}: {len(strange)} records shown to {isolation} that it must not see"
                other = [at for at, one in wanted.items() if at in found and found[at] != one]
                if other:
                    return f"{topic}: other records at {len(other)} offsets, from {min(other)} on"
                missing = sorted(set(wanted) - set(found))
                if topic == "compacted":
                    text = _compacted(wanted, found)
                    if text:
                        return f"{topic}: {text}"
                elif topic == "retained" and retained:
                    if missing and found and max(missing) > min(found):
                        return f"{topic}: {len(missing)} acknowledged records are missing, in the middle"
                    if sum(len(one.value or b"") for one in found.values()) < 15_000:
                        return f"{topic}: {len(found)} records are left, fewer than are to be kept"
                elif missing:
                    return f"{topic}: {len(missing)} acknowledged records are missing, from {missing[0]} on"
        return ""


def _compacted(wanted: Mapping[int, Sent], found: Mapping[int, Sent]) -> str:
    newest = {one.key: (at, one.value) for at, one in sorted(wanted.items())}
    latest = {one.key: (at, one.value) for at, one in sorted(found.items())}
    for key, (at, value) in newest.items():
        here = latest.get(key)
        if here is None and value is not None:
            return f"the record of {key!r} at {at} is missing"
        if here is not None and here[0] < at:
            return f"{key!r} has come back as of {here[0]}; it was {'deleted' if value is None else 'replaced'} at {at}"
    return ""


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.05)


@contextlib.contextmanager
def runs(name: str) -> Iterator[Runs]:
    """A software with its files, in a directory that is removed."""
    folder = Path(tempfile.mkdtemp(prefix="disk-runs-"))
    try:
        (folder / "home").mkdir()
        software = SOFTWARE[name](folder / "home")
        try:
            yield Runs(software, folder)
        finally:
            software.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def faults(calls: int, step: int = 1, first: int = 1) -> Iterator[Fault]:
    """One for each `step`th call: an error of the device, once or for good, or no room."""
    for number in range(first, calls + 1, step):
        yield Fault(number, errno.EIO)
        yield Fault(number, errno.ENOSPC, 2, partial=True)
        yield Fault(number, errno.EIO, FOREVER)


def one_each(calls: int) -> list[Fault]:
    """One for each call, the kinds in turn."""
    return [[*faults(number, 1, number)][number % 3] for number in range(1, calls + 1)]


def distinct(made: Sequence[str], chance: random.Random) -> list[int]:
    """The numbers of calls of which each does something else: one of those that differ in offsets and ids alone."""
    alike: dict[str, list[int]] = {}
    for number, one in enumerate(made, 1):
        alike.setdefault(re.sub(r"[0-9a-f]{32}|\d{5,}", "N", one), []).append(number)
    return sorted(chance.choice(some) for some in alike.values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.faults.disk_runs", description=__doc__)
    parser.add_argument("--software", choices=SOFTWARE, default="rayft")
    parser.add_argument("--operation", action="append", choices=OPERATIONS, help="default: all")
    parser.add_argument("--sample", type=int, default=0, help="so many faults an operation, by chance; 0: all")
    parser.add_argument("--distinct", action="store_true", help="one fault for calls that differ in offsets alone")
    parser.add_argument("--each", action="store_true", help="one fault for each call, the kinds of faults in turn")
    parser.add_argument("--first", type=int, help="one fault: at this call")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", action="store_true", help="print the calls that each operation makes")
    args = parser.parse_args()
    by_kind: Counter[str] = Counter()
    chance, wrong = random.Random(args.seed), 0
    with runs(args.software) as all:
        for name in args.operation or OPERATIONS:
            made = all.count(name)
            if args.calls:
                print(*(f"{name} {number}: {one}" for number, one in enumerate(made, 1)), sep="\n")
            chosen = list(faults(len(made)) if args.first is None else faults(args.first, 1, args.first))
            if args.each:
                chosen = one_each(len(made))
            if args.distinct:
                chosen = [chance.choice([*faults(number, 1, number)]) for number in distinct(made, chance)]
            if args.sample and args.sample < len(chosen):
                chosen = sorted(chance.sample(chosen, args.sample))
            ends: Counter[str] = Counter()
            for fault in chosen:
                outcome = all.run(name, fault)
                by_kind[outcome.call.split(" ")[0] or "none"] += 1
                print(outcome, flush=True)
                if outcome.wrong or outcome.what.startswith("ends"):
                    print(f"    {outcome.sentence[:400]}", flush=True)
                ends[outcome.what if outcome.call else "no such call"] += 1
                wrong += bool(outcome.wrong)
                ends["WRONG"] += bool(outcome.wrong)
            print(f"{name}: {len(made)} calls, {len(chosen)} faults: {dict(ends)}", flush=True)
    print(f"{sum(by_kind.values())} faults by what the first failed call did: {dict(by_kind)}; {wrong} runs wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
