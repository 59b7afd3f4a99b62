"""What a node leaves open to others: its files to other users, its ports to other machines."""

import datetime
import os
import socket
import stat
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from actors.host import storage
from actors.host.cluster.plan import write_json
from actors.host.net.server import Listeners
from actors.host.security.certificates import authority, issue, write
from actors.host.serve import REFUSED, serve
from actors.host.work import durable, locks
from actors.host.work.disk import LocalDisk
from actors.host.work.journal import Journal
from actors.settings.node_config import NodeConfig, node_config
from actors.settings.properties import has_secrets

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NOW = datetime.datetime.now(datetime.UTC)
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
    locks.Lock(str(home)).close()
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


SASL = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": 'a.B required username="a" password="hidden";',
}


def told_of_ports(path: Path, **given: str) -> str | None:
    listeners = Listeners(
        settings(
            path,
            listeners="PLAINTEXT://0.0.0.0:0,CONTROLLER://127.0.0.1:0",
            advertised_listeners="PLAINTEXT://broker.example:9092",
            **given,
        )
    )
    try:
        return listeners.open_to_others()
    finally:
        listeners.close()


def test_a_port_that_asks_who_is_there_is_not_told(tmp_path: Path) -> None:
    issued = issue(authority("test", NOW), "node", NOW, ["localhost"])
    tls = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.key": issued.key.decode(),
        "ssl.keystore.certificate.chain": issued.certificate.decode(),
        "ssl.truststore.certificates": issued.certificate.decode(),
    }
    assert told_of_ports(tmp_path, **SASL) is None
    assert told_of_ports(tmp_path, **tls, ssl_client_auth="required") is None
    for wish in ("none", "requested"):
        told = told_of_ports(tmp_path, **tls, ssl_client_auth=wish)
        assert told is not None and "read, write and delete everything" in told
    judged = told_of_ports(tmp_path, authorizer_class_name=AUTHORIZER)
    assert judged is not None and "is User:ANONYMOUS and may do what access rules allow" in judged


def test_a_file_with_secrets_that_others_may_read_is_told_at_the_start(tmp_path: Path) -> None:
    keys = tmp_path / "node.pem"
    write(keys, issue(authority("test", NOW), "node", NOW, ["localhost"]).pem)
    home = tmp_path / "data"
    file = tmp_path / "node.properties"
    file.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = settings(
            home,
            rayft_metrics_listen=f"127.0.0.1:{taken.getsockname()[1]}",
            listener_security_protocol_map="PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
            ssl_keystore_location=str(keys),
        )
        storage.format_node(config, CLUSTER, voters=None)
        for mode, told in ((0o600, False), (0o640, True), (0o604, True)):
            file.chmod(mode)
            keys.chmod(mode)
            lines = StringIO()
            assert serve(config, Journal(lines), main_thread=False, secret_files=[str(file)])[0] == REFUSED
            for path in (file, keys):
                assert (f"WARN  {path} has secrets and is open to others" in lines.getvalue()) is told


def test_which_settings_are_secrets() -> None:
    assert has_secrets(SASL) and has_secrets({"listener.name.a.ssl.keystore.password": "x"})
    assert not has_secrets({"ssl.keystore.location": "/a", "ssl.key.password": " "})
    reference = {"ssl.key.password": "${file:/a:b}"}
    assert has_secrets(reference) and not has_secrets(reference | {"config.providers": "file"})


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
