"""What the variables of an image mean, and what a container that is not started says."""

import re

import pytest

from actors.testing.container import STARTED, KafkaContainer, broker_settings


def test_variables_are_settings_but_for_what_the_cluster_decides() -> None:
    env = {
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false", "KAFKA_LOG_RETENTION_MS": "5", "KAFKA_A___B__C": "d",
        "KAFKA_ADVERTISED_LISTENERS": "x", "KAFKA_NODE_ID": "7", "KAFKA_HEAP_OPTS": "-Xmx1g", "CLUSTER_ID": "y",
        "KAFKA_JMX_PORT": "1", "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO", "KAFKA_LOG_DIRS": "/x",
    }  # fmt: skip
    assert broker_settings(env) == {"auto.create.topics.enable": "false", "log.retention.ms": "5", "a_b-c": "d"}


def test_a_port_of_the_host_is_the_brokers_and_without_one_a_free_one_is() -> None:
    assert KafkaContainer().bound_port == KafkaContainer().with_bind_ports(9093).bound_port == 0
    assert KafkaContainer().with_bind_ports(9093, 19093).bound_port == 19093


@pytest.mark.parametrize("host", [19093, "19093", ("127.0.0.1", 19093), ["127.0.0.1", "19093"]])
def test_a_port_is_said_as_for_docker(host: object) -> None:
    assert KafkaContainer().with_bind_ports("9093/tcp", host).bound_port == 19093
    assert KafkaContainer().with_bind_ports(9093, ("127.0.0.1", None)).bound_port == 0


def test_of_several_ports_the_brokers_own_counts_in_any_order() -> None:
    ports = {9093: 19093, 9101: 19101}
    for order in (list(ports), list(ports)[::-1]):
        one = KafkaContainer()
        for port in order:
            one.with_bind_ports(port, ports[port])
        assert one.bound_port == 19093
    assert KafkaContainer(port=9092).with_bind_ports(9094, 19094).with_bind_ports(9101, 19101).bound_port == 19094


@pytest.mark.parametrize("wanted", [r"\[KafkaServer id=\d+\] started", "Kafka Server started"])
def test_the_lines_that_suites_wait_for_are_among_those_of_the_log(wanted: str) -> None:
    assert re.search(f".*{wanted}.*", STARTED.decode())


def test_what_a_suite_says_of_images_and_networks_is_taken() -> None:
    one = KafkaContainer("confluentinc/cp-kafka:7.6.0", port=9093, wait_strategy_check_string="x")
    assert one.with_kraft().with_bind_ports(9093, 9093).with_name("n").with_network("x").with_env("KAFKA_A", 1) is one
    assert one.with_envs(KAFKA_B="2").env == {"KAFKA_A": "1", "KAFKA_B": "2"}
    with pytest.raises(AttributeError, match="has no 'exec'"):
        one.exec("ls")
    with pytest.raises(RuntimeError, match=r"call start\(\)"):
        one.get_bootstrap_server()
    one.stop()
