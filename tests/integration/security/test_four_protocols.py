"""PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL with five clients: each produces, consumes in a group and lists topics.

One node has the four listeners. A client knows the authority's certificate, checks the name in the node's, and logs in with
SCRAM or PLAIN; nothing else about it is special.
"""

import asyncio
import datetime
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors.host.security.certificates import authority, issue, write
from bench.ports import free_ports
from tests.integration.conftest import ROOT, Java, command, until

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD = "alice", "alice-secret"
VALUES = [f"value {number}" for number in range(5)]
SECONDS = 30


class Way(NamedTuple):
    """How a client comes in."""

    servers: str
    protocol: str
    mechanism: str
    """Empty: without a login."""
    authority: Path

    @property
    def encrypted(self) -> bool:
        """Whether it speaks TLS."""
        return self.protocol.endswith("SSL")

    def rdkafka(self) -> dict[str, str]:
        """Settings of librdkafka."""
        found = {"bootstrap.servers": self.servers, "security.protocol": self.protocol.lower()}
        if self.encrypted:
            found["ssl.ca.location"] = str(self.authority)
        if self.mechanism:
            found |= {"sasl.mechanism": self.mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        return found

    def python(self) -> dict[str, Any]:
        """Settings that kafka-python and aiokafka have in common."""
        found: dict[str, Any] = {"bootstrap_servers": self.servers, "security_protocol": self.protocol}
        if self.encrypted:
            found["ssl_context"] = ssl.create_default_context(cafile=str(self.authority))
        if self.mechanism:
            found |= {"sasl_mechanism": self.mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
        return found

    def java(self) -> str:
        """A properties file of Kafka's tools."""
        lines = [f"security.protocol={self.protocol}"]
        if self.encrypted:
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.authority}"]
        if self.mechanism:
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            lines += [
                f"sasl.mechanism={self.mechanism}",
                f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
                f'username="{USER}" password="{PASSWORD}";',
            ]
        return "\n".join(lines)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Way]]:
    """(protocol, mechanism) -> a way in at a node that has all of them."""
    home, now = tmp_path_factory.mktemp("protocols"), datetime.datetime.now(datetime.UTC)
    by = authority("test", now)
    write(home / "node.pem", issue(by, "node", now, ["127.0.0.1"]).pem)
    write(home / "ca.pem", by.certificate)
    *ports, controller = free_ports(5)
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in zip(PROTOCOLS, ports, strict=True)]
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    values = {
        "process.roles": "broker,controller",
        "broker.id": "1",
        "controller.id": "1001",
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
        "listener.security.protocol.map": ",".join(f"{one}:{one}" for one in PROTOCOLS) + ",CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1001@127.0.0.1:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(home / "data"),
        "ssl.keystore.location": str(home / "node.pem"),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        values[f"listener.name.{name}.plain.sasl.jaas.config"] = f'{plain} required user_{USER}="{PASSWORD}";'
    file, log = home / "node.properties", home / "node.log"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    users = [f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in MECHANISMS if mechanism != "PLAIN"]
    more = [one for user in users for one in ("--add-scram", user)]
    identity = command("random-id").stdout.strip()
    ran = command("format", "--config", str(file), "--cluster-id", identity, "--standalone", *more)
    assert ran.returncode == 0, ran.stderr
    node = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
        cwd=ROOT,
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
    )
    try:
        until(lambda: "serves clients" in log.read_text())
        servers = dict(zip(PROTOCOLS, (f"127.0.0.1:{port}" for port in ports), strict=True))
        yield lambda protocol, mechanism: Way(servers[protocol], protocol, mechanism, home / "ca.pem")
        assert "Traceback" not in log.read_text()
    finally:
        node.terminate()
        node.wait(30)


