"""Replies that say the same about every entry of a request, made piece by piece, so that others run in between."""

from collections.abc import Callable
from typing import Any

from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.slices import ENTRIES_A_SLICE, Steps, go_on
from actors.wire.messages import Message
from actors.wire.pieces import join, pieces


def answered_in_pieces(request: Message, reply_to: Callable[[Any], Any]) -> Answer:
    """The answer to a request, however many entries it has. `reply_to`: the reply to a piece of it (`wire/pieces.py`)."""
    return go_on(_steps(request, reply_to))


def _steps(request: Message, reply_to: Callable[[Any], Any]) -> Steps:
    reply: Any = None
    for piece in pieces(request, ENTRIES_A_SLICE):
        if reply is None:
            reply = reply_to(piece.request)
            continue
        yield
        join(reply, reply_to(piece.request), piece.inside)
    return Done(reply)
