"""The test suites of other projects that are run against rayft: their sources, their commands, and the tests left out.

A test is left out if it needs something that rayft does not have yet and documents. docs/clients.md gives each of these
tests and its reason, and a test checks that. A suite is a tag of a public repository, fetched into .tools/ once.
RAYFT_SUITES names a folder of clones for machines without the network.

Suites of clients run on a cluster that is there. Suites of applications start their Kafka themselves, by Docker: there
`rayft.KafkaContainer` stands in its place (`foreign/in_place_of_docker.py`), in an environment with what that project
needs.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / ".tools"
FETCH_SECONDS_MAX = 300

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Access rules that are kept, and do not hold for the tests themselves."""


class Suite(NamedTuple):
    """One project's integration tests."""

    name: str
    repository: str
    tag: str
    paths: tuple[str, ...]
    environment: Mapping[str, str]
    """`{first}` is host:port of one broker, `{all}` of all of them."""
    arguments: tuple[str, ...]
    config: Mapping[str, str]
    """Settings of the brokers, as in that project's own cluster."""
    brokers: int
    excluded: Mapping[str, str]
    """Test -> the reason why it is not run against rayft."""
    directories: tuple[str, ...] = ()
    """Empty directories that the suite needs."""
    dynamic: Mapping[str, str] = {}
    """Settings of all brokers that a new cluster of Apache Kafka makes by itself; here they are set on rayft."""
    users: Mapping[str, str] = {}
    """User -> password of a cluster that asks everybody who they are, with PLAIN and SCRAM, and keeps access rules; empty:
    a cluster that does not."""
    part: str = ""
    """What the rest of the project's tests is called that has a row of its own."""

    packages: tuple[str, ...] = ()
    """What is installed into an environment of its own; empty: it runs in the one of these tests."""
    kept: tuple[str, ...] = ()
    """What of the tag is taken, so that its tests meet the installed package; empty: all."""

    @property
    def in_place(self) -> bool:
        """Whether the suite starts its Kafka itself."""
        return "in_place_of_docker" in self.arguments

    @property
    def title(self) -> str:
        """The suite in names of tests and files."""
        return f"{self.name}-{self.part}" if self.part else self.name


