"""`make` alone lists every target, as README.md says."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rayft

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_alone_lists_every_verb() -> None:
    (verbs,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    said = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"\bmake ([a-z-]+)", said)) == set(verbs.split()) - {"help"}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_each_unit_test_is_in_one_part_of_make_check() -> None:
    """What no part names is the rest's: nobody has to think of a new folder."""
    said = subprocess.run(["make", "-snp", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    parts = dict(re.findall(r"^UNIT_([a-z]+) :?= (.*)$", said, re.MULTILINE))
    (names,) = re.findall(r"^UNITS := (.*)$", said, re.MULTILINE)
    assert set(names.split()) == {f"unit-{part}" for part in parts}
    places = [ROOT / place for part in parts.values() for place in part.split()]
    wanted = [*(ROOT / "tests/unit").rglob("test_*.py"), *(ROOT / "tests/transcripts").rglob("test_*.py")]
    for path in wanted:
        (_,) = (place for place in places if place == path or place in path.parents)
    assert len(wanted) > 400 and all(place.exists() for place in places)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_units_of_which_no_test_is_chosen_fail(tmp_path: Path) -> None:
    """As pytest does. A part without a chosen test passes beside one that has some."""
    here = "tests/unit/test_makefile.py"
    make = ["make", "-s", "--assume-old=dev", "unit", f"PY={sys.executable}", f"UNITS_RAN={tmp_path / 'ran'}"]
    make += ["UNITS=unit-a unit-b", f"UNIT_a={here}", "UNIT_b=tests/unit/test_kips.py"]
    for chosen, code in (("stands_in_one_place", 0), ("nothing_is_named_so", 2), ("stands_in_one_place", 0)):
        ended = subprocess.run([*make, f"ARGS=-k {chosen}"], cwd=ROOT, capture_output=True, text=True)
        assert ended.returncode == code, ended.stdout + ended.stderr
        assert ("ARGS choose no test" in ended.stderr) == bool(code)


def test_the_version_stands_in_one_place() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "actors.command.cli", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert said == f"rayft {rayft.__version__}\n"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "rayft.__version__"}


def test_a_build_by_make_has_what_a_build_by_pip_has() -> None:
    """`make wheel` builds without pip's isolation: what is not there is left out of the wheel, completions say."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    (made,) = re.findall(r"^\$\(VENV\)/\.made:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(needed) - set(re.findall(r'"([^"]+)"', made)) == set()
