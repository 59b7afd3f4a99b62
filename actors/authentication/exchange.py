"""What an exchange of SASL tokens says after each token."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol


class Challenge(NamedTuple):
    """The exchange goes on: the peer has to answer this."""

    token: bytes


class Accepted(NamedTuple):
    """The exchange is complete: the peer is this principal."""

    token: bytes
    """The last answer to the peer."""
    principal: str
    """The principal of the peer, as `User:name`."""
    lifetime_ms: int = 0
    """For how many ms the peer's credentials are good from now on; 0: without an end."""
    by_token: bool = False
    """Whether the credentials are a delegation token (KIP-48)."""
    token_id: str = ""
    """The id of that delegation token; empty without one."""


class Calculation(NamedTuple):
    """The answer needs a calculation that takes milliseconds: `job` runs outside the loop, and the exchange goes on
    with `then(its result)`."""

    job: Callable[[], Any]
    then: Callable[[Any], "ExchangeStep"]


class Awaited(NamedTuple):
    """The answer depends on something that is on its way: the exchange goes on with `then()` when `key` is signalled,
    or after `most_ms`."""

    key: Hashable
    most_ms: int
    then: Callable[[], "ExchangeStep"]


ExchangeStep = Challenge | Accepted | Calculation | Awaited


class Rejected(Exception):
    """The exchange has failed: the peer has not proved that it is the user that it names, or it sent something that
    cannot be read. The text is for the log of this node. It names no secret. The peer learns only that its credentials
    are not valid, or `told`, where its mechanism says in which words."""

    def __init__(self, why: str, told: str | None = None) -> None:
        super().__init__(why)
        self.told = told


class Exchange(Protocol):
    """One mechanism on one connection, on the side of the server."""

    def respond(self, token: bytes) -> ExchangeStep:
        """The answer to the peer's next token. Raises Rejected, as `then` of a Calculation and of an Awaited does; the
        exchange is over then."""
        ...
