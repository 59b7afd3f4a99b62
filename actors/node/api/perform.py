"""The one place where a request is checked and begun, whichever way it came: on its own, in an Envelope, or anew after a
lost leadership. A request that waits, or works in slices, goes on without being checked again.

What is checked here is a right to the request as a whole; the rights to single resources are checked by handlers
(`rights.py`).
"""

from typing import Any

from actors.authorization.rights import Checked
from actors.node.api.contexts import Context
from actors.node.api.denied import denied
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Api, Call

WHOLE = Checked.WHOLE
"""A module name, because every request uses it and the look-up of an enum member costs more."""


def perform(context: Context, api: Api, request: Any, call: Call) -> Answer:
    """The answer of the API's handler, if the principal may ask for it. Raises what the handler raises."""
    right = api.right
    if right.checked is WHOLE and not context.authorizer.allowed(call, right.operation, right.resource):
        return Done(denied(api, request))
    return api.handler(context, request, call)
