"""Other projects' integration tests against rayft and Apache Kafka in the same run: what passes there must pass here.

`make test-slow` runs them. The figures of a run go to .tools/<suite>.json.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import rayft
from bench import apache
from tests.integration.suites.catalogue import ROOT, SUITES, TOOLS, NotFetched, Suite, checkout

SUITE_SECONDS_MAX = 1500
TEST_SECONDS_MAX = 150
FOREIGN = Path(__file__).parent / "foreign"


def run(suite: Suite, folder: Path, bootstrap_servers: str, report: Path, skipped: set[str]) -> dict[str, str]:
    """Outcome of every test by its name: passed, failure, error or skipped."""
    values = {"first": bootstrap_servers.split(",")[0], "all": bootstrap_servers}
    environment = {name: value.format(**values) for name, value in suite.environment.items()}
    path = os.pathsep.join((str(folder), str(FOREIGN)))
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", f"--rootdir={folder}", "-p", "no:cacheprovider",
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


@pytest.mark.slow
@pytest.mark.timeout(2 * SUITE_SECONDS_MAX + 300)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_what_passes_with_apache_kafka_passes_with_rayft(suite: Suite, tmp_path: Path) -> None:
    if apache.libs() is None:
        pytest.skip("no Apache Kafka to compare with: `make kafka` fetches it where it can")
    try:
        folder = checkout(suite)
    except NotFetched as why:
        pytest.skip(str(why))
    with rayft.Cluster(controllers=1, brokers=suite.brokers, config=suite.config) as cluster:
        give(cluster.bootstrap_servers, suite.dynamic)
        ours = run(suite, folder, cluster.bootstrap_servers, tmp_path / "rayft.xml", set(suite.excluded))
    with apache.ApacheKafka(controllers=1, brokers=suite.brokers, config=suite.config, heap="512m") as kafka:
        theirs = run(suite, folder, kafka.bootstrap_servers, tmp_path / "apache.xml", set())
    unknown = set(suite.excluded) - set(theirs)
    missing = passed(theirs) - passed(ours) - set(suite.excluded)
    figures: dict[str, Any] = {
        "suite": suite.name,
        "tag": suite.tag,
        "rayft": {"passed": len(passed(ours)), "of": len(ours)},
        "apache": {"passed": len(passed(theirs)), "of": len(theirs), "version": apache.version()},
        "excluded": dict(suite.excluded),
        "only_apache": sorted(missing),
        "only_rayft": sorted(passed(ours) - passed(theirs)),
        "neither": sorted(set(theirs) - passed(theirs) - passed(ours) - set(suite.excluded)),
    }
    (TOOLS / f"{suite.name}.json").write_text(json.dumps(figures, indent=2) + "\n")
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
