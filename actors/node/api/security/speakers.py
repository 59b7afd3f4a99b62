"""Which nodes a principal is, what these are to the cluster, and whether a request may be theirs.

Rights say that somebody is a node; they do not say which one. A principal that names nodes, `User:rayft-node-1` or
`User:rayft-node-1-1001` for a process with two roles, is a node and nothing else. `rayft certificate` issues certificates
with such names. Rules:

1. It speaks for the ids in its name alone: so a node whose key was stolen votes, holds leases and moves high watermarks as
   itself and as nobody else.
2. What it may ask depends on what these ids are: a registered broker is no controller, and a controller no broker
   (`api_rights.py`, column `nodes`).
3. It is no super user. `super.users` and a rule that allows CLUSTER_ACTION let it in as a node, a rule that denies
   CLUSTER_ACTION to its name shuts it out of everything (`authorizer.py`).
4. It speaks for itself: nobody passes on a request in its name.

A principal of another form speaks for every node, if its rights allow it to be one, as in Apache Kafka.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from actors.authorization.rights import NO_NODE, NODES, Node

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchRequest, FetchSnapshotRequest

_BEGINNING = "User:rayft-node-"
_NAMES = re.compile(r"User:rayft-node((?:-[0-9]{1,10})+)")
Speaks = Callable[[Any], Iterator[int]]


def named(principal: str) -> frozenset[int] | None:
    """The ids of the nodes that a principal names; None: it names none."""
    return _ids(principal) if principal.startswith(_BEGINNING) else None


@lru_cache(maxsize=1024)
def _ids(principal: str) -> frozenset[int] | None:
    match = _NAMES.fullmatch(principal)
    return None if match is None else frozenset(int(one) for one in match[1][1:].split("-"))


def kind(id: int, controllers: Iterable[int], is_broker: Callable[[int], bool], *, late: bool) -> Node:
    """What an id is. `late`: whether what is known may be older than what another node knows; then an unknown id may be
    anything."""
    if is_broker(id):
        return Node.BROKER
    if id in controllers:
        return Node.CONTROLLER
    return NODES if late else Node.NEWCOMER


def kinds(ids: Iterable[int], of: Callable[[int], Node]) -> Node:
    """What several ids are together."""
    found = NO_NODE
    for id in ids:
        found |= of(id)
    return found


def may_be(principal: str, id: int, which: Node, of: Callable[[int], Node]) -> bool:
    """Whether a principal may speak for a node that is one of these."""
    ids = named(principal)
    return ids is None or (id in ids and bool(of(id) & which))


def of(field: str) -> Speaks:
    """The rule for a request that names its speaker in that field."""
    return lambda request: iter((getattr(request, field),))


def of_partitions(field: str) -> Speaks:
    """The rule for a request that names its speaker in that field of each partition."""

    def speakers(request: Any) -> Iterator[int]:
        return (getattr(one, field) for topic in request.topics for one in topic.partitions)

    return speakers


def of_fetch(request: "FetchRequest") -> Iterator[int]:
    """The replica that fetches: the field has moved (KIP-903). An id below zero is nobody's."""
    state = request.replica_state
    id = request.replica_id if state is None or state.replica_id < 0 else state.replica_id
    return iter((id,) if id >= 0 else ())


def of_snapshot(request: "FetchSnapshotRequest") -> Iterator[int]:
    """The replica that fetches a snapshot. An id below zero is nobody's."""
    return iter((request.replica_id,) if request.replica_id >= 0 else ())
