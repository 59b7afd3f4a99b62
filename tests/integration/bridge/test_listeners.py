"""Clusters with ZooKeeper that have one listener among brokers and another one for clients, who log in with SCRAM.

The brokers speak PLAINTEXT, SASL_PLAINTEXT (SCRAM too), or SSL among themselves. `rayft bridge --check` refuses what lacks
settings, and with the old brokers' own security lines the whole way over is gone while clients write and read.
"""

from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from actors.command import cli
from actors.host.security import security_directory
from tests.integration.bridge.way import (
    ALICE,
    CLIENTS,
    FOR_CLIENTS,
    MODULE,
    PARTITIONS,
    PASSWORDS,
    TOPIC,
    Load,
    add_users,
    bridged,
    door,
    move_everything,
    rayft,
    records_in,
    until,
    written,
)
from tests.integration.bridge.zookeeper_mode import COORDINATORS, ZooKeeper, ZooKeeperBrokers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def with_scram(password: str = PASSWORDS["admin"]) -> dict[str, str]:
    return {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.internal.scram-sha-256.sasl.jaas.config": f'{MODULE} username="admin" password="{password}";',
    }


def with_tls(directory: Path) -> dict[str, str]:
    """Keys as PKCS12: brokers of 2.8 want a password, and PEM of this project has none."""
    security_directory.make_authority(directory, "old")
    pem = security_directory.make_node(directory, [1], ["127.0.0.1", "localhost"]).read_bytes()
    key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
    keys = directory / "keys.p12"
    keys.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"node", cast(ec.EllipticCurvePrivateKey, key), certificate, None, BestAvailableEncryption(b"p12-secret")
        )
    )
    own = "listener.name.internal.ssl"
    return {
        f"{own}.keystore.type": "PKCS12",
        f"{own}.keystore.location": str(keys),
        f"{own}.keystore.password": "p12-secret",
        f"{own}.key.password": "p12-secret",
        f"{own}.truststore.type": "PEM",
        f"{own}.truststore.location": str(directory / security_directory.CA),
        f"{own}.client.auth": "required",
    }


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the check says, which refuses."""
    capsys.readouterr()
    assert cli.main(["bridge", "--check", *options]) == 1
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("refused: ")]
    return line


@pytest.mark.parametrize(
    ("release", "protocol"),
    [("2.8.2", "PLAINTEXT"), ("2.8.2", "SASL_PLAINTEXT"), ("3.9.1", "SASL_PLAINTEXT"), ("2.8.2", "SSL")],
)
def test_a_cluster_with_two_listeners_goes_the_whole_way(
    release: str, protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    among = {
        "PLAINTEXT": dict,
        "SASL_PLAINTEXT": with_scram,
        "SSL": lambda: with_tls(tmp_path / "certificates"),
    }[protocol]()
    settings = FOR_CLIENTS | among
    with ZooKeeper() as zookeeper:
        add_users(zookeeper, release)
        old = ZooKeeperBrokers(
            zookeeper, release, 2, settings, among=("INTERNAL", protocol), clients=CLIENTS, login=ALICE
        )
        with old as kafka:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers} | ALICE)
            for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 2)]).values():
                future.result(30)
            load = Load(kafka.bootstrap_servers, ALICE)
            until(lambda: len(load.read) > 200, "the group reads before the takeover")

            reach = ["--zookeeper", zookeeper.address, "--dir", str(tmp_path / "none")]
            assert "write --listener with the one" in refused(capsys, *reach)
            reach += ["--listener", "internal"]
            assert "cannot stand beside the brokers" in refused(capsys, *reach)
            if protocol != "PLAINTEXT":
                bare = written(tmp_path / "bare.properties", FOR_CLIENTS)
                assert "INTERNAL" in refused(capsys, *reach, "--config", bare)
            if protocol == "SASL_PLAINTEXT":
                wrong = written(tmp_path / "wrong.properties", FOR_CLIENTS | with_scram("another"))
                line = refused(capsys, *reach, "--config", wrong)
                assert "a password that is not the one in ZooKeeper" in line and "another" not in line
            file = written(tmp_path / "nodes.properties", COORDINATORS | settings)
            rayft("bridge", "--check", *reach, "--config", file)
            assert "INTERNAL://127.0.0.1" in (said := capsys.readouterr().out) and "a takeover would claim" in said

            options = ("--listener", "INTERNAL", "--config", file)
            with bridged(zookeeper, tmp_path / "rayft", 2, *options) as cluster:
                load.goes_on(300, "under the new controller")
                kafka.terminate(2)
                kafka.start(2)
                kafka.answers(2, kafka.ports[2])
                fresh = AdminClient({"bootstrap.servers": kafka.bootstrap_servers} | ALICE)
                fresh.create_topics([NewTopic("later", 2, 2)])["later"].result(60)
                move_everything(door(cluster, 3), [3, 4])
                load.goes_on(300, "to the new brokers")
                for id in (1, 2):
                    assert kafka.terminate(id) in (0, 143)
                rayft("bridge", "--zookeeper", zookeeper.address, "--dir", str(tmp_path / "rayft"), "--finish")
                zookeeper.terminate(0)
                load.goes_on(300, "without ZooKeeper")
                load.stop()
                assert load.failed == []
                assert sorted(load.read) == list(range(load.sent)), "nothing is lost"
                assert records_in(cluster, TOPIC) == load.sent, "nothing is written twice"
                assert not logs_in(cluster.bootstrap_servers, "wrong") and logs_in(
                    cluster.bootstrap_servers, PASSWORDS["alice"]
                )
                with capsys.disabled():
                    print(f"\n{release}, {protocol}: {load.sent} records, stopped for {load.longest_s:.2f} s")


def logs_in(servers: str, password: str) -> bool:
    """Whether alice gets in with a password."""
    refusals: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": servers, "error_cb": refusals.append, "log_level": 0}
        | ALICE
        | {"sasl.password": password}
    )
    producer.poll(3)
    return not any(one.code() == KafkaError._AUTHENTICATION for one in refusals)
