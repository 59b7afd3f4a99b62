"""Text of others on a terminal.

This file alone decides what becomes of characters that a terminal obeys: names of topics, groups and users, keys, values and
sentences of errors come from anybody who can write into a cluster, and may hold sequences that set the title of a window,
move the cursor or hide what follows.
"""


def printable(text: str) -> str:
    """A text of which a terminal shows each character and obeys none: control characters, line ends too, marks that change
    the direction of writing, and halves of surrogate pairs are written as escapes (`\\x1b`, `\\u202e`)."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(one: str) -> str:
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
