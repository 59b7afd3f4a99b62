"""Who logs in how, with real clients: PLAIN and SCRAM, right and wrong passwords, and what a stranger may ask."""

import time
from typing import Any

import pytest

from actors.wire.errors import ErrorCode
from tests.integration.answers.dialogue import Broker, Closed, request
from tests.integration.conftest import until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, SecureCluster, settings

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")


def as_admin(cluster: SecureCluster) -> Any:
    return admin.AdminClient(settings(cluster, "PLAIN", ADMIN, ADMIN_PASSWORD))


def test_nodes_find_each_other_and_an_operator_makes_a_topic_on_both(secure: SecureCluster) -> None:
    client = as_admin(secure)
    until(lambda: len(client.list_topics(timeout=10).brokers) == 2)
    client.create_topics([admin.NewTopic("both", 2, 2)])["both"].result(20)
    producer = confluent_kafka.Producer(settings(secure, "PLAIN", ADMIN, ADMIN_PASSWORD) | {"acks": "all"})
    failed: list[Any] = []
    for number in range(100):
        producer.produce("both", str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(20) == 0 and not failed


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_scram_credentials_logs_in_until_they_are_gone(secure: SecureCluster, mechanism: str) -> None:
    kind = getattr(admin.ScramMechanism, mechanism.replace("-", "_"))
    name = f"scram-{mechanism[-3:]}"
    client = as_admin(secure)
    info = admin.ScramCredentialInfo(kind, 8192)
    credential = admin.UserScramCredentialUpsertion(name, info, b"right")
    client.alter_user_scram_credentials([credential])[name].result(10)
    told = client.describe_user_scram_credentials([name])[name].result(10)
    assert [(one.mechanism, one.iterations) for one in told.scram_credential_infos] == [(kind, 8192)]

    def logs_in(password: str) -> bool:
        consumer = confluent_kafka.Consumer(settings(secure, mechanism, name, password) | {"group.id": "g"})
        try:
            return len(consumer.list_topics(timeout=2).brokers) == 2
        except confluent_kafka.KafkaException:
            return False
        finally:
            consumer.close()

    until(lambda: logs_in("right"))
    said = f"its login failed: a wrong password, or an unknown user: '{name}'"
    until(lambda: not logs_in("wrong") and secure.said(said))  # a host has so many lines an interval
    client.alter_user_scram_credentials([admin.UserScramCredentialDeletion(name, kind)])[name].result(10)
    until(lambda: not logs_in("right"))


def test_who_has_not_logged_in_is_told_nothing(secure: SecureCluster) -> None:
    plain = admin.AdminClient({"bootstrap.servers": secure.bootstrap_servers})

    def refused_and_said() -> bool:
        with pytest.raises(confluent_kafka.KafkaException):
            plain.list_topics(timeout=2)
        return secure.said("is not served on listener BROKER to a peer that has not logged in")

    until(refused_and_said)  # a host has so many lines an interval, and clients of other tests may have used them


def test_a_wrong_password_takes_time_and_says_nothing(secure: SecureCluster) -> None:
    errors: list[Any] = []
    client = admin.AdminClient(settings(secure, "PLAIN", "alice", "guess") | {"error_cb": errors.append})
    end = time.monotonic() + 20
    while not errors and time.monotonic() < end:
        client.poll(0.1)
    codes = {error.code() for error in errors}
    assert confluent_kafka.KafkaError._AUTHENTICATION in codes
    assert not any("alice" in error.str() and "password" in error.str() for error in errors)


def test_versions_are_asked_for_before_a_login_and_not_within_it(secure: SecureCluster) -> None:
    host, _, port = secure.bootstrap_servers.partition(":")
    broker = Broker((host, int(port)))
    versions = request("ApiVersions", client_software_name="test", client_software_version="1")
    assert broker.ask("ApiVersions", 3, versions).error_code == ErrorCode.NONE
    broker.ask("SaslHandshake", 1, request("SaslHandshake", mechanism="PLAIN"))
    assert broker.ask("ApiVersions", 3, versions).error_code == ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(Closed):
        broker.ask("SaslAuthenticate", 2, request("SaslAuthenticate", auth_bytes=b"\0alice\0alice-secret"))
