"""What is typed for the commands by address: which cluster, where in a topic, and what becomes of wrong words."""

import argparse
import io
import socket
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.authorization.resources import Operation, Resource
from actors.client.errors import ClientError
from actors.client.metadata import Broker, Partition, Topic
from actors.client.operations.cluster import Cluster, LogDir, Quorum, Replica
from actors.client.operations.transactions import NO_TIMEOUT_MS, CoordinatedTransaction, OpenTransaction
from actors.command import acl, cli
from actors.command.by_address import acls, connection, consuming, health, places, producing
from actors.command.by_address.places import PlaceInPartitions, Span
from actors.command.output.record_format import PrintedRecord
from actors.host.cluster import plan as plans
from actors.host.cluster_error import ClusterError
from actors.settings.keys import ConfigError
from actors.why.explanations import Explanation, explain
from fastpath.records.batch import Builder


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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("beginning", PlaceInPartitions("beginning")),
        ("end", PlaceInPartitions("end")),
        ("17", PlaceInPartitions("offset", 17)),
        ("-5", PlaceInPartitions("last", 5)),
        ("2026-11-28T14:02", PlaceInPartitions("time", 1_795_874_520_000)),
        ("2026-11-28T15:02+01:00", PlaceInPartitions("time", 1_795_874_520_000)),
        ("2026-11-28", PlaceInPartitions("time", 1_795_824_000_000)),
    ],
)
def test_places(text: str, wanted: PlaceInPartitions) -> None:
    assert places.where(text) == wanted


def test_so_long_ago() -> None:
    assert abs(places.where("15m").number - (time.time() - 900) * 1000) < 5_000


KNOWN = {("t", 0): Span(10, 20), ("t", 1): Span(0, 3)}


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (PlaceInPartitions("beginning"), (10, 0)),
        (PlaceInPartitions("end"), (20, 3)),
        (PlaceInPartitions("last", 5), (15, 0)),
        (PlaceInPartitions("offset", 12), (12, 3)),
    ],
)
def test_a_place_stays_within_what_a_partition_has(place: PlaceInPartitions, wanted: tuple[int, int]) -> None:
    steps = places.offsets(place, KNOWN)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert tuple(end.value.value.values()) == wanted


class Slow(io.BytesIO):
    """A pipe that gives what is written at a time."""

    def __init__(self, *parts: bytes) -> None:
        super().__init__()
        self.parts = list(parts)

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.parts.pop(0) if self.parts else b""


def lines(separator: bytes | None, *parts: bytes) -> list[list[tuple[int, bytes | None, bytes]]]:
    return [[tuple(one) for one in some] for some in producing._chunks(Slow(*parts), separator, 100)]


def test_lines_are_whole_and_given_as_soon_as_they_are() -> None:
    assert lines(None, b"a\nb", b"c\n", b"\nlast") == [
        [(1, None, b"a")],
        [(2, None, b"bc")],
        [(3, None, b"")],
        [(4, None, b"last")],
    ]
    assert lines(None) == [] and lines(None, b"\n") == [[(1, None, b"")]]


def test_a_key_ends_at_the_first_separator() -> None:
    assert lines(b"::", b"k::v::w\n") == [[(1, b"k", b"v::w")]]


def test_a_line_without_a_key_is_told_after_those_before_it() -> None:
    found = producing._chunks(Slow(b"a:1\nb\nc:3\n"), b":", 100)
    assert [one.value for one in next(found)] == [b"1"]
    with pytest.raises(ClusterError, match=r"^line 2 has no key: ':' is not in it$"):
        next(found)


