"""What a handler answers with, and answers made of answers.

A handler does not wait and does not call back. What it cannot answer now it returns as `Held`, `Parked`, `Asked`, `Later`,
`Sliced` or `Forward`, and the node keeps it.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from actors.ports import WorkKind

MORE_MEMORY = "give the process more (ulimit -v, the limit of its cgroup), or lower queued.max.request.bytes"
"""What to do where a request finds no memory: it costs its own connection, and nobody else's."""


class Done(NamedTuple):
    """Answer now. `None`: answer nothing (acks=0)."""

    reply: Any | None


class Held(NamedTuple):
    """Answer once the metadata high watermark has passed `offset`; NOT_CONTROLLER if leadership is lost first."""

    offset: int
    reply: Any


class Parked(NamedTuple):
    """Ask again when one of `keys` is signalled, or at `deadline_ms` (monotonic), whichever comes first."""

    keys: Sequence[Hashable]
    deadline_ms: int
    again: Callable[[bool], "Answer"]
    """`again(expired)`; after the deadline it must not park once more."""
    offsets: Sequence[int] = ()
    """One for each key, if the request need not be asked before the key has reached it."""
    idle: Callable[[Hashable], bool] | None = None
    """`idle(key)` is asked before `again(False)`, where that key alone was signalled: whether nothing has come for this
    request, so that it goes on waiting. Of many who wait for the same, one gets it, and the others stay where they are."""
    early: bool = False
    """Whether `again(True)` may be called at any time, and answers with what there is: it waits for more of it only."""


class Asked(NamedTuple):
    """Raft was asked, and `call` is the number of what it was asked: go on with `then(its answer)` when there is one, or
    with `then(None)` at `deadline_ms` (monotonic)."""

    call: int
    deadline_ms: int
    then: Callable[[Any], "Answer"]


class Later(NamedTuple):
    """Run `job` outside the loop, then go on with `then(result or exception)`, if the client is still there.

    `seen(result or exception)` comes before that, also where the client has gone: what the job has found out about a disk
    concerns others."""

    job: Callable[[], object]
    then: Callable[[object], "Answer"]
    kind: WorkKind = WorkKind.DISK
    seen: Callable[[object], None] | None = None


class Forward(NamedTuple):
    """Send the request as it came to the active controller (Envelope, KIP-590) and pass its answer on."""


class Sliced(NamedTuple):
    """The handler has done a bounded piece of its work, 1 to 5 ms: go on with `again()` in the next turn.

    Between slices run heartbeats, timers, the quorum, sockets and one request of every other connection. Later requests of
    the same connection stay behind. A connection that closes takes the rest of the work with it."""

    again: Callable[[], "Answer"]


class Last(NamedTuple):
    """Answer now, and close the connection behind the answer; `why` goes to the log."""

    reply: Any
    why: str


class Close(NamedTuple):
    """Close the connection; `why` goes to the log."""

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
