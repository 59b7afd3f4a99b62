"""The one place where a request is checked and begun, whichever way it came: on its own, in an Envelope, or anew after a
lost leadership. A request that waits, or works in slices, goes on without being checked again.
"""

from typing import Any

from actors.node.api.contexts import Context
from actors.node.runtime.answers import Answer, Close
from actors.node.runtime.calls import Api, Call


def perform(context: Context, api: Api, request: Any, call: Call) -> Answer:
    """The answer of the API's handler, if the principal may ask for it. Raises what the handler raises."""
    if not context.authorizer.allows(api, call):
        return Close(f"{call.principal} may not ask for {api.name}")
    return api.handler(context, request, call)
