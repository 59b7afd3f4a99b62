"""`rayft replay` of an address: what it prints is what it prints of the files, and `--follow` prints changes."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors.command import cli
from actors.command.by_address import connection
from actors.wire.messages import message
from tests.seeds import first_are_quick
from tests.unit.arrow.controller import Controller
from tests.unit.arrow.test_metadata_replay import GOLDEN, stored


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of the command."""
    try:
        code = cli.main(["replay", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--table", "partitions", "--as-of", "08:59:30", "--where", "under_replicated"],
        ["--table", "controllers", "--as-of", "1200"],
        ["--table", "changes", "--where", "kind = isr", "--columns", "offset,old,new", "--json"],
        ["--table", "changes", "--since", "900", "-o", "jsonl"],
        ["--table", "records", "--since", "1000", "--as-of", "1010", "--json"],
        ["--table", "topics", "--as-of", "0"],
        ["--sql", "select kind, count(*) from changes group by all order by all"],
    ],
    ids=" ".join,
)
def test_what_is_printed_is_what_is_printed_of_the_files(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if "--sql" in words:
        pytest.importorskip("duckdb", reason="the sql extra is not installed")
    wanted = ran(capsys, str(GOLDEN), *words)
    assert wanted[0] == 0 and wanted[1]
    with Controller(stored(GOLDEN)) as leader:
        assert ran(capsys, "-b", leader.address, *words) == wanted


@pytest.mark.parametrize(
    "case",
    first_are_quick(
        [
            ("replay", signal.SIGTERM),
            ("replay", signal.SIGHUP),
            ("health --why", signal.SIGTERM),
            ("topic list --as-of 9", signal.SIGTERM),
        ],
        1,
    ),
)
def test_a_signal_in_the_middle_of_a_copy_leaves_no_files(case: tuple[str, signal.Signals], tmp_path: Path) -> None:
    command, number = case
    with Controller(stored(GOLDEN)) as leader:
        leader.high_watermark += 1  # what is committed does not come, so the copy is not whole
        for asked in ("DescribeCluster", "DescribeLogDirs"):
            leader.server.answers[asked] = partial(_empty, message(f"{asked}Response"))
        words = [sys.executable, "-m", "actors.command.cli", *command.split(), "-b", leader.address]
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        with subprocess.Popen(words, env=env, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:
            deadline = time.monotonic() + 60
            while not list(tmp_path.glob("*/*.log")) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert list(tmp_path.glob("*/*.log")) and process.poll() is None
            process.send_signal(number)
            assert process.wait(60) == 128 + number
    assert list(tmp_path.iterdir()) == []


def _empty(made: Any, *_: Any) -> Any:
    return made()


def test_a_variable_or_a_file_names_the_cluster_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--table", "topics", "--json"]
    wanted = ran(capsys, str(GOLDEN), *words)
    with Controller(stored(GOLDEN)) as leader:
        file = tmp_path / "client.properties"
        file.write_text(f"bootstrap.servers={leader.address}\n")
        assert ran(capsys, "--config", str(file), *words) == wanted
        monkeypatch.setenv(connection.VARIABLE, leader.address)
        assert ran(capsys, *words) == wanted
        assert ran(capsys, str(GOLDEN), *words) == wanted  # a path counts before the variable


def test_rows_go_into_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Controller(stored(GOLDEN)) as leader:
        for place, name in ((str(GOLDEN), "one.jsonl"), ("-b", "other.jsonl")):
            words = [place] if place != "-b" else ["-b", leader.address]
            assert ran(capsys, *words, "--table", "changes", "--out", str(tmp_path / name))[0] == 0
    assert (tmp_path / "one.jsonl").read_text() == (tmp_path / "other.jsonl").read_text()


def test_followed_changes_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    with Controller(stored(GOLDEN)) as leader:
        code, out, _ = ran(capsys, "-b", leader.address, "--follow", "--since", "0", "--limit", "60")
        assert code == 0
        lines = out.splitlines()
        assert len(lines) == 60
        assert set(lines) >= {
            "2026-11-21 08:57:21.554         2  feature      metadata.version: - -> 30",
            "2026-11-21 08:58:26.982       145  fencing      broker 1: fenced -> active",
            "2026-11-21 08:59:24.746       265  topic        t1: - -> XjANG51TQvODp0TgX2Kx7Q",
            "2026-11-21 08:59:24.746       266  config       topic:t1 retention.ms: - -> 3600000",
            "2026-11-21 08:59:28.526       283  leader       t1/0: 2 -> 1",
            "2026-11-21 08:59:28.526       283  isr          t1/0: 2,1 -> 1",
        }
        code, out, _ = ran(
            capsys,
            "-b",
            leader.address,
            "--follow",
            "--since",
            "0",
            "--limit",
            "2",
            "--where",
            "kind = config",
            "-o",
            "jsonl",
        )
        rows = [json.loads(line) for line in out.splitlines()]
        assert code == 0 and [row["kind"] for row in rows] == ["config", "config"]
        code, out, _ = ran(
            capsys, "-b", leader.address, "--follow", "--since", "0", "--limit", "1", "--columns", "kind,name,new"
        )
        assert (code, out) == (0, "feature  metadata.version  30\n")


def test_text_of_others_in_a_line_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    from actors.command.output.changes import line

    row: dict[str, Any] = dict.fromkeys(
        ["timestamp", "topic", "partition", "broker", "resource", "name", "old", "new", "old_ids", "new_ids"]
    )
    row |= {"offset": 5, "kind": "config", "resource": "topic:\x1b[2J", "name": "a\nb", "new": "\x9b1m"}
    assert line(row).isprintable() and "\\x1b[2J" in line(row)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "which log? Write a PATH, or -b HOST:PORT"),
        (["PATH", "-b", "h:1"], "PATH and an address are two places to read from: leave one out"),
        (["PATH", "--follow"], "--follow reads a running cluster: write -b HOST:PORT instead of PATH"),
        (["PATH", "--follow", "-b", "h:1"], "PATH and an address are two places"),
        (["-b", "h"], "'h' is no address: write HOST:PORT"),
        (["-b", "h:1", "--table", "log"], "the metadata log has no records of topics: rayft consume prints these"),
        (["-b", "h:1", "--topic", "t"], "the metadata log has no records of topics"),
        (["-b", "h:1", "--follow", "--as-of", "3"], "--as-of does nothing beside --follow"),
        (["-b", "h:1", "--follow", "-o", "arrow"], "--follow prints a line a change, and no Arrow: write -o jsonl"),
        (["-b", "h:1", "--follow", "--sql", "select 1"], "--sql does nothing beside --follow"),
        (["-b", "h:1", "--follow", "--out", "f.jsonl"], "--out does nothing beside --follow"),
        (["-b", "h:1", "--follow", "--table", "topics"], "--follow prints changes, and not the table topics"),
        (["-b", "h:1", "--follow", "--limit", "-1"], "--limit -1 is no number of rows"),
        (["-b", "h:1", "--follow", "--since", "14:02"], "--since 14:02 needs a day here: write 2026-11-21T14:02"),
        (["-b", "h:1", "--follow", "--columns", "offset,x"], "changes has no column 'x', only offset, timestamp,"),
        (["-b", "h:1", "--follow", "--where", "x = 1"], "no column"),
        (["-b", "h:1", "--follow", "--since", "yesterday"], "'yesterday' is no moment"),
        (["-b", "h:1", "--table", "topics", "--as-of", "yesterday"], "'yesterday' is no moment"),
        (["-b", "h:1", "--table", "toppics"], "there is no table 'toppics', only topics,"),
        (["-b", "h:1", "--table", "topics", "--limit", "-1"], "--limit -1 is no number of rows"),
        (["-b", "h:1", "--table", "topics", "--since", "3"], "--since does nothing for the table topics"),
        (["-b", "h:1", "--json", "-o", "jsonl"], "not allowed with argument"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_wrong_words_are_told_before_anybody_is_asked(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(connection.VARIABLE, raising=False)
    monkeypatch.setattr(connection, "connect", lambda *_, **__: pytest.fail("somebody is asked"))
    code, out, err = ran(capsys, *words)
    assert code in (1, 2) and not out
    assert sentence in err and err.count("\n") == 1
