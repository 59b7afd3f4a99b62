"""A cluster without the calls that Linux alone has: each process of it has lost them before it imports anything of rayft."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ports import free_port
from tests.integration.conftest import ROOT

LOST = """
import os, resource, signal, socket, sys

for module, names in (
    (os, ("memfd_create", "pidfd_open", "posix_fallocate", "pipe2", "O_DIRECT", "RWF_NOWAIT", "sched_getscheduler",
          "sched_getaffinity", "sched_setaffinity", "eventfd", "sendfile", "copy_file_range", "posix_fadvise", "fdatasync")),
    (resource, ("prlimit",)),
    (signal, ("pidfd_send_signal",)),
    (socket, ("SOCK_CLOEXEC", "SOCK_NONBLOCK")),
):
    for name in names:
        delattr(module, name)
import platform
platform.system = lambda: "Darwin"
"""
"""A sitecustomize.py: Python runs it before all else. /proc is there, and is not asked (`kernel.LINUX`)."""


def rayft(home: Path, *words: str, stdin: str = "") -> str:
    around = os.environ | {"PYTHONPATH": f"{home}{os.pathsep}{ROOT}", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "actors.command.cli", *words],
        input=stdin, env=around, cwd=home, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_cluster_is_made_serves_and_is_ended(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LOST)
    asked = "from actors.host.work import kernel; import os; print(kernel.LINUX, hasattr(os, 'pipe2'))"
    around = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    said = subprocess.run([sys.executable, "-c", asked], env=around, capture_output=True, text=True, check=True)
    assert said.stdout == "False False\n"

    port, where = free_port(), ("--dir", str(tmp_path / "data"))
    rayft(tmp_path, "up", "--controllers", "3", "--brokers", "1", "--port", str(port), *where, "--detach")
    try:
        there = ("-b", f"127.0.0.1:{port}")
        rayft(tmp_path, "topic", "create", "t", "-p", "2", *there)
        rayft(tmp_path, "produce", "t", *there, stdin="a\nb\n")
        assert sorted(rayft(tmp_path, "consume", "t", "--exit", *there).split()) == ["a", "b"]
        rayft(tmp_path, "up", "--add-controller", *where)
        assert "1004" in rayft(tmp_path, "status", *where)
    finally:
        rayft(tmp_path, "down", *where)
