"""What tests have started ends with a pytest that is killed, and nothing else does."""

import ast
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests import leavings

ROOT = Path(__file__).resolve().parents[2]
STARTS = """
import subprocess, sys
from tests import leavings
leavings.watch()
long = [sys.executable, "-c", "import time; time.sleep(600)"]
stubborn = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]
for words in (long, stubborn):
    print(subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid)
sys.stdout.flush()
sys.stdin.read()
"""
END_S = 90
STARTS_ON = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
while True:
    subprocess.Popen(["sleep", "300"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
"""


def runs(pid: int) -> bool:
    """Whether a process is there, and is not only waited for by nobody."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("killed", [True, False])
def test_what_was_started_ends_with_the_run_and_what_others_started_does_not(killed: bool) -> None:
    around = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", STARTS]
    with (
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as others,
        subprocess.Popen(words, env=around, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run,
    ):
        try:
            assert run.stdin is not None and run.stdout is not None
            pids = [int(run.stdout.readline()) for _ in range(2)]
            assert all(map(runs, pids))
            if killed:
                run.kill()
            run.stdin.close()
            until = time.monotonic() + END_S
            while any(map(runs, pids)):
                assert time.monotonic() < until, "they go on"
                time.sleep(0.1)
            assert runs(others.pid)
        finally:
            others.kill()


def test_what_starts_processes_until_it_is_killed_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are started behind the look by which those are found that are to be killed."""
    for name, time_s in (("GRACE_S", 0.0), ("STOP_S", 0.0), ("KILL_S", 30.0)):
        monkeypatch.setattr(leavings, name, time_s)
    for _ in range(3):
        mark = uuid.uuid4().hex
        around = os.environ | {leavings.MARK: mark}
        with subprocess.Popen([sys.executable, "-c", STARTS_ON], env=around, stdout=subprocess.PIPE) as starts:
            assert starts.stdout is not None
            starts.stdout.readline()
            time.sleep(0.2)
            leavings.end(mark)
        left = leavings.marked(mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left


def without_mark(source: str) -> list[int]:
    """The lines at which an environment is made of nothing but what is said there, and not of the mark."""
    tree = ast.parse(source)
    added = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.AugAssign)}
    added |= {id(one.right) for one in ast.walk(tree) if isinstance(one, ast.BinOp)}
    return [
        one.lineno
        for one in ast.walk(tree)
        if isinstance(one, ast.Dict) and id(one) not in added and None not in one.keys
        if any(isinstance(key, ast.Constant) and key.value == "PATH" for key in one.keys)
        if not any(isinstance(key, ast.Name) and key.id == "MARK" for key in one.keys)
    ]


def test_an_environment_of_a_tests_own_has_the_mark() -> None:
    """What is started with another one would stay where the run is killed."""
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    found = {path: without_mark(source) for path, source in sources.items() if '"PATH"' in source}
    assert len(found) >= 4 and not {path: lines for path, lines in found.items() if lines}
    assert without_mark("a = 1\nrun(env={'PATH': '/bin'})") == [2]
    assert not without_mark("run(env={'PATH': '/bin', MARK: mark}); x |= {'PATH': ''}; y = os.environ | {'PATH': ''}")


def test_this_run_has_a_mark_that_what_it_starts_inherits() -> None:
    mark = os.environ[leavings.MARK]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in leavings.marked(mark) and os.getpid() not in leavings.marked(mark)
        child.communicate(b"\n")
