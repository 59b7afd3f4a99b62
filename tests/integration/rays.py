"""A Ray of a test's own, on this machine, for tests that need one."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from actors.host import probe

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def environment(home: Path) -> dict[str, str]:
    """For Ray and for commands that use it: nothing of the user's own."""
    home.mkdir(parents=True, exist_ok=True)
    return os.environ | {
        "HOME": str(home),
        "RAY_AUTH_MODE": "disabled",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
    }


@contextlib.contextmanager
def started(around: Mapping[str, str]) -> Iterator[str]:
    """A head; its address. Everything below it is ended after."""
    port = free_port()
    scratch = f"/tmp/rayft-ray-{port}"  # short: Ray's sockets lie below it
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}", "--num-cpus=1",
               "--node-ip-address=127.0.0.1", "--include-dashboard=false", "--disable-usage-stats",
               "--object-store-memory=80000000", f"--temp-dir={scratch}"]  # fmt: skip
    process = subprocess.Popen(command, env=dict(around), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not probe.listens(("127.0.0.1", port)):
            assert time.monotonic() < deadline and process.poll() is None, "Ray did not start"
            time.sleep(0.2)
        time.sleep(2.0)
        yield f"127.0.0.1:{port}"
    finally:
        pids = _family(process.pid)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):  # slow is no failure
            process.wait(20)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def _family(pid: int) -> list[int]:
    """A process and everything below it."""
    found = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += _family(int(path.parent.name))
    return found
