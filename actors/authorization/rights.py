"""What an API asks of a principal, as a value. Which API asks for what stands in `node/api/security/api_rights.py`."""

from collections.abc import Callable, Iterator
from enum import Enum, Flag, auto
from typing import Any, NamedTuple

from actors.authorization.resources import Operation, Resource


class Checked(Enum):
    """The place in the code that checks a right."""

    WHOLE = "by perform, before the handler"
    EACH = "by the handler, for each resource"
    OPEN = "nowhere: everybody may ask"
    PASSED_ON = "by the active controller, to which the request goes"


class Node(Flag):
    """What a node id is to the cluster, as far as the node that is asked knows."""

    CONTROLLER = auto()
    """The node votes in the quorum."""
    BROKER = auto()
    """A broker with that id is registered."""
    NEWCOMER = auto()
    """The id is of no voter and no registered broker: it is about to join, or it is gone."""


NO_NODE = Node(0)
NODES = Node.CONTROLLER | Node.BROKER | Node.NEWCOMER


class Right(NamedTuple):
    """What an API asks for."""

    checked: Checked
    operation: Operation = Operation.DESCRIBE
    resource: Resource = Resource.CLUSTER
    also: Operation | None = None
    """An operation on the same resource that is enough as well."""
    nodes: Node = NO_NODE
    """Which nodes may ask without that operation, for themselves alone. It holds for a principal that names nodes only.
    """
    speaks: Callable[[Any], Iterator[int]] | None = None
    """The nodes for which a request speaks. None: it names none."""
    door: bool = False
    """Whether CLUSTER_ACTION on the cluster is asked for too, before anything else (KIP-631, controllers' endpoints).
    """
