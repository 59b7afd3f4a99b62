"""An answer changed on its way out: the same kind of answer, with another reply."""

from collections.abc import Callable
from typing import Any

from actors.node.registry import Answer, Done, Held, Later, Parked


def mapped(answer: Answer, change: Callable[[Any], Any]) -> Answer:
    """`answer` with `change(reply)` for its reply, whenever that comes. Forward and Close stay as they are."""
    if isinstance(answer, Done):
        return Done(change(answer.reply))
    if isinstance(answer, Held):
        return Held(answer.offset, change(answer.reply))
    if isinstance(answer, Parked):
        parked = answer
        return Parked(parked.keys, parked.deadline_ms, lambda expired: mapped(parked.again(expired), change))
    if isinstance(answer, Later):
        later = answer
        return Later(later.job, lambda result: mapped(later.then(result), change), later.kind)
    return answer
