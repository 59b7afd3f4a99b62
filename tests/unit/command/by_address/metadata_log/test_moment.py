"""`--as-of`: the listings of an earlier moment, out of a metadata log that Apache Kafka wrote and out of one of our own."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from actors.command import cli
from actors.metadata.ops import ConfigSet, EntitySet, FeatureSet, Op, PartitionsSet, TopicSet
from actors.wire.errors import ErrorCode
from tests.unit.arrow.controller import FETCH, Controller
from tests.unit.arrow.test_metadata_replay import GOLDEN, snapshot, stored
from tests.unit.replay import metadata_logs


def ran(capsys: pytest.CaptureFixture[str], leader: Controller, *words: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of the command."""
    try:
        code = cli.main([*words, "-b", leader.address])
    except SystemExit as end:
        code = int(end.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_topics_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    with Controller(stored(GOLDEN)) as leader:
        for moment, short in (("2026-11-21T08:59:27", 0), ("2026-11-21T08:59:30", 2), ("2026-11-21T09:00:39", 0)):
            code, out, _ = ran(capsys, leader, "topic", "list", "-o", "json", "--as-of", moment)
            (row,) = [one for one in json.loads(out) if one["topic"] == "t1"]
            assert (code, row["partitions"], row["replicas"], row["under_replicated"]) == (0, 2, 2, short), moment
        code, out, _ = ran(capsys, leader, "topic", "describe", "t1", "--as-of", "2026-11-21T08:59:30")
        assert (code, [line.split() for line in out.splitlines()]) == (0, [
            ["topic", "partition", "leader", "epoch", "replicas", "isr"],
            ["t1", "0", "1", "1", "2", "1", "1"],
            ["t1", "1", "1", "0", "1", "2", "1"],
        ])  # fmt: skip
        code, out, err = ran(capsys, leader, "topic", "describe", "t1", "--as-of", "100")
        assert (code, out) == (1, "") and err == (
            "rayft: topic t1 did not exist then: rayft topic list with that --as-of shows those that did\n"
        )
        code, out, _ = ran(capsys, leader, "config", "get", "topic:t1", "--as-of", "2026-11-21T08:59:30")
        assert code == 0 and ["retention.ms", "3600000", "topic"] in [line.split() for line in out.splitlines()]
        for words in (("topic", "describe", "t1"), ("topic", "list"), ("config", "get", "brokers")):
            code, out, err = ran(capsys, leader, *words, "--as-of", "yesterday")
            assert (code, out) == (2, "") and err == (
                "rayft: --as-of: 'yesterday' is no moment: write an offset, a time of day such as 14:02, or "
                "2026-11-21T14:02\n"
            )


def acl(name: str, operation: int) -> EntitySet:
    key = (2, name, 3, "User:alice", "*", operation, 3)
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    return EntitySet("acl", key, tuple(zip(names, key, strict=True)))


def user(name: str, mechanism: int) -> EntitySet:
    fields = {
        "name": name,
        "mechanism": mechanism,
        "salt": b"s",
        "stored_key": b"k",
        "server_key": b"k",
        "iterations": 4096,
    }
    return EntitySet("scram", (name, mechanism), tuple(fields.items()))


def quota(entity: tuple[tuple[str, str | None], ...], key: str, value: float) -> EntitySet:
    return EntitySet("quota", (entity, key), (("entity", entity), ("key", key), ("value", value)))


OPS: list[Op] = [
    FeatureSet("metadata.format", 2),
    TopicSet("orders", metadata_logs.TOPIC),
    PartitionsSet(metadata_logs.TOPIC, range(1), [[1]], [[1]]),
    ConfigSet(4, "", "log.retention.ms", "5"),
    ConfigSet(4, "1", "log.cleaner.threads", "2"),
    ConfigSet(4, "1", "listener.name.x.ssl.keystore.password", "hush"),
    acl("orders", 3),
    acl("others", 99),
    user("alice", 1),
    user("bob", 2),
    quota((("client-id", None), ("user", "alice")), "producer_byte_rate", 1.5),
    quota((("ip", "1.2.3.4"),), "connection_creation_rate", 7.0),
]


@pytest.fixture(scope="module")
def own() -> Any:
    with Controller(metadata_logs.batches(OPS, 1), "@metadata") as leader:
        yield leader


LISTINGS: dict[tuple[str, ...], Any] = {
    ("acl", "list"): ["orders", "others"],
    ("acl", "list", "--operation", "read"): ["orders"],
    ("acl", "list", "--topic", "none"): [],
    ("user", "list"): ["alice", "bob"],
    ("user", "list", "bob"): ["bob"],
    ("quota", "list"): [7.0, 1.5],
    ("quota", "list", "--user", "alice"): [1.5],
    ("quota", "list", "--default-user"): [],
    ("config", "get", "brokers"): ["5"],
    ("config", "get", "broker:1"): [None, "2"],
    ("config", "get", "broker:1", "log.cleaner.threads"): ["2"],
    ("config", "get", "group:1"): [],
}
COLUMN = {"acl": "resource", "user": "user", "quota": "value", "config": "value"}


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_rules_users_quotas_and_settings_as_they_were(
    words: tuple[str, ...], own: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    last = own.high_watermark
    code, out, err = ran(capsys, own, *words, "-o", "json", "--as-of", str(last))
    assert (code, err) == (0, "")
    assert [row[COLUMN[words[0]]] for row in json.loads(out)] == LISTINGS[words]
    code, out, _ = ran(capsys, own, *words, "-o", "json", "--as-of", "1")
    assert json.loads(out) == [] and "hush" not in out


def test_what_was_before_the_newest_snapshot_is_there_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = metadata_logs.batches(OPS, 1)
    directory = metadata_logs.write(tmp_path, log)
    with Controller(log) as leader:
        leader.snapshots = [snapshot(directory, leader.high_watermark)]
        code, out, err = ran(capsys, leader, "topic", "list", "-o", "json", "--as-of", "4")
    assert (code, err) == (0, "") and [row["topic"] for row in json.loads(out)] == ["orders"]


def test_a_user_who_had_no_password_then(own: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, own, "user", "list", "bob", "nobody", "--as-of", str(own.high_watermark))
    assert code == 1 and "bob" in out and err == "rayft: user nobody had no password then\n"


def test_what_is_to_be_granted_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Controller(stored(GOLDEN)) as leader:
        leader.server.answers["Fetch"] = FETCH(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        code, out, err = ran(capsys, leader, "acl", "list", "--as-of", "14:02")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "grant it CLUSTER_ACTION on the cluster (rayft acl add --cluster --operation cluster_action" in err
