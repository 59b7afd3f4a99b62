"""Answers made of answers: one with another reply, and one of several that are waited for."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actors.node.registry import Answer, Done, Held, Later, Parked, Sliced


def mapped(answer: Answer, change: Callable[[Any], Any]) -> Answer:
    """`answer` with `change(reply)` for its reply, whenever that comes. Forward and Close stay as they are."""
    if isinstance(answer, Done):
        return Done(change(answer.reply))
    if isinstance(answer, Held):
        return Held(answer.offset, change(answer.reply))
    if isinstance(answer, Parked):
        parked = answer
        return parked._replace(again=lambda expired: mapped(parked.again(expired), change))
    if isinstance(answer, Later):
        later = answer
        return Later(later.job, lambda result: mapped(later.then(result), change), later.kind)
    if isinstance(answer, Sliced):
        sliced = answer
        return Sliced(lambda: mapped(sliced.again(), change))
    return answer


def joined(answers: Sequence[Answer], finish: Callable[[list[Any]], Any]) -> Answer:
    """One answer of several, each Done or Parked: its reply is `finish` of theirs, once the last of them is known."""
    return _joined(list(answers), [], finish)


def _joined(left: list[Answer], replies: list[Any], finish: Callable[[list[Any]], Any]) -> Answer:
    for place in range(len(replies), len(left)):
        answer = left[place]
        if isinstance(answer, Parked):
            return answer._replace(again=partial(_again, left, place, replies, finish))
        assert isinstance(answer, Done)
        replies.append(answer.reply)
    return Done(finish(replies))


def _again(
    left: list[Answer], place: int, replies: list[Any], finish: Callable[[list[Any]], Any], expired: bool
) -> Answer:
    answer = left[place]
    assert isinstance(answer, Parked)
    left[place] = answer.again(expired)
    return _joined(left, replies, finish)
