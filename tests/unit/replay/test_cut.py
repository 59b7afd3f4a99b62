"""A file that a node truncates while `rayft replay` reads it: one sentence, and not the end of the process by SIGBUS."""

import subprocess
import sys
from pathlib import Path

from tests.unit.replay.test_source import write


def test_a_truncation_under_the_command_is_one_error(tmp_path: Path) -> None:
    folder = write(tmp_path, batches=4000)
    program = f"""
import os, sys
from pathlib import Path
from actors import cli
from actors.replay import files, log
path = Path({str(folder)!r}, "{0:020}.log")
scan = log.scan
def late(data, position, stop, *rest, **more):
    os.truncate(path, 5000)  # after the last look at its size
    return scan(data, position, stop, *rest, **more)
log.scan = late
sys.exit(cli.main(["replay", "--topic", "orders", "--table", "log", "--limit", "0", {str(folder.parent)!r}]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1, done
    sentence = "a file was truncated while it was read, as a running node may do: run the command again."
    assert done.stderr.strip().splitlines()[-1].endswith(sentence)
    assert "Traceback" not in done.stderr and not done.stdout
