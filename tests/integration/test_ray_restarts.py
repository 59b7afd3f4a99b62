"""A secure cluster with six nodes on one machine of Ray is restarted again and again, and by several commands at once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("ray")

from tests.integration import rays

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
RESTARTS, RACES = int(os.environ.get("RAYFT_RESTARTS", "50")), int(os.environ.get("RAYFT_RACES", "20"))
LAST_BYTES = 1500
SENTENCES = ("another command changes the cluster", "holds no cluster on Ray", "holds a cluster of processes")


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return rays.environment(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def address(around: dict[str, str]) -> Iterator[str]:
    with rays.started(around) as found:
        yield found


def up(home: Path, nodes: int) -> list[str]:
    port = str(20_000 + Random(str(home)).randrange(100) * 300)
    return ["up", "--controllers", str(nodes), "--brokers", str(nodes), "--port", port, "--secure", "--dir", str(home)]


def run(around: dict[str, str], address: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", *arguments, "--ray", address],
        cwd=rays.ROOT, env=around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(one: "subprocess.Popen[str]") -> tuple[int, str]:
    said = one.communicate(timeout=600)[1]
    return one.returncode, said


def told(home: Path) -> str:
    """The ends of the nodes' logs, for whoever reads a failure; pytest keeps the directory."""
    return "\n".join(f"{path}: {path.read_text()[-LAST_BYTES:]}" for path in sorted(home.glob("*.log")))


def test_each_restart_brings_all_six_nodes_back(around: dict[str, str], address: str, tmp_path: Path) -> None:
    home = tmp_path / "six"
    for turn in range(RESTARTS):
        code, said = ended(run(around, address, *up(home, 3)))
        assert code == 0, f"restart {turn}: {said}\n{told(home)}"
        described = json.loads((home / "cluster.json").read_text())
        assert len(described["controllers"] + described["brokers"]) == 6
        code, said = ended(run(around, address, "down", "--dir", str(home)))
        assert code == 0, f"restart {turn}: {said}\n{told(home)}"
        print(f"restart {turn}: all six were ready", flush=True)


@pytest.mark.parametrize("seed", range(RACES))
def test_commands_at_once_leave_one_cluster_or_none(
    around: dict[str, str], address: str, tmp_path: Path, seed: int
) -> None:
    home, random = tmp_path / "raced", Random(seed)
    commands = [up(home, 1)] * random.choice((2, 4)) + [["down", "--dir", str(home)]] * random.randrange(2)
    random.shuffle(commands)
    said = [ended(one) for one in [run(around, address, *words) for words in commands]]
    try:
        for code, refused in said:
            lines = [line for line in refused.splitlines() if line.strip()]
            assert not code or (len(lines) == 1 and any(why in lines[0] for why in SENTENCES)), (seed, commands, said)
        code, refused = ended(run(around, address, *up(home, 1)))
        assert code == 0, refused
    finally:
        code, refused = ended(run(around, address, "down", "--dir", str(home)))
    assert code == 0, refused
