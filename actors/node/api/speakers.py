"""For which node a request speaks, and whether its principal may speak for that node.

Rights say that somebody is a node; they do not say which one. A principal that names nodes, `User:rayft-node-1` or
`User:rayft-node-1-1001` for a process with two roles, speaks for these alone: so a node whose key was stolen votes, holds
leases and moves high watermarks as itself and as nobody else. `rayft certificate` issues certificates with such names. A
principal of another form speaks for every node, if its rights allow it to be one, as in Apache Kafka.

This file alone decides which field of a request is the speaker.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

_NODES = re.compile(r"User:rayft-node((?:-[0-9]{1,10})+)")


def speaks_for(principal: str, node: int) -> bool:
    """Whether a principal may speak for a node."""
    nodes = _nodes(principal)
    return nodes is None or node in nodes


@lru_cache(maxsize=1024)
def _nodes(principal: str) -> frozenset[int] | None:
    match = _NODES.fullmatch(principal)
    return None if match is None else frozenset(int(one) for one in match[1][1:].split("-"))


def _of_partitions(field: str) -> Callable[[Any], Iterator[int]]:
    def speakers(request: Any) -> Iterator[int]:
        return (getattr(one, field) for topic in request.topics for one in topic.partitions)

    return speakers


def _of(field: str) -> Callable[[Any], Iterator[int]]:
    return lambda request: iter((getattr(request, field),))


def _of_fetch(request: Any) -> Iterator[int]:
    state = request.replica_state
    yield request.replica_id if state is None or state.replica_id < 0 else state.replica_id


SPEAKERS: dict[str, Callable[[Any], Iterator[int]]] = {
    "AddRaftVoter": _of("voter_id"),
    "AllocateProducerIds": _of("broker_id"),
    "AlterIsr": _of("broker_id"),
    "AlterPartition": _of("broker_id"),
    "BeginQuorumEpoch": _of_partitions("leader_id"),
    "BrokerHeartbeat": _of("broker_id"),
    "ControlledShutdown": _of("broker_id"),
    "ControllerHeartbeat": _of("controller_id"),
    "EndQuorumEpoch": _of_partitions("leader_id"),
    "Fetch": _of_fetch,
    "FetchSnapshot": _of("replica_id"),
    "LeaderAndIsr": _of("controller_id"),
    "RemoveRaftVoter": _of("voter_id"),
    "StopReplica": _of("controller_id"),
    "UpdateMetadata": _of("controller_id"),
    "UpdateRaftVoter": _of("voter_id"),
    "Vote": _of_partitions("replica_id"),
}
"""API -> the nodes for which a request speaks. A number below zero is nobody's."""


def spoken_for(name: str, request: Any) -> Iterator[int]:
    """The nodes for which a request speaks."""
    found = SPEAKERS.get(name)
    return (node for node in found(request) if node >= 0) if found is not None else iter(())
