"""A Ray cluster of a test's own, on this machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
STARTED = "Ray runtime started"
START_SECONDS_MAX = 120


def environment(home: Path) -> dict[str, str]:
    """The environment for Ray and for commands that use it, without the user's own settings."""
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
    """Start a head and give its address. All its processes are ended afterwards."""
    port = free_port()
    scratch = f"/tmp/rayft-ray-{port}"  # short: Ray's sockets lie below it
    head = [
        "--head",
        f"--port={port}",
        "--node-ip-address=127.0.0.1",
        "--include-dashboard=false",
        f"--temp-dir={scratch}",
    ]
    try:
        with _node(head, around):
            yield f"127.0.0.1:{port}"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def joined(around: Mapping[str, str], address: str, ip: str) -> Iterator[None]:
    """Add one more machine to that Ray; an address of the loopback network stands for it."""
    with _node([f"--address={address}", f"--node-ip-address={ip}"], around):
        yield


def rayft(
    around: Mapping[str, str], address: str, directory: Path, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    """Run a rayft command for a cluster in `directory` on that Ray, whose machine's address may not be of loopback."""
    if arguments[0] == "up" and not {"--secure", "--add-controller"} & set(arguments):
        arguments += ("--insecure",)
    return subprocess.run(
        [sys.executable, "-m", "actors.command.cli", *arguments, "--ray", address, "--dir", str(directory)],
        cwd=ROOT, env=dict(around), capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def gcs(address: str) -> int:
    """Process id of the head's global state store."""
    port = address.rpartition(":")[2]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes().split(b"\0")
            if command[0].endswith(b"gcs_server") and f"--gcs_server_port={port}".encode() in command:
                return int(path.parent.name)
    raise AssertionError("Ray's head has no gcs_server")


@contextlib.contextmanager
def _node(arguments: Sequence[str], around: Mapping[str, str]) -> Iterator[None]:
    """Run `ray start` until its node runs. All its processes are ended afterwards."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1", "--disable-usage-stats",
               "--object-store-memory=80000000", *arguments]  # fmt: skip
    with tempfile.NamedTemporaryFile() as said:
        process = subprocess.Popen(command, env=dict(around), stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while STARTED not in (text := Path(said.name).read_text()):
                assert time.monotonic() < deadline and process.poll() is None, f"Ray did not start: {text}"
                time.sleep(0.2)
            yield
        finally:
            pids = _family(process.pid)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):  # slow is no failure
                process.wait(20)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += _family(int(path.parent.name))
    return found
