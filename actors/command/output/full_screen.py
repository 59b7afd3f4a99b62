"""A whole terminal that is drawn anew again and again, and is as it was before when the command ends."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from actors.printable import expressed, unguarded

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""A second screen, without a cursor; what is longer than a line is cut."""
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, LINE_REST, REST = "\x1b[H", "\x1b[K", "\x1b[J"


@contextmanager
def full_screen() -> Iterator[None]:
    """Take the terminal, and give it back at the end, whatever the end is."""
    _write(ENTER)
    try:
        yield
    finally:
        _write(LEAVE)


def draw(lines: list[str]) -> None:
    """Show these lines, as many as fit. They are printable but for colours."""
    shown = lines[: max(1, height())]
    _write(HOME + "\n".join(line + LINE_REST for line in shown) + REST)


def height() -> int:
    """How many lines the terminal has."""
    return shutil.get_terminal_size().lines


def _write(text: str) -> None:
    stream = unguarded(sys.stdout)
    stream.write(expressed(text, stream))
    stream.flush()
