"""Which API is served where: one table, filled by the files of `node/rpc/`, one file an API.

Key of the table: (listener, api key). The drafts of KIP-631 use numbers that released Kafka gave to other APIs (50, 51),
so a number alone says nothing; the listener decides, never the body (requirement reading A01).

A handler is a function `(node, request, call) -> Answer`. It does not wait and does not call back: what it cannot answer
now it returns as `Held`, `Parked`, `Later`, `Sliced` or `Forward`, and the node keeps it.
"""

import enum
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.ports import WorkKind

if TYPE_CHECKING:
    from actors.node.node import Node


class Listener(enum.Enum):
    """Kinds of listener. A broker without a separate inter-broker listener serves both kinds of peer on CLIENT."""

    CLIENT = "client"
    INTER_BROKER = "inter-broker"
    CONTROL_PLANE = "control-plane"
    CONTROLLER = "controller"


class Lane(enum.IntEnum):
    """Lanes of the mailbox (KIP-291): everything in CONTROL runs before anything in DATA."""

    CONTROL = 0
    DATA = 1


class Subject(enum.Flag):
    """What requests of clients read and write, as far as the order within a connection depends on it."""

    NOTHING = 0
    RECORDS = enum.auto()
    GROUPS = enum.auto()
    """Groups and their committed offsets."""
    METADATA = enum.auto()
    """Topics, partitions, settings, brokers."""


class Call(NamedTuple):
    """Who asks, and how. One a request."""

    connection: int
    listener: Listener
    listener_name: str
    api_key: int
    api_version: int
    client_id: str | None
    client_host: str
    principal: str
    """`User:ANONYMOUS` on a listener without authentication."""
    frame: memoryview
    """The request as it came, header included, without the length: what `Forward` puts into an Envelope."""


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


class Later(NamedTuple):
    """Run `job` outside the loop, then go on with `then(result or exception)`."""

    job: Callable[[], object]
    then: Callable[[object], "Answer"]
    kind: WorkKind = WorkKind.DISK


class Forward(NamedTuple):
    """Send the request as it came to the active controller (Envelope, KIP-590) and pass its answer on."""


class Sliced(NamedTuple):
    """The handler has done a bounded piece of its work, 1 to 5 ms: go on with `again()` in the next turn.

    Between slices run heartbeats, timers, the quorum, sockets and one request of every other connection. Later requests of
    the same connection stay behind. A connection that closes takes the rest of the work with it."""

    again: Callable[[], "Answer"]


class Close(NamedTuple):
    """Close the connection; `why` goes to the log."""

    why: str


Answer = Done | Held | Parked | Later | Sliced | Forward | Close
Handler = Callable[["Node", Any, Call], Answer]


class Api(NamedTuple):
    """One row of the table."""

    key: int
    name: str
    versions: range
    """Versions served."""
    advertised: range
    """Versions that ApiVersions shows; wider than `versions` only for Produce (librdkafka reads features out of it)."""
    lane: Lane
    handler: Handler
    reads: Subject
    writes: Subject
    """A request starts when no earlier one of its connection is under way that writes what it reads or writes."""
    pipelined: bool
    """Requests of this API may start behind one another: what they write is written in their order all the same."""


TABLE: dict[tuple[Listener, int], Api] = {}
SERVED: dict[Listener, dict[int, Api]] = {listener: {} for listener in Listener}
"""The same rows, by listener and then by API key."""
CLIENTS_OWN: set[int] = set()
"""What a separate inter-broker listener serves to clients only: those that live beside the brokers use it too."""


def rpc(
    key: int,
    name: str,
    versions: range,
    *,
    listeners: Sequence[Listener],
    lane: Lane = Lane.DATA,
    advertised: range | None = None,
    reads: Subject = Subject.NOTHING,
    writes: Subject = Subject.NOTHING,
    pipelined: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler for (each of `listeners`, `key`). `name` is the schema's: `CreateTopics` for
    `CreateTopicsRequest` and `CreateTopicsResponse`. Registering a pair twice is a mistake in the source: ValueError."""

    def register(handler: Handler) -> Handler:
        for listener in listeners:
            if (listener, key) in TABLE:
                raise ValueError(f"{listener} {key} is served by {TABLE[listener, key].name} already")
            TABLE[listener, key] = SERVED[listener][key] = Api(
                key, name, versions, advertised or versions, lane, handler, reads, writes, pipelined
            )
        if Listener.CLIENT in listeners and Listener.INTER_BROKER not in listeners:
            TABLE[Listener.INTER_BROKER, key] = SERVED[Listener.INTER_BROKER][key] = TABLE[Listener.CLIENT, key]
            CLIENTS_OWN.add(key)
        return handler

    return register
