"""The log of a process: lines that cannot be forged or lost in its stream, and records that Python's `logging` routes."""

import errno
import gc
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actors.host import storage
from actors.host.serve import REFUSED, serve
from actors.host.work.journal import SAID_MAX, Journal, shut_down
from actors.node.runtime.peer_lines import PeerLines
from actors.settings.node_config import node_config


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("rayft", "rayft.host", "rayft.host.serve")]
    before = [(one, one.level, one.propagate, [*one.handlers], [*one.filters]) for one in loggers]
    yield
    for one, level, propagate, handlers, filters in before:
        one.setLevel(level)
        one.propagate, one.handlers, one.filters = propagate, handlers, filters


class Disk(io.RawIOBase):
    """A stream on a disk that may be full."""

    full, written = True, b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written += bytes(data)
        return len(data)


def test_a_log_that_cannot_be_written_hurts_nobody_and_goes_on_when_there_is_room() -> None:
    """A node that reports its full disk often has its log on the same one."""
    disk = Disk()
    journal = Journal(io.TextIOWrapper(io.BufferedWriter(disk)))
    for _ in range(2000):  # more than the stream keeps back
        journal.error("no append is taken until there is room")
    disk.full = False
    journal.info("there is room again")
    assert disk.written.endswith(b"INFO  there is room again\n")


def test_a_name_that_the_log_cannot_spell_is_written_all_the_same() -> None:
    """Of a directory that somebody made by hand, say: the node that tells of it must not end."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "utf-8")
    Journal(stream).warning(f"{os.fsdecode(bytes((0xFF,)))}-0 is not used")
    assert raw.getvalue().endswith(b"WARN  \\udcff-0 is not used\n")


def test_a_name_with_a_line_end_begins_no_line() -> None:
    forged = "x' \n2026-01-01 00:00:00.000 INFO  broker 1 is FENCED\r\u2028\x1b[2J"
    stream = io.StringIO()
    log = Journal(stream)
    log.warning(f"closed the connection of 10.9.9.9 on BROKER: its login failed: unknown user '{forged}'")
    log.info(f"User:{forged}")
    log.error(f"Produce failed: '{forged}'\nTraceback\n  File\n{forged}")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 8, lines
    assert all(line.startswith("    ") for line in lines[3:]) and not any("\x1b" in line for line in lines)


class Heard(logging.Handler):
    """What a user's own handler was given."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def refused_start(home: Path, **more: str) -> tuple[str, list[str]]:
    """A node that says three things and does not start, as its metrics have no port: the reason, and the log's lines
    without their times."""
    sentence, lines = refused(home, **more)
    return sentence, [line[24:] for line in lines]


def refused(home: Path, **more: str) -> tuple[str, list[str]]:
    """The same, with the whole lines."""
    config = node_config(
        {
            "process.roles": "broker",
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "controller.connect": "1001@127.0.0.1:1",
            "log.dirs": str(home / "data"),
            "num.io.threads": "3",
            "background.threads": "4",
            "rayft.metrics.listen": "127.0.0.1",
        }
        | {name.replace("_", "."): text for name, text in more.items()}
    )
    storage.format_node(config, "3Db5QLSqSZieL3rJBUUegA", voters=None, ignore_formatted=True)
    stream = io.StringIO()
    code, sentence = serve(config, Journal(stream), main_thread=False)
    assert code == REFUSED
    return sentence, stream.getvalue().splitlines()


def test_a_handler_of_the_user_has_the_lines_as_records(tmp_path: Path) -> None:
    heard, other = Heard(), Heard()
    logging.getLogger("rayft").addHandler(heard)
    logging.getLogger("rayft.node").addHandler(other)
    _, lines = refused_start(tmp_path)
    assert len(lines) == 2 and "num.io.threads has no effect" in lines[0], "the log's own stream has them as ever"
    told = [(one.name, one.levelname, one.module, one.funcName) for one in heard.records]
    assert told == [("rayft.host.serve", "WARNING", "serve", "serve")] * 2
    assert [f"WARN  {one.getMessage()}" for one in heard.records] == lines
    assert not other.records


def test_levels_and_filters_are_those_of_the_loggers(tmp_path: Path) -> None:
    logging.getLogger("rayft.host.serve").addFilter(lambda record: "background" not in record.getMessage())
    assert ["num.io.threads" in line for line in refused_start(tmp_path)[1]] == [True]
    logging.getLogger("rayft.host").setLevel(logging.ERROR)
    assert refused_start(tmp_path)[1] == []


