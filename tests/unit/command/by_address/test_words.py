"""What is typed for the commands by address: which cluster, and what becomes of wrong words."""

import argparse
import socket
from pathlib import Path
from typing import Any

import pytest

from actors.authorization.resources import Operation, Resource
from actors.command import acl, cli
from actors.command.by_address import acls, connection
from actors.host.cluster import plan as plans
from actors.settings.keys import ConfigError


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"bootstrap": None, "config": None, "dir": None, "profile": None} | given)


def test_b_counts_before_the_file_that_before_the_directory_and_the_variable_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(connection.VARIABLE, "env:1")
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:2\nclient.id=mine\n")
    bare = tmp_path / "bare.properties"
    bare.write_text("client.id=mine\n")
    home = tmp_path / "home"
    plan = plans.create(home, 1, 1, common={})

    def server(**given: Any) -> str:
        return connection.settings(options(**given))["bootstrap.servers"]

    assert server() == "env:1" and server(config=bare) == "env:1"
    assert server(dir=home) == plan.bootstrap_servers
    assert server(dir=home, config=file) == "file:2"
    assert server(dir=home, config=file, bootstrap="typed:3,other:4") == "typed:3,other:4"
    assert connection.settings(options(config=file))["client.id"] == "mine"


def test_another_name_of_a_setting_in_a_file_counts_as_its_own(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("metadata.broker.list=file:2\n")
    assert connection.settings(options(config=file)) == {"bootstrap.servers": "file:2"}
    assert connection.settings(options(config=file, bootstrap="typed:3")) == {"bootstrap.servers": "typed:3"}
    file.write_text("metadata.broker.list=file:2\nbootstrap.servers=file:3\n")
    with pytest.raises(ConfigError, match=r"^metadata.broker.list and bootstrap.servers mean the same setting"):
        connection.settings(options(config=file, bootstrap="typed:3"))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code, and the one line on standard error."""
    try:
        code = cli.main(arguments)
    except SystemExit as end:
        assert isinstance(end.code, int)
        code = end.code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1, captured
    return code, captured.err.strip()


CLOSED = ("-b", "127.0.0.1:1")
WRONG = {
    ("topic",): "rayft topic: the following arguments are required: list|describe|create|delete|config|partitions; see "
    "rayft topic --help",
    ("topic", "list"): "rayft: which cluster? Write -b HOST:PORT, RAYFT_BOOTSTRAP=HOST:PORT, --profile NAME, --config "
    "client.properties or --dir DIR",
    ("topic", "list", "-b", "nowhere"): "rayft: 'nowhere' is no address: write HOST:PORT, or several with commas",
    ("topic", "create", "x", "-p", "0", *CLOSED): "rayft: --partitions 0 is not possible: write 1 or more",
    ("topic", "create", "x", "--set", "a", *CLOSED): "rayft: 'a' is no setting: write NAME=VALUE, as in "
    "retention.ms=3600000",
    ("topic", "config", "set", "x", "=1", *CLOSED): "rayft: '=1' is no setting: write NAME=VALUE, as in "
    "retention.ms=3600000",
    ("produce", "x", "-H", "a", *CLOSED): "rayft: 'a' is no header: write NAME=VALUE",
    ("produce", "x", "-k", "", *CLOSED): "rayft: -k needs a text, as in -k :",
    ("consume", "x", "-n", "0", *CLOSED): "rayft: -n 0 is no number of records: write 1 or more",
    ("consume", "x", "-f", "%q", *CLOSED): "rayft: %q in the format means nothing: write one of %k, %v, %s, %t, %p, %o, %T, "
    "%h, %K, %V, %S or %%",
    ("consume", "x", "--from", "soon", *CLOSED): "rayft: 'soon' is no place in a topic: write beginning, end, an offset, -N "
    "for the last N, a time as 2026-11-28T14:02, or 15m for so long ago",
    ("group", "seek", "g", "--to", "0", "--topic", "x:y", *CLOSED): "rayft: 'x:y' is no topic: write TOPIC or "
    "TOPIC:PARTITION",
    ("topic", "partitions", "grow", "t", "--to", "0", *CLOSED): "rayft: --to 0 is no number of partitions: write more than "
    "there are",
    ("topic", "partitions", "elect", "--unclean", *CLOSED): "rayft: --unclean gives up records that only other replicas "
    "have: name the partitions, as in orders:3",
    ("topic", "partitions", "move", "t", "--to", "1;2", *CLOSED): "rayft: '1;2' is no list of brokers: write their ids with "
    "commas, as in 1,2,3",
    ("topic", "partitions", "move", "t", "--to", "1,1", *CLOSED): "rayft: '1,1' names a broker twice: a partition has one "
    "replica on each",
    ("topic", "partitions", "move", "t:x", "--to", "1", *CLOSED): "rayft: 't:x' is no topic: write TOPIC or "
    "TOPIC:PARTITION",
    ("health", "--watch", "-o", "json", *CLOSED): "rayft: --watch has no end, and json has one: write -o jsonl, or leave "
    "--watch out",
    ("status", "--watch", "-o", "arrow", *CLOSED): "rayft: --watch has no end, and one stream of Arrow has one: write -o "
    "jsonl, or leave --watch out",
    ("acl", "remove", *CLOSED): "rayft: this removes every rule of the cluster: name those that are meant, as in --topic "
    "NAME, or write --all",
    ("acl", "add", "--principal", "alice", "--operation", "read", "--topic", "t", *CLOSED): "rayft: 'alice' is no "
    "principal: write User:alice",
    ("acl", "list", "--principal", "User:", *CLOSED): "rayft: 'User:' is no principal: write User:alice",
    ("acl", "add", "--principal", "User:a", "--operation", "read", *CLOSED): "rayft: a rule is for something: write --topic "
    "NAME, --group NAME, --transactional-id NAME, --delegation-token NAME, --user NAME or --cluster",
    ("acl", "add", "--principal", "User:a", "--operation", "read", "--topic", "", *CLOSED): "rayft: --topic needs a name: "
    "write --topic NAME, or --topic '*' for each",
    ("acl", "add", "--principal", "User:a", "--operation", "read", "--cluster", "--prefixed", *CLOSED): "rayft: --cluster "
    "has one name, of which --prefixed means nothing: leave one of them out",
    ("acl", "add", "--principal", "User:a", "--operation", "reed", "--topic", "t", *CLOSED): "rayft acl add: argument "
    "--operation: invalid choice: 'reed' (choose from 'all', 'read', 'write', 'create', 'delete', 'alter', 'describe', "
    "'cluster_action', 'describe_configs', 'alter_configs', 'idempotent_write', 'create_tokens', 'describe_tokens', "
    "'two_phase_commit'); see rayft acl add --help",
    ("acl", "list", "--pattern", "match", *CLOSED): "rayft: --pattern match finds the rules for a name: write --topic NAME "
    "or another kind with its name",
    ("acl", "remove", "--topic", "", *CLOSED): "rayft: --topic '' is no name: write --topic NAME, or --topic alone for all "
    "of the kind",
    ("acl", "list", "--delegation-token", "", *CLOSED): "rayft: --delegation-token '' is no name: write --delegation-token "
    "NAME, or --delegation-token alone for all of the kind",
    ("user", "set", "a", "--iterations", "4095", *CLOSED): "rayft: --iterations 4095 is not possible: write 4096 to 16384",
    ("user", "set", "", *CLOSED): "rayft: a user has a name: write rayft user set NAME",
    ("quota", "set", "producer_byte_rate=1", *CLOSED): "rayft: whose quota? Write --user NAME, --client-id NAME, both, or "
    "--ip ADDRESS; or --default-user and so on",
    ("quota", "set", "--user", "a", "producer_byte_rate=-1", *CLOSED): "rayft: '-1' is no number for producer_byte_rate: "
    "write 0 or more, as in producer_byte_rate=1048576",
    ("quota", "set", "--user", "a", "producer_byte_rate=nan", *CLOSED): "rayft: 'nan' is no number for producer_byte_rate: "
    "write 0 or more, as in producer_byte_rate=1048576",
    ("quota", "set", "--user", "a", "5", *CLOSED): "rayft: '5' is no setting: write NAME=VALUE, as in "
    "producer_byte_rate=1048576",
    ("quota", "list", "--user", "", *CLOSED): "rayft: --user needs a name: write --user NAME, or --default-user",
    ("quota", "list", "--user", "a", "--ip", "::1", *CLOSED): "rayft: an address has quotas of its own: leave --ip out, or "
    "the user and the client id",
    ("config", "get", "broker", *CLOSED): "rayft: 'broker' has no settings: write broker:ID, brokers, group:NAME, "
    "client-metrics:NAME or topic:NAME",
    ("config", "get", "broker:x", *CLOSED): "rayft: 'x' is no broker: write broker:ID with a number, or brokers for all of "
    "them",
    ("config", "set", "brokers", "a", *CLOSED): "rayft: 'a' is no setting: write NAME=VALUE, as in log.retention.ms=3600000",
    ("group", "seek", "g", *CLOSED): "rayft group seek: the following arguments are required: --to; see rayft group seek "
    "--help",
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_words_get_one_line_that_says_what_to_type(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(connection.VARIABLE, raising=False)
    assert said(capsys, *words) == (2, WRONG[words])


def test_produce_without_standard_input_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    wanted = "rayft: there is no standard input: write rayft produce TOPIC < FILE"
    assert said(capsys, "produce", "x", *CLOSED) == (2, wanted)


VERBS = [
    ("topic", "list"),
    ("topic", "describe", "x"),
    ("produce", "x"),
    ("consume", "x"),
    ("group", "list"),
    ("acl", "list"),
    ("user", "list"),
    ("quota", "list"),
    ("config", "get", "brokers"),
    ("health",),
    ("status",),
]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_where_nobody_answers_there_is_one_sentence(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REFUSED_S", 0.1)
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, sentence = said(capsys, *words, "-b", address)
    assert (code, sentence) == (1, f"rayft: no broker answers: {address}: nothing listens there (connection refused)")


def test_the_words_of_rules_are_all_that_there_are() -> None:
    assert {one.upper() for one in acl.OPERATIONS} == {one.name for one in Operation if one is not Operation.ANY}
    assert tuple(acls.KINDS.values()) == acl.RESOURCES and len(acls.KINDS) + 2 == len(Resource)  # the cluster, and any


def test_a_kind_without_a_name_is_all_of_the_kind() -> None:
    parser = argparse.ArgumentParser()
    acl.add(parser)
    for words, wanted in (
        (["--topic"], (Resource.TOPIC, None)),
        (["--topic", "t"], (Resource.TOPIC, "t")),
        ([], (Resource.ANY, None)),
    ):
        found = acls.filter_of(parser.parse_args(["list", *words]))
        assert (found.resource, found.name) == wanted