KAFKA_PYTHON = Suite(
    name="kafka-python",
    repository="https://github.com/dpkp/kafka-python.git",
    tag="3.0.11",
    paths=("test/integration",),
    environment={"KAFKA_URI": "kafka://{first}", "KAFKA_VERSION": "4.3.0"},
    arguments=(),
    config={"num.partitions": "4", "group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
    | AUTHORIZER,
    brokers=1,
    excluded={},
    directories=("servers/4.3.0/kafka-bin",),
)

CONFLUENT = Suite(
    name="confluent-kafka",
    repository="https://github.com/confluentinc/confluent-kafka-python.git",
    tag="v2.15.0",
    paths=("tests/integration/admin", "tests/integration/consumer", "tests/integration/producer"),
    environment={"BROKERS": "{all}"},
    arguments=("-p", "without_trivup"),
    config={"group.initial.rebalance.delay.ms": "0"} | AUTHORIZER,
    brokers=3,
    excluded={},
    dynamic={"min.insync.replicas": "1"},  # KIP-966
)

KAFKA_PYTHON_LOGINS = KAFKA_PYTHON._replace(
    part="logins",
    paths=("test/integration/test_sasl_integration.py",),
    environment={"SASL_BROKERS": "{first}", "KAFKA_VERSION": "4.3.0"},
    arguments=("-p", "with_logins"),
    config={"allow.everyone.if.no.acl.found": "true"},
    users={"alice": "alice-secret"},
)

CONFLUENT_LOGINS = CONFLUENT._replace(
    part="logins",
    paths=("tests/integration/admin/test_describe_operations.py",),
    environment={"SASL_BROKERS": "{all}"},
    config={"allow.everyone.if.no.acl.found": "true"},
    brokers=1,
    dynamic={},
    users={"sasl_user": "sasl_user"},
)

IN_PLACE = ("-p", "in_place_of_docker", "-p", "pytest_timeout")
AIOKAFKA = Suite(
    name="aiokafka",
    repository="https://github.com/aio-libs/aiokafka.git",
    tag="v0.14.0",
    paths=("tests",),
    environment={"SUITE": "aiokafka", "BROKERS": "{first}"},
    arguments=(
        *IN_PLACE, "-p", "pytest_asyncio.plugin", "-p", "pytest_mock", "--no-pull",
        "--docker-image", "aiolibs/kafka:2.13_2.8.1",
    ),
    config={"num.partitions": "2", "group.initial.rebalance.delay.ms": "0"},
    brokers=1,
    excluded={},
    packages=(
        "aiokafka==0.14.0", "cramjam", "pytest<10", "pytest-asyncio", "pytest-mock", "pytest-timeout", "async-timeout",
    ),
    kept=("tests",),
)  # fmt: skip

FASTSTREAM = Suite(
    name="faststream",
    repository="https://github.com/ag2ai/faststream.git",
    tag="0.7.4",
    paths=("tests",),
    environment={"SUITE": "faststream", "BROKERS": "{first}"},
    arguments=(
        *IN_PLACE, "-p", "pytest_asyncio.plugin", "-p", "pytest_rerunfailures", "-p", "pytest_cov.plugin", "-p", "xdist",
        "-m", "connected and (kafka or confluent)",
    ),
    config={"group.initial.rebalance.delay.ms": "0"},
    brokers=1,
    excluded={},
    packages=(
        "faststream[kafka,confluent,cli,prometheus,otel,nats,rabbit,redis,mqtt]==0.7.4", "dirty-equals==0.11",
        "httpx==0.28.1", "pytest==9.0.3", "pytest-asyncio==1.3.0", "pytest-rerunfailures", "pytest-timeout", "pytest-xdist",
        "pytest-cov", "covdefaults", "freezegun", "fastapi==0.140.0", "pydantic-settings", "PyYAML", "email-validator",
        "msgspec", "uvicorn", "psutil", "opentelemetry-sdk",
    ),
)  # fmt: skip

QUIX_STREAMS = Suite(
    name="quix-streams",
    repository="https://github.com/quixio/quix-streams.git",
    tag="v3.25.0",
    paths=("tests",),
    environment={"SUITE": "quixstreams", "BROKERS": "{first}"},
    arguments=(
        *IN_PLACE,
        *(f"--ignore=tests/test_quixstreams/{path}" for path in (
            "test_sinks/test_community", "test_sinks/test_core/test_influxdb_v3.py",
            "test_dataframe/test_joins/test_lookup_postgres.py", "test_models/test_serializers/test_schema_registry.py",
        )),
    ),
    config={"group.initial.rebalance.delay.ms": "10", "log.retention.ms": "-1"},
    brokers=1,
    excluded={},
    packages=("quixstreams==3.25.0", "pytest<10", "pytest-timeout", "fastavro<2", "protobuf<7", "pandas<3"),
)  # fmt: skip

SUITES = (KAFKA_PYTHON, KAFKA_PYTHON_LOGINS, CONFLUENT, CONFLUENT_LOGINS, AIOKAFKA, FASTSTREAM, QUIX_STREAMS)


class NotFetched(Exception):
    """The suite cannot be fetched. The message says why."""


def checkout(suite: Suite) -> Path:
    """The folder with the suite's tag, fetched when it is not there yet. Raises NotFetched."""
    folder = TOOLS / f"{suite.name}-{suite.tag}"
    if not (folder / ".git").is_dir():
        local = Path(os.environ.get("RAYFT_SUITES", TOOLS)) / suite.name
        source = str(local) if local.is_dir() else suite.repository
        TOOLS.mkdir(exist_ok=True)
        command = ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth=1", "--branch", suite.tag]
        if local.is_dir():
            command.remove("--depth=1")
        done = subprocess.run(
            [*command, source, str(folder)],
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS_MAX,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
        if done.returncode:
            raise NotFetched(f"{suite.name} {suite.tag} cannot be fetched from {source}: {done.stderr.strip()}")
    for name in suite.directories:
        (folder / name).mkdir(parents=True, exist_ok=True)
    return folder


def python(suite: Suite) -> Path:
    """The Python with which the suite is run: one with its packages, made when it is not there yet. rayft is not among
    them: it, and what it needs, are found behind them. Raises NotFetched."""
    if not suite.packages:
        return Path(sys.executable)
    home = TOOLS / f"{suite.name}-{suite.tag}-packages"
    found = home / "bin" / "python"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        done = subprocess.run(
            [str(found), "-m", "pip", "install", "-q", "--disable-pip-version-check", *suite.packages],
            capture_output=True, text=True, timeout=2 * FETCH_SECONDS_MAX,
        )  # fmt: skip
        if done.returncode:
            raise NotFetched(f"what {suite.name} needs cannot be installed: {done.stderr.strip()[-300:]}")
        (packages,) = (home / "lib").glob("python3*/site-packages")
        (packages / "of_rayft.pth").write_text(f"{Path(numpy.__file__).resolve().parents[1]}\n")
        (home / "complete").touch()
    return found
