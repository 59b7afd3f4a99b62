"""How soon pytest's fixture `kafka` is ready, and what its node weighs: `python -m bench.fixture [--rounds 15] [--ref DIR]`.

Each round is a pytest of its own with one test, as a project has it. Said are medians, with the least and the most: from the
call of the fixture to the test, from there to a topic that a record was written to and read from, the whole run, the CPU
time of all processes of the run, and the memory of the node: its own pages, and with its share of those that the nodes
have in common (PSS). `--ref` alternates with another checkout of rayft.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = """
import time
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef):
    begun = time.perf_counter()
    yield
    if fixturedef.argname in ("kafka", "_rayft_clusters"):
        TOOK[fixturedef.argname] = time.perf_counter() - begun


TOOK = {}
"""
CASE = """
import time
from conftest import TOOK


def kib(pid, names):
    return sum(int(line.split()[1]) for line in open(f"/proc/{pid}/smaps_rollup") if line.split(":")[0] in names)


def test_one(kafka):
    begun = time.perf_counter()
    topic = kafka.topic()
    kafka.produce(topic, [b"a"])
    assert len(kafka.consume(topic, 1)) == 1
    record = time.perf_counter() - begun
    (pid,) = set(kafka.cluster.pids.values())
    own = kib(pid, ("Private_Clean", "Private_Dirty")) / 1024
    print("TOOK", TOOK["kafka"], record, kib(pid, ("Pss",)) / 1024, own)
"""
FIGURES = ("fixture ready, s", "first record, s", "node PSS, MiB", "node own, MiB", "whole run, s", "CPU, s")


def once(checkout: Path, project: Path) -> list[float]:
    """The figures of one run."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "actors.testing.plugin", "-p", "no:cacheprovider"]
    cached = {"PYTHONPYCACHEPREFIX": str(project / "cache"), "PYTHONDONTWRITEBYTECODE": ""}  # as pip leaves a wheel
    variables = os.environ | cached | {"PYTHONPATH": str(checkout), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, timeout=120)
    whole, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    line = next((one for one in done.stdout.splitlines() if "TOOK" in one), None)
    if done.returncode or line is None:
        raise SystemExit(done.stdout + done.stderr)
    return [*map(float, line.split("TOOK")[1].split()), whole, cpu]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ref", type=Path)
    given = parser.parse_args()
    checkouts = [path for path in (ROOT, given.ref) if path is not None]
    found: dict[Path, list[list[float]]] = {path: [] for path in checkouts}
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "conftest.py").write_text(TEST)
        (project / "test_one.py").write_text(CASE)
        for checkout in checkouts:
            once(checkout, project)  # files come into the page cache
        for _ in range(given.rounds):
            for checkout in checkouts:
                found[checkout].append(once(checkout, project))
    print(f"{given.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for checkout, rounds in found.items():
        print(checkout)
        for name, column in zip(FIGURES, zip(*rounds, strict=True), strict=True):
            print(f"  {name:18} {statistics.median(column):7.3f}   {min(column):7.3f} to {max(column):7.3f}")


if __name__ == "__main__":
    main()