def test_a_file_says_where_the_lines_go(tmp_path: Path) -> None:
    routed, file = tmp_path / "routed", tmp_path / "logging.json"
    handler = {"class": "logging.FileHandler", "filename": str(routed), "formatter": "short"}
    given = {
        "version": 1,
        "formatters": {"short": {"format": "%(name)s %(levelname)s %(message)s"}},
        "handlers": {"file": handler},
        "loggers": {"rayft": {"level": "INFO", "handlers": ["file"], "propagate": False}},
    }
    file.write_text(json.dumps(given))
    _, lines = refused_start(tmp_path, rayft_logging_config=str(file))
    assert lines == [], "the handlers of a logger that is named take the place of the present ones"
    assert routed.read_text().startswith("rayft.host.serve WARNING num.io.threads has no effect")
    for handler_ in logging.getLogger("rayft").handlers:
        handler_.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read (No such file or directory): name a file in JSON"),
        ("{", "is not what logging.config.dictConfig takes, in JSON (Expecting property name"),
        ("[]", "is not what logging.config.dictConfig takes"),
        ("{}", "is not what logging.config.dictConfig takes, in JSON (dictionary doesn't specify a version"),
        ('{"version": 1, "handlers": {"x": {"class": "no.such.Class"}}}', "No module named 'no'"),
    ],
)
def test_a_file_that_says_nothing_stops_the_start(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "logging.json"
    if text is not None:
        file.write_text(text)
    sentence, _ = refused_start(tmp_path, rayft_logging_config=str(file))
    assert sentence.startswith(f"rayft.logging.config={file} ") and said in sentence


def test_what_a_user_has_added_and_raises_ends_no_node(tmp_path: Path) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no connection to the collector")

    logging.getLogger("rayft.host").addHandler(Broken())
    assert refused_start(tmp_path)[0].startswith("rayft.metrics.listen")


def test_a_line_that_is_counted_among_those_of_peers_is_of_the_module_that_says_it() -> None:
    heard = Heard()
    logging.getLogger("rayft").addHandler(heard)
    journal = Journal(io.StringIO())
    said = "lines.of_principal(write, 'User:eve', 'User:eve is denied READ')"
    place = {"__name__": "actors.node.api.security.authorizer", "write": journal.warning}
    exec(said, place | {"lines": PeerLines(lambda: 0, lambda ms, function: None)})
    assert [one.name for one in heard.records] == ["rayft.node.api.security.authorizer"]


def test_two_logs_of_a_process_have_their_own_lines() -> None:
    gc.collect()  # logs of tests before this one
    before = len(logging.getLogger("rayft").handlers)
    one, other = io.StringIO(), io.StringIO()
    logs = [Journal(one), Journal(other)]
    logs[0].info("from the first")
    logs[1].info("from the second")
    assert [text.getvalue()[24:] for text in (one, other)] == ["INFO  from the first\n", "INFO  from the second\n"]
    logs.clear()
    gc.collect()
    assert len(logging.getLogger("rayft").handlers) == before


def test_lines_for_programs_are_objects_from_the_first_one_and_have_what_text_has(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "json").mkdir()
    _, lines = refused_start(tmp_path / "text")
    _, objects = refused(tmp_path / "json", rayft_logging_format="json")
    read = [json.loads(line) for line in objects]
    assert read and all(set(one) == {"time", "level", "logger", "node", "message"} for one in read)
    assert [f"WARN  {one['message']}" for one in read] == lines
    assert {(one["node"], one["logger"], one["level"]) for one in read} == {(1, "rayft.host.serve", "WARNING")}
    for one in read:
        assert abs(datetime.fromisoformat(one["time"]) - datetime.now(UTC)) < timedelta(hours=1)


def test_what_is_said_on_standard_error_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a handler that has failed says it, which fails again at the line that tells of it."""

    class Fails(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                raise OSError("no room")
            except OSError:
                self.handleError(record)

    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr("threading.excepthook", threading.__excepthook__)
    stream = io.StringIO()
    journal = Journal(stream)
    journal.for_programs(None)
    journal.take_standard_error()
    logging.getLogger("rayft").addHandler(Fails())
    journal.info("the first line")
    for _ in range(3):
        journal.settle()
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    for wrong in (b"bytes", None):
        with pytest.raises(TypeError):
            sys.stderr.write(wrong)  # type: ignore[arg-type]
    print("half a", end=" ", file=sys.stderr)
    print("sentence\n\x1b\udc80", file=sys.stderr)
    shut_down()
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    starts = [
        "the first line",
        "--- Logging error ---\n    Traceback ",
        "Exception in thread ",
        "half a sentence\n    \\x1b\\udc80",
    ]
    assert len(told) == len(starts), stream.getvalue()
    for one, start in zip(told, starts, strict=True):
        assert one["message"].startswith(start), one
    assert {(one["logger"], one["level"], one["node"]) for one in told[1:]} == {("rayft", "ERROR", None)}


def test_what_is_said_without_an_end_is_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    stream = io.StringIO()
    journal = Journal(stream)
    journal.for_programs(1)
    journal.take_standard_error()
    for _ in range(10):
        sys.stderr.write("x" * (SAID_MAX // 4))
    assert len(stream.getvalue().splitlines()) == 2


def test_an_object_is_one_line_whatever_it_says() -> None:
    stream = io.StringIO()
    journal = Journal(stream)
    journal.for_programs(7)
    journal.error("a mistake\n  in \u2028 two\udc80 lines")
    journal.info('"quoted" \\ \x00 é')
    first, second = stream.getvalue().splitlines()
    assert json.loads(first)["message"] == "a mistake\n      in \\u2028 two\\udc80 lines"
    assert json.loads(second) | {"time": ""} == {
        "time": "", "level": "INFO", "logger": "rayft", "node": 7, "message": '"quoted" \\ \\x00 é',
    }  # fmt: skip
    assert stream.getvalue().isascii()
