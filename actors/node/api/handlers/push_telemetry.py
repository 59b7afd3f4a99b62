"""PushTelemetry (72), version 0: metrics of a client (KIP-714), which stand beside the broker's own from then on.

Errors: INVALID_REQUEST (no client instance id, or a push behind the last one), THROTTLING_QUOTA_EXCEEDED,
UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD (it cannot be read, or holds too
much), UNSUPPORTED_VERSION (no metrics are taken here).
"""

from typing import TYPE_CHECKING

from actors.broker.telemetry.otlp import Malformed
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.roles.broker.telemetry.client_telemetry import points
from actors.node.runtime.answers import Answer, Done, Later
from actors.node.runtime.calls import Call, Listener
from actors.ports import WorkKind
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.compression import CompressionError

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import PushTelemetryRequest


@rpc(72, "PushTelemetry", range(0, 1), listeners=(Listener.CLIENT,))
def push_telemetry(context: BrokerContext, request: "PushTelemetryRequest", call: Call) -> Answer:
    """Take in what a client tells of itself."""
    Response, telemetry = message("PushTelemetryResponse"), context.telemetry
    if not telemetry.on:
        return Done(Response(error_code=ErrorCode.UNSUPPORTED_VERSION))
    telemetry.refresh(call.connection)
    clients, codec, payload = telemetry.clients, request.compression_type, request.metrics
    if payload and telemetry.busy:
        clients.throttled += 1
        return Done(Response(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED))
    client = clients.push(
        request.client_instance_id,
        request.subscription_id,
        codec,
        len(payload),
        request.terminating,
        lambda: telemetry.attributes(call),
        call.connection,
        context.runtime.now.mono_ms,
        call.principal,
    )
    if isinstance(client, ErrorCode):
        return Done(Response(error_code=client))
    if not payload:
        return Done(Response())

    def read(result: object) -> Answer:
        if isinstance(result, list):
            clients.taken(client, result)
            return Done(Response())
        if not isinstance(result, Malformed | CompressionError):
            assert isinstance(result, Exception)
            raise result
        clients.damaged(client)
        return Done(Response(error_code=ErrorCode.INVALID_RECORD))

    def over(result: object) -> None:
        telemetry.readings -= 1

    telemetry.readings += 1
    return Later(points(codec, payload), read, WorkKind.TELEMETRY, over)
