"""Several commands start one new directory at once: one cluster runs, the others say in one sentence why they do not."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.work import locks
from tests.integration.conftest import ROOT, command

RAYFT = (sys.executable, "-m", "actors.command.cli")
pytestmark = pytest.mark.timeout(240)


def test_of_four_that_start_one_new_directory_one_cluster_runs(tmp_path: Path) -> None:
    home = tmp_path / "c"
    up = [*RAYFT, "up", "--dir", str(home), "--port", "0", "--controllers", "1", "--brokers", "1", "--detach"]
    starts = [
        subprocess.Popen(up, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = [(*start.communicate(timeout=120), start.returncode) for start in starts]
    try:
        assert sum(code == 0 for *_, code in said) >= 1, said
        for _, refused, code in said:
            if code:
                (sentence,) = [line for line in refused.splitlines() if line.strip()]
                assert any(
                    why in sentence for why in ("is in use by process", "another command changes the cluster")
                ), said
        plan = plans.load(home)
        assert plan is not None
        ids = {storage.check(member.config)[0].cluster_id for member in plan.members}
        assert len(ids) == 1
        assert all(locks.seen(member.config.metadata_log_dir) for member in plan.members)
    finally:
        ended = command("down", "--dir", str(home))
    assert ended.returncode == 0, ended.stderr
    assert locks.holder(str(home)) is None


PROGRAM = """
import sys
import rayft
from actors.settings.node_config import ConfigError
from actors.host.cluster_error import ClusterError
from actors.host.work.locks import StorageError
try:
    cluster = rayft.Cluster(controllers=1, brokers=1, dir=sys.argv[1]).start()
except (ClusterError, ConfigError, StorageError) as error:
    print(error, file=sys.stderr)
    sys.exit(1)
print("ready", flush=True)
sys.stdin.readline()
cluster.stop()
"""
"""Somebody's program that starts the same directory."""
SENTENCES = (
    "is in use by process", "another command changes the cluster", "holds no cluster", "holds a cluster already",
    "was stopped while it started",
)  # fmt: skip
QUICK_ROUNDS, SLOW_ROUNDS = 3, 100


def starters(home: Path, random: Random) -> list[list[str]]:
    """Two or ten commands, and perhaps one or two that end what they find."""
    up = [*RAYFT, "up", "--dir", str(home), "--port", "0", "--controllers", "1", "--brokers", "1", "--detach"]
    program = [sys.executable, "-c", PROGRAM, str(home)]
    found = [up if random.randrange(3) else program for _ in range(random.choice((2, 2, 10)))]
    found += [[*RAYFT, "down", "--dir", str(home)] for _ in range(random.randrange(3))]
    random.shuffle(found)
    return found


def held(home: Path) -> list[str]:
    """What of a cluster is in use."""
    plan = plans.load(home)
    paths = [str(home)] + ([] if plan is None else [member.config.metadata_log_dir for member in plan.members])
    return [path for path in paths if locks.holder(path) is not None]


def race(home: Path, seed: int) -> None:
    """One round. What is left is a whole cluster, running or ended, or nothing at all."""
    random = Random(seed)
    home.mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    commands = starters(home, random)
    started = []
    for command_line in commands:
        started.append(subprocess.Popen(command_line, cwd=ROOT, **pipes))  # type: ignore[call-overload]
        time.sleep(random.choice((0, 0, 0.05, 0.3)))
    try:
        said = [(*one.communicate("end\n", timeout=150), one.returncode) for one in started]
        for words, (_, refused, code) in zip(commands, said, strict=True):
            lines = [line for line in refused.splitlines() if line.strip()]
            assert "Traceback" not in refused, (seed, words, refused)
            assert not code or len(lines) == 1, (seed, words, refused)
            assert not code or any(why in lines[0] for why in SENTENCES), (seed, words, refused)
        end_s = time.monotonic() + 30
        while held(home) and str(home) not in held(home) and time.monotonic() < end_s:
            time.sleep(0.1)
        left = held(home)
        plan = plans.load(home)
        if plan is None:
            assert not left and not list(home.glob("*/meta.properties")), (seed, said)
            return
        assert len(plan.members) == 2, (seed, said)
        assert len({storage.check(member.config)[0].cluster_id for member in plan.members}) == 1, (seed, said)
        assert not list(home.rglob("*.tmp")), (seed, said)
        assert not left or str(home) in left, f"nodes without a supervisor: {left}"
        assert left or any("down" in words or words[1] == "-c" for words in commands), (seed, said)
        if not left:
            again = command("up", "--dir", str(home), "--detach")
            assert again.returncode == 0, (seed, again.stderr)
    finally:
        for one in started:
            one.kill()
            one.wait()
        if plans.load(home) is not None:
            command("down", "--dir", str(home))
    assert not held(home), seed


@pytest.mark.parametrize("seed", range(QUICK_ROUNDS))
def test_two_or_ten_at_once_leave_one_cluster_or_none(tmp_path: Path, seed: int) -> None:
    race(tmp_path / "c", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK_ROUNDS, QUICK_ROUNDS + SLOW_ROUNDS))
def test_two_or_ten_at_once_leave_one_cluster_or_none_a_hundred_times(tmp_path: Path, seed: int) -> None:
    race(tmp_path / "c", seed)
