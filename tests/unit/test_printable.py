"""What reaches a stream of a command, whatever its encoding is, and without one."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from actors.command.output.tables import as_json
from actors.printable import Guarded

LOG = Path("tests/golden/kafka-4.3.1/__cluster_metadata-0/00000000000000000000.log")
ROW = {"key": "é日\U0001f600", "value": "\x1b[31m\u200e\x85\t"}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str) -> None:
    written = io.BytesIO()
    stream = Guarded(io.TextIOWrapper(written, encoding=encoding))
    stream.write(as_json(ROW) + "\n")
    stream.flush()
    assert json.loads(written.getvalue().decode(encoding)) == ROW


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("command", ["random-id", f"dump {LOG}"])
def test_a_command_without_a_stream_does_what_it_does(command: str, closed: str) -> None:
    line = f"{sys.executable} -m actors.command.cli {command} {closed}"
    found = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert bool(found.stdout) == (closed == "2>&-")
