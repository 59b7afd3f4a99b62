"""DescribeUserScramCredentials (50), version 0: which users have SCRAM credentials, as this broker's metadata has them.

Behaviour: no user, or null, asks for all of them. kafka-configs asks whenever it shows the quotas of users. Nothing sets
credentials yet. On a separate inter-broker listener the number is that of the drafts' BrokerHeartbeat.

Errors: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE by user.
"""

from collections import Counter
from typing import Any

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message


@rpc(
    50,
    "DescribeUserScramCredentials",
    range(1),
    listeners=(Listener.CLIENT,),
    lane=Lane.DATA,
    reads=Subject.METADATA,
    beside=False,
)
@in_slices
def describe_user_scram_credentials(context: BrokerContext, request: Any, call: Call) -> Steps:
    """Mechanisms and iterations by user."""
    kind = message("DescribeUserScramCredentialsResponse")
    known: dict[Any, list[Any]] = {}
    for op in context.cache.image.every("scram"):
        name, mechanism = op.key
        iterations = dict(op.fields)["iterations"]
        known.setdefault(name, []).append(kind.CredentialInfo(mechanism=mechanism, iterations=iterations))
    times = Counter(user.name for user in request.users or ()) or Counter(known.keys())
    reply = kind()
    pace = Pace()
    for name, count in times.items():
        result = kind.DescribeUserScramCredentialsResult(user=name)
        if count > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        elif name not in known:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
        else:
            result.credential_infos = known[name]
        reply.results.append(result)
        if pace.over():
            yield
    return Done(reply)
