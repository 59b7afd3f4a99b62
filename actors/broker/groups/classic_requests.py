"""JoinGroup and SyncGroup as values: the requests of classic members, and what they are answered.

Such members may come to a group of any kind, so these belong to the interface of the kinds (`kind.py`) and to none of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.ledger import NODES
from actors.wire.errors import ErrorCode


class JoinRequest(NamedTuple):
    """A JoinGroup request, reduced to what the protocol needs. `fresh_id`: the id that a new member would get."""

    version: int
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    fresh_id: str
    principal: str = NODES
    """The principal to which the member is charged."""


class SyncRequest(NamedTuple):
    """A SyncGroup request. `protocol_type`, `protocol`: None if the client does not say."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Sequence[tuple[str, bytes]]


class Joined(NamedTuple):
    """The answer to a JoinGroup request. `members`: (id, instance id, metadata) for the leader only."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[tuple[str, str | None, bytes]] = ()


class Synced(NamedTuple):
    """The answer to a SyncGroup request."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""
