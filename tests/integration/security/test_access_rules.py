"""Access rules with real clients: what is denied at first, allowed by a rule, and denied again when it is gone."""

from typing import Any

import pytest

from tests.integration.conftest import Java, until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, SecureCluster, settings

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
ERROR = confluent_kafka.KafkaError


def as_admin(cluster: SecureCluster) -> Any:
    return admin.AdminClient(settings(cluster, "PLAIN", ADMIN, ADMIN_PASSWORD))


def rule(
    kind: str, name: str, operation: str, *, prefixed: bool = False, allow: bool = True, who: str = "alice"
) -> Any:
    return admin.AclBinding(
        getattr(admin.ResourceType, kind),
        name,
        admin.ResourcePatternType.PREFIXED if prefixed else admin.ResourcePatternType.LITERAL,
        f"User:{who}",
        "*",
        getattr(admin.AclOperation, operation),
        admin.AclPermissionType.ALLOW if allow else admin.AclPermissionType.DENY,
    )


def create(cluster: SecureCluster, *rules: Any) -> None:
    client = as_admin(cluster)
    for future in client.create_acls(list(rules)).values():
        future.result(20)


def delete(cluster: SecureCluster, name: str) -> int:
    anything = admin.AclBindingFilter(
        admin.ResourceType.ANY,
        name,
        admin.ResourcePatternType.ANY,
        None,
        None,
        admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )
    client = as_admin(cluster)
    (future,) = client.delete_acls([anything]).values()
    return len(future.result(20))


def written(cluster: SecureCluster, topic: str) -> int | None:
    """The error of a record that alice sends to a topic; None: it is there."""
    producer = confluent_kafka.Producer(
        settings(cluster, "PLAIN", "alice", "alice-secret") | {"message.timeout.ms": 10_000}
    )
    errors: list[Any] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(15)
    (error,) = errors
    return None if error is None else error.code()


def read(cluster: SecureCluster, topic: str, group: str) -> int | None:
    """The first error that alice gets in reading a topic with a group; None: a record."""
    consumer = confluent_kafka.Consumer(
        settings(cluster, "PLAIN", "alice", "alice-secret") | {"group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        for _ in range(100):
            message = consumer.poll(0.2)
            if message is not None:
                return None if message.error() is None else message.error().code()
    except confluent_kafka.KafkaException as error:
        return error.args[0].code()
    finally:
        consumer.close()
    raise AssertionError("nothing came")


def test_a_user_may_do_what_rules_allow_and_nothing_else(secure: SecureCluster, name: str) -> None:
    client = as_admin(secure)
    client.create_topics([admin.NewTopic(name, 1, 2)])[name].result(20)
    assert written(secure, name) == ERROR.TOPIC_AUTHORIZATION_FAILED
    create(secure, rule("TOPIC", name[:6], "WRITE", prefixed=True))
    until(lambda: written(secure, name) is None)
    assert read(secure, name, name) in (ERROR.TOPIC_AUTHORIZATION_FAILED, ERROR.GROUP_AUTHORIZATION_FAILED)
    create(secure, rule("TOPIC", name, "READ"))
    until(lambda: read(secure, name, name) == ERROR.GROUP_AUTHORIZATION_FAILED)
    create(secure, rule("GROUP", name, "READ"))
    until(lambda: read(secure, name, name) is None)
    create(secure, rule("TOPIC", name, "WRITE", allow=False))
    until(lambda: written(secure, name) == ERROR.TOPIC_AUTHORIZATION_FAILED)
    assert delete(secure, name) == 3
    until(lambda: written(secure, name) is None)
    assert delete(secure, name[:6]) == 1
    until(lambda: written(secure, name) == ERROR.TOPIC_AUTHORIZATION_FAILED)
    assert secure.said(f"User:alice is denied WRITE from 127.0.0.1 on TOPIC:{name}")


def test_a_topic_that_may_not_be_described_is_not_in_the_list(secure: SecureCluster, name: str) -> None:
    client = as_admin(secure)
    for topic in (name, f"{name}-seen"):
        client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(20)
    create(secure, rule("TOPIC", f"{name}-seen", "DESCRIBE", who="bob"))
    bob = admin.AdminClient(settings(secure, "PLAIN", "bob", "bob-secret"))
    until(lambda: set(bob.list_topics(timeout=10).topics) == {f"{name}-seen"})
    with pytest.raises(confluent_kafka.KafkaException) as denied:
        bob.create_topics([admin.NewTopic(f"{name}-new", 1, 1)])[f"{name}-new"].result(20)
    assert denied.value.args[0].code() == ERROR.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(confluent_kafka.KafkaException) as denied:
        (future,) = bob.create_acls([rule("TOPIC", "*", "ALL", who="bob")]).values()
        future.result(20)
    assert denied.value.args[0].code() == ERROR.CLUSTER_AUTHORIZATION_FAILED


def test_kafka_acls_and_kafka_configs(secure: SecureCluster, java: Java, name: str, tmp_path: Any) -> None:
    properties = tmp_path / "admin.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ADMIN}" password="{ADMIN_PASSWORD}";\n'
    )
    reach = ("--bootstrap-server", secure.bootstrap_servers, "--command-config", str(properties))
    acls = "org.apache.kafka.tools.AclCommand"
    java.run(acls, *reach, "--add", "--allow-principal", "User:carol", "--producer", "--topic", name)
    shown = java.run(acls, *reach, "--list", "--topic", name)
    assert all(f"operation={word}" in shown for word in ("WRITE", "DESCRIBE", "CREATE")) and "User:carol" in shown
    java.run(acls, *reach, "--remove", "--force", "--topic", name)
    assert "User:carol" not in java.run(acls, *reach, "--list", "--topic", name)
    configs = "kafka.admin.ConfigCommand"
    scram = ("--entity-type", "users", "--entity-name", name)
    java.run(configs, *reach, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=4096,password=p]", *scram)
    until(lambda: "SCRAM-SHA-512=iterations=4096" in java.run(configs, *reach, "--describe", *scram))
