"""A cluster on a Ray of its own: its nodes are placed, killed, stopped and found again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from actors.host.cluster import probe, secure_cluster
from actors.host.work import locks
from bench.ports import free_port
from tests.integration import rays
from tests.integration.security.leaks import keys_below, leaks
from tests.integration.test_bad_input import impostor

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return rays.environment(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def ray_address(environment: dict[str, str]) -> Iterator[str]:
    with rays.started(environment) as address:
        yield address


def test_up_kill_down_and_up_again(ray_address: str, environment: dict[str, str], tmp_path: Path) -> None:
    rayft = partial(rays.rayft, environment, ray_address, tmp_path)
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
    assert probe.serves(address)

    epoch = probe.quorum(controllers).leader_epoch
    ran = rayft("down", "--timeout", "10")
    assert ran.stdout.strip() == "stopped", ran.stderr
    assert not probe.serves(address)
    assert rayft("up").returncode == 0
    assert probe.quorum(controllers).leader_epoch > epoch, "the same quorum, from the same directory"
    assert json.loads((tmp_path / "cluster.json").read_text())["cluster_id"] == described["cluster_id"]
    rayft("down", "--timeout", "10")


def test_an_actor_that_loses_its_id_leaves_for_good(
    ray_address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """Ray restarts an actor after any exit code, but this one must not come back (DESIGN section 9)."""
    rayft = partial(rays.rayft, environment, ray_address, tmp_path / "c")
    leases = ("--set", "registration.lease.timeout.ms=1500", "--set", "registration.heartbeat.interval.ms=300")
    ran = rayft("up", "--controllers", "1", "--brokers", "1", "--port", str(free_port()), *leases)
    assert ran.returncode == 0, ran.stderr
    directory = tmp_path / "c" / "broker-1"
    log = tmp_path / "c" / "broker-1.log"
    file, port = impostor(tmp_path / "c" / "broker-1.properties", directory, tmp_path / "copy")
    other = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with other:
        try:
            deadline = time.monotonic() + 60
            while "ends: another process has held this broker id" not in log.read_text():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            starts = log.read_text().count("metadata log: observer")
            while locks.holder(str(directory)) is not None:
                assert time.monotonic() < deadline, "the process stays"
                time.sleep(0.1)
            time.sleep(8)
            assert locks.holder(str(directory)) is None
            assert log.read_text().count("metadata log: observer") == starts, "Ray did not start it again"
            assert probe.serves(("127.0.0.1", port))
        finally:
            other.kill()
            rayft("down", "--timeout", "10")


def test_a_secure_cluster_gets_its_certificates_as_arguments_and_leaves_no_secret_behind(
    ray_address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka.admin")
    home = tmp_path / "secure"
    rayft = partial(rays.rayft, environment, ray_address, home)
    ran = rayft("up", "--controllers", "1", "--brokers", "1", "--port", str(free_port()), "--secure")
    try:
        assert ran.returncode == 0, ran.stderr
        settings = secure_cluster.librdkafka(home)
        assert "kcat -F" in ran.stdout and settings["sasl.password"] not in ran.stdout
        client = confluent_kafka.AdminClient(settings)
        assert set(client.list_topics(timeout=30).brokers) == {1}
        described = json.loads((home / "cluster.json").read_text())
        with pytest.raises(probe.NoAnswer):
            probe.quorum([(row["host"], row["port"]) for row in described["controllers"]])
        found = leaks(
            [home, Path(f"/tmp/rayft-ray-{ray_address.rpartition(':')[2]}")],
            [settings["sasl.password"], *keys_below(home)],
        )
        assert {path.name for path in found} <= {
            "client.properties", "librdkafka.conf", "ca.key", "rayft-node-1.pem", "rayft-node-1001.pem",
        }, found  # fmt: skip
    finally:
        rayft("down", "--timeout", "10")
