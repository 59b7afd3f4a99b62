"""The test suites of other projects that are run against rayft: their sources, their commands, and the tests left out.

A test is left out if it needs something that rayft does not have yet and documents. docs/clients.md gives each of these
tests and its reason, and a test checks that. A suite is a tag of a public repository, fetched into .tools/ once.
RAYFT_SUITES names a folder of clones for machines without the network.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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

SUITES = (KAFKA_PYTHON, KAFKA_PYTHON_LOGINS, CONFLUENT, CONFLUENT_LOGINS)


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
