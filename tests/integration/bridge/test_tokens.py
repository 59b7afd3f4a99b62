"""Delegation tokens of a cluster with ZooKeeper: made at one side, they let somebody in at the other (KIP-48)."""

import re
import subprocess
from pathlib import Path

import pytest

from actors.command import cli
from tests.integration.bridge.way import (
    ALICE,
    CLIENTS,
    FOR_CLIENTS,
    PASSWORDS,
    add_users,
    bridged,
    rayft,
    until,
    written,
)
from tests.integration.bridge.zookeeper_mode import COORDINATORS, ZooKeeper, ZooKeeperBrokers, jars

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

TOKENS, TOPICS = "DelegationTokenCommand", "TopicCommand"
SECRET = "the-key-of-both-sides"
KEY_OF = {"2.8.2": "delegation.token.master.key", "3.9.1": "delegation.token.secret.key"}
TOOLS = "2.8.2"
"""The release whose tools are used with brokers of every release."""


class Tool:
    """Apache Kafka's tools, run by alice with her password or by who holds a token of hers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.alice = self._file("alice", f'username="alice" password="{PASSWORDS["alice"]}"')

    def holder(self, token: tuple[str, str]) -> str:
        """The file of a client that logs in with (id, secret)."""
        id, secret = token
        return self._file(id, f'username="{id}" password="{secret}" tokenauth="true"')

    def run(self, tool: str, servers: str, who: str, *arguments: str) -> str:
        """What a tool says."""
        reach = ["--bootstrap-server", servers, "--command-config", who]
        java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", f"{jars(TOOLS)}/*", f"kafka.admin.{tool}"]
        ran = subprocess.run([*java, *reach, *arguments], capture_output=True, text=True, check=False)
        return ran.stdout + ran.stderr

    def made(self, servers: str) -> tuple[str, str]:
        """(id, secret) of a new token."""
        shown = self.run(TOKENS, servers, self.alice, "--create", "--max-life-time-period", "-1")
        found = re.findall(r"^(\S{22})\s+(\S{86}==)\s", shown, re.MULTILINE)
        assert len(found) == 1, shown
        return found[0]  # type: ignore[no-any-return]

    def gets_in(self, servers: str, token: tuple[str, str]) -> bool:
        """Whether a token lets somebody in."""
        return "seen" in self.run(TOPICS, servers, self.holder(token), "--list").split()

    def _file(self, name: str, login: str) -> str:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return written(
            self._folder / f"{name}.client",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{module} required {login};",
                "request.timeout.ms": "8000",
                "default.api.timeout.ms": "8000",
            },
        )


@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_tokens_of_both_sides_let_somebody_in_at_both(
    release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = Tool(tmp_path)
    settings = FOR_CLIENTS | {KEY_OF[release]: SECRET}
    with ZooKeeper() as zookeeper:
        add_users(zookeeper, release)
        among = ("INTERNAL", "PLAINTEXT")
        with ZooKeeperBrokers(zookeeper, release, 1, settings, among=among, clients=CLIENTS, login=ALICE) as kafka:
            old = kafka.bootstrap_servers
            topic = ("--create", "--topic", "seen", "--partitions", "1", "--replication-factor", "1")
            tool.run(TOPICS, old, tool.alice, *topic)
            before = tool.made(old)
            until(lambda: tool.gets_in(old, before), "the old broker knows its own token")

            reach = ["--zookeeper", zookeeper.address, "--listener", "internal"]
            keyless = written(tmp_path / "keyless.properties", COORDINATORS | FOR_CLIENTS)
            check = ["bridge", "--check", "--dir", str(tmp_path / "none"), *reach, "--config"]
            capsys.readouterr()
            assert cli.main([*check, keyless]) == 1
            assert "refused: there are 1 delegation tokens" in capsys.readouterr().out
            file = written(tmp_path / "nodes.properties", COORDINATORS | settings)
            rayft(*check, file)
            assert SECRET not in capsys.readouterr().out

            with bridged(zookeeper, tmp_path / "rayft", 1, "--listener", "INTERNAL", "--config", file) as cluster:
                new = cluster.bootstrap_servers
                assert tool.gets_in(new, before), "a token of before gets in at the new broker"
                assert tool.gets_in(old, before)
                meanwhile, ours = tool.made(old), tool.made(new)
                until(lambda: tool.gets_in(new, meanwhile), "a token of the old broker gets in at the new one")
                until(lambda: tool.gets_in(old, ours), "a token of the new broker gets in at the old one")
                for at, token in ((new, before), (old, meanwhile)):
                    end = ("--expire", "--expiry-time-period", "-1", "--hmac", token[1])
                    assert "Completed expire operation" in tool.run(TOKENS, at, tool.alice, *end)
                until(lambda: not tool.gets_in(old, before), "a token that was ended at the new broker")
                until(lambda: not tool.gets_in(new, meanwhile), "a token that was ended at the old broker")
                assert tool.gets_in(old, ours) and tool.gets_in(new, ours)
