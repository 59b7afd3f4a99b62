"""`rayft replay` and `rayft compact` as they are typed."""

import datetime
import json
import os
import subprocess
import sys
import time
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

from actors.command import cli
from actors.command.output import batches
from actors.command.output.tables import as_json, last_time
from actors.metadata.ops import ConfigSet
from actors.replay import source
from actors.replay.columns import tables
from actors.replay.columns.as_of import milliseconds
from actors.replay.where import Where, as_of
from fastpath.records.batch import Builder
from tests.seeds import first_are_quick
from tests.unit.replay import metadata_logs
from tests.unit.replay.test_source import write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return metadata_logs.write(tmp_path / "node", metadata_logs.batches(metadata_logs.ops(), 4))


def rows(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    assert cli.main(["replay", *map(str, words), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert cli.main(["replay", *map(str, words)]) == 1
    return capsys.readouterr().err


def test_who_led_what_at_an_offset_and_now(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (path, "--table", "partitions", "--where", "leader = 2", "--columns", "topic,partition,isr")
    assert rows(capsys, *words) == [{"topic": "orders", "partition": 0, "isr": [2, 3]}]
    assert rows(capsys, *words, "--as-of", 11) == []


def test_arrow_is_the_table_as_it_is(path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    def stream(*words: str) -> pa.Table:
        assert cli.main(["replay", str(path), "--table", "partitions", "-o", "arrow", *words]) == 0
        return pa.ipc.open_stream(capsysbinary.readouterr().out).read_all()

    assert stream().equals(tables.state(path, tables=["partitions"])["partitions"])
    assert stream("--limit", "2", "--columns", "topic").to_pylist() == [{"topic": "orders"}] * 2
    nothing = stream("--where", "leader = 99")
    assert nothing.num_rows == 0 and nothing.schema == tables.SCHEMAS["partitions"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("isr contains 3", [0, 2]),
        ("isr contains 3 and leader != 2", [2]),
        ("under_replicated", [0, 1, 3]),
        ("not under_replicated", [2]),
        ("topic = 'orders' and partition >= 2", [2, 3]),
        ("topic contains rde AND leader_epoch<1", [2]),
        ("leader is not null and partition is null", []),
        ('topic = "a and b"', []),
        ("topic != 'orders or payments' and partition = 3", [3]),
    ],
)
def test_conditions(path: Path, capsys: pytest.CaptureFixture[str], where: str, found: list[int]) -> None:
    words = ("--where", f"topic != payments and {where}", "--columns", "partition")
    assert [row["partition"] for row in rows(capsys, path, "--table", "partitions", *words)] == found


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("leader ~ 3", "is no condition"),
        ("leading = 3", "no column 'leading'"),
        ("isr = 3", "write isr contains 3"),
        ("leader = five", "'five' does not compare with leader"),
        ("leader contains 5", "no list and no text"),
        ("leader", "is not true or false"),
        ("topic = orders or topic = payments", "is SQL"),
        ("topic contains a or topic contains b", "is SQL"),
        ("topic = 'orders' or topic = 'payments'", "is SQL"),
        ("topic = 'orders and partition = 1", "is SQL"),
    ],
)
def test_conditions_that_mean_nothing(
    path: Path, capsys: pytest.CaptureFixture[str], where: str, sentence: str
) -> None:
    assert sentence in refused(capsys, path, "--table", "partitions", "--where", where)


def test_the_screen_shows_a_table_and_says_that_there_is_more(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(path), "--table", "partitions", "--limit", "4"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [word for word in out[0].split() if word][:3] == ["topic", "partition", "leader"]
    assert out[1].split()[:7] == ["orders", "0", "2", "1", "1", "2", "3"]
    assert len(out) == 6 and "more rows" in out[-1]
    assert cli.main(["replay", str(path)]) == 0
    assert "as of offset 19" in capsys.readouterr().out


def test_changes_and_records_between_two_offsets_or_times(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(
        capsys, path, "--table", "changes", "--since", 11, "--as-of", 13, "--columns", "kind,partition,old,new"
    )
    assert found == [
        {"kind": "leader", "partition": 0, "old": "1", "new": "2"},
        {"kind": "isr", "partition": 0, "old": "1,2,3", "new": "2,3"},
        {"kind": "isr", "partition": 1, "old": "1,2,3", "new": "1,2"},
    ]
    found = rows(capsys, path, "--table", "records", "--since", 8, "--as-of", 12, "--columns", "offset,type")
    assert [row["offset"] for row in found] == [8, 9, 10, 11]
    at = datetime.datetime.fromtimestamp(2, datetime.UTC).isoformat()
    found = rows(capsys, path, "--table", "records", "--since", at, "--as-of", at, "--columns", "offset")
    assert [row["offset"] for row in found] == [5, 6, 7, 8, 9, 10, 11, 12, 13]


def test_sql_over_the_tables_that_it_names(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb", reason="the sql extra is not installed")
    query = """select t.topic, count(*) n from partitions p join topics t on p.topic_id = t.topic_id
               where list_contains(p.isr, 1) group by all order by all"""
    assert rows(capsys, path, "--sql", query) == [{"topic": "orders", "n": 3}, {"topic": "payments", "n": 2}]
    twice = 'select count(*) n from records a join records b on a."offset" = b."offset"'
    assert rows(capsys, path, "--sql", twice) == [{"n": 19}]
    assert "syntax error" in refused(capsys, path, "--sql", "selec")


def test_sql_that_only_speaks_of_a_tables_name(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb", reason="the sql extra is not installed")
    broker = write(tmp_path / "broker-1").parent  # holds no metadata log
    query = "select count(*) as records, 'changes of topics' as why from log"
    assert rows(capsys, broker, "--sql", query) == [{"records": 140, "why": "changes of topics"}]
    query = "select topic from topics where topic != 'log' order by all"
    assert rows(capsys, path, "--sql", query) == [{"topic": "orders"}, {"topic": "payments"}]
    assert "holds 0 metadata logs" in refused(capsys, broker, "--sql", "select * from changes")


def test_sql_that_reads_a_long_table_twice_without_naming_it_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="the sql extra is not installed")
    broker = write(tmp_path / "broker-1").parent
    assert rows(capsys, broker, "--sql", "pivot log on partition using count(*) group by topic") == [
        {"topic": "orders", "3": 140}
    ]
    walk = """with recursive walk(n) as (select 0 union all select n + 1 from walk join log on "offset" = n where n < 5)
              select max(n) most from walk"""
    assert rows(capsys, broker, "--sql", walk) == [{"most": 5}]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--sql", "select 1", "--table", "topics"), "--table does nothing beside --sql"),
        (("--sql", "select 1", "--where", "leader = 1"), "--where does nothing beside --sql"),
        (("--sql", "select 1", "--columns", "leader"), "--columns does nothing beside --sql"),
        (("--table", "partitions", "--since", "3"), "--since does nothing for the table partitions"),
        (("--since", "3"), "--since does nothing for the list of tables"),
        (("--table", "topics", "--limit", "-3"), "--limit -3 is no number of rows"),
        (("--table", "partitions", "--topic", "orders"), "--topic does nothing for the table partitions"),
        (("--table", "records", "--topic", "orders"), "--topic does nothing for the table records"),
    ],
)
def test_words_that_would_be_ignored_are_refused(
    path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(capsys, path, *words)


def test_files_hold_what_the_table_holds(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = tables.state(path, 13, ["partitions"])["partitions"]
    for name in ("out.parquet", "out.arrow", "out.jsonl"):
        out = tmp_path / name
        words = ["replay", str(path), "--table", "partitions", "--as-of", "13", "--out", str(out)]
        assert cli.main(words) == 0
        assert "6 rows" not in capsys.readouterr().out and out.exists()
        if name == "out.arrow":
            found = pa.ipc.open_file(pa.memory_map(str(out))).read_all()
            assert found.equals(expected)
        elif name == "out.parquet":
            assert pa.dataset.dataset(out).to_table().to_pylist() == expected.to_pylist()
        else:
            assert [json.loads(line) for line in out.read_text().splitlines()] == expected.to_pylist()
        assert "there already" in refused(capsys, *words[1:])
    assert "write DIR.parquet" in refused(capsys, path, "--table", "topics", "--out", tmp_path / "out.xls")


def test_a_topic_of_a_node_that_has_the_metadata_too(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = write(path.parent).parent
    write(node, name="clicks-0")
    (row,) = rows(capsys, node, "--topic", "orders")
    assert row == {"topic": "orders", "partition": 3, "first_offset": 0, "end_offset": 140}
    assert "table" in rows(capsys, node)[0], "without a topic it is the metadata"


def test_times_beyond_the_calendar_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orders-0" / f"{0:020}.log"
    path.parent.mkdir()
    builder = Builder(0, 1)
    for time_ms in (1_700_000_000_000, 1_700_000_000_000_000, -62_135_596_800_001):  # the second in microseconds
        builder.append(None, b"v", time_ms)
    path.write_bytes(bytes(builder.build()))
    texts = ["2023-11-14T22:13:20+00:00", "55840-11-08T22:13:20.000000+00:00", "0000-12-31T23:59:59.999000+00:00"]
    words = (path, "--table", "log", "--columns", "timestamp,offset")
    assert rows(capsys, *words) == [{"timestamp": text, "offset": at} for at, text in enumerate(texts)]
    assert cli.main(["replay", *map(str, words), "--out", str(tmp_path / "log.jsonl")]) == 0
    assert [json.loads(line)["timestamp"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == texts
    capsys.readouterr()
    assert cli.main(["replay", *map(str, words)]) == 0
    assert "2023-11-14 22:13:20.000" in (shown := capsys.readouterr().out) and texts[1] in shown


def test_a_topics_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    found = rows(capsys, path, "--table", "log", "--where", "value contains 13", "--columns", "offset,value")
    assert found == [{"offset": at, "value": f"v{at}"} for at in range(140) if "13" in str(at)]
    assert rows(capsys, path) == [{"topic": "orders", "partition": 3, "first_offset": 0, "end_offset": 140}]
    assert len(rows(capsys, tmp_path, "--table", "log", "--topic", "orders", "--limit", 9)) == 9
    assert "no log of invoices" in refused(capsys, tmp_path, "--table", "log", "--topic", "invoices")


def test_bytes_that_are_no_text_are_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = Builder(0, 5)
    values = [b"plain", b"cGxhaW4=", b"\xff\x00", None]
    for value in values:
        builder.append(None, value, 1)
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(bytes(builder.build()))
    words = (tmp_path / "orders-0", "--table", "log", "--columns", "value")
    assert [row["value"] for row in rows(capsys, *words)] == ["plain", "cGxhaW4=", {"base64": "/wA="}, None]
    out = tmp_path / "out.jsonl"
    assert cli.main(["replay", *map(str, words), "--out", str(out)]) == 0
    assert json.loads(out.read_text().splitlines()[2]) == {"value": {"base64": "/wA="}}
    assert cli.main(["replay", *map(str, words)]) == 0
    assert "base64:/wA=" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["log.parquet", "log.arrow", "log.jsonl"])
def test_what_fails_midway_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    folder = write(tmp_path / "broker-1")
    last = folder / f"{70:020}.log"
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    out = tmp_path / "new" / name
    words = (folder, "--table", "log", "--columns", "offset", "--out", out)
    assert "CRC" in refused(capsys, *words)
    assert not out.exists() and not list(out.parent.iterdir()), "a part would look like the whole"
    last.unlink()
    assert cli.main(["replay", *map(str, words)]) == 0
    assert [one.name for one in out.parent.iterdir()] == [name]


def test_the_list_of_tables_says_why_there_is_none(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (segment,) = path.glob("*.log")
    segment.write_bytes(b"".join(bytes(one.data) for one in metadata_logs.batches(metadata_logs.ops(), 4)[2:]))
    segment.rename(path / f"{5:020}.log")
    assert "begins at offset 5 and no checkpoint" in refused(capsys, path)


def test_damage_stops_or_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (split, *_) = source.open(path).splits(1)[1:]
    (file,) = path.glob("*.log")
    data = bytearray(file.read_bytes())
    data[split.begin + 80] ^= 1
    file.write_bytes(data)
    assert f"{file}, byte {split.begin}: " in refused(capsys, path, "--table", "records")
    words = ["replay", str(path), "--table", "records", "--columns", "offset", "--json", "--skip-damage"]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 19 - split.records and f"byte {split.begin}" in err
    assert cli.main(["replay", str(path), "--table", "topics", "--no-verify"]) == 0


def test_compact_writes_a_checkpoint_and_never_where_the_log_is(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert cli.main(["compact", str(path), "--out", str(out)]) == 0
    (made,) = out.iterdir()
    assert made.name == f"{19:020}-{3:010}.checkpoint"
    assert made.stat().st_mode & 0o077 == 0, "it has credentials"
    assert cli.main(["compact", str(path), "--out", str(path)]) == 1
    assert len(list(path.iterdir())) == 1


def test_times_are_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", "Europe/Berlin")
    time.tzset()
    try:
        end = datetime.datetime(2026, 11, 21, 14, 30, tzinfo=datetime.UTC)  # 15:30 there
        assert as_of("1998182") == 1998182
        assert as_of("14:02", end) == datetime.datetime(2026, 11, 21, 14, 2, tzinfo=datetime.UTC)
        assert as_of("14:02Z", end) == as_of("14:02:00z", end) == as_of("14:02", end)
        assert as_of("14:31:05", end) == datetime.datetime(2026, 11, 20, 14, 31, 5, tzinfo=datetime.UTC)
        assert as_of("2026-11-21") == datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
        assert as_of("2026-11-21T14:02+01:00") == datetime.datetime(2026, 11, 21, 13, 2, tzinfo=datetime.UTC)
        assert milliseconds(datetime.datetime(1970, 1, 1, 1)) == 3_600_000
        assert as_of("2026-11-21T14:02Z") == datetime.datetime(2026, 11, 21, 14, 2, tzinfo=datetime.UTC)
        for text in ("25:00", "yesterday", "14:02 pm"):
            with pytest.raises(ValueError, match="is no moment"):
                as_of(text, end)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_of_day_in_a_condition_is_of_the_logs_last_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders-0" / f"{0:020}.log"
    path.parent.mkdir()
    builder = Builder(0, 1)
    for minute in range(3):
        builder.append(None, b"v", 1_700_000_000_000 + minute * 60_000)  # 2023-11-14T22:13:20
    path.write_bytes(bytes(builder.build()))
    words = (path, "--table", "log", "--columns", "offset", "--where")
    assert rows(capsys, *words, "timestamp > 22:14") == [{"offset": 1}, {"offset": 2}]
    assert rows(capsys, *words, "timestamp > 22:14 and timestamp < 22:15") == [{"offset": 1}]
    assert rows(capsys, *words, "timestamp > '2023-11-14 22:15'") == [{"offset": 2}]
    assert rows(capsys, *words, "timestamp > 2023-11-14 22:15") == [{"offset": 2}]


def test_a_list_that_is_null_contains_nothing() -> None:
    held = pa.table({"ids": pa.array([[1, None], None, [], [2]], pa.list_(pa.int32()))})
    assert Where("ids contains 1")(held).to_pylist() == [{"ids": [1, None]}]
    assert Where("ids contains 2")(held).to_pylist() == [{"ids": [2]}]


@pytest.mark.long
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    golden = Path(__file__).parents[3] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
    words = [sys.executable, "-m", "actors.command.cli", "replay", str(golden), "--table", "records", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        assert json.loads(running.stdout.readline())["offset"] == 0
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_a_time_of_day_is_one_of_the_last_batch_though_one_before_it_is_damaged(tmp_path: Path) -> None:
    folder = write(tmp_path, batches=8)
    file = folder / f"{28:020}.log"
    data = bytearray(file.read_bytes())
    data[16] = 7  # the magic of the first batch
    file.write_bytes(data)
    (log,) = source.open(folder).logs
    assert last_time(log) == datetime.datetime.fromtimestamp(1.007, datetime.UTC)


HOSTILE = [
    (b"k1", b"[prod] hello"),
    (b"user:id:5", b"a:100:b :smile:"),
    (b"k2", b"see [/path] there"),
    (b"k3", b"\x1b]0;owned\x07\x1b[31mred"),
    (b"k4", "\u202egnp.exe \x9b31m \ud55c".encode()),
    (b"k5", b"two\nlines"),
]


def hostile(folder: Path) -> Path:
    builder = Builder(0, 1, timestamp_ms=5)
    for key, value in HOSTILE:
        builder.append(key, value, 5)
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(bytes(builder.build()))
    return folder


def test_what_others_wrote_is_shown_as_it_is_and_obeyed_by_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hostile(tmp_path / "orders-0")
    assert cli.main(["replay", str(path), "--table", "log", "--columns", "key,value"]) == 0
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split(None, 1)[1] for line in shown[1:]] == [
        "[prod] hello",
        "a:100:b :smile:",
        "see [/path] there",
        "\\x1b]0;owned\\x07\\x1b[31mred",
        "\\u202egnp.exe \\x9b31m \ud55c",
        "two\\x0alines",
    ]


def test_json_of_what_others_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = hostile(tmp_path / "orders-0")
    assert cli.main(["replay", str(path), "--table", "log", "--columns", "key,value", "--json"]) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.split("\n"))
    assert [json.loads(line)["value"] for line in out.split("\n")[:-1]] == [value.decode() for _, value in HOSTILE]


def test_numbers_in_json_are_those_of_json() -> None:
    row = {"nan": float("nan"), "list": [float("inf"), 1.5], "sum": Decimal(10**30), "mean": Decimal("1.5")}
    assert json.loads(as_json(row), parse_constant=pytest.fail) == {
        "nan": "nan",
        "list": ["inf", 1.5],
        "sum": 10**30,
        "mean": 1.5,
    }


def test_a_name_with_brackets_and_controls_in_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, tmp_path / "[/red]\x1b[31m")
    assert "[/red]\\x1b[31m does not exist" in said and "Traceback" not in said


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "24:00", "1e9"])
def test_a_moment_that_cannot_be_is_one_sentence(moment: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, path, "--table", "partitions", "--as-of", moment)
    assert (
        said == f"rayft: {moment!r} is no moment: write an offset, a time of day such as 14:02, or 2026-11-21T14:02.\n"
    )


def test_a_time_beyond_all_times_is_one_sentence(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, path, "--table", "changes", "--where", f"timestamp > {10**20}")
    assert "does not compare with timestamp" in said and "Traceback" not in said


def test_a_time_of_day_is_one_moment_for_all_partitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Partition 0 ended at 15:00 today, partition 1 at 17:00: since 16:00 is today for both."""
    day = milliseconds(datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC))
    for number, hour in ((0, 15), (1, 17)):
        builder = Builder(0, 1, timestamp_ms=day)
        for at, time_ms in enumerate((day - 7 * 3_600_000, day + hour * 3_600_000)):
            builder.append(None, b"%d-%d" % (number, at), time_ms)
        folder = tmp_path / f"orders-{number}"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(bytes(builder.build()))
    found = rows(capsys, tmp_path, "--topic", "orders", "--table", "log", "--since", "16:00", "--columns", "value")
    assert [row["value"] for row in found] == ["1-1"]


@pytest.mark.long
def test_sql_knows_no_zone_but_utc(path: Path) -> None:
    """In a process of its own, in another zone."""
    query = "select strftime(timestamp, '%H:%M') as hour, extract(hour from timestamp) as number from records limit 1"
    words = [sys.executable, "-m", "actors.command.cli", "replay", str(path), "--sql", query, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TZ": "Asia/Kathmandu"})
    assert json.loads(done.stdout) == {"hour": "00:00", "number": 0}, done.stderr


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("retention.ms", False),
        ("message.format.version", False),
        ("ssl.keystore.password", True),
        ("listener.name.sasl_ssl.sasl.oauthbearer.assertion.private.key.passphrase", True),
        ("rsm.config.storage.s3.access.key", True),
        ("connection.pwd", True),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", True),
        ("listener.name.internal.ssl.client.auth", False),
        ("share.record.lock.duration.ms", False),
    ],
)
def test_a_value_is_shown_if_its_setting_is_known_to_be_no_secret(name: str, hidden: bool, tmp_path: Path) -> None:
    path = metadata_logs.write(
        tmp_path, metadata_logs.batches([*metadata_logs.ops(), ConfigSet(4, "1", name, "a-value")], 4)
    )
    (shown,) = [
        row["value"]
        for row in tables.state(path, tables=["configs"])["configs"].to_pylist()
        if row["name"] == name and row["resource"] == "1"
    ]
    typed = [
        row["config"] for one in source.open(path).splits() for part in source.read(one) for row in part.to_pylist()
    ]
    said = [one["value"] for one in typed if one is not None and one["name"] == name]
    out = StringIO()
    batches.dump(path / f"{0:020}.log", out)
    assert {shown, said[-1]} == {"(hidden)" if hidden else "a-value"}
    assert ("a-value" in out.getvalue()) is not hidden


@pytest.mark.parametrize("ending", ["arrow", "jsonl", "parquet"])
def test_a_log_without_records_has_columns(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "node" / "orders-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").touch()
    words = ["replay", str(tmp_path / "node"), "--table", "log", "--topic", "orders", "--columns", "partition,offset"]
    out = tmp_path / f"out.{ending}"
    assert cli.main([*words, "--where", "offset > 3", "--out", str(out)]) == 0
    assert "0 rows in" in capsys.readouterr().err
    if ending == "jsonl":
        assert out.read_bytes() == b""
    else:
        found = pyarrow.dataset.dataset(out, format=ending).to_table()
        assert found.column_names == ["partition", "offset"] and found.num_rows == 0
    assert "no column 'offst'" in refused(capsys, *words[1:], "--where", "offst > 3")


def test_offsets_that_no_log_has_are_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--as-of", "--since"):
        told = refused(capsys, path, "--table", "changes", option, 2**63)
        assert told == f"rayft: {2**63} is beyond the highest offset that a log can have, {2**63 - 1}.\n"
        assert isinstance(rows(capsys, path, "--table", "changes", option, 2**63 - 1), list)


@pytest.mark.parametrize("where", first_are_quick([["--json"], []], 1))
def test_rows_go_to_standard_output_though_progress_is_on_a_terminal(where: list[str], tmp_path: Path) -> None:
    """As of `rayft replay ... --json > rows.jsonl`, typed at a terminal."""
    path = hostile(tmp_path / "orders-0")
    terminal, its_end = os.openpty()
    words = [
        sys.executable,
        "-m",
        "actors.command.cli",
        "replay",
        str(path),
        "--table",
        "log",
        "--columns",
        "key,value",
        *where,
    ]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=its_end, env={**os.environ, "TERM": "xterm"}
    ) as command:
        os.close(its_end)
        assert command.stdout is not None
        shown = command.stdout.read().decode().splitlines()
        seen = os.read(terminal, 1 << 16).decode(errors="replace")  # a part of a character may be cut off
    os.close(terminal)
    assert command.returncode == 0 and "reading" in seen and "prod" not in seen
    assert len(shown) == len(HOSTILE) + (not where) and all(line.isprintable() for line in shown)
