"""What the README, the tour and the tutorial tell a new user to type: in an empty folder, one line after the other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT

STEPS = re.compile(r"^## First steps\n.*?^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)

WHERE = (
    f"""$({sys.executable} -c 'import json; print(json.load(open("rayft-data/cluster.json"))["bootstrap_servers"])')"""
)


def run(steps: str, folder: Path) -> list[str]:
    """Type these lines, with ports that are free, and return what they print. What goes on until Ctrl-C ends soon."""
    for typed, instead in (
        ("up --detach", "up --detach --port 0"),
        ("localhost:9092", WHERE),
        ("rayft top\n", "rayft top --looks 2 --every 0.3\n"),
    ):
        steps = steps.replace(typed, instead)
    whole = f'set -e -o pipefail\nrayft() {{ {sys.executable} -m actors.command.cli "$@"; }}\n{steps}'
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(["bash", "-c", whole], cwd=folder, env=env, capture_output=True, text=True, timeout=240)
    finally:
        down = [sys.executable, "-m", "actors.command.cli", "down"]
        subprocess.run(down, cwd=folder, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


@pytest.mark.timeout(300)
def test_the_first_record_of_the_readme(tmp_path: Path) -> None:
    made, steps, more = BLOCKS.findall((ROOT / "README.md").read_text())
    assert "make build" in made and "make demo" in more
    lines = run(steps, tmp_path)
    assert "hello" in lines and lines[-1].startswith("well: controller "), lines


@pytest.mark.timeout(300)
def test_the_first_steps_of_the_tour(tmp_path: Path) -> None:
    found = STEPS.search((ROOT / "docs" / "tour.md").read_text())
    assert found is not None
    assert "rayft consume" in found[1] and "rayft group describe" in found[1] and "rayft top\n" in found[1]
    lines = run(found[1], tmp_path)
    assert "hello" in lines and "grew topic greetings to 6 partitions" in lines
    assert any(re.fullmatch(r"greetings +\d +1 +1 +0 +- +- +-", line) for line in lines), lines
    assert any(line.startswith("well: controller ") for line in lines)
    assert sum(" well: controller " in line for line in lines) == 2, "two looks of rayft top"


@pytest.mark.timeout(300)
def test_the_tutorial(tmp_path: Path) -> None:
    install, *blocks = BLOCKS.findall((ROOT / "docs" / "tutorial.md").read_text())
    assert "make build" in install and len(blocks) == 6
    assert "pip install pyarrow" in install, "a build brings it to nobody, and `rayft replay` needs it"
    lines = run("".join(blocks), tmp_path)
    assert "1000" in lines and "200000" in lines, "each record once, over the kill of a broker"
    epochs = [int(found[1]) for line in lines if (found := re.search(r" leads, epoch (\d+)", line))]
    assert epochs == sorted(epochs) and epochs[-1] > epochs[0], "another controller leads"
    states = [
        found[1] for line in lines if (found := re.fullmatch(r"\d{4}-\d\d-\d\d \S+ +1 +(active|fenced|-) *", line))
    ]
    moved = [line for line in lines if re.fullmatch(r"\d{4}-\d\d-\d\d \S+ +\d +1 +[23] *", line)]
    assert states[0] == states[-1] == "active" and set(states) > {"active"}, "broker 1 went, and came again"
    assert moved, "others led its partitions"
    assert "stopped" in lines
