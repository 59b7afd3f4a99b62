"""The one place where a request is checked and begun, whichever way it came: on its own, in an Envelope, or anew after a
lost leadership. A request that waits, or works in slices, goes on without being checked again.

What is checked here is a right to the request as a whole; the rights to single resources are checked by handlers
(`rights.py`).
"""

from typing import Any

from actors.authorization.resources import Operation
from actors.authorization.rights import Checked
from actors.node.api.contexts import Context
from actors.node.api.denied import denied
from actors.node.api.speakers import speaks_for, spoken_for
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Api, Call

WHOLE = Checked.WHOLE
NODES_DO = Operation.CLUSTER_ACTION
"""Module names, because every request uses them and the look-up of an enum member costs more."""


def perform(context: Context, api: Api, request: Any, call: Call) -> Answer:
    """The answer of the API's handler, if the principal may ask for it. Raises what the handler raises."""
    right = api.right
    if right.checked is WHOLE:
        may = context.authorizer
        enough = right.also is not None and may.shown(call, right.also, right.resource)
        if not enough and not may.allowed(call, right.operation, right.resource):
            return Done(denied(api, request))
        if right.operation is NODES_DO and not _speaks(context, api, request, call):
            return Done(denied(api, request))
    return api.handler(context, request, call)


def _speaks(context: Context, api: Api, request: Any, call: Call) -> bool:
    """Whether the principal may speak for every node for which the request speaks."""
    for node in spoken_for(api.name, request):
        if not speaks_for(call.principal, node):
            context.runtime.log.warning(
                f"{call.principal} at {call.client_host} speaks for node {node} in {api.name}: refused"
            )
            return False
    return True
