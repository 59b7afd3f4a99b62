"""The tables of metrics as tables: names, kinds, sources; and what a node's requests and its memory for peers show."""

import re
from collections import Counter
from typing import Any

import pytest

from actors.host.loop import OF_SOCKETS
from actors.host.metrics.process import EVERY
from actors.metadata.ops import PartitionsSet, TopicSet
from actors.node.metrics import families
from actors.node.metrics.family import COUNTER, SUMMARY
from actors.wire.messages import message
from tests.numbers import numbers
from tests.unit.node.net.test_request_channel import CONTROL, PLAIN, Lab, topics, versions

ALL = [*families(), *OF_SOCKETS, *EVERY]


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


def test_names_are_legal_in_small_letters_and_stand_once() -> None:
    counted = Counter(one.name for one in ALL)
    assert not [name for name, times in counted.items() if times > 1]
    assert not [name for name in counted if not re.fullmatch(r"(kafka|rayft|process|python)_[a-z0-9_]+", name)]
    assert all(one.help.endswith(".") for one in ALL)


def test_kinds_are_told_by_names() -> None:
    assert all(one.name.endswith("_total") is (one.kind == COUNTER) for one in ALL)
    taken = {one.name for one in ALL}
    for one in ALL:
        if one.kind == SUMMARY:
            assert not taken & {one.name + "_count", one.name + "_sum"}
    assert all(one.name.startswith("rayft_") or one.source or not one.name.startswith("kafka") for one in ALL)


def test_each_counter_of_connections_is_shown_under_its_own_name(lab: Lab) -> None:
    lab.node.requests.failed_logins = 3
    lab.node.requests.expired = [5, 7]
    found = lab.metrics()
    assert found["rayft_failed_logins_total"] == 3
    assert found["kafka_network_socketserver_expiredconnectionskilledcount"] == 5
    assert found["kafka_network_socketserver_controlplaneexpiredconnectionskilledcount"] == 7


def test_memory_kept_for_peers_is_shown_by_owner_and_by_principal(lab: Lab) -> None:
    ledger: Any = lab.node.runtime.ledger
    account = ledger.account("tests", 1 << 20)
    assert account.charge("User:alice", 100) and account.charge("User:b=b", 20)
    found = lab.metrics()
    kept = 'rayft_peer_memory_bytes{{owner="{}"}}'.format
    owners = dict(ledger.kept())
    assert owners["tests"] == 120
    assert {kept(name): size for name, size in owners.items()} == {
        name: value for name, value in found.items() if name.startswith("rayft_peer_memory_bytes{")
    }
    assert not account.charge("User:alice", 1 << 20)
    found = lab.metrics()
    assert found['rayft_peer_memory_refused_total{owner="tests"}'] == 1
    of = {name: value for name, value in found.items() if name.startswith("rayft_peer_memory_principal_bytes{")}
    assert of == {
        'rayft_peer_memory_principal_bytes{principal="User:alice"}': 100,
        'rayft_peer_memory_principal_bytes{principal="User:b=b"}': 20,
    }


def test_requests_are_counted_by_api_version_and_listener_when_they_are_answered() -> None:
    lab = Lab()
    one, other = lab.connect(PLAIN), lab.connect(CONTROL)
    lab.send(one, "Metadata", 9, topics())
    lab.send(one, "ApiVersions", 3, versions())
    lab.send(other, "ApiVersions", 3, versions())
    requests = 'kafka_network_requestmetrics_requests_total{{request="{}",version="{}"}}'.format
    assert requests("Metadata", 9) not in lab.metrics(), "none is answered"
    lab.turn()
    lab.node.sent(0)
    found = lab.metrics()
    assert found[requests("Metadata", 9)] == 1 and found[requests("ApiVersions", 3)] == 2
    assert found['kafka_network_requestmetrics_errors_total{request="ApiVersions",error="NONE"}'] == 2
    assert found['kafka_network_requestmetrics_totaltimems_count{request="Metadata"}'] == 1
    for listener, requested in ((PLAIN, 2), (CONTROL, 1)):
        door = f'{{listener="{listener}",networkProcessor="0"}}'
        prefix = "kafka_server_socket_server_metrics_"
        assert found[f"{prefix}request_total{door}"] == found[f"{prefix}response_total{door}"] == requested
        assert found[f"{prefix}connection_count{door}"] == 1
        assert found[f"{prefix}incoming_byte_total{door}"] > 8
    lab.node.closed(one, False)
    lab.turn()
    assert (
        lab.metrics()[f'kafka_server_socket_server_metrics_connection_count{{listener="{PLAIN}",networkProcessor="0"}}']
        == 0
    )


def test_errors_of_topics_count_though_they_are_written_without_an_object() -> None:
    lab = Lab()
    conn = lab.connect(PLAIN)
    kind = message("MetadataRequest")
    request = kind(topics=[kind.MetadataRequestTopic(name="x")], allow_auto_topic_creation=False)
    lab.send(conn, "Metadata", 9, request)
    described = message("DescribeTopicPartitionsRequest")
    for name in ("x", "y/y"):
        lab.send(conn, "DescribeTopicPartitions", 0, described(topics=[described.TopicRequest(name=name)]))
    image = lab.node.broker.cache.image
    replicas = [[1], [1], [9]]
    for op in (TopicSet("t", bytes([1]) * 16), PartitionsSet(bytes([1]) * 16, range(3), replicas, replicas)):
        image.replay(image.next_offset, op)
        image.commit(image.next_offset)
    for _ in range(2):
        lab.send(conn, "Metadata", 9, topics())
    lab.turn()
    found = lab.metrics()
    errors = 'kafka_network_requestmetrics_errors_total{{request="{}",error="{}"}}'.format
    assert {name: value for name, value in found.items() if "errors_total" in name and "Versions" not in name} == {
        errors("Metadata", "NONE"): 3 + 2 * (1 + 2),
        errors("Metadata", "LEADER_NOT_AVAILABLE"): 2,
        errors("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        errors("DescribeTopicPartitions", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        errors("DescribeTopicPartitions", "INVALID_TOPIC_EXCEPTION"): 1,
    }


def test_reading_changes_nothing(lab: Lab) -> None:
    assert {name for name in lab.metrics() if name} == set(numbers(lab.node.metrics()))
