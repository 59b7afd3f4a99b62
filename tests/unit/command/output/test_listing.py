"""Rows as people and programs see them."""

import json

import pytest

from actors.command.output import listing

ROWS = [
    {"topic": "orders", "partition": 0, "isr": [1, 22], "lag": None, "internal": False},
    {"topic": "x\x1b[31m\n", "partition": 10, "isr": [], "lag": 5, "internal": True},
]
COLUMNS = ("topic", "partition", "isr", "lag", "internal")
GOLDEN = r"""
topic          partition  isr   lag  internal
orders                 0  1 22    -  no
x\x1b[31m\x0a         10  -       5  yes
"""


def test_a_table_is_aligned_and_no_terminal_obeys_it() -> None:
    assert listing.table(ROWS, COLUMNS) == GOLDEN.lstrip("\n")
    assert listing.table([], ("topic", "lag")) == "topic  lag\n"


@pytest.mark.parametrize("how", ["json", "jsonl"])
def test_json_has_the_values_as_they_are(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    listing.show(ROWS, (), how)
    out = capsys.readouterr().out
    assert (json.loads(out) if how == "json" else [json.loads(line) for line in out.splitlines()]) == ROWS
