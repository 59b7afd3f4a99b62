"""Java programs beside a cluster: applications of Apache Kafka, as processes that tests start, kill and start again.

`make kafka` fetches their jars. What needs Java, or jars that are not there, is skipped and says so.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.conftest import ROOT, kafka_libs

END_SECONDS_MAX = 60
PATIENCE_SECONDS = 180
"""A busy machine starts a Java program in half a minute, and its group waits for the end of a killed member's session."""


def classes() -> str:
    """The class path of Apache Kafka with its applications. The test is skipped if a part of it is missing."""
    if shutil.which("java") is None:
        pytest.skip("no java on the path: `make kafka` installs it where it may")
    libs = kafka_libs()
    applications = Path(os.environ.get("KAFKA_APPLICATIONS", ROOT / ".kafka" / "applications"))
    if libs is None or not any(applications.glob("kafka-streams-*.jar")):
        pytest.skip("the jars of Kafka's applications are not in .kafka/applications: `make kafka` fetches them")
    return f"{applications}/*:{libs}/*"


def compiled(source: Path, folder: Path) -> str:
    """The class path of a program of ours with Apache Kafka's, after it was compiled into a folder."""
    path = classes()
    if shutil.which("javac") is None:
        pytest.skip("no javac on the path: `make kafka` installs it where it may")
    done = subprocess.run(["javac", "-d", str(folder), "-cp", path, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return f"{folder}:{path}"


def properties(path: Path, values: Mapping[str, object]) -> Path:
    """Write a file of settings."""
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


class Program:
    """One Java program that may be killed and started again. What it prints goes to a file: `said`."""

    def __init__(self, path: str, main: str, *arguments: str, log: Path, heap: str = "256m") -> None:
        self._command = ["java", f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-cp", path, main, *arguments]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Program":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Start it, for the first time or again."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.end(signal.SIGKILL)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end. Returns the exit code, which is negative after a signal."""
        assert self._process is not None
        self._process.send_signal(number)
        try:
            return self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def said(self) -> str:
        """All that it has printed so far, in all its lives."""
        return self._log.read_text(errors="replace")

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds. A failure says what the program has said."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < end, self.said()[-4000:]
            time.sleep(0.2)


Record = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key, value."""


class Reader:
    """Reads all partitions of some topics from their beginning on, and keeps all that it has read: topic -> records."""

    def __init__(self, servers: str, topics: Iterable[str], isolation: str = "read_committed") -> None:
        self.read: dict[str, list[Record]] = {topic: [] for topic in topics}
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "nobody",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        known = AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=30).topics
        self._consumer.assign(
            [TopicPartition(topic, number, 0) for topic in self.read for number in known[topic].partitions]
        )

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Read until something holds of what was read, or the time is over: whether it holds."""
        end = time.monotonic() + seconds
        while not (found := holds()) and time.monotonic() < end:
            self._take(0.2)
        return found

    def quiet(self, seconds: float = 2) -> None:
        """Read until nothing has come for some seconds."""
        last = time.monotonic()
        while time.monotonic() < last + seconds:
            if self._take(0.2):
                last = time.monotonic()

    def _take(self, seconds: float) -> int:
        found = [one for one in self._consumer.consume(1000, seconds) if one.error() is None]
        for one in found:
            self.read[str(one.topic())].append(
                (int(one.partition() or 0), int(one.offset() or 0), one.key(), one.value())
            )
        return len(found)
