"""Every table of the state, from released Kafka's records."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.replay.columns import tables
from actors.wire.messages import message
from tests.unit.replay import metadata_logs

DIRECTORY, TEXT = bytes([255]) * 16, "_____________________w"
TIME = datetime.datetime.fromtimestamp(5, datetime.UTC)


def struct(record: str, kind: str, /, **fields: Any) -> Any:
    return getattr(message(f"metadata:{record}"), kind)(**fields)


PLAIN = {
    "partition_id": 0, "topic_id": metadata_logs.TOPIC, "replicas": [1, 2], "isr": [2], "removing_replicas": [],
    "adding_replicas": [], "leader": 2, "leader_epoch": 3, "partition_epoch": 7, "directories": [DIRECTORY, bytes(16)],
}  # fmt: skip
MOVING = PLAIN | {
    "partition_id": 1, "replicas": [1, 2, 3], "isr": [], "leader": -1, "removing_replicas": [1], "adding_replicas": [3],
    "leader_recovery_state": 1, "eligible_leader_replicas": [2], "last_known_elr": [1, 3], "directories": [],
}  # fmt: skip
WIDE = PLAIN | {
    "partition_id": 2, "replicas": list(range(40, 0, -1)), "isr": [1, 40, 3], "leader": 1, "directories": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    endpoint = struct(
        "RegisterBrokerRecord", "BrokerEndpoint", name="SASL", host="host", port=65535, security_protocol=3
    )
    feature = struct(
        "RegisterBrokerRecord", "BrokerFeature", name="f", min_supported_version=1, max_supported_version=2
    )
    entity = [
        struct("ClientQuotaRecord", "EntityData", entity_type=kind, entity_name=name)
        for kind, name in (("user", "alice"), ("client-id", None))
    ]
    rule = {
        "id": DIRECTORY, "resource_type": 2, "resource_name": "orders", "pattern_type": 4, "principal": "User:alice",
        "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    token = {
        "owner": "User:a", "requester": "User:b", "renewers": ["User:c"], "issue_timestamp": 1000,
        "max_timestamp": 9000, "expiration_timestamp": 5000, "token_id": "t1",
    }  # fmt: skip
    scram = {"name": "alice", "mechanism": 2, "salt": b"s", "stored_key": b"k", "server_key": b"v", "iterations": 8192}
    broker = {
        "broker_id": 2, "broker_epoch": 9, "incarnation_id": DIRECTORY, "end_points": [endpoint], "features": [feature],
        "rack": "r1", "fenced": True, "log_dirs": [DIRECTORY],
    }  # fmt: skip
    batch = metadata_logs.released(
        [
            (0, 3, "RegisterBrokerRecord", broker),
            (2, 0, "TopicRecord", {"name": "orders", "topic_id": metadata_logs.TOPIC}),
            *((3, 2, "PartitionRecord", fields) for fields in (PLAIN, MOVING, WIDE)),
            (4, 0, "ConfigRecord", {"resource_type": 4, "resource_name": "", "name": "ssl.key.password", "value": "x"}),
            (12, 0, "FeatureLevelRecord", {"name": "metadata.version", "feature_level": 30}),
            (18, 0, "AccessControlEntryRecord", rule),
            (
                14,
                0,
                "ClientQuotaRecord",
                {"entity": entity, "key": "producer_byte_rate", "value": 1.5, "remove": False},
            ),
            (11, 0, "UserScramCredentialRecord", scram),
            (10, 0, "DelegationTokenRecord", token),
            (15, 0, "ProducerIdsRecord", {"broker_id": 2, "broker_epoch": 9, "next_producer_id": 1000}),
        ]
    )
    path = metadata_logs.write(tmp_path_factory.mktemp("state"), [batch], metadata_logs.RELEASED)
    found = replay.state(path)
    for name, table in found.items():
        table.validate(full=True)
        assert table.schema.equals(tables.SCHEMAS[name])
    return {name: table.to_pylist() for name, table in found.items()}


def test_partitions(state: dict[str, list[dict[str, Any]]]) -> None:
    plain, moving, wide = state["partitions"]
    nothing: dict[str, list[int]] = {"adding": [], "removing": [], "elr": [], "last_known_elr": []}
    assert plain == {
        "topic": "orders", "partition": 0, "leader": 2, "leader_epoch": 3, "replicas": [1, 2], "isr": [2],
        "under_replicated": True, "partition_epoch": 7, **nothing, "recovering": False,
        "directories": [TEXT, "A" * 22], "topic_id": tables.uuid(metadata_logs.TOPIC),
    }  # fmt: skip
    assert moving == plain | {
        "partition": 1, "leader": None, "replicas": [1, 2, 3], "isr": [], "adding": [3], "removing": [1], "elr": [2],
        "last_known_elr": [1, 3], "recovering": True, "directories": [],
    }  # fmt: skip
    assert wide["replicas"] == list(range(40, 0, -1)) and wide["isr"] == [40, 3, 1] and wide["leader"] == 1


def test_the_others(state: dict[str, list[dict[str, Any]]]) -> None:
    assert state["topics"] == [
        {"topic": "orders", "topic_id": tables.uuid(metadata_logs.TOPIC), "partitions": 3, "deleting": False}
    ]
    assert state["brokers"] == [
        {
            "broker": 2, "epoch": 9, "fenced": True, "leaving": False, "rack": "r1",
            "endpoints": [{"name": "SASL", "host": "host", "port": 65535, "protocol": "SASL_SSL"}],
            "features": [{"name": "f", "min": 1, "max": 2}], "replicas": 3, "led": 1, "in_isr": 1,
            "incarnation_id": TEXT, "log_dirs": [TEXT], "cordoned_log_dirs": [],
        }
    ]  # fmt: skip
    assert state["configs"] == [
        {"resource_type": "broker", "resource": "", "name": "ssl.key.password", "value": "(hidden)"}
    ]
    assert state["features"] == [{"feature": "metadata.version", "level": 30}]
    assert state["acls"] == [
        {
            "resource_type": "topic", "resource": "orders", "pattern": "prefixed", "principal": "User:alice", "host": "*",
            "operation": "read", "permission": "allow", "id": TEXT,
        }
    ]  # fmt: skip
    entity = [{"type": "user", "name": "alice"}, {"type": "client-id", "name": None}]
    assert state["quotas"] == [{"entity": entity, "quota": "producer_byte_rate", "value": 1.5}]
    assert state["scram"] == [{"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192}]
    assert state["producer_ids"] == [{"broker": 2, "broker_epoch": 9, "next_producer_id": 1000}]
    (token,) = state["tokens"]
    assert (token["token"], token["owner"], token["renewers"], token["expires"]) == ("t1", "User:a", ["User:c"], TIME)


def test_a_table_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no table 'partition' of a moment"):
        replay.state(metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 3)), None, ["partition"])


def test_a_notebook_shows_how_much_there_is() -> None:
    log = Path(__file__).parents[3] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
    found = replay.state(log)
    assert isinstance(found, dict) and isinstance(found, tables.Tables)
    shown = found._repr_html_()
    assert f"<td>partitions</td><td>{len(found['partitions'])}</td><td>topic, partition," in shown
    with replay.History(log) as history:
        assert history.state() == found and isinstance(history.state(), tables.Tables)
