"""Requests to the controller whose entries need a right each: what is allowed is done, the rest is answered beside it.

This file alone decides how such a request is split, and how its two answers become one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.controller.portions import Flat
from actors.controller.refusals import refusal
from actors.node.runtime.answers import Answer, Done, mapped
from actors.wire.errors import ErrorCode
from actors.wire.messages import changed

Judge = Callable[[Any], ErrorCode]
"""Entry -> NONE, or the error with which it is denied."""


def allowed_entries(request: Any, cut: Flat, judge: Judge, submit: Callable[[Any], Answer]) -> Answer:
    """The answer to a request whose entries are judged one by one. `submit` does what is left of the request."""
    denied: dict[ErrorCode, dict[str, list[Any]]] = {}
    left: dict[str, Sequence[Any]] = {}
    for field in cut.fields:
        kept = []
        for entry in getattr(request, field) or ():
            code = judge(entry)
            if code is ErrorCode.NONE:
                kept.append(entry)
            else:
                denied.setdefault(code, {}).setdefault(field, []).append(entry)
        left[field] = kept
    if not denied:
        return submit(request)
    refused = [refusal(changed(request, **_only(cut, fields)), code, -1) for code, fields in denied.items()]

    def joined(reply: Any) -> Any:
        for more in refused:
            cut.join(reply, more)
        return reply

    if any(left.values()):
        return mapped(submit(changed(request, **left)), joined)
    first, *others = refused
    for more in others:
        cut.join(first, more)
    return Done(first)


def _only(cut: Flat, fields: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {field: fields.get(field, []) for field in cut.fields}
