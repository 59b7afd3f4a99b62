"""ElectLeaders 0-2: preferred and unclean elections.

Brokers pass it on; the active controller does it (`controller/partitions/elect_leaders.py`). v0 knows preferred ones only.
Errors: UNKNOWN_TOPIC_OR_PARTITION, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED
by partition; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.partitions.elect_leaders import elect_leaders
from actors.controller.portions import ELECTED
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ElectLeadersRequest


@controllers_own(43, "ElectLeaders", range(3), writes=Subject.METADATA)
def decide(context: ControllerContext, request: "ElectLeadersRequest", call: Call) -> Answer:
    """The active controller elects leaders."""
    return context.role.submit(elect_leaders, request, call, ELECTED)
