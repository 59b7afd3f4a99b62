"""Records by a format string: bytes as they are in a pipe, text without sequences on a terminal."""

import json

import pytest

from actors.command.output.record_format import BadFormat, PrintedRecord, line, pieces, raw, text

RECORD = PrintedRecord("orders", 3, 17, 1000, b"k\xff", b"v\x1b[2J\nw", ((b"h", b"1"), (b"h", None)))
NULL = PrintedRecord("orders", 0, 0, -1, None, None, ())


@pytest.mark.parametrize(
    ("format", "wanted"),
    [
        (rb"%v\n", b"v\x1b[2J\nw\n"),
        (rb"%t/%p/%o %T\t%k=%s;", b"orders/3/17 1000\tk\xff=v\x1b[2J\nw;"),
        (rb"%h %K %V %S 100%%\x41\\", b"h=1,h= 2 7 7 100%A\\"),
        (b"plain", b"plain"),
    ],
)
def test_a_pipe_gets_the_bytes(format: bytes, wanted: bytes) -> None:
    assert raw(pieces(format), RECORD) == wanted


def test_nothing_is_empty_and_has_the_size_minus_one() -> None:
    assert raw(pieces(rb"[%k|%v|%h|%K|%V]"), NULL) == b"[|||-1|-1]"


def test_a_terminal_obeys_nothing() -> None:
    assert text(pieces(rb"%k\t%v\n"), RECORD) == "k\\xff\tv\\x1b[2J\nw\n"
    assert text(pieces(rb"\x1b[31m%t\n"), RECORD) == "\\x1b[31morders\n"


@pytest.mark.parametrize(
    ("format", "why"), [(b"%z", "%z"), (b"%", "%"), (rb"\q", r"\q"), (b"a\\", "\\"), (rb"\xg1", r"\xg1"[:2])]
)
def test_a_format_that_means_nothing_is_refused(format: bytes, why: str) -> None:
    with pytest.raises(BadFormat, match="means nothing: write") as error:
        pieces(format)
    assert str(error.value).startswith(why)


def test_json_keeps_bytes_that_are_no_text() -> None:
    assert json.loads(line(RECORD)) == {
        "topic": "orders", "partition": 3, "offset": 17, "timestamp": 1000, "key": {"base64": "a/8="},
        "value": "v\x1b[2J\nw", "headers": [["h", "1"], ["h", None]],
    }  # fmt: skip
    assert line(RECORD).isprintable() and json.loads(line(NULL))["value"] is None
