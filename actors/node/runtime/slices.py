"""Handlers that work through the entries of a long request in slices, so that others run in between.

Such a handler is a generator: it counts what it has done with a `SliceCount`, yields where a slice is over, and returns its
answer. A request that is shorter than a slice is answered in one go. Between two slices anything may happen: other requests,
new metadata, the end of a lease. So a handler looks up again, after a yield, whatever it had looked up before; a connection
that closes, or that may not be answered any more, takes the rest of the work with it.
"""

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial, wraps
from heapq import merge
from typing import Any, TypeVar

from actors.node.runtime.answers import Answer, Done, Parked, Sliced
from actors.node.runtime.calls import Call
from actors.node.runtime.steps import AT_ONCE_MAX, COUNTED

ENTRIES_A_SLICE = 300
"""The entries of a slice. An entry takes 2 to 15 microseconds."""

Steps = Generator[None, None, Answer]
"""Work that yields at the end of a slice, and returns the answer."""


C = TypeVar("C")
"""The context of a handler."""
E = TypeVar("E")
"""An entry that is put in order."""
K = TypeVar("K", str, tuple[str, int])
"""The type of a name: a text, or a text with a number."""


def in_slices(handler: Callable[[C, Any, Call], Steps]) -> Callable[[C, Any, Call], Answer]:
    """The handler that does the work of `handler` slice by slice."""

    @wraps(handler)
    def begin(context: C, request: Any, call: Call) -> Answer:
        return go_on(handler(context, request, call))

    return begin


def go_on(steps: Steps) -> Answer:
    """Do one slice; returns the answer if it was the last."""
    try:
        next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    COUNTED.slices += 1
    return Sliced(lambda: go_on(steps))


def portions(entries: Sequence[E], first: int = 0) -> Iterator[Sequence[E]]:
    """The entries from `first` on, a slice at a time."""
    return (entries[begin : begin + ENTRIES_A_SLICE] for begin in range(first, len(entries), ENTRIES_A_SLICE))


class SliceCount:
    """A count of the entries of a slice: those that are looked at, whether or not anything is kept or said of them. A
    step that goes on behind the end of its slice is found here (`steps.py`), and costs nothing as long as no slice
    ends."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left = ENTRIES_A_SLICE
        self._at = -1
        """How many slices of all handlers had ended when the last slice counted here ended; -1: none has."""

    def over(self, entries: int = 1) -> bool:
        """Count entries that were looked at. True: the slice is over, and the next one has begun."""
        self._left -= entries
        if self._left > 0:
            return False
        looked, slices = ENTRIES_A_SLICE - self._left, COUNTED.slices
        if self._at == slices or entries > AT_ONCE_MAX:
            COUNTED.overran(sys._getframe(1).f_code.co_qualname, looked + ENTRIES_A_SLICE * (self._at == slices))
        self._at = slices
        self._left = ENTRIES_A_SLICE
        return True


def put_in_order(names: Iterable[K], pace: SliceCount) -> Generator[None, None, list[K]]:
    """The names, sorted and each once. However many these are, no slice sorts or compares more than its part."""
    runs: list[list[K]] = []
    run: list[K] = []
    for name in names:
        run.append(name)
        if pace.over():
            runs.append(sorted(run))
            run = []
            yield
    runs.append(sorted(run))
    if len(runs) == 1:
        return list(dict.fromkeys(runs[0]))
    found: list[K] = []
    for name in merge(*runs):
        if not found or found[-1] != name:
            found.append(name)
        if pace.over():
            yield
    return found


def joined(answers: Sequence[Answer], finish: Callable[[list[Any]], Generator[None, None, Any]]) -> Answer:
    """One answer made of several, each Done or Parked: its reply is `finish` of theirs, once the last of them is known."""
    return go_on(_joined(list(answers), [], finish))


def _joined(left: list[Answer], replies: list[Any], finish: Callable[[list[Any]], Generator[None, None, Any]]) -> Steps:
    pace = SliceCount()
    for place in range(len(replies), len(left)):
        answer = left[place]
        if isinstance(answer, Parked):  # its key may have been signalled while others were begun, in earlier slices
            answer = left[place] = answer.again(False)
        if isinstance(answer, Parked):
            return answer._replace(again=partial(_again, left, place, replies, finish))
        assert isinstance(answer, Done)
        replies.append(answer.reply)
        if pace.over():
            yield
    return Done((yield from finish(replies)))


def _again(
    left: list[Answer],
    place: int,
    replies: list[Any],
    finish: Callable[[list[Any]], Generator[None, None, Any]],
    expired: bool,
) -> Answer:
    answer = left[place]
    assert isinstance(answer, Parked)
    left[place] = answer.again(expired)
    return go_on(_joined(left, replies, finish))
