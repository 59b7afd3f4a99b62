"""What reaches a stream of a command, whatever its encoding is, and without one."""

import io
import json
import subprocess
import sys
from html.parser import HTMLParser
from itertools import count
from pathlib import Path

import pytest

from actors.command.output.tables import as_json
from actors.printable import CELL_MAX, COLUMNS_SHOWN, ROWS_SHOWN, Guarded, html_table

LOG = Path("tests/golden/kafka-4.3.1/__cluster_metadata-0/00000000000000000000.log")
ROW = {"key": "é日\U0001f600", "value": "\x1b[31m\u200e\x85\t"}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str) -> None:
    written = io.BytesIO()
    stream = Guarded(io.TextIOWrapper(written, encoding=encoding))
    stream.write(as_json(ROW) + "\n")
    stream.flush()
    assert json.loads(written.getvalue().decode(encoding)) == ROW


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("command", ["random-id", f"dump {LOG}"])
def test_a_command_without_a_stream_does_what_it_does(command: str, closed: str) -> None:
    line = f"{sys.executable} -m actors.command.cli {command} {closed}"
    found = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert bool(found.stdout) == (closed == "2>&-")


EVIL = "<script>alert(1)</script>\" onload='x' &amp; $\\href{javascript:x}{y}$ \x1b]0;\u202e"


def test_a_notebook_shows_no_markup_of_others() -> None:
    made = html_table((EVIL[:60], "b"), [(EVIL[:70], None), (3, EVIL[-30:])], words=EVIL)
    texts: list[str] = []
    tags: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert tag == "div" or not attrs

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Parser().feed(made)
    assert set(tags) == {"div", "p", "table", "tr", "th", "td"}
    assert texts[0].startswith("<script>alert(1)</script>") and "mathjax_ignore" in made and "tex2jax_ignore" in made
    assert made.isprintable(), "and nothing turns the direction of what follows"


def test_a_notebook_shows_the_beginning_of_a_large_table() -> None:
    wide = [f"c{n}" for n in range(40)]
    endless = ([f"{n}-{m}" + "x" * 1_000_000 for m in range(40)] for n in count())
    made = html_table(wide, endless, total=1_000_000)
    assert made.count("<tr>") == 1 + ROWS_SHOWN and made.count("<td>") == ROWS_SHOWN * COLUMNS_SHOWN
    assert len(made) < ROWS_SHOWN * COLUMNS_SHOWN * (CELL_MAX + 20) + 1_000
    assert f"and {1_000_000 - ROWS_SHOWN:,} more rows and {40 - COLUMNS_SHOWN} more columns" in made
    assert "more" not in html_table(("a",), [(1,)], total=1)
