"""What tests have started ends with a pytest that is killed, and nothing else does."""

import os
import subprocess
import sys
import time
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


def test_this_run_has_a_mark_that_what_it_starts_inherits() -> None:
    mark = os.environ[leavings.MARK]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in leavings.marked(mark) and os.getpid() not in leavings.marked(mark)
        child.communicate(b"\n")
