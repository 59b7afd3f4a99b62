"""`rayft up --ui`: the page lives as long as the cluster, and no longer."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import ROOT, command, until

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.timeout(180)


@contextmanager
def up(directory: Path, port: int, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """A cluster in one process, with a page."""
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "up", "--controllers", "1", "--brokers", "1", "--combined",
         "--port", "0", "--ui", str(port), "--dir", str(directory), *words],
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


def test_nodes_are_killed_frozen_cut_off_and_brought_back_from_the_page(tmp_path: Path) -> None:
    with up(tmp_path / "home", 0, "--allow-changes") as process:
        found = re.search(r"(http://[^ ]+/)\S*[?#]token=(\S+)", said(process, "the page: "))
        assert found is not None

        def ask(path: str, **body: object) -> dict[str, Any]:
            data = json.dumps(body).encode() if body else None
            headers = {"Authorization": f"Bearer {found[2]}", "Content-Type": "application/json"}  # type: ignore[index]
            asked = urllib.request.Request(f"{found[1]}api/v1{path}", data, headers)  # type: ignore[index]
            answer: dict[str, Any] = json.load(urllib.request.urlopen(asked, timeout=60))
            return answer

        def state() -> str:
            (node,) = ask("/nodes")["nodes"]
            return f"{node['ids']} {node['state']}"

        assert ask("")["may_change"] and ask("")["has_nodes"]
        until(lambda: state() == "[1, 1001] serves")
        assert "is frozen" in ask("/changes/nodes/freeze", node=1)["said"]
        assert state() == "[1, 1001] frozen"
        assert ask("/changes/nodes/thaw", node=1001)["said"] == "Node 1 and 1001 goes on."
        assert state() == "[1, 1001] serves"
        assert "is cut off" in ask("/changes/nodes/cut", node=1)["said"]
        assert state() == "[1, 1001] cut"
        until(lambda: not ask("")["well"])
        assert "has its network back" in ask("/changes/nodes/reconnect", node=1)["said"]
        assert state() == "[1, 1001] serves"
        until(lambda: bool(ask("")["well"]))
        ask("/changes/nodes/cut", node=1)
        assert "stays down" in ask("/changes/nodes/kill", node=1)["said"]
        assert state() == "[1, 1001] down"
        until(lambda: not ask("")["well"])
        ask("/changes/nodes/start", node=1)
        until(lambda: state() == "[1, 1001] serves")
        assert "serves again" in ask("/changes/nodes/restart", node=1)["said"]
        until(lambda: bool(ask("")["well"]))
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask("/changes/nodes/start", node=1)
        assert json.load(refused.value)["error"] == "Node 1 is running: start is for one that is down."
        ask("/changes/nodes/freeze", node=1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, "a frozen node is no reason to stay"


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
    done = command("up", "--allow-changes", "--dir", str(tmp_path / "home"))
    assert done.returncode == 1 and "write --ui, too" in done.stderr
    done = command("up", "--ui", "65536", "--dir", str(tmp_path / "home"))
    assert "--ui 65536 is no port" in done.stderr and not (tmp_path / "home").exists()