def kcat(way: Way, topic: str, request: pytest.FixtureRequest) -> tuple[list[str], set[str]]:
    if shutil.which("kcat") is None:
        pytest.skip("no kcat on the path: `make kafka` installs it")

    def call(*arguments: str, stdin: str = "") -> str:
        given = [one for name, value in way.rdkafka().items() for one in ("-X", f"{name}={value}")]
        done = subprocess.run(
            ["kcat", *given, *arguments], input=stdin, capture_output=True, text=True, timeout=2 * SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call("-P", "-t", topic, "-X", "acks=all", stdin="\n".join(VALUES))
    wanted = ("-G", f"group-{topic}", "-X", "auto.offset.reset=earliest", "-c", str(len(VALUES)), "-q", topic)
    read = call(*wanted).splitlines()
    return read, {line.split('"')[1] for line in call("-L").splitlines() if line.strip().startswith("topic ")}


def librdkafka(way: Way, topic: str, request: pytest.FixtureRequest) -> tuple[list[str], set[str]]:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer(way.rdkafka() | {"acks": "all"})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    consumer = confluent_kafka.Consumer(way.rdkafka() | {"group.id": f"group-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = [one.value().decode() for one in consumer.consume(len(VALUES), SECONDS)]
    listed = set(consumer.list_topics(timeout=SECONDS).topics)
    consumer.close()
    return read, listed


def kafka_python(way: Way, topic: str, request: pytest.FixtureRequest) -> tuple[list[str], set[str]]:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(**way.python(), acks="all")
    for value in VALUES:
        producer.send(topic, value.encode()).get(SECONDS)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        **way.python(),
        group_id=f"group-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=1000 * SECONDS,
    )
    read = [next(consumer).value.decode() for _ in VALUES]
    listed = set(consumer.topics())
    consumer.close()
    return read, listed


def aiokafka(way: Way, topic: str, request: pytest.FixtureRequest) -> tuple[list[str], set[str]]:
    client = pytest.importorskip("aiokafka")

    async def story() -> tuple[list[str], set[str]]:
        async with client.AIOKafkaProducer(**way.python(), acks="all") as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value.encode())
        reader = client.AIOKafkaConsumer(topic, **way.python(), group_id=f"group-{topic}", auto_offset_reset="earliest")
        async with reader:
            read = [(await reader.getone()).value.decode() for _ in VALUES]
            return read, set(await reader.topics())

    return asyncio.run(asyncio.wait_for(story(), 2 * SECONDS))


def java_tools(way: Way, topic: str, request: pytest.FixtureRequest) -> tuple[list[str], set[str]]:
    java: Java = request.getfixturevalue("java")
    home: Path = request.getfixturevalue("tmp_path")
    file = home / "client.properties"
    file.write_text(way.java())
    to = ("--bootstrap-server", way.servers, "--command-config", str(file))
    tools = "org.apache.kafka.tools"
    java.run(f"{tools}.ConsoleProducer", *to, "--topic", topic, stdin="\n".join(VALUES))
    wanted = ("--from-beginning", "--max-messages", str(len(VALUES)), "--timeout-ms", str(1000 * SECONDS))
    read = java.run(f"{tools}.consumer.ConsoleConsumer", *to, "--topic", topic, *wanted)
    return read.splitlines(), set(java.run(f"{tools}.TopicCommand", *to, "--list").split())


class Client(NamedTuple):
    """`use`: (way, topic, fixtures) -> (values that were read, topics that were listed)."""

    use: Callable[[Way, str, pytest.FixtureRequest], tuple[list[str], set[str]]]
    mechanisms: tuple[str, ...]


CLIENTS = {
    # kcat has librdkafka 2.0.2 on many systems, whose SCRAM no node of Kafka 4 takes (docs/security.md).
    "kcat": Client(kcat, ("PLAIN",)),
    "librdkafka": Client(librdkafka, MECHANISMS),
    "kafka-python": Client(kafka_python, MECHANISMS),
    "aiokafka": Client(aiokafka, MECHANISMS),
    "Java": Client(java_tools, ("SCRAM-SHA-512",)),  # of each three JVMs are started
}
CASES = [
    (name, protocol, mechanism)
    for name, client in CLIENTS.items()
    for protocol in PROTOCOLS
    for mechanism in (client.mechanisms if protocol.startswith("SASL") else ("",))
]


@pytest.mark.parametrize(("name", "protocol", "mechanism"), CASES, ids=["-".join(filter(None, one)) for one in CASES])
def test_a_client_produces_consumes_and_lists(
    way: Callable[[str, str], Way], request: pytest.FixtureRequest, name: str, protocol: str, mechanism: str
) -> None:
    topic = f"{name}-{protocol}-{mechanism}".lower().replace("_", "-")
    read, listed = CLIENTS[name].use(way(protocol, mechanism), topic, request)
    assert read == VALUES
    assert topic in listed
