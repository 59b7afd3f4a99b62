"""What a node leaves open to others: its files to other users, its ports to other machines."""

import os
import socket
import stat
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from actors.config import NodeConfig, node_config
from actors.host import durable, storage
from actors.host.disk import LocalDisk
from actors.host.plan import write_json
from actors.host.serve import REFUSED, Journal, serve
from actors.host.server import Listeners

CLUSTER = "3Db5QLSqSZieL3rJBUUegA"


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def settings(path: Path, **given: str) -> NodeConfig:
    return node_config(
        {
            "process.roles": "broker,controller",
            "broker.id": "1",
            "controller.id": "1001",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listeners": "CONTROLLER",
            "controller.connect": "1001@127.0.0.1:1",
            "log.dirs": str(path),
        }
        | {name.replace("_", "."): value for name, value in given.items()}
    )


def open_to_others(path: Path) -> list[str]:
    """What below and with a path somebody else may read or write."""
    return [str(one) for one in (path, *path.rglob("*")) if stat.S_IMODE(one.stat().st_mode) & 0o077]


def test_a_formatted_directory_and_what_is_written_into_it_are_private(tmp_path: Path) -> None:
    home = tmp_path / "node"
    storage.format_node(settings(home), CLUSTER, voters=[storage.Voter(1001, "127.0.0.1", 1, bytes(15) + b"1")])
    disk = LocalDisk(str(home))
    disk.open("orders-0/00000000000000000000.log", create=True).append((b"records",))
    disk.replace("orders-1/leader-epoch-checkpoint", b"0")
    storage.Lock(str(home)).close()
    assert len(list(home.rglob("*"))) >= 7
    assert open_to_others(home) == []


def test_logs_and_the_file_that_describes_a_cluster_are_private(tmp_path: Path) -> None:
    home = tmp_path / "cluster"
    home.mkdir(0o700)
    write_json(home / "cluster.json", {})
    os.close(durable.private(home / "broker-1.log", durable.APPEND))
    assert open_to_others(home) == []


def test_a_directory_that_is_open_to_others_is_told_at_the_start(tmp_path: Path) -> None:
    for mode, told in ((0o755, True), (0o750, False)):
        home = tmp_path / f"{mode:o}"
        home.mkdir(mode)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            config = settings(home, rayft_metrics_listen=f"127.0.0.1:{port}")
            storage.format_node(config, CLUSTER, voters=None)
            lines = StringIO()
            assert serve(config, Journal(lines), main_thread=False)[0] == REFUSED, "its metrics have no port"
        sentence = f"WARN  {home} is open to every user of this machine (mode 0755): chmod 700 {home}"
        assert (sentence in lines.getvalue()) is told


@pytest.mark.parametrize("host", ["0.0.0.0", "", "127.0.0.1"])
def test_a_port_that_other_machines_may_reach_is_told_at_the_start(tmp_path: Path, host: str) -> None:
    config = settings(
        tmp_path,
        listeners=f"PLAINTEXT://{host}:0,CONTROLLER://127.0.0.1:0",
        advertised_listeners="PLAINTEXT://broker.example:9092",
    )
    listeners = Listeners(config)
    try:
        told = listeners.open_to_others()
    finally:
        listeners.close()
    if host == "127.0.0.1":
        assert told is None
    else:
        assert told is not None and told.startswith("other machines may reach PLAINTEXT at 0.0.0.0:")
        assert "CONTROLLER" not in told and "there is no authentication" in told
