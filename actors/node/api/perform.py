"""The one place where a request is checked and begun, whichever way it came: on its own, in an Envelope, or anew after a
lost leadership. A request that waits, or works in slices, goes on without being checked again.

What is checked here is a right to the request as a whole, and whether somebody may come to a controller; the rights to
single resources are checked by handlers (`api_rights.py`).
"""

from actors.authorization.resources import Operation, Resource
from actors.authorization.rights import Checked
from actors.node.api.contexts import Context
from actors.node.api.security.denied import denied
from actors.node.api.security.speakers import kinds, named
from actors.node.net.long_refusals import answered_in_pieces
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Api, Call
from actors.wire.messages import Message

WHOLE = Checked.WHOLE
NODES_DO, CLUSTER = Operation.CLUSTER_ACTION, Resource.CLUSTER
"""Module names, because every request uses them and the look-up of an enum member costs more."""


def perform(context: Context, api: Api, request: Message, call: Call) -> Answer:
    """The answer of the API's handler, if the principal may ask for it. Raises what the handler raises."""
    right = api.right
    if (right.checked is WHOLE or right.door) and not _may(context, api, request, call):
        return answered_in_pieces(request, lambda piece: denied(api, piece))
    return api.handler(context, request, call)


def _may(context: Context, api: Api, request: Message, call: Call) -> bool:
    """Whether the principal may ask for all of the request: as a node for itself, or by its rights."""
    right, may, ids = api.right, context.authorizer, named(call.principal)
    if right.door and not may.allowed(call, NODES_DO, CLUSTER):
        return False
    if right.checked is not WHOLE:
        return True
    if ids is not None and right.nodes:
        why = "is a node and speaks through another one" if call.forwarded else _other(context, api, request, ids)
        if why is None:
            return may.allowed(call, NODES_DO, right.resource)
        if right.operation is NODES_DO:
            may.refuse(call, api.name, why)
            return False
    if right.also is not None and may.shown(call, right.also, right.resource):
        return True
    return may.allowed(call, right.operation, right.resource)


def _other(context: Context, api: Api, request: Message, ids: frozenset[int]) -> str | None:
    """Why a request is none that these nodes ask for themselves; None: it is one."""
    right = api.right
    spoken = ids if right.speaks is None else set(right.speaks(request)) or ids
    if not spoken <= ids:
        return f"speaks for node {min(spoken - ids)}"
    return None if kinds(spoken, context.kind) & right.nodes else "speaks as a node of another kind"
