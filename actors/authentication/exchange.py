"""What an exchange of SASL tokens says after each token."""

from typing import NamedTuple, Protocol


class Challenge(NamedTuple):
    """The exchange goes on: the peer has to answer this."""

    token: bytes


class Accepted(NamedTuple):
    """The peer is known."""

    token: bytes
    """The last answer."""
    principal: str
    """`User:name`"""
    lifetime_ms: int = 0
    """For how long its credentials are good from now on; 0: without an end."""


class Rejected(Exception):
    """The peer is not who it says it is, or says nothing that can be read.

    The text is for the log of this node. It names no secret. The peer learns only that its credentials are not valid."""


class Exchange(Protocol):
    """One mechanism on one connection, on the side that is asked."""

    def respond(self, token: bytes) -> Challenge | Accepted:
        """The answer to the peer's next token. Raises Rejected; the exchange is over then."""
        ...
