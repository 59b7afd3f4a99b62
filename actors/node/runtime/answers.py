"""The answers that a handler may return, and answers made of answers.

A handler does not wait and does not call back. What it cannot answer now it returns as `Held`, `Parked`, `Asked`, `Later`,
`Sliced` or `Forward`, and the node keeps it.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from actors.ports import WorkKind

MORE_MEMORY = "give the process more (ulimit -v, the limit of its cgroup), or lower queued.max.request.bytes"
"""The advice to an operator if a request finds no memory: it costs its own connection, and no other one."""


class Done(NamedTuple):
    """The reply leaves now. `None`: no answer is sent (acks=0)."""

    reply: Any | None


class Held(NamedTuple):
    """The reply leaves once the metadata high watermark has passed `offset`; it becomes NOT_CONTROLLER if leadership is
    lost first."""

    offset: int
    reply: Any


class Parked(NamedTuple):
    """The request runs again when one of `keys` is signalled, or at `deadline_ms` (monotonic), whichever comes first."""

    keys: Sequence[Hashable]
    deadline_ms: int
    again: Callable[[bool], "Answer"]
    """Called as `again(expired)`; after the deadline it must not park once more."""
    offsets: Sequence[int] = ()
    """The offset, one for each key, that the key must reach before the request runs again; empty: every signal counts.
    """
    idle: Callable[[Hashable], bool] | None = None
    """Called as `idle(key)` before `again(False)` if that key alone was signalled: whether nothing has come for this
    request, so that it goes on waiting. If many requests wait for the same thing, one gets it, and the others stay
    where they are."""
    early: bool = False
    """Whether `again(True)` may be called at any time, since the request waits only for more, and answers with what
    there is."""


class Asked(NamedTuple):
    """The request goes on when raft has answered what it was asked: `call` is the number of the question, then
    `then(its answer)` runs, or `then(None)` at `deadline_ms` (monotonic)."""

    call: int
    deadline_ms: int
    then: Callable[[Any], "Answer"]


class Later(NamedTuple):
    """A job runs outside the loop, then the request goes on with `then(result or exception)`, if the client is still
    there. `seen(result or exception)` comes before that, even if the client has gone: what the job has found out about
    a disk concerns others."""

    job: Callable[[], object]
    then: Callable[[object], "Answer"]
    kind: WorkKind = WorkKind.DISK
    seen: Callable[[object], None] | None = None


class Forward(NamedTuple):
    """The request goes to the active controller as it came (Envelope, KIP-590), and its answer goes to the client."""


class Sliced(NamedTuple):
    """The handler has done a bounded piece of its work, 1 to 5 ms: go on with `again()` in the next turn.

    Between slices run heartbeats, timers, the quorum, sockets and one request of every other connection. Later requests of
    the same connection stay behind. A connection that closes takes the rest of the work with it."""

    again: Callable[[], "Answer"]


class Last(NamedTuple):
    """The reply leaves now, and the connection is closed behind it; `why` goes to the log."""

    reply: Any
    why: str


class Close(NamedTuple):
    """The connection is closed without a reply; `why` goes to the log."""

    why: str


Answer = Done | Held | Parked | Asked | Later | Sliced | Forward | Last | Close


def mapped(answer: Answer, change: Callable[[Any], Any]) -> Answer:
    """`answer` with `change(reply)` for its reply, whenever that comes. Forward and Close stay as they are."""
    if isinstance(answer, Done):
        return Done(change(answer.reply))
    if isinstance(answer, Last):
        return Last(change(answer.reply), answer.why)
    if isinstance(answer, Held):
        return Held(answer.offset, change(answer.reply))
    if isinstance(answer, Parked):
        parked = answer
        return parked._replace(again=lambda expired: mapped(parked.again(expired), change))
    if isinstance(answer, Asked):
        asked = answer
        return asked._replace(then=lambda reply: mapped(asked.then(reply), change))
    if isinstance(answer, Later):
        later = answer
        return Later(later.job, lambda result: mapped(later.then(result), change), later.kind, later.seen)
    if isinstance(answer, Sliced):
        sliced = answer
        return Sliced(lambda: mapped(sliced.again(), change))
    return answer
