"""Requests to the controller whose entries need a right each: what is allowed is done, the rest is answered beside it.

This file alone decides how such a request is split, and how its two answers become one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.controller.portions import Flat
from actors.controller.refusals import refusal
from actors.node.runtime.answers import Answer, Done, mapped
from actors.node.runtime.slices import SliceCount, Steps, go_on
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, changed

Judge = Callable[[Any], ErrorCode]
"""Entry -> NONE, or the error with which it is denied."""


def allowed_entries(request: Message, cut: Flat, judge: Judge, submit: Callable[[Any], Answer]) -> Answer:
    """The answer to a request whose entries are judged one by one, in slices. `submit` does what is left of the request."""
    return go_on(_judged(request, cut, judge, submit))


def _judged(request: Message, cut: Flat, judge: Judge, submit: Callable[[Any], Answer]) -> Steps:
    refused: Any = None
    left: dict[str, Sequence[Any]] = {}
    pace = SliceCount()
    for field in cut.fields:
        kept: list[Any] = []
        denied: dict[ErrorCode, list[Any]] = {}
        for entry in getattr(request, field) or ():
            code = judge(entry)
            if code is ErrorCode.NONE:
                kept.append(entry)
            else:
                denied.setdefault(code, []).append(entry)
            if pace.over():
                refused = _refused(request, cut, field, denied, refused)
                denied = {}
                yield
        refused = _refused(request, cut, field, denied, refused)
        left[field] = kept
    if refused is None:
        return submit(request)

    def joined(reply: Any) -> Any:
        cut.join(reply, refused)
        return reply

    if any(left.values()):
        return mapped(submit(changed(request, **left)), joined)
    return Done(refused)


def _refused(request: Message, cut: Flat, field: str, denied: Mapping[ErrorCode, list[Any]], before: Any) -> Any:
    """`before`, the reply to what was denied in earlier slices, with what was denied in this one."""
    for code, entries in denied.items():
        more = refusal(changed(request, **{other: [] for other in cut.fields} | {field: entries}), code, -1)
        if before is None:
            before = more
        else:
            cut.join(before, more)
    return before
