"""Text of others, as it is printed on a terminal, and as a notebook shows it.

This file alone decides what becomes of characters that a terminal obeys: names of topics, groups and users, keys, values and
sentences of errors come from anybody who can write into a cluster, and may hold sequences that set the title of a window,
move the cursor or hide what follows. Rules:

1. All that a command prints passes through a `Guarded` stream, whichever command it is (`actors/command/cli.py`):
   nobody has to remember it.
2. What draws on a terminal, with colours and moving lines, writes past that (`unguarded`), and makes each text of others
   `printable` itself.
3. A notebook shows what `html_table` makes: no text becomes markup there, nor a formula with a link in it, and a table of
   any size is a few rows.
"""

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

LINE_END = "\n"
ROWS_SHOWN, COLUMNS_SHOWN, CELL_MAX = 10, 12, 80


def printable(text: str) -> str:
    """A text of which a terminal shows each character and obeys none: control characters, line ends too, marks that change
    the direction of writing, and halves of surrogate pairs are written as escapes (`\\x1b`, `\\u202e`)."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(one: str) -> str:
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class Guarded:
    """A stream of text on which only what is printable is written, and ends of lines."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = unguarded(stream)

    def write(self, text: str) -> int:
        """Write a text without the characters that a terminal obeys. Returns its length."""
        if not text.isprintable() and text != LINE_END:
            self.unguarded.write(expressed(LINE_END.join(map(printable, text.split(LINE_END))), self.unguarded))
        else:
            self.unguarded.write(expressed(text, self.unguarded))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, one behind the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def expressed(text: str, stream: TextIO) -> str:
    """The text with escapes for what the stream's encoding cannot express. They are JSON's, so JSON stays what it is."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if _expresses(encoding, text):
        return text
    return "".join(one if _expresses(encoding, one) else json.dumps(one)[1:-1] for one in text)


def _expresses(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def unguarded(stream: Any) -> Any:
    """The stream below a guarded one; another one as it is."""
    return stream.unguarded if isinstance(stream, Guarded) else stream


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None, words: str = "") -> str:
    """A table as HTML for a notebook: its first rows and columns, and the beginnings of its cells, escaped. `total`: how
    many rows there are; `words`: a sentence above it."""
    shown = [list(row)[:COLUMNS_SHOWN] for row, _ in zip(rows, range(ROWS_SHOWN), strict=False)]
    lines = [f"<tr>{''.join(f'<th>{_cell(one)}</th>' for one in list(head)[:COLUMNS_SHOWN])}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{_cell(one)}</td>' for one in row)}</tr>" for row in shown]
    left = [f"{total - len(shown):,} more rows"] if total is not None and total > len(shown) else []
    left += [f"{len(head) - COLUMNS_SHOWN} more columns"] if len(head) > COLUMNS_SHOWN else []
    above = f"<p>{_cell(words, len(words))}</p>" if words else ""
    below = f"<p>and {' and '.join(left)}</p>" if left else ""
    return f'<div class="tex2jax_ignore mathjax_ignore">{above}<table>{"".join(lines)}</table>{below}</div>'


def _cell(value: object, most: int = CELL_MAX) -> str:
    text = "" if value is None else str(value)
    return html.escape(printable(text[:most])) + ("…" if len(text) > most else "")
