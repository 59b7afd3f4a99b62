"""`rayft dump` to somebody who stops reading."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
LOG = ROOT / "tests" / "golden" / "kafka-4.3.1" / "__cluster_metadata-0" / "00000000000000000000.log"


def test_who_has_seen_enough_is_told_nothing() -> None:
    """As of `rayft dump FILE | head`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "actors.command.cli", "dump", str(LOG)]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
