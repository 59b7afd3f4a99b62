"""What runs elsewhere for each change, each night and each release: it names what there is."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def jobs(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text())["jobs"])


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in jobs(path).items():
            for step in job["steps"]:
                yield f"{path.name}, {name}", step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_says_when_it_runs_what_it_may_and_how_long(path: Path) -> None:
    text = path.read_text()
    assert re.search(r"^on:\n  \S", text, re.MULTILINE) and yaml.safe_load(text)["permissions"]["contents"] == "read"
    for name, job in jobs(path).items():
        assert job["runs-on"] and job["steps"], name
        assert 0 < job.get("timeout-minutes", 10 if name == "publish" else 0) <= 350, name
        for other in job.get("needs", ()):
            assert other in jobs(path)


def test_the_targets_of_make_are_there() -> None:
    (verbs,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    asked = [(where, verb) for where, step in steps() for verb in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))]
    assert {"check", "test", "sim", "mutants", "kips"} <= {verb for _, verb in asked}
    assert not [one for one in asked if one[1] not in verbs.split()]


def test_actions_have_a_version() -> None:
    used = [step["uses"] for _, step in steps() if "uses" in step]
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+)*", one) for one in used), used


def test_the_pythons_are_those_for_which_wheels_are_made() -> None:
    tested = jobs(ROOT / ".github" / "workflows" / "tests.yml")["check"]["strategy"]["matrix"]["python"]
    assert [f"cp{one.replace('.', '')}-*" for one in tested] == PROJECT["tool"]["cibuildwheel"]["build"]
    assert PROJECT["project"]["requires-python"] == f">={tested[0]}"
    smoke = PROJECT["tool"]["cibuildwheel"]["test-command"].removeprefix("python {project}/")
    assert (ROOT / smoke).is_file()


def test_forms_for_issues_ask_for_what_they_name() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert forms
    for path in forms:
        form = yaml.safe_load(path.read_text())
        assert form["name"] and form["description"]
        ids = [one["id"] for one in form["body"] if one["type"] != "markdown"]
        assert ids and len(set(ids)) == len(ids)
        for word in re.findall(r"`(?:DIR/\S+|rayft [a-z-]+(?: --[a-z]+)?)`", path.read_text()):
            assert "DIR" in word or "--version" in word or "health" in word
