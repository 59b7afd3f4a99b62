"""What a handler knows of its caller, and the row of the table that says how an API is served: the values between a
connection and a handler.

This file alone names the kinds of listener, the lanes of the request queue and what the order of requests depends on. Which
API is served where is in `api/table.py`.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.authorization.rights import Right
from actors.node.runtime.answers import Answer


class Listener(enum.Enum):
    """A kind of listener. A broker without a separate inter-broker listener serves both kinds of peer on CLIENT."""

    CLIENT = "client"
    INTER_BROKER = "inter-broker"
    CONTROL_PLANE = "control-plane"
    CONTROLLER = "controller"
    BRIDGE = "bridge"
    """A controller's listener for brokers in ZooKeeper mode and their clients: released Kafka's numbering, whatever the
    family."""


class Lane(enum.IntEnum):
    """Lanes of the request queue (KIP-291): everything in CONTROL runs before anything in DATA."""

    CONTROL = 0
    DATA = 1


class Subject(enum.Flag):
    """What requests of clients read and write, as far as the order within a connection depends on it."""

    NOTHING = 0
    RECORDS = enum.auto()
    GROUPS = enum.auto()
    """The groups and their committed offsets."""
    METADATA = enum.auto()
    """The topics, partitions, settings and brokers."""
    LOGIN = enum.auto()
    """The principal of the peer: every request reads it."""


class Refusals:
    """The rights that a request was denied. They become one line of the log, at the end of the step in which something
    is first denied."""

    __slots__ = ("count", "first", "told")

    def __init__(self) -> None:
        self.first: list[Any] = []
        """The first few that were denied."""
        self.count = 0
        """How many were denied since the last line of the log."""
        self.told = False


class Call(NamedTuple):
    """The caller of a request, and how the request came. There is one for each request."""

    connection: int
    listener: Listener
    listener_name: str
    api_key: int
    api_version: int
    client_id: str | None
    client_host: str
    principal: str
    """The principal of the caller; `User:ANONYMOUS` on a listener without authentication."""
    frame: memoryview
    """The request as it came, header included, without the length: what `Forward` puts into an Envelope."""
    forwarded: bool = False
    """Whether the request came in an Envelope: a client's request that a broker has passed on."""
    by_token: bool = False
    """Whether the principal has logged in with a delegation token (KIP-48)."""
    refusals: Refusals | None = None
    """The denials of the request, and of what is in it if it is an Envelope. None: each is told at once."""
    read: Callable[[int], None] | None = None
    """Notes how many entries a request has that was read out of this one. None: this one carries none, or is too small to
    be counted."""


Handler = Callable[[Any, Any, Call], Answer]
"""A handler is called with (context, request, call), and returns its answer. The listener decides which context it is:
of a broker or of a controller."""


class Api(NamedTuple):
    """One row of the table."""

    key: int
    name: str
    versions: range
    """The versions that are served."""
    advertised: range
    """The versions that ApiVersions shows; wider than `versions` only for Produce (librdkafka reads features out of
    it)."""
    lane: Lane
    handler: Handler
    reads: Subject
    writes: Subject
    """What requests of this API write. A request starts when no earlier one of its connection is under way that writes
    what it reads or writes."""
    pipelined: bool
    """Whether requests of this API may start before earlier ones have ended: what they write is written in their order
    all the same."""
    right: Right
    """The right that the principal must have (`api/security/api_rights.py`)."""
    broken: Callable[[], Any] | None = None
    """Makes the reply if the handler fails, or would close the connection. None: the connection is closed. A row has
    one if requests of many clients come on one connection: it would be closed for all of them, and again when the
    request is repeated."""
    carries_longer: Callable[[Any, int], bool] | None = None
    """Whether the request that one of these carries has more than so many entries. None: they carry none."""


Served = Mapping[Listener, Mapping[int, Api]]
"""The rows that a node serves, by listener and API key."""
