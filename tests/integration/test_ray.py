"""A cluster on a Ray of its own: placed, killed, stopped, adopted."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.host import probe

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parent.parent.parent


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def family(pid: int) -> list[int]:
    """A process and everything below it."""
    found = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += family(int(path.parent.name))
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    return os.environ | {
        "HOME": str(home),
        "RAY_AUTH_MODE": "disabled",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture(scope="module")
def ray_address(environment: dict[str, str]) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}", "--num-cpus=1",
               "--node-ip-address=127.0.0.1", "--include-dashboard=false", "--disable-usage-stats",
               "--object-store-memory=80000000", f"--temp-dir=/tmp/rayft-ray-{port}"]  # fmt: skip
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not probe.listens(("127.0.0.1", port)):
            assert time.monotonic() < deadline and process.poll() is None, "Ray did not start"
            time.sleep(0.2)
        time.sleep(2.0)
        yield f"127.0.0.1:{port}"
    finally:
        pids = family(process.pid)
        process.terminate()
        try:
            process.wait(20)
        finally:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()


def test_up_kill_down_and_up_again(ray_address: str, environment: dict[str, str], tmp_path: Path) -> None:
    def rayft(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "actors.cli", *arguments, "--ray", ray_address, "--dir", str(tmp_path)],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip

    ran = rayft("up", "--controllers", "1", "--brokers", "1", "--port", str(free_port()))
    assert ran.returncode == 0, ran.stderr
    described = json.loads((tmp_path / "cluster.json").read_text())
    address = (described["brokers"][0]["host"], described["brokers"][0]["port"])
    controllers = [(row["host"], row["port"]) for row in described["controllers"]]
    assert probe.quorum(controllers).leader_id == 1001

    os.kill(described["brokers"][0]["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (tmp_path / "broker-1.log").read_text().count("serves clients") < 2:
        assert time.monotonic() < deadline, "Ray did not start the broker again"
        time.sleep(0.1)
    assert probe.listens(address)

    epoch = probe.quorum(controllers).leader_epoch
    ran = rayft("down", "--timeout", "10")
    assert ran.stdout.strip() == "stopped", ran.stderr
    assert not probe.listens(address)
    assert rayft("up").returncode == 0
    assert probe.quorum(controllers).leader_epoch > epoch, "the same quorum, from the same directory"
    assert json.loads((tmp_path / "cluster.json").read_text())["cluster_id"] == described["cluster_id"]
    rayft("down", "--timeout", "10")
