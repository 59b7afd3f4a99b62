"""The requests, sessions and watches of ZooKeeper that a host supplies, as values.

This file alone decides what may be asked of ZooKeeper. Nothing here connects to anything: a host with a client library
answers (`host/net/zookeeper_connection.py`), or the simulator does. Rules:

1. Requests are effects, answered in their order by `done(token, result)`. The result is what the request's class says,
   or a `Rejected` (ZooKeeper has refused it, and nothing was done) or an `Away` (nobody knows whether it was done).
2. What happens by itself comes as an input: a session begins, the connection is lost, a watch fires.
3. A read may leave a watch, which fires at most once. When a session begins no watch is left, and nothing ephemeral of
   an earlier session need be there: a caller that needs either reads and writes anew.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple


class Znode(NamedTuple):
    """A znode as it was read."""

    data: bytes
    version: int = 0
    """How often its data has been written since it was made."""
    czxid: int = 0
    """The transaction that made it. A broker's epoch is the czxid of its znode."""
    ephemeral: bool = False
    mzxid: int = 0
    """The transaction that wrote it last."""


class Get(NamedTuple):
    """Read a znode: `Znode`, or None where there is none. Its watch fires when it is made, written or deleted."""

    path: str


class Children(NamedTuple):
    """Read the sorted names of a znode's children: a tuple, or None where there is no znode. Its watch fires when a
    child is made or deleted, or the znode itself is deleted. Of a path that has no znode there is no watch."""

    path: str


Read = Get | Children


class Create(NamedTuple):
    """Make a znode; the result is its path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False
    """ZooKeeper adds a number of ten digits to the path, larger than those before."""


class Write(NamedTuple):
    """Write a znode's data. `version`: that it must have now; -1: any."""

    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    """Delete a znode, which may have no children."""

    path: str
    version: int = -1


class Check(NamedTuple):
    """Require that a znode is there and has this version."""

    path: str
    version: int


Change = Create | Write | Delete | Check


class Open(NamedTuple):
    """Begin a session, and begin another one whenever it expires. `Began` comes for each."""

    connect: str
    """The value of zookeeper.connect: host:port,host:port/chroot"""
    session_ms: int


class Close(NamedTuple):
    """End the session: what was ephemeral goes."""


class Reads(NamedTuple):
    """Read several znodes: the results in the order of `reads`. They need not be of one moment."""

    token: int
    reads: Sequence[Read]
    watch: bool = False


class Multi(NamedTuple):
    """Make all changes or none, in one transaction. The result is a tuple: for each change the path that was made, the
    znode's version after a write, or None."""

    token: int
    changes: Sequence[Change]


Request = Open | Close | Reads | Multi


class Rejected(Exception):
    """ZooKeeper has refused a request. Of a `Multi`, nothing was done."""

    def __init__(self, reason: str, place: int = -1) -> None:
        super().__init__(f"ZooKeeper refused: {reason}" + (f" (change {place})" if place >= 0 else ""))
        self.reason = reason
        """`exists`, `missing`, `version`, `not empty`, or ZooKeeper's own word"""
        self.place = place
        """The first change of a Multi that was refused; -1: not known."""


class Unsendable(Rejected):
    """A request that no ZooKeeper can be sent: to send it again is no use."""


class Away(Exception):
    """The connection or the session ended before the answer came: the changes were made or not."""


REQUEST_BYTES_MAX = 1_000_000
"""ZooKeeper closes the connection of a request above jute.maxbuffer, which is 1 MiB unless somebody has raised it."""
CHANGE_BYTES = 64
"""The bytes of a change beside its path and data, which is more than ZooKeeper takes."""
PATH = re.compile(r"/|(/(?!\.{1,2}(/|$))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+)+")
"""Paths that ZooKeeper has: no part is empty, `.` or `..`, and some characters never stand in one."""


def is_path(path: str) -> bool:
    """Whether there can be a znode at this path."""
    return PATH.fullmatch(path) is not None


def change_bytes(change: Change) -> int:
    """How much of a request a change takes, or a little more."""
    data = len(change.data) if isinstance(change, Create | Write) else 0
    return len(change.path.encode("utf-8", "replace")) + data + CHANGE_BYTES


def request_bytes(changes: Sequence[Change]) -> int:
    """How large the request is that asks for these changes, or a little more."""
    return sum(map(change_bytes, changes))


def unsendable(changes: Sequence[Change], most: int = REQUEST_BYTES_MAX) -> Unsendable | None:
    """Why these changes cannot be asked for in one request, which may have `most` bytes; None: they can."""
    for place, one in enumerate(changes):
        if not is_path(one.path if not (isinstance(one, Create) and one.sequential) else one.path + "0"):
            return Unsendable(f"{ascii(one.path)[:100]} is no path of a znode", place)
    if (size := request_bytes(changes)) > most:
        return Unsendable(f"{size} bytes are more than one request has (jute.maxbuffer)")
    return None


class Began(NamedTuple):
    """A session has begun, or the connection of one is back. Nothing is watched."""

    session: int


class Lost(NamedTuple):
    """The connection is lost. The session may go on at another server, or expire."""


class Changed(NamedTuple):
    """A watch has fired. Of what is there now it says nothing: read it."""

    path: str


Event = Began | Lost | Changed
