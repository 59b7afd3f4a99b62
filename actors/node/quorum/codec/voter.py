"""The parts that the RPCs which change the voters share on the wire (KIP-853): a voter with listeners, the sentence of
an answer."""

from collections.abc import Callable
from typing import Any, TypeVar

from actors.authorization.addresses import is_every_interface
from actors.raft import Error, Voter
from actors.raft.messages import ChangeResponse
from actors.wire.errors import text

L = TypeVar("L")
"""The class of a listener in a request."""

LISTENERS_MAX = 16
"""The most listeners of a voter; all of them are written into the log."""
NAME_CHARACTERS_MAX = 255
"""The most characters of a listener's name or host."""


def endpoints(listeners: Any) -> tuple[tuple[str, str, int], ...] | None:
    """The listeners of a request; None: too many, too long, without a port, or at an address that stands for every
    interface, at which a node would reach its own machine."""
    found = tuple((one.name, one.host, one.port) for one in listeners)
    if len(found) > LISTENERS_MAX or len({name for name, _, _ in found}) < len(found):
        return None
    fits = (0 < len(name) <= NAME_CHARACTERS_MAX and 0 < len(host) <= NAME_CHARACTERS_MAX for name, host, _ in found)
    reached = (port > 0 and not is_every_interface(host) for _, host, port in found)
    return found if all(fits) and all(reached) else None


def first(found: tuple[tuple[str, str, int], ...], listener: str) -> tuple[tuple[str, str, int], ...]:
    """The endpoints with that of `listener` first: it is the one that the quorum dials. Empty: it is not among them."""
    own = tuple(one for one in found if one[0] == listener)
    return own + tuple(one for one in found if one[0] != listener) if own else ()


def listeners(cls: Callable[..., L], voter: Voter) -> list[L]:
    """The listeners of a voter as parts of a Kafka message."""
    return [cls(name=name, host=host, port=port) for name, host, port in voter.endpoints]


def sentence(response: ChangeResponse) -> str | None:
    """Why a change was not made; Apache Kafka's own sentence for the code if raft has none."""
    if response.error is Error.NONE:
        return None
    return response.reason or text(response.error)
