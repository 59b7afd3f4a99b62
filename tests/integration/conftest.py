"""Shared by the integration tests: one real cluster of local processes, and Apache Kafka's jars if they are there."""

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

import rayft
from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.cluster import probe
from actors.settings.node_config import node_config
from actors.settings.properties import properties
from tests.integration.answers.dialogue import Dialogue

ROOT = Path(__file__).resolve().parents[2]
TOOL_SECONDS_MAX = 120
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "10",
}


@pytest.fixture(scope="session")
def cluster() -> Iterator["rayft.Cluster"]:
    """Three controllers and three brokers."""
    with rayft.Cluster(controllers=3, brokers=3, config=CONFIG) as running:
        yield running


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


def everywhere(cluster: "rayft.Cluster", topic: str, partitions: int) -> None:
    """Wait until every broker knows the topic, since a client may ask any of them next."""
    dialogue = Dialogue(cluster.bootstrap_servers)
    dialogue.settled(topic, partitions)
    dialogue.close()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds: what one broker has answered, another may not have replayed yet, and while a broker is
    being lost a client's question may be at that broker, whose answer never comes."""
    end = time.monotonic() + TOOL_SECONDS_MAX / 2
    unanswered: Exception | None = None
    while True:
        try:
            if holds():
                return
        except (KafkaException, probe.NoAnswer) as error:
            unanswered = error
        if time.monotonic() > end:
            raise AssertionError("it does not come") from unanswered
        time.sleep(0.1)


def two_directories(home: Path, brokers: int, config: dict[str, str]) -> None:
    """Write the files of one controller and some brokers. The first broker has a second log directory,
    `home`/second."""
    plan = plans.create(home, 1, brokers, common=config)
    cluster_id = storage.check(plan.members[0].config)[0].cluster_id
    file = home / "broker-1.properties"
    own = properties(file.read_text("latin-1")) | {"log.dirs": f"{home / 'broker-1'},{home / 'second'}"}
    file.write_text("".join(f"{name}={value}\n" for name, value in own.items()), "latin-1")
    storage.format_node(node_config(own), cluster_id, voters=None, ignore_formatted=True)


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `rayft` with these arguments until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "actors.command.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def kafka_libs() -> Path | None:
    """The folder with Apache Kafka's jars."""
    folder = Path(os.environ.get("KAFKA_LIBS", ROOT / ".kafka" / "libs"))
    return folder if any(folder.glob("kafka-tools-*.jar")) else None


class Java:
    """Runs Kafka's own tools."""

    def __init__(self, libs: Path) -> None:
        self.libs = libs

    def run(
        self, main: str, *arguments: str, stdin: str = "", check: bool = True, properties: Mapping[str, str] = {}
    ) -> str:
        """Run a tool and return its standard output. An error of the tool fails the test. `properties`: of the JVM."""
        given = [f"-D{name}={value}" for name, value in properties.items()]
        done = subprocess.run(
            ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *given, "-cp", f"{self.libs}/*", main, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS_MAX,
        )
        if check and done.returncode:
            raise AssertionError(
                f"{main} {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout


@pytest.fixture(scope="session")
def java() -> Java:
    """Kafka's tools. The test is skipped if there is no Java or no jars."""
    libs = kafka_libs()
    if shutil.which("java") is None:
        pytest.skip("no java on the path: `make kafka` installs it where it may")
    if libs is None:
        pytest.skip("Apache Kafka's jars are not in .kafka/libs: `make kafka` fetches them with Maven")
    return Java(libs)
