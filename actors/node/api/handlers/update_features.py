"""UpdateFeatures 0-2: finalized feature levels.

Brokers pass it on; the active controller does it (`controller/features.py`).
Errors: INVALID_REQUEST, INVALID_UPDATE_VERSION; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.features import update_features
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UpdateFeaturesRequest


@controllers_own(57, "UpdateFeatures", range(3), writes=Subject.METADATA)
def decide(context: ControllerContext, request: "UpdateFeaturesRequest", call: Call) -> Answer:
    """The active controller finalizes the levels."""
    return context.role.submit(update_features, request, call)
