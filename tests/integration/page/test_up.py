"""`rayft up --ui`: the page lives as long as the cluster, and no longer."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, command, until

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.timeout(180)


@contextmanager
def up(directory: Path, port: int) -> Iterator["subprocess.Popen[str]"]:
    """A cluster in one process, with a page."""
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "up", "--controllers", "1", "--brokers", "1", "--combined",
         "--port", "0", "--ui", str(port), "--dir", str(directory)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: "subprocess.Popen[str]", text: str) -> str:
    """The first line with this text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError("".join(lines))


def pages(directory: Path) -> list[int]:
    """The processes that show this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"ui" in words and os.fsencode(directory) in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    "end", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)], ids=["ctrl-c", "kill"]
)
def test_the_page_ends_with_the_cluster(tmp_path: Path, end: int) -> None:
    with up(tmp_path / "home", 0) as process:
        found = re.search(r"(http://[^ ]+/)\S*[?#]token=(\S+)", said(process, "the page: "))
        assert found is not None
        asked = urllib.request.Request(f"{found[1]}api/v1", headers={"Authorization": f"Bearer {found[2]}"})
        until(lambda: json.load(urllib.request.urlopen(asked, timeout=20))["well"])
        assert len(pages(tmp_path / "home")) == 1
        process.send_signal(end)
        process.wait(60)
    until(lambda: pages(tmp_path / "home") == [])


def test_a_port_that_is_taken_costs_the_page_and_not_the_cluster(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, up(tmp_path / "home", taken.getsockname()[1]) as process:
        assert str(taken.getsockname()[1]) in said(process, "there is no page: ")
        said(process, "Ctrl-C stops it.")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert "stopped" in process.communicate(timeout=60)[0]
        assert process.returncode == 0


def test_a_page_that_nobody_would_end_is_refused(tmp_path: Path) -> None:
    for words in (("--detach",), ("--ray",)):
        done = command("up", "--ui", *words, "--dir", str(tmp_path / "home"))
        assert done.returncode == 1 and "leave --ui out" in done.stderr and done.stderr.count("\n") == 1
    done = command("up", "--ui", "65536", "--dir", str(tmp_path / "home"))
    assert "--ui 65536 is no port" in done.stderr and not (tmp_path / "home").exists()
