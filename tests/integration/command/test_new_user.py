"""A user from the first password to a record that was read, and to the end of the password: typed against clusters of both
kinds whose brokers ask who it is."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import rayft
from actors.settings.properties import properties
from bench import apache
from bench.ports import free_ports
from tests.integration.command.typed import APACHE, Ran, typed
from tests.integration.conftest import until

pytestmark = pytest.mark.timeout(300)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Asking(NamedTuple):
    """A cluster whose brokers ask who it is."""

    servers: str
    operator: Path | None
    """The properties of somebody who may do everything; None: whoever comes to `servers`."""
    logins: str
    """host:port of the listener for others."""
    login: dict[str, str]
    """The properties of a client there, without the login itself."""

    def typed(self, *words: str, stdin: bytes = b"") -> Ran:
        """Run `rayft` as the operator."""
        return typed(self.servers, *words, stdin=stdin, config=self.operator)

    def config(self, file: Path, user: str, password: str, mechanism: str) -> Path:
        """Write the properties of a user."""
        given = self.login | {
            "bootstrap.servers": self.logins, "sasl.mechanism": mechanism, "request.timeout.ms": "10000",
            "sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}";',
        }  # fmt: skip
        file.write_text("".join(f"{name}={value}\n" for name, value in given.items()), "latin-1")
        return file


@pytest.fixture(scope="module", params=["rayft", pytest.param("kafka", marks=pytest.mark.slow)])
def asking(request: pytest.FixtureRequest) -> Iterator[Asking]:
    if request.param == "rayft":
        with rayft.Cluster(controllers=1, brokers=1, secure=True) as cluster:
            file = Path(cluster.dir) / "security" / "client.properties"
            login = properties(file.read_text("latin-1"))
            yield Asking(cluster.bootstrap_servers, file, cluster.bootstrap_servers, login)
        return
    if apache.libs() is None:
        pytest.skip("no java, or Apache Kafka's jars are not in .kafka/libs: `make kafka` fetches them")
    (port,) = free_ports(1)
    kafka = apache.ApacheKafka(controllers=0, brokers=1, config=APACHE, heap="320m")
    kafka._config |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{kafka.broker_ports[1]},CONTROLLER://127.0.0.1:{kafka._voters[1]},"
        f"LOGIN://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with kafka:
        login = {"security.protocol": "SASL_PLAINTEXT"}
        yield Asking(kafka.bootstrap_servers, None, f"127.0.0.1:{port}", login)


@pytest.mark.parametrize("mechanism", [pytest.param("SCRAM-SHA-256", marks=pytest.mark.slow), "SCRAM-SHA-512"])
def test_a_user_from_the_first_password_to_the_last(asking: Asking, name: str, mechanism: str, tmp_path: Path) -> None:
    config = asking.config(tmp_path / "user.properties", name, "pässword, with = and ,", mechanism)
    assert asking.typed("topic", "create", name, "-p", "1", "-r", "1").code == 0

    def mine(*words: str, stdin: bytes = b"") -> Ran:
        return typed("", *words, stdin=stdin, config=config)

    refused = mine("topic", "list")
    assert refused.code == 1 and "the name or the password is wrong" in refused.err and refused.err.count("\n") == 1
    password = "pässword, with = and ,\n".encode()
    assert asking.typed("user", "set", name, "--mechanism", mechanism, stdin=password).code == 0
    until(lambda: mine("topic", "list").code == 0)
    assert name not in mine("topic", "list").text
    forbidden = mine("topic", "describe", name)
    assert forbidden.code == 1 and forbidden.err.count("\n") == 1
    words = ("--principal", f"User:{name}", "--topic", name)
    ran = asking.typed("acl", "add", *words, "--operation", "read", "--operation", "write", "--operation", "describe")
    assert ran.code == 0 and len(ran.out.splitlines()) == 4, ran
    until(lambda: name in mine("topic", "list").text)
    assert asking.typed("produce", name, stdin=b"for you\n").code == 0
    assert mine("consume", name, "--exit").text == "for you\n"
    assert asking.typed("acl", "add", *words, "--operation", "read", "--deny").code == 0
    until(lambda: mine("consume", name, "--exit").code == 1)
    assert asking.typed("acl", "remove", "--topic", name, "--all").text.count(name) == 8  # four rules with it twice
    assert asking.typed("user", "delete", name).text == f"deleted the {mechanism} password of user {name}\n"
    until(lambda: "the name or the password is wrong" in mine("topic", "list").err)
