"""`rayft down` where process ids lie: under another namespace of processes, and where a number was used again.

Nobody but the cluster's own processes gets a signal. The namespaces are real, and the numbers are made to meet.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.host.work import locks
from tests.integration.conftest import ROOT, command, until

pytestmark = pytest.mark.timeout(240)
RAYFT = [sys.executable, "-m", "actors.command.cli"]
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""A command that runs the rest in a new namespace of processes, with a /proc of its own; all in it end with that command."""
CROWD = 200
"""Bystanders with numbers one after the other: each process that a cluster has there has the number of one of them."""


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no namespaces of processes")


@pytest.fixture
def crowd() -> Iterator[list["subprocess.Popen[bytes]"]]:
    found = [subprocess.Popen(["sleep", "300"]) for _ in range(CROWD)]
    yield found
    for one in found:
        one.kill()
        one.wait()


def up(home: Path) -> list[str]:
    return [*RAYFT, "up", "--dir", str(home), "--port", "0", "--controllers", "1", "--brokers", "1"]


def from_number(number: int, words: list[str]) -> list[str]:
    """That command in a namespace where the next process gets this number."""
    program = (
        "import subprocess, sys\n"
        f"with open('/proc/sys/kernel/ns_last_pid', 'w') as file: file.write('{number - 1}')\n"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)\n"
    )
    return [*APART, sys.executable, "-c", program, *words]


def started(words: list[str], home: Path) -> "subprocess.Popen[bytes]":
    """A command that runs a cluster until it ends, once that serves."""
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: any("serves clients" in log.read_text() for log in home.glob("*.log")))
    return process


def row(crowd: list["subprocess.Popen[bytes]"]) -> int:
    """Where the longest row of numbers begins that are all bystanders': other processes began meanwhile."""
    numbers = {one.pid for one in crowd}
    lengths = {one: next(n for n in range(CROWD + 1) if one + n not in numbers) for one in numbers}
    return max(lengths, key=lambda one: lengths[one])


def held(home: Path) -> bool:
    return locks.holder(str(home)) is not None


def refused(done: "subprocess.CompletedProcess[str]") -> None:
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 1 and "cannot be seen from here" in line, done


def test_a_cluster_of_another_namespace_whose_numbers_are_those_of_others_here(
    tmp_path: Path, crowd: list["subprocess.Popen[bytes]"]
) -> None:
    home = tmp_path / "c"
    process = started(from_number(row(crowd), up(home)), home)
    try:
        number = int((home / ".lock").read_text())
        assert number in {one.pid for one in crowd}, "the number in the lock is a bystander's here"
        refused(command("down", "--dir", str(home)))
        assert held(home) and process.poll() is None
        assert all(one.poll() is None for one in crowd)
    finally:
        process.kill()
        process.wait()
    until(lambda: not held(home))


def test_down_in_another_namespace_finds_nobody_whom_it_may_end(tmp_path: Path) -> None:
    home = tmp_path / "c"
    process = started(up(home), home)
    try:
        number = int((home / ".lock").read_text())
        inside = [sys.executable, "-c", BYSTANDER, str(number), *RAYFT, "down", "--dir", str(home)]
        done = subprocess.run([*APART, *inside], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)
        assert "the bystander lives" in done.stdout, done
        refused(done)
        assert held(home) and process.poll() is None
    finally:
        process.terminate()
        process.wait(60)
    assert not held(home)


BYSTANDER = """
import subprocess, sys
with open("/proc/sys/kernel/ns_last_pid", "w") as file: file.write(str(int(sys.argv[1]) - 1))
bystander = subprocess.Popen(["sleep", "100"])
assert bystander.pid == int(sys.argv[1]), bystander.pid
done = subprocess.run(sys.argv[2:])
print("the bystander lives" if bystander.poll() is None else "the bystander is dead", flush=True)
bystander.kill()
sys.exit(done.returncode)
"""
"""A process that has the given number, while a command runs."""
AGAIN = """
import os, pathlib, signal, subprocess, sys, time
home, words = sys.argv[1], sys.argv[2:]
subprocess.run([*words, "up", "--dir", home, "--port", "0", "--controllers", "1", "--brokers", "1", "--detach"], check=True)
numbers = sorted({int(path.read_text()) for path in pathlib.Path(home).rglob(".lock") if path.read_text().strip()})
for number in numbers: os.kill(number, signal.SIGKILL)
def there(number):
    try: return pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError: return False
while any(map(there, numbers)): time.sleep(0.05)
def reap():  # whoever was nobody's child any more is this process's: it is the first here
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
while any(os.path.exists(f"/proc/{number}") for number in numbers):
    reap()
    time.sleep(0.05)
crowd = []
for number in numbers:
    for _ in range(50):  # somebody else's process or thread may get the number first
        with open("/proc/sys/kernel/ns_last_pid", "w") as file: file.write(str(number - 1))
        one = subprocess.Popen(["sleep", "100"])
        if one.pid == number: break
        one.kill()
        one.wait()
    crowd.append(one)
print("numbers", sorted(numbers) == sorted(one.pid for one in crowd), flush=True)
done = subprocess.run([*words, "down", "--dir", home], capture_output=True, text=True)
print("lives", all(one.poll() is None for one in crowd), flush=True)
print(done.returncode, done.stdout + done.stderr, flush=True)
"""
"""A cluster is killed, and bystanders get the numbers of its processes."""


def test_numbers_that_were_used_again_are_others(tmp_path: Path) -> None:
    home = tmp_path / "c"
    words = [*APART, sys.executable, "-c", AGAIN, str(home), *RAYFT]
    done = subprocess.run(words, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    assert "numbers True" in done.stdout and "lives True" in done.stdout, done
    end_s = time.monotonic() + 30
    while held(home) and time.monotonic() < end_s:
        time.sleep(0.1)
    assert not held(home)
