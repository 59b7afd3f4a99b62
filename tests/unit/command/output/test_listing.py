"""Rows as people and programs see them."""

import io
import json
import sys

import pytest

from actors.command import cli
from actors.command.output import listing
from actors.command.output.listing import BOOL, FLOAT, INT, INTS, LONG, TEXT, Listing
from actors.printable import Guarded

ROWS = [
    {"topic": "orders", "partition": 0, "isr": [1, 22], "lag": None, "internal": False},
    {"topic": "x\x1b[31m\n", "partition": 10, "isr": [], "lag": 5, "internal": True},
]
COLUMNS = Listing(
    {"topic": TEXT, "partition": INT, "isr": INTS, "lag": LONG, "internal": BOOL},
    trouble={"lag": lambda lag: lag is None},
)
GOLDEN = r"""
topic          partition  isr   lag  internal
orders                 0  1 22    -  no
x\x1b[31m\x0a         10  -       5  yes
"""


def test_a_table_is_aligned_and_no_terminal_obeys_it() -> None:
    assert listing.table(ROWS, COLUMNS) == GOLDEN.lstrip("\n")
    assert listing.table([], Listing({"topic": TEXT, "lag": LONG})) == "topic  lag\n"


@pytest.mark.parametrize("how", ["json", "jsonl"])
def test_json_has_the_values_as_they_are(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    listing.show(ROWS, COLUMNS, how)
    out = capsys.readouterr().out
    assert (json.loads(out) if how == "json" else [json.loads(line) for line in out.splitlines()]) == ROWS


class Terminal(io.TextIOWrapper):
    """Standard output that is a terminal, or that is none."""

    def __init__(self, is_one: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one

    def got(self) -> bytes:
        return self.buffer.getvalue()  # type: ignore[attr-defined, no-any-return]


COLOURED = (
    "\x1b[1mtopic        \x1b[0m  \x1b[1mpartition\x1b[0m  \x1b[1misr \x1b[0m  \x1b[1mlag\x1b[0m  \x1b[1minternal\x1b[0m\n"
    "orders                 0  1 22  \x1b[31m  -\x1b[0m  no\n"
    r"x\x1b[31m\x0a         10  -       5  yes"
    "\n"
)


@pytest.mark.parametrize(
    ("is_terminal", "env", "coloured"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"NO_COLOR": ""}, True),
     (True, {"TERM": "dumb"}, False)],
)  # fmt: skip
def test_colours_are_for_terminals_that_want_them(
    is_terminal: bool, env: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stdout", Guarded(terminal))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    listing.show(ROWS, COLUMNS, "table")
    wanted = COLOURED if coloured else GOLDEN.lstrip("\n")
    assert terminal.got().decode() == wanted


def test_arrow_has_the_types_of_the_columns_whatever_the_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    kinds = {**COLUMNS.kinds, "of": [{"name": TEXT, "value": FLOAT}]}
    found = []
    for rows in (ROWS, []):
        pipe = Terminal(False)
        monkeypatch.setattr(sys, "stdout", Guarded(pipe))
        listing.show(rows, Listing(kinds), "arrow")
        found.append(pa.ipc.open_stream(pipe.got()).read_all())
    some, none = found
    assert some.schema == none.schema and none.num_rows == 0
    assert some.schema.types == [
        pa.string(), pa.int32(), pa.list_(pa.int32()), pa.int64(), pa.bool_(),
        pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64())])),
    ]  # fmt: skip
    assert some.select(list(COLUMNS.kinds)).to_pylist() == ROWS


def test_a_terminal_gets_no_arrow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(SystemExit) as ended:
        cli.main(["topic", "list", "-o", "arrow", "-b", "127.0.0.1:1"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "rayft topic list: argument -o/--output: a terminal shows no Arrow: write > FILE or | COMMAND behind it; see rayft "
        "topic list --help\n"
    )
