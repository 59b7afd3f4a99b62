"""One answer of several, of which some are known before the others are begun."""

from collections.abc import Generator
from typing import Any

from actors.node.runtime.answers import Answer, Done, Parked, Sliced
from actors.node.runtime.slices import ENTRIES_A_SLICE, joined


def test_what_was_signalled_while_others_were_begun_is_not_waited_for() -> None:
    known: list[int] = []

    def again(expired: bool) -> Answer:
        return Done(known[0]) if known else Parked(["first"], 100, again)

    parked = again(False)
    known.append(7)  # signalled while nobody waited for it
    assert joined([parked, Done(8)], summed) == Done(15)


def test_many_answers_are_joined_in_slices() -> None:
    answer: Answer = joined([Done(1)] * (3 * ENTRIES_A_SLICE), summed)
    slices = 1
    while isinstance(answer, Sliced):
        answer = answer.again()
        slices += 1
    assert answer == Done(3 * ENTRIES_A_SLICE) and slices == 4


def summed(replies: list[int]) -> Generator[None, None, Any]:
    yield from ()
    return sum(replies)
