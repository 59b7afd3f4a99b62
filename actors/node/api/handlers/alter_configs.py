"""AlterConfigs 0-2: settings of a resource as a whole; aiokafka knows no other way.

Brokers pass it on; the active controller does it (`controller/configs.py`).
Errors: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED,
CLUSTER_AUTHORIZATION_FAILED, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION, BROKER_ID_NOT_REGISTERED by resource;
NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation
from actors.controller.configs import alter_configs
from actors.controller.portions import CONFIGS
from actors.node.api.contexts import ControllerContext
from actors.node.api.entries import allowed_entries
from actors.node.api.security.authorizer import config_error
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterConfigsRequest


@controllers_own(33, "AlterConfigs", range(3), writes=Subject.METADATA)
def decide(context: ControllerContext, request: "AlterConfigsRequest", call: Call) -> Answer:
    """The active controller sets the settings of the resources that the client may alter."""
    return allowed_entries(
        request,
        CONFIGS,
        lambda resource: config_error(context.authorizer, call, Operation.ALTER_CONFIGS, resource),
        lambda allowed: context.role.submit(alter_configs, allowed, call, CONFIGS),
    )
