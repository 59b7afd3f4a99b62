"""Other projects' integration tests against rayft and Apache Kafka in the same run: what passes there must pass here.

`make test-slow` runs them. The figures of a run go to .tools/<suite>.json.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import rayft
from bench import apache
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, PLAIN, SecureCluster
from tests.integration.suites.catalogue import ROOT, SUITES, TOOLS, NotFetched, Suite, checkout, python

SUITE_SECONDS_MAX = 1500
TEST_SECONDS_MAX = 150
FOREIGN = Path(__file__).parent / "foreign"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def run(suite: Suite, folder: Path, bootstrap_servers: str, report: Path, skipped: set[str]) -> dict[str, str]:
    """Outcome of every test by its name: passed, failure, error or skipped."""
    values = {"first": bootstrap_servers.split(",")[0], "all": bootstrap_servers}
    environment = {name: value.format(**values) for name, value in suite.environment.items()}
    if suite.kept:
        whole, folder = folder, report.with_suffix("")
        for name in suite.kept:
            shutil.copytree(whole / name, folder / name)
    if suite.packages:
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    path = os.pathsep.join((str(folder), str(FOREIGN), *([str(ROOT)] if suite.in_place else [])))
    done = subprocess.run(
        [
            str(python(suite)), "-m", "pytest", "-q", f"--rootdir={folder}", "-p", "no:cacheprovider",
            "-o", f"timeout={TEST_SECONDS_MAX}", f"--junitxml={report}", *suite.arguments, *suite.paths,
            *(f"--deselect={node(test)}" for test in sorted(skipped)),
        ],
        cwd=folder,
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS_MAX,
    )  # fmt: skip
    assert report.exists(), f"{suite.name} did not run:\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    return outcomes(report)


def node(test: str) -> str:
    """pytest's name of a test: a.b.c -> a/b.py::c."""
    module, _, name = test.rpartition(".")
    return f"{module.replace('.', '/')}.py::{name}"


def outcomes(report: Path) -> dict[str, str]:
    """The outcome of every test in a JUnit report."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        marks = [mark.tag for mark in case if mark.tag in ("failure", "error", "skipped")]
        found[f"{case.get('classname')}.{case.get('name')}"] = marks[-1] if marks else "passed"
    return found


def passed(found: dict[str, str]) -> set[str]:
    return {test for test, outcome in found.items() if outcome == "passed"}


def give(bootstrap_servers: str, settings: Mapping[str, str]) -> None:
    """Set settings for all brokers of a running cluster, by Apache Kafka's own command."""
    for name, value in settings.items():
        options = ["--alter", "--entity-type", "brokers", "--entity-default", "--add-config", f"{name}={value}"]
        command = apache.java("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap_servers, *options)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _jaas(users: Mapping[str, str]) -> str:
    known = " ".join(f'user_{name}="{password}"' for name, password in {ADMIN: ADMIN_PASSWORD, **users}.items())
    return f'{PLAIN} required username="{ADMIN}" password="{ADMIN_PASSWORD}" {known};'


def _add_scram_users(bootstrap_servers: str, users: Mapping[str, str], home: Path) -> None:
    """Give every user a password for SCRAM too, by Apache Kafka's own command."""
    file = home / "admin.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={_jaas({})}\n")
    connect = ["--bootstrap-server", bootstrap_servers, "--command-config", str(file)]
    for name, password in users.items():
        for mechanism in MECHANISMS:  # a request may alter each user once
            credential = f"{mechanism}=[password={password}]"
            options = ["--alter", "--entity-type", "users", "--entity-name", name, "--add-config", credential]
            command = apache.java("kafka.admin.ConfigCommand", *connect, *options)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def ours(suite: Suite, home: Path) -> Iterator[str]:
    """A rayft cluster as the suite wants it; where it is reached. Empty: the suite starts it."""
    if suite.in_place:
        yield ""
        return
    if not suite.users:
        with rayft.Cluster(controllers=1, brokers=suite.brokers, config=suite.config) as cluster:
            give(cluster.bootstrap_servers, suite.dynamic)
            yield cluster.bootstrap_servers
        return
    more = {**suite.config, "listener.name.broker.plain.sasl.jaas.config": _jaas(suite.users)}
    secure = SecureCluster(home, more, nodes=suite.brokers)
    try:
        _add_scram_users(secure.bootstrap_servers, suite.users, home)
        yield secure.bootstrap_servers
    finally:
        secure.stop()


@contextlib.contextmanager
def theirs(suite: Suite, home: Path) -> Iterator[str]:
    """The same cluster of Apache Kafka's."""
    config = dict(suite.config)
    if suite.users:
        config |= {
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": _jaas(suite.users),
            "listener.name.controller.plain.sasl.jaas.config": _jaas({}),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
        }
        for listener in ("plaintext", "controller"):
            for mechanism in MECHANISMS:
                config[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = f"{SCRAM} required;"
    with apache.ApacheKafka(controllers=1, brokers=suite.brokers, config=config, heap="512m") as kafka:
        if suite.users:
            _add_scram_users(kafka.bootstrap_servers, suite.users, home)
        yield kafka.bootstrap_servers


@pytest.mark.slow
@pytest.mark.timeout(2 * SUITE_SECONDS_MAX + 300)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.title)
def test_what_passes_with_apache_kafka_passes_with_rayft(suite: Suite, tmp_path: Path) -> None:
    if apache.libs() is None:
        pytest.skip("no Apache Kafka to compare with: `make kafka` fetches it where it can")
    try:
        folder = checkout(suite)
        python(suite)
    except NotFetched as why:
        pytest.skip(str(why))
    begun = time.monotonic()
    with ours(suite, tmp_path) as servers:
        here = run(suite, folder, servers, tmp_path / "rayft.xml", set(suite.excluded))
    between = time.monotonic()
    with theirs(suite, tmp_path) as servers:
        there = run(suite, folder, servers, tmp_path / "apache.xml", set())
    ended = time.monotonic()
    unknown = set(suite.excluded) - set(there)
    missing = passed(there) - passed(here) - set(suite.excluded)
    figures: dict[str, Any] = {
        "suite": suite.title,
        "tag": suite.tag,
        "rayft": {"passed": len(passed(here)), "of": len(here), "s": round(between - begun)},
        "apache": {
            "passed": len(passed(there)),
            "of": len(there),
            "s": round(ended - between),
            "version": apache.version(),
        },
        "excluded": dict(suite.excluded),
        "only_apache": sorted(missing),
        "only_rayft": sorted(passed(here) - passed(there)),
        "neither": sorted(set(there) - passed(there) - passed(here) - set(suite.excluded)),
    }
    (TOOLS / f"{suite.title}.json").write_text(json.dumps(figures, indent=2) + "\n")
    assert passed(there), f"nothing passes with Apache Kafka: {there}"
    assert not unknown, "excluded tests that the suite does not have"
    assert not missing, f"pass with Apache Kafka only: {sorted(missing)}"


def test_every_excluded_test_is_published_with_its_reason() -> None:
    """docs/clients.md has a row for each: | `test` | reason |."""
    text = (ROOT / "docs" / "clients.md").read_text()
    rows = {
        tuple(cell.strip() for cell in line.split("|")[1:3]) for line in text.splitlines() if line.startswith("| `")
    }
    for suite in SUITES:
        for test, reason in suite.excluded.items():
            assert (f"`{test}`", reason) in rows, f"docs/clients.md does not name {test} with the reason {reason!r}"
