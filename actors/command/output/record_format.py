r"""How `rayft consume` prints a record: by a format string, or as JSON.

A format has `%k` key, `%v` (or `%s`) value, `%t` topic, `%p` partition, `%o` offset, `%T` time in ms, `%h` headers as
`name=value,...`, `%K` and `%V` (or `%S`) sizes of key and value (-1: there is none), `%%`, and the escapes `\n`, `\t`, `\r`,
`\\` and `\xNN`. A pipe gets the bytes of records as they are. A terminal gets text, of which it obeys nothing but line ends.
"""

import base64
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from actors.printable import printable

TOKEN = re.compile(rb"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"0": b"\0"}
OWN = re.compile(r"[^\n\t]+")


class PrintedRecord(NamedTuple):
    """A record with its place."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


Piece = bytes | Callable[[PrintedRecord], bytes]


class BadFormat(ValueError):
    """A format string that means nothing. The message says what to write."""


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _headers(one: PrintedRecord) -> bytes:
    return b",".join(name + b"=" + (b"" if value is None else value) for name, value in one.headers)


FIELDS: dict[bytes, Callable[[PrintedRecord], bytes]] = {
    b"k": lambda one: one.key or b"",
    b"v": lambda one: one.value or b"",
    b"s": lambda one: one.value or b"",
    b"t": lambda one: one.topic.encode(errors="surrogateescape"),
    b"p": lambda one: b"%d" % one.partition,
    b"o": lambda one: b"%d" % one.offset,
    b"T": lambda one: b"%d" % one.timestamp,
    b"h": _headers,
    b"K": lambda one: _size(one.key),
    b"V": lambda one: _size(one.value),
    b"S": lambda one: _size(one.value),
}


def pieces(text: bytes) -> list[Piece]:
    """The pieces of a format string. Raises BadFormat."""
    found: list[Piece] = []
    at = 0
    for token in TOKEN.finditer(text):
        found.append(text[at : token.start()])
        at = token.end()
        field, escape = token[1], token[2]
        if field == b"%":
            found.append(b"%")
        elif field is not None and field in FIELDS:
            found.append(FIELDS[field])
        elif field is not None:
            raise BadFormat(f"%{field.decode(errors='replace')} in the format means nothing: write one of {_known()}")
        elif escape in ESCAPES:
            found.append(ESCAPES[escape])
        elif escape.startswith(b"x") and len(escape) == 3:
            found.append(bytes([int(escape[1:], 16)]))
        else:
            raise BadFormat(
                f"\\{escape.decode(errors='replace')} in the format means nothing: write \\n, \\t, \\r, \\\\ or \\xNN"
            )
    found.append(text[at:])
    return [one for one in found if one != b""]


def _known() -> str:
    return ", ".join(f"%{name.decode()}" for name in FIELDS) + " or %%"


def raw(format: list[Piece], one: PrintedRecord) -> bytes:
    """A record for a pipe."""
    return b"".join(piece if isinstance(piece, bytes) else piece(one) for piece in format)


def text(format: list[Piece], one: PrintedRecord) -> str:
    """A record for a terminal. Tabs are left as they are where the format has them."""
    return "".join(
        OWN.sub(lambda found: printable(found[0]), _text(piece))
        if isinstance(piece, bytes)
        else _lines(_text(piece(one)))
        for piece in format
    )


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _lines(field: str) -> str:
    return "\n".join(map(printable, field.split("\n")))


def line(one: PrintedRecord) -> str:
    """A record as JSON in a line. Bytes that are no text are `{"base64": ...}`."""
    return json.dumps({
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp,
        "key": _json(one.key),
        "value": _json(one.value),
        "headers": [[_json(name), _json(value)] for name, value in one.headers],
    })  # fmt: skip


def _json(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
