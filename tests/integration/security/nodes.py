"""A cluster of real processes whose listeners ask everybody who they are: a combined node and a broker."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.ports import free_ports
from tests.integration.conftest import ROOT, command, until

ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecureCluster:
    """Nodes log in to each other with PLAIN as admin, who may do everything; clients with PLAIN or SCRAM on the same
    listener. `more`: settings of both nodes."""

    def __init__(self, home: Path, more: dict[str, str], nodes: int = 2) -> None:
        first, second, controller = free_ports(3)
        self.bootstrap_servers = f"127.0.0.1:{first}"
        self.bootstrap_controllers = f"127.0.0.1:{controller}"
        self.processes: list[subprocess.Popen[str]] = []
        users = f'{PLAIN} required username="{ADMIN}" password="{ADMIN_PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}"'
        common = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1001@127.0.0.1:{controller}",
            "listener.security.protocol.map": "BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.broker.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.broker.plain.sasl.jaas.config": f'{users} user_alice="alice-secret" user_bob="bob-secret";',
            "listener.name.controller.plain.sasl.jaas.config": f"{users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            "connection.failed.authentication.delay.ms": "50",
        }
        kinds = [
            {
                "process.roles": "broker,controller",
                "broker.id": "1",
                "controller.id": "1001",
                "listeners": f"BROKER://127.0.0.1:{first},CONTROLLER://127.0.0.1:{controller}",
            },
            {"process.roles": "broker", "broker.id": "2", "listeners": f"BROKER://127.0.0.1:{second}"},
        ]
        identity = command("random-id").stdout.strip()
        self.logs: list[Path] = []
        for number, own in enumerate(kinds[:nodes], 1):
            file = home / f"node-{number}.properties"
            values = common | own | {"log.dirs": str(home / f"data-{number}")} | more
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            alone = ["--standalone"] if "controller" in own["process.roles"] else []
            ran = command("format", "--config", str(file), "--cluster-id", identity, *alone)
            assert ran.returncode == 0, ran.stderr
            log = home / f"node-{number}.log"
            self.logs.append(log)
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
                    cwd=ROOT,
                    stdout=log.open("w"),
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        try:
            until(lambda: all("serves clients" in log.read_text() for log in self.logs))
        except BaseException:
            self.stop()
            raise

    def said(self, words: str) -> bool:
        """Whether the log of a node has these words."""
        return any(words in log.read_text() for log in self.logs)

    def stop(self) -> None:
        for process in reversed(self.processes):
            # A broker whose controller has gone before it waits for its lease to end.
            process.terminate()
            process.wait(timeout=30)


def settings(cluster: SecureCluster, mechanism: str, name: str, password: str) -> dict[str, Any]:
    """How a client of librdkafka's logs in."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
        "reconnect.backoff.max.ms": 200,
    }
