"""What an API asks of a principal, as a value. Which API asks for what stands in `node/api/rights.py`."""

from enum import Enum
from typing import NamedTuple

from actors.authorization.resources import Operation, Resource


class Checked(Enum):
    """Where a right is checked."""

    WHOLE = "by perform, before the handler"
    EACH = "by the handler, for each resource"
    OPEN = "nowhere: everybody may ask"
    PASSED_ON = "by the active controller, to which the request goes"


class Right(NamedTuple):
    """What an API asks for."""

    checked: Checked
    operation: Operation = Operation.DESCRIBE
    resource: Resource = Resource.CLUSTER
    also: Operation | None = None
    """An operation on the same resource that is enough as well."""
