"""DescribeAcls 1-3 (KIP-140): the access rules that a filter finds, by resource.

Brokers and controllers answer from what they have replayed.

Errors: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, SECURITY_DISABLED.
"""

from typing import TYPE_CHECKING, Any

from actors.authorization.access_rules import BadRule, Filter, checked_filter
from actors.metadata.image import Image
from actors.node.api.contexts import BrokerContext, Context, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeAclsRequest


@rpc(29, "DescribeAcls", range(1, 4), listeners=[Listener.CLIENT], reads=Subject.METADATA)
@in_slices
def on_a_broker(context: BrokerContext, request: "DescribeAclsRequest", call: Call) -> Steps:
    """The rules as a broker knows them."""
    return _described(context, context.cache.image, request, call)


@rpc(29, "DescribeAcls", range(1, 4), listeners=[Listener.CONTROLLER, Listener.BRIDGE])
@in_slices
def on_a_controller(context: ControllerContext, request: "DescribeAclsRequest", call: Call) -> Steps:
    """The rules as a controller knows them."""
    return _described(context, context.role.image, request, call)


def _described(context: Context, image: Image, request: "DescribeAclsRequest", call: Call) -> Steps:
    kind = message("DescribeAclsResponse")
    if not context.authorizer.enabled:
        return _error(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    meant = Filter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    try:
        checked_filter(meant)
    except BadRule as error:
        return _error(ErrorCode.INVALID_REQUEST, str(error))
    resources: dict[tuple[int, str, int], Any] = {}
    pace = SliceCount()
    for rule in list(image.rules):
        if meant.finds(rule):
            place = (rule.resource, rule.name, rule.pattern)
            if place not in resources:
                resources[place] = kind.DescribeAclsResource(
                    resource_type=rule.resource, resource_name=rule.name, pattern_type=rule.pattern, acls=[]
                )
            resources[place].acls.append(
                kind.AclDescription(
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission,
                )
            )
        if pace.over():
            yield
    return Done(kind(error_code=0, error_message=None, resources=list(resources.values())))


def _error(code: ErrorCode, text: str | None) -> Done:
    reply = message("DescribeAclsResponse")
    return Done(reply(error_code=int(code), error_message=text or code.text, resources=[]))
