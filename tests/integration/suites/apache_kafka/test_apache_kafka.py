"""Every test of Apache Kafka that passes there passes with rayft, or is listed with a reason (`listed.toml`).

`make test` runs a few classes (`QUICK`, half a minute on two cores), `make test-slow` all of them. Its figures go to
.tools/apache-kafka.json, from which `pytest --rewrite` makes the table in docs/clients.md.
"""

import json
from pathlib import Path

import pytest

from tests.integration.suites.apache_kafka import runner, table
from tests.integration.suites.apache_kafka.runner import Outcome, Result

QUICK = (
    "org.apache.kafka.clients.TransactionsWithMaxInFlightOneTest",
    "kafka.server.TxnOffsetCommitRequestTest",
    "org.apache.kafka.tools.DeleteRecordsCommandTest",
    "kafka.server.SaslApiVersionsRequestTest",
)
CLASS_SECONDS_MAX = 3600


@pytest.fixture(scope="session")
def jars() -> None:
    """The tests can be run here."""
    try:
        runner.prepare()
    except runner.NotThere as why:
        pytest.skip(str(why))


@pytest.mark.timeout(CLASS_SECONDS_MAX)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in runner.classes()]
)
def test_what_passes_with_apache_kafka_passes_with_rayft(name: str, jars: None, tmp_path: Path) -> None:
    tests = runner.listed().get(name, {})
    if runner.WHOLE in tests:
        pytest.skip(f"listed as a whole: {tests[runner.WHOLE]}")
    results = runner.run("rayft", name, tmp_path / "rayft")
    failed = {test: result for test, result in results.items() if result.outcome is Outcome.FAILED}
    unlisted = {test: result for test, result in failed.items() if runner.reason(tests, test) is None}
    if unlisted:
        apache = runner.run("kafka", name, tmp_path / "kafka")
        unlisted = {test: result for test, result in unlisted.items() if apache[test].outcome is Outcome.PASSED}
    table.note(name, results, {test for test in failed if test not in unlisted})
    broken = [line for log in (tmp_path / "rayft").rglob("*.log") if _of_a_node(log) for line in _tracebacks(log)]
    assert not unlisted, "\n\n".join(f"{test} passes with Apache Kafka only: {r.why}" for test, r in unlisted.items())
    assert not (stale := _stale(tests, results)), f"pass now, and are listed.toml's: {stale}"
    assert not broken, broken


def _of_a_node(log: Path) -> bool:
    return log.parent.parent.name == "nodes"


def _tracebacks(log: Path) -> list[str]:
    """Where a node raised what it should have handled."""
    return [f"{log}: {line}" for line in log.read_text(errors="replace").splitlines() if "Traceback" in line]


def _stale(tests: dict[str, str], results: dict[str, Result]) -> list[str]:
    """Listed tests of which no run fails any more, or that there are not."""
    return [
        test
        for test in tests
        if tests[test] not in runner.by_chance()
        and not any(
            result.outcome is not Outcome.PASSED
            for one, result in results.items()
            if test in (one, one.partition("[")[0])
        )
    ]


def test_the_classes_are_those_of_the_jars(jars: None) -> None:
    assert runner.classes() == runner.found_in_jars()


def test_the_list_names_classes_that_are_run() -> None:
    assert set(runner.listed()) <= set(runner.classes())
    assert set(QUICK) <= set(runner.classes())


def test_every_listed_test_is_published_with_its_reason(rewrite: bool) -> None:
    if rewrite:
        table.adopt()
        table.PAGE.write_text(table.rewritten(table.PAGE.read_text()))
    wanted = table.rewritten(table.PAGE.read_text())
    assert table.PAGE.read_text() == wanted, "run: pytest tests/integration/suites/apache_kafka --rewrite"


def test_the_figures_and_the_list_agree() -> None:
    """docs/clients.md has figures of every class that is run, and counts listed tests only where there are any."""
    figures, listed = json.loads(table.FIGURES.read_text()), runner.listed()
    assert set(figures) == {name for name in runner.classes() if runner.WHOLE not in listed.get(name, ())}
    for name, row in figures.items():
        assert bool(row["listed"]) == bool(listed.get(name)), name
        assert row["tests"] == row["passed"] + row["not applicable"] + row["listed"], name
