"""What docs/replay.md shows of `rayft replay` is what it prints; docs/replay.md names every table with all its columns."""

import re
import shlex
import time
from pathlib import Path

import pytest

from actors.command import cli
from actors.replay.columns import history, tables

ROOT = Path(__file__).parents[3]
EXAMPLES = re.findall(r"```console\n\$ rayft (.*)\n((?:.*\n)*?)```", (ROOT / "docs" / "replay.md").read_text())


@pytest.mark.parametrize("words", [words for words, _ in EXAMPLES])
def test_what_is_shown(words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if "--sql" in words:
        pytest.importorskip("duckdb", reason="the sql extra is not installed")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert cli.main(shlex.split(words)) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown == dict(EXAMPLES)[words].splitlines()


def test_there_are_three_questions() -> None:
    assert len(EXAMPLES) == 3


def test_the_tables_are_documented_with_their_columns() -> None:
    text = (ROOT / "docs" / "replay.md").read_text()
    for name, schema in tables.SCHEMAS.items():
        assert f"| `{name}` | {', '.join(schema.names)} |" in text
    assert f"`changes`: {', '.join(history.SCHEMA.names)}." in text
    assert all(f"`{kind}`" in text for kind in history.KINDS)
