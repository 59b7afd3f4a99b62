"""The effects that a node asks of its host, as values.

The host performs them in the order of the fields: a frame leaves before a sync starts only where the node says so by
putting the frame into an earlier turn's effects. Nothing here is a callback; answers come back as inputs (`connected`,
`closed`, `received`, `done`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.ports import Buffer, Download, Sync, Work
from actors.ports.zookeeper import Request


class Dial(NamedTuple):
    """Open a connection. `conn` is chosen by the node and below zero; the host answers by `connected` or `closed`."""

    conn: int
    host: str
    port: int
    listener: str = ""
    """The name of the listener that is dialled there, which says whether it speaks TLS. Empty: a bare connection."""


class Stop(NamedTuple):
    """End the process with an exit code. 0: as asked. 1: it cannot go on (the sentence says why). 78: another process
    holds the id."""

    code: int
    sentence: str


class Effects(NamedTuple):
    """What one turn wants done, in the order in which the host acts."""

    send: Sequence[tuple[int, Sequence[Buffer]]] = ()
    """(connection, parts of whole frames with their length); per connection already in request order."""
    sync: Sequence[Sync] = ()
    work: Sequence[Work] = ()
    dial: Sequence[Dial] = ()
    listen: Sequence[str] = ()
    """Names of listeners that answer and keep the connections that arrive."""
    turn_away: Sequence[str] = ()
    """Names of listeners that answer and close what arrives at once; open connections stay until closed one by one. A
    port that refuses says that its process is dead, or has never served."""
    close: Sequence[int] = ()
    """Connections to close, after what was sent to them in this turn has been handed to the kernel."""
    pause: Sequence[int] = ()
    resume: Sequence[int] = ()
    download: Sequence[Download] = ()
    known: Sequence[int] = ()
    """Connections whose peers have logged in: from now on their requests may be as large as any."""
    zookeeper: Sequence[Request] = ()
    """Requests to ZooKeeper, in their order, on one session at a time. The host answers by `done`, and reports what
    ZooKeeper says by itself by `happened`."""
    stop: Stop | None = None


NOTHING = Effects()
"""The effects of a turn that wants nothing done."""
