"""GetTelemetrySubscriptions (71), version 0: which of its metrics a client is to push, and how often (KIP-714).

Behaviour: a client without an instance id is given one. Not in ApiVersions where this broker takes no metrics of clients.

Errors: THROTTLING_QUOTA_EXCEEDED (it comes before its time), UNSUPPORTED_VERSION (no metrics are taken here).
"""

from typing import TYPE_CHECKING

from actors.broker.telemetry.clients import CODECS
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import GetTelemetrySubscriptionsRequest


@rpc(71, "GetTelemetrySubscriptions", range(0, 1), listeners=(Listener.CLIENT,))
def get_telemetry_subscriptions(
    context: BrokerContext, request: "GetTelemetrySubscriptionsRequest", call: Call
) -> Answer:
    """Say what a client is asked for."""
    Response, telemetry = message("GetTelemetrySubscriptionsResponse"), context.telemetry
    if not telemetry.on:
        return Done(Response(error_code=ErrorCode.UNSUPPORTED_VERSION))
    telemetry.refresh(call.connection)
    found = telemetry.clients.ask(
        request.client_instance_id,
        lambda: telemetry.attributes(call),
        call.connection,
        context.runtime.now.mono_ms,
        call.principal,
    )
    if isinstance(found, ErrorCode):
        return Done(Response(error_code=found))
    return Done(
        Response(
            client_instance_id=found.client,
            subscription_id=found.subscription_id,
            accepted_compression_types=list(CODECS),
            push_interval_ms=found.interval_ms,
            telemetry_max_bytes=telemetry.clients.bytes_max,
            delta_temporality=True,
            requested_metrics=list(found.metrics),
        )
    )
