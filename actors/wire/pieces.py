"""Cuts a long request into pieces that together ask for the same, and joins the replies to the pieces.

This file alone decides how a request is cut by its schema, whatever its API. Rules:

1. A piece has a limited number of entries. Elements of a list stay in their order; one whose own lists are too long comes in
   several pieces, each with all its other fields.
2. The first entry of a reply continues the last one before it only where its piece begins with the rest of an element, and
   its fields are alike, lists excepted. Without lists it is that entry once more. Elsewhere two entries are two, however
   alike: refusals of different elements often are.

It fits where what is said of an entry depends on that entry alone, as in refusals. What is decided by more than one entry is
cut in `controller/portions.py`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.wire.messages import Message, changed

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterConfigsResponse


class Piece(NamedTuple):
    """A part of a request. `inside`: how many lists deep it begins with the rest of an element; 0: with a new one."""

    request: Message
    inside: int


def pieces(request: Message, entries_max: int) -> Iterator[Piece]:
    """The pieces of a request, one at least. To find one costs as much as it has entries."""
    for piece, _, inside in _pieces(request, entries_max):
        yield Piece(piece, inside)


def join(reply: Any, more: Any, inside: int) -> None:
    """Add the reply to a piece to the replies before it. `inside`: that of the piece."""
    for name in _lists(reply):
        entries, others = getattr(reply, name), getattr(more, name)
        if not entries or not others:
            setattr(reply, name, entries if entries else others)
        elif inside and _alike(entries[-1], others[0]):
            join(entries[-1], others[0], inside - 1)
            entries.extend(others[1:])
        else:
            entries.extend(others)


def _pieces(message: Any, entries_max: int) -> Iterator[tuple[Any, int, int]]:
    """(piece, its entries, how many lists deep it begins with the rest of an element)."""
    fields = _lists(message)
    empty: dict[str, Any] = {name: None if getattr(message, name) is None else [] for name in fields}
    parts: dict[str, Any] = _fresh(empty)
    count, begun, inside = 1, False, 0
    for name in fields:
        for element in getattr(message, name) or ():
            for number, (part, cost, deep) in enumerate(_parts(element, entries_max)):
                if begun and count + cost > entries_max:
                    yield changed(message, **parts), count, inside
                    parts, count, inside = _fresh(empty), 1, 1 + deep if number else 0
                parts[name].append(part)
                count += cost
                begun = True
    yield changed(message, **parts), count, inside


def _parts(element: Any, entries_max: int) -> Iterator[tuple[Any, int, int]]:
    """An element of a list with the number of its entries, as `_pieces` has them; in parts if these are many."""
    inner = _lists(element) if hasattr(element, "__layout__") else ()
    count, plain = 1, True
    for name in inner:
        entries = getattr(element, name)
        if entries:
            count += len(entries)
            plain = plain and not (hasattr(entries[0], "__layout__") and _lists(entries[0]))
    if count <= entries_max and plain:
        yield element, count, 0
    else:
        yield from _pieces(element, entries_max)


def _fresh(empty: dict[str, Any]) -> dict[str, Any]:
    return {name: None if entries is None else [] for name, entries in empty.items()}


def _lists(message: Any) -> tuple[str, ...]:
    """The fields of a message that are lists."""
    cls = type(message)
    found: tuple[str, ...] | None = cls.__dict__.get("__lists__")
    if found is None:
        found = tuple(field.attribute for field in cls.__struct__.fields if field.array)
        cls.__lists__ = found
    return found


def _alike(
    last: "AlterConfigsResponse.AlterConfigsResourceResponse",
    first: "AlterConfigsResponse.AlterConfigsResourceResponse",
) -> bool:
    """Whether two entries of a reply differ in their lists at most."""
    if not hasattr(last, "__layout__"):
        return False
    lists = _lists(last)
    return all(getattr(last, name) == getattr(first, name) for name in last.__layout__.names if name not in lists)