class Endless(io.BytesIO):
    """A megabyte a time without an end of a line, so many times, and then one."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def read1(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        return bytes(1 << 20) if self.left > 0 else b"x\nbehind" if self.left == 0 else b""


def test_a_line_that_does_not_end_is_counted_and_not_kept() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ClusterError, match=r"^line 1 has 104857601 bytes, and max.request.size is 1048576$"):
            next(producing._chunks(Endless(101), None, 1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_many_partitions_are_written_together_and_four_batches_of_one() -> None:
    target = object.__new__(producing._Target)
    target._topic = "t"
    batches = []
    for part in [*range(1000), *[7] * 9]:
        batches.append((part, Builder(timestamp_ms=5)))
        batches[-1][1].append(None, b"x", 5)
    requests = [[part for (_, part), _ in data] for data, _ in target._requests(batches)]
    assert requests == [[*range(1000), 7, 7, 7], [7] * 4, [7] * 2]


class Interrupted(io.BytesIO):
    """A terminal on which Ctrl-C is typed behind a line and a half."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [b"a\nhal"]

    def read1(self, size: int | None = -1, /) -> bytes:
        if self.parts:
            return self.parts.pop()
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("when", "code", "done", "sentence"),
    [
        ([], 0, ["a", "committed", "said"], "3 records were written to t\n"),
        (
            [True], 130, ["a", "aborted"],
            "rayft: interrupted while lines were written; 3 records were written to t\n",
        ),
    ],
)  # fmt: skip
def test_ctrl_c_ends_the_input_or_where_lines_are_written_the_transaction(
    when: list[bool], code: int, done: list[str], sentence: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    @contextmanager
    def connected(*_: Any, **__: Any) -> Iterator[Any]:
        yield argparse.Namespace(config=argparse.Namespace(request_bytes_max=100))

    monkeypatch.setattr(producing, "connected", connected)
    made: list[str] = []

    class Target:
        def __init__(self, *_: Any) -> None:
            pass

        def begin(self) -> None:
            pass

        def write(self, lines: list[producing.InputLine]) -> None:
            made.extend(one.value.decode() for one in lines)
            if when:
                raise KeyboardInterrupt

        def end(self) -> None:
            made.append("committed")

        def given_up(self) -> str:
            made.append("aborted")
            return "3 records were written to t"

        def said(self) -> str:
            made.append("said")
            return "3 records were written to t"

    monkeypatch.setattr(producing, "_Target", Target)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Interrupted()))
    given = options(topic="t", partition=None, header=[], key_separator=None, compression=None)
    assert producing.run(given) == code
    assert made == done and capsys.readouterr().err == sentence


