"""Long requests in pieces that ask together for the same, and the replies to the pieces as one.

This file alone decides how a request is cut by its schema, whatever its API. Rules:

1. A piece has a limited number of entries. Elements of a list stay in their order; one whose own lists are too long comes in
   several pieces, each with all its other fields.
2. The first entry of a reply continues the last one before it if their fields are alike, their lists excepted.

It fits where what is said of an entry depends on that entry alone, as in refusals. What is decided by more than one entry is
cut in `controller/portions.py`.
"""

from collections.abc import Iterator
from typing import Any

from actors.wire.messages import changed


def pieces(request: Any, entries_max: int) -> Iterator[Any]:
    """The pieces of a request, one at least. To find one costs as much as it has entries."""
    for piece, _ in _pieces(request, entries_max):
        yield piece


def join(reply: Any, more: Any) -> None:
    """Add the reply to a piece to those before."""
    for name in _lists(reply):
        entries, others = getattr(reply, name), getattr(more, name)
        if not entries or not others:
            entries = entries if entries else others
            setattr(reply, name, entries)
        elif _continues(entries[-1], others[0]):
            join(entries[-1], others[0])
            entries.extend(others[1:])
        else:
            entries.extend(others)


def _pieces(message: Any, entries_max: int) -> Iterator[tuple[Any, int]]:
    fields = _lists(message)
    empty: dict[str, Any] = {name: None if getattr(message, name) is None else [] for name in fields}
    parts: dict[str, Any] = _fresh(empty)
    count, begun = 1, False
    for name in fields:
        for element in getattr(message, name) or ():
            for part, cost in _parts(element, entries_max):
                if begun and count + cost > entries_max:
                    yield changed(message, **parts), count
                    parts, count = _fresh(empty), 1
                parts[name].append(part)
                count += cost
                begun = True
    yield changed(message, **parts), count


def _parts(element: Any, entries_max: int) -> Iterator[tuple[Any, int]]:
    """An element of a list with the number of its entries; in parts if these are many."""
    inner = _lists(element) if hasattr(element, "__layout__") else ()
    count, plain = 1, True
    for name in inner:
        entries = getattr(element, name)
        if entries:
            count += len(entries)
            plain = plain and not (hasattr(entries[0], "__layout__") and _lists(entries[0]))
    if count <= entries_max and plain:
        yield element, count
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


def _continues(last: Any, first: Any) -> bool:
    """Whether two entries of a reply differ in their lists alone, and have some."""
    if not hasattr(last, "__layout__"):
        return False
    lists = _lists(last)
    return bool(lists) and all(
        getattr(last, name) == getattr(first, name) for name in last.__layout__.names if name not in lists
    )
