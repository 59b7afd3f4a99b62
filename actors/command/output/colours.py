"""Colours on a terminal: whether there are any, and a text in one.

A terminal gets colours unless the variable NO_COLOR is set to something (no-color.org) or TERM says that it has none. A pipe
and a file never do. What is painted is printable already, and is written past what guards a stream (`actors/printable.py`).
"""

import os
import sys

from actors.printable import expressed, unguarded

CODES = {"bold": "1", "red": "31", "green": "32"}


def are_shown() -> bool:
    """Whether standard output is a terminal that is to have colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str) -> str:
    """A text in a colour, one of CODES, and behind it the terminal's own."""
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m"


def write(text: str) -> None:
    """Write what was painted, and is printable but for that, to standard output."""
    stream = unguarded(sys.stdout)
    stream.write(expressed(text, stream))


def say(sentence: str, colour: str) -> None:
    """Print a sentence that is printable already, in a colour where there are any."""
    write((painted(sentence, colour) if are_shown() else sentence) + "\n")