def test_a_terminal_without_unicode_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    terminal = Terminal(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    consuming._writer(options(json=False, format=r"%v\n"))(PrintedRecord("t", 0, 0, 5, None, "café".encode(), ()))
    terminal.flush()
    assert terminal.buffer.getvalue() == b"caf\\u00e9\n"  # type: ignore[attr-defined]


def topic(*parts: Partition) -> Topic:
    return Topic("t", bytes(16), False, {one.number: one for one in parts}, 0)


def quorum(leader: int, *caught_up_ms: int) -> Quorum:
    return Quorum(leader, 3, 100, [Replica(n, bytes(16), 100, ms, ms) for n, ms in enumerate(caught_up_ms, 1)], [], {})


CLUSTER = Cluster("id", 1, {1: Broker(1, "h", 1), 2: Broker(2, "h", 2)})


NOW_MS = 1_795_251_600_000


def explained(
    found: dict[str, Topic], quorum: Quorum | None = None, log_dirs: Any = None, open_: Any = ()
) -> list[tuple[str, str]]:
    facts = health.facts_of(NOW_MS, CLUSTER, found, quorum, log_dirs or {}, open_)
    return [(one.kind, one.sentence) for one in explain(facts)]


def test_a_fault_has_a_sentence_and_what_helps() -> None:
    well = topic(Partition(0, 1, 0, (1, 2), (1, 2), ()))
    assert explained({"t": well}, quorum(1, 50_000, 49_000)) == []
    ill = topic(
        Partition(0, -1, 0, (3,), (3,), (3,)),
        Partition(1, 1, 0, (1, 2), (1,), ()),
        Partition(2, 1, 0, (1, 3), (1,), (3,)),
        Partition(3, 2, 0, (1, 2), (1, 2), ()),
    )
    assert explained({"t": ill}) == [
        ("broker", "broker 3 is away and has replicas of 2 partitions"),
        ("offline", "t-0 has no leader"),
        ("under-replicated", "t-1: replica 2 is not in the ISR"),
        ("preferred", "t-3 is led by broker 2, though broker 1 is the preferred leader and in sync"),
    ]


def test_faults_of_the_quorum() -> None:
    assert explained({}, quorum(1, 50_000, 20_000, -1)._replace(leader_epoch=9)) == [
        ("voter", "controller 2 does not follow the leader for 30 s"),
        ("voter", "controller 3 does not follow the leader"),
    ]
    assert explained({}, quorum(-1, 5)) == [("no quorum", "no controller leads")]
    assert explained({}, quorum(1, -1, -1)) == [], "an old release does not tell the times"


def test_log_directories_and_transactions() -> None:
    bad = LogDir("/d/one", -1, -1, {}, {}, set(), ClientError("log directory /d/one of broker 2: KAFKA_STORAGE_ERROR"))
    good = LogDir("/d/two", -1, -1, {}, {}, set())
    old, new = NOW_MS - 16 * 60_000, NOW_MS - 60_000
    open_ = [OpenTransaction("t", n, 7 + n // 2, 0, 5, old if n < 2 else new) for n in range(3)]
    assert explained({}, None, {1: ClientError("denied"), 2: [bad, good]}, open_) == [
        ("disk", "log directory /d/one of broker 2 is offline"),
        ("transaction", "the transaction of producer 7 is open since 08:44:00, for 16 min"),
    ]


def test_a_transaction_of_a_two_phase_commit_does_not_hang() -> None:
    old = NOW_MS - 16 * 60_000
    open_ = [OpenTransaction("t", n, 7 + n, 0, 5, old) for n in range(3)]
    known = {
        7: CoordinatedTransaction("two", 7, NO_TIMEOUT_MS, NOW_MS - 20 * 60_000),
        8: CoordinatedTransaction("one", 8, 60_000, NOW_MS - 17 * 60_000),
    }
    facts = health.facts_of(NOW_MS, CLUSTER, {}, None, {}, open_, known)
    found = explain(facts)
    assert [(one.kind, one.is_fault, one.sentence) for one in found] == [
        (
            "transaction",
            True,
            "the transaction of transactional id one is open since 08:43:00, for 17 min, longer than its timeout of 60 s",
        ),
        ("transaction", True, "the transaction of producer 9 is open since 08:44:00, for 16 min"),
        (
            "prepared",
            False,
            "the transaction of transactional id two takes part in a two-phase commit and is open since 08:40:00, for 20 "
            "min: it has no timeout, and waits for the decision",
        ),
    ]
    assert found[-1].command.endswith("forceTerminateTransaction --transactionalId two")


def test_a_transaction_within_its_timeout_is_not_said_to_be_over_it() -> None:
    old = NOW_MS - 16 * 60_000
    known = {7: CoordinatedTransaction("flink", 7, 3_600_000, old)}
    facts = health.facts_of(NOW_MS, CLUSTER, {}, None, {}, [OpenTransaction("t", 0, 7, 0, 5, old)], known)
    assert [one.sentence for one in explain(facts)] == [
        "the transaction of transactional id flink is open since 08:44:00, for 16 min; its timeout is 60 min"
    ]


def test_a_fault_that_only_lasts_longer_is_no_change() -> None:
    def seen(*seconds: int) -> health.SeenCluster:
        lasting = [
            f"controller 2 does not follow the leader for {one} s, it is {one} records behind" for one in seconds
        ]
        return health.SeenCluster([Explanation("voter", one, -1, "", "start it") for one in lasting], "")

    assert health._lasting(seen(30)) == health._lasting(seen(31)) != health._lasting(seen(30, 30))
    assert health._lasting(seen()) == []


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
