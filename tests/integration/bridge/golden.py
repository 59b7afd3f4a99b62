"""The golden znodes: what clusters of Apache Kafka 2.8.2 and 3.9.1 write into ZooKeeper.

`python -m tests.integration.bridge.golden 2.8.2 tests/golden/kafka-2.8.2/znodes.json` starts such a cluster, gives it
topics, settings, users, quotas and access rules, and writes every znode that a takeover reads. The file has no port and
no time of day.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from actors.bridge.reading import Snapshot
from actors.host.bridge.zookeeper_session import Session
from tests.integration.bridge.zookeeper_mode import ZooKeeper, ZooKeeperBrokers, jars

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
CONFIG, ACL = "ConfigCommand", "AclCommand"
TOPICS = (
    NewTopic("orders", 4, 2, config={"retention.ms": "86400000"}),
    NewTopic("moved.and_named", 1, 1, config={"cleanup.policy": "compact"}),
)
COMMANDS = (
    (CONFIG, "--alter --entity-type brokers --entity-default --add-config log.retention.ms=90000000"),
    (CONFIG, "--alter --entity-type brokers --entity-name 1 --add-config background.threads=11"),
    (CONFIG, "--alter --entity-type users --entity-name alice "
     "--add-config SCRAM-SHA-256=[iterations=4096,password=a]"),
    (CONFIG, "--alter --entity-type users --entity-name alice --add-config producer_byte_rate=1000"),
    (CONFIG, "--alter --entity-type users --entity-name o=b --entity-type clients --entity-default "
     "--add-config consumer_byte_rate=2000"),
    (CONFIG, "--alter --entity-type clients --entity-name app --add-config request_percentage=12.5"),
    (CONFIG, "--alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=10"),
    (ACL, "--add --allow-principal User:alice --operation Read --topic orders"),
    (ACL, "--add --deny-principal User:bob --operation DescribeConfigs --topic or --resource-pattern-type prefixed"),
    (ACL, "--add --allow-principal User:* --operation IdempotentWrite --cluster"),
)  # fmt: skip


def command(release: str, tool: str, arguments: list[str]) -> None:
    """Run one of Apache Kafka's tools. Raises CalledProcessError."""
    ran = subprocess.run(
        ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", f"{jars(release)}/*", f"kafka.admin.{tool}", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, (tool, arguments, ran.stdout[-500:], ran.stderr[-500:])


def snapshot(release: str) -> Snapshot:
    """What a cluster of this release has in ZooKeeper when all of COMMANDS were given."""
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, release, brokers=2, config=AUTHORIZER) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics(list(TOPICS)).values():
            future.result(30)
        for tool, text in COMMANDS:
            command(release, tool, ["--bootstrap-server", kafka.bootstrap_servers, *text.split()])
        time.sleep(1)
        with Session(zookeeper.address) as session:
            return session.everything()


def text(found: Snapshot) -> str:
    """The file."""
    znodes = {
        path: {
            "data": _plain(path, znode.data.decode()),
            "version": znode.version,
            "czxid": znode.czxid,
            "ephemeral": znode.ephemeral,
        }
        for path, znode in sorted(found.znodes.items())
    }
    names = {path: list(names) for path, names in sorted(found.names.items())}
    return json.dumps({"znodes": znodes, "names": names}, indent=1) + "\n"


def load(release: str) -> Snapshot:
    """What the file of a release holds."""
    from actors.ports.zookeeper import Znode

    path = Path(__file__).resolve().parents[2] / "golden" / f"kafka-{release}" / "znodes.json"
    found = json.loads(path.read_text())
    return Snapshot(
        {path: Znode(**one | {"data": one["data"].encode()}) for path, one in found["znodes"].items()},
        {path: tuple(names) for path, names in found["names"].items()},
    )


def _plain(path: str, data: str) -> str:
    data = re.sub(r'"timestamp":"\d+"', '"timestamp":"1637700000000"', data)
    if path.startswith("/brokers/ids/"):
        port = f"909{path[-1]}"
        data = re.sub(r"(PLAINTEXT://127\.0\.0\.1:)\d+", rf"\g<1>{port}", data)
        data = re.sub(r'"port":\d+', f'"port":{port}', data)
    return data


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(text(snapshot(sys.argv[1])))
