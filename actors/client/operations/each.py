"""Operations over many things at once: one request, an outcome for each thing, and another request for those that are to be
tried again. And over one thing that is tried again."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from actors.client.asks import Ask, Pause, Reply, Steps
from actors.client.errors import Action, ClientError, action, refused

K = TypeVar("K")
Outcome = tuple[Any, int, str | None]
"""The outcome for one thing: (which one, error code, the server's words)."""


def each(
    what: str,
    items: Iterable[K],
    ask: Callable[[list[K]], Ask],
    outcomes: Callable[[Reply], Iterable[Outcome]],
    again: frozenset[Action] = frozenset({Action.AGAIN}),
    named: Callable[[K], str] | None = None,
) -> Steps[dict[K, ClientError | None]]:
    """Ask for all things, and again for those whose error passes, until all are decided. `what`: `topic`, for the
    errors; `named`: how they name a thing, if it is not a name. Returns the error of each, or None."""
    left = list(items)
    found: dict[K, ClientError | None] = {}
    attempt = 0
    while left:
        reply = yield ask(left)
        told = {item: (code, words) for item, code, words in outcomes(reply)}
        later = []
        for item in left:
            code, words = told.get(item, (-1, "the answer does not mention it"))
            if action(code) in again:
                later.append(item)
            else:
                found[item] = refused(f"{what} {(named or _named)(item)}".strip(), code, words) if code else None
        left = later
        if left:
            yield Pause(attempt=attempt)
            attempt += 1
    return found


def decided(ask: Ask, code: Callable[[Any], int]) -> Steps[Any]:
    """Ask, and again while the answer has an error that passes. `code`: the error code of an answer. Returns the answer's
    message."""
    attempt = 0
    while True:
        reply = yield ask
        if action(code(reply.message)) is not Action.AGAIN:
            return reply.message
        yield Pause(attempt=attempt)
        attempt += 1


def _named(item: Any) -> str:
    """The name of a thing as people write it: a partition as `orders/0`."""
    if not isinstance(item, tuple):
        return str(item)
    first, second = item
    return f"{first}/{second}" if isinstance(second, int) else f"{first.name.lower().replace('_', ' ')} {second}"


def alone(outcomes: dict[Any, ClientError | None]) -> None:
    """Raise the first error, if there is one, where one thing was asked for."""
    for error in outcomes.values():
        if error is not None:
            raise error
