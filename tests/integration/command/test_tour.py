"""The first steps of the README, as a new user types them: in an empty folder, one line after the other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT

STEPS = re.compile(r"^## First steps\n.*?^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)

WHERE = (
    f"""$({sys.executable} -c 'import json; print(json.load(open("rayft-data/cluster.json"))["bootstrap_servers"])')"""
)


@pytest.mark.timeout(300)
def test_the_first_steps_of_the_readme(tmp_path: Path) -> None:
    found = STEPS.search((ROOT / "README.md").read_text())
    assert found is not None
    steps = (
        found[1].replace("up --detach", "up --detach --port 0").replace("localhost:9092", WHERE)
    )  # on ports that are free
    assert "rayft consume" in steps and "rayft group describe" in steps
    whole = f'set -e\nrayft() {{ {sys.executable} -m actors.command.cli "$@"; }}\n{steps}'
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(["bash", "-c", whole], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    finally:
        down = [sys.executable, "-m", "actors.command.cli", "down"]
        subprocess.run(down, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert "hello" in lines and "grew topic greetings to 6 partitions" in lines
    assert any(re.fullmatch(r"greetings +\d +1 +1 +0 +- +- +-", line) for line in lines), done.stdout
    assert any(line.startswith("well: controller ") for line in lines)
