"""What an operation asks of the client, and what it gets.

An operation is a generator. It yields `Ask`, a list of Asks that are to be under way at once, `Know` or `Pause`, is sent
what came of it, and returns a value or raises ClientError. So one operation runs under the blocking driver, under asyncio
and in the simulator. An Ask alone that fails raises ClientError inside the operation. In a list, its ClientError stands
in the place of its reply, so that the others' replies are not lost.
"""

import enum
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class AnyNode(NamedTuple):
    """Any broker of the cluster."""


class Node(NamedTuple):
    """A broker by its id."""

    id: int


class Controller(NamedTuple):
    """The broker that Metadata calls the controller. Where it passes requests on to a quorum, any broker will do."""


class Leader(NamedTuple):
    """The leader of a partition."""

    topic: str
    partition: int


class KeyType(enum.IntEnum):
    """The kind of name by which a coordinator is looked up."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Address(NamedTuple):
    """A server by its address: one that is not among the brokers that Metadata names, as a controller."""

    host: str
    port: int
    name: str
    """What the server is: `controller 3001`."""

    @property
    def server(self) -> str:
        """The server as text for errors."""
        return f"{self.name} ({self.host}:{self.port})"


class Coordinator(NamedTuple):
    """The coordinator of a group or of a transactional id."""

    kind: KeyType
    key: str


To = AnyNode | Node | Address | Controller | Leader | Coordinator


class Purpose(enum.Enum):
    """The use of a connection to a node: a request that waits at the server must not stand before others."""

    ORDINARY = "ordinary"
    FETCH = "fetch"
    PRODUCE = "produce"
    COORDINATOR = "coordinator"


class Ask(NamedTuple):
    """One request to be sent, and how it is routed."""

    to: To
    name: str
    """The name of the request, as in `messages.requests`: Fetch, ListOffsets."""
    build: Callable[[int], Any]
    """A function that makes the request in a version. Called for each attempt. May raise ClientError."""
    timeout_ms: int = 0
    """The time for one attempt, ms; 0: request.timeout.ms."""
    purpose: Purpose = Purpose.ORDINARY
    versions: tuple[int, int] = (0, 1 << 15)
    """The lowest and highest version that will do."""
    again: bool = True
    """Whether the request may be sent anew when the connection was lost and it is unknown what became of it."""
    answered: bool = True
    """Whether the server sends an answer. False (Produce with acks=0): the reply's message is None."""


class Reply(NamedTuple):
    """The answer to an Ask."""

    message: Any
    version: int
    node: int
    """The id of the broker that answered; -1: a server that was asked by its address."""


class Know(NamedTuple):
    """Wait for metadata of these topics; what is sent back is the `Metadata`. Topics that do not exist are not in it."""

    topics: tuple[str, ...] | None
    """The names of the topics; None: all topics."""
    fresh: bool = False
    """Whether a broker is asked, whatever is known."""


class Pause(NamedTuple):
    """Wait for a time; 0: the back-off of the `attempt`-th try."""

    ms: int = 0
    attempt: int = 0


Step = Ask | list[Ask] | Know | Pause
Steps = Generator[Step, Any, T]
