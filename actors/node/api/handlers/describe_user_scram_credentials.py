"""DescribeUserScramCredentials 0 (KIP-554): who has SCRAM credentials, of which mechanism, with how many iterations.

Salts and keys are told to nobody. A broker answers from what it has replayed.
Errors: CLUSTER_AUTHORIZATION_FAILED; of a user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from actors.metadata.image import Image
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeUserScramCredentialsRequest


@rpc(50, "DescribeUserScramCredentials", range(1), listeners=[Listener.CLIENT], reads=Subject.METADATA)
@in_slices
def describe_user_scram_credentials(
    context: BrokerContext, request: "DescribeUserScramCredentialsRequest", call: Call
) -> Steps:
    """Users in the order of the request; all of them if it names none."""
    return _described(context.cache.image, request)


@rpc(50, "DescribeUserScramCredentials", range(1), listeners=[Listener.BRIDGE])
@in_slices
def on_a_controller(context: ControllerContext, request: "DescribeUserScramCredentialsRequest", call: Call) -> Steps:
    """Credentials as a controller knows them, for clients of brokers in ZooKeeper mode."""
    return _described(context.role.image, request)


def _described(image: Image, request: "DescribeUserScramCredentialsRequest") -> Steps:
    kind = message("DescribeUserScramCredentialsResponse")
    infos: dict[str, list[Any]] = {}
    for op in image.every("scram"):
        fields: dict[str, Any] = dict(op.fields)
        info = kind.CredentialInfo
        infos.setdefault(fields["name"], []).append(
            info(mechanism=fields["mechanism"], iterations=fields["iterations"])
        )
    named = Counter(user.name for user in request.users or ())
    results = []
    pace = SliceCount()
    for name in named or sorted(infos):
        result = kind.DescribeUserScramCredentialsResult(user=name, error_code=0, credential_infos=[])
        if named[name] > 1:
            result.error_code = int(ErrorCode.DUPLICATE_RESOURCE)
            result.error_message = (
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        elif name not in infos:
            result.error_code = int(ErrorCode.RESOURCE_NOT_FOUND)
            result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
        else:
            result.credential_infos = sorted(infos[name], key=lambda one: one.mechanism)
        results.append(result)
        if pace.over():
            yield
    return Done(kind(error_code=0, error_message=None, results=results))
