"""ApiVersions (18), versions 0 to 4, on every listener; the header of the answer is always version 0.

Behaviour: shows the table of the listener that was asked, the features this software supports and those that are
finalized. A version that is too new is answered in the layout of version 0 with UNSUPPORTED_VERSION and the range of
this API alone (KIP-511). Between SaslHandshake and the end of the login it is out of place, and ends the connection.

Errors: UNSUPPORTED_VERSION, INVALID_REQUEST (software name or version that is no such thing), ILLEGAL_SASL_STATE.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from actors.metadata.features import (
    GROUP_VERSION,
    GROUP_VERSIONS,
    SHARE_VERSION,
    SHARE_VERSIONS,
    STREAMS_VERSION,
    STREAMS_VERSIONS,
    TRANSACTION_VERSION,
    TRANSACTION_VERSIONS,
)
from actors.node.api.contexts import BrokerContext, Context, ControllerContext
from actors.node.api.table import rpc, served
from actors.node.runtime.answers import Answer, Done, Last
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ApiVersionsRequest, ApiVersionsResponse

KEY = 18
NAMED_FROM = 3
TELEMETRY = 71, 72
CONSUMERS = 68, 69
SHARE_GROUPS = 76, 77, 78, 79, 90, 91, 92
STREAMS = 88, 89
INIT_PRODUCER_ID = 22
KRAFT_VERSION, KRAFT_VERSIONS = "kraft.version", (0, 1)
"""The feature of the quorum (KIP-853): a leader asks for it before it adds a voter. No feature level record has it."""
FEATURES = (
    (KRAFT_VERSION, *KRAFT_VERSIONS),
    ("metadata.format", 1, 2),
    (TRANSACTION_VERSION, *TRANSACTION_VERSIONS),
    (GROUP_VERSION, *GROUP_VERSIONS),
    (SHARE_VERSION, *SHARE_VERSIONS),
    (STREAMS_VERSION, *STREAMS_VERSIONS),
)
FROM_0 = 4
"""Clients of older versions take a feature that begins at level 0 for a damaged answer."""
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@rpc(KEY, "ApiVersions", range(0, 5), listeners=tuple(Listener), lane=Lane.DATA)
def api_versions(context: Context, request: "ApiVersionsRequest | None", call: Call) -> Answer:
    """Say what this listener serves."""
    response = message("ApiVersionsResponse")
    connection = context.requests.connections.get(call.connection)
    if connection is not None and connection.exchange is not None:
        code = ErrorCode.ILLEGAL_SASL_STATE
        return Last(response(error_code=code), "it asks for ApiVersions in the middle of its login")
    if request is None:
        own = served(context.family, pushed=False)[call.listener][KEY].advertised
        return Done(
            response(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[response.ApiVersion(api_key=KEY, min_version=own.start, max_version=own.stop - 1)],
            )
        )
    if call.api_version >= NAMED_FROM and not (
        SOFTWARE.fullmatch(request.client_software_name) and SOFTWARE.fullmatch(request.client_software_version)
    ):
        return Done(response(error_code=ErrorCode.INVALID_REQUEST))
    telemetry = isinstance(context, BrokerContext) and context.telemetry.on
    if telemetry and call.api_version >= NAMED_FROM:
        assert isinstance(context, BrokerContext)
        context.telemetry.introduced(call.connection, request.client_software_name, request.client_software_version)
    hidden = _hidden(context, telemetry)
    epoch, finalized = _finalized(context, call)
    kraft_version = context.quorum.raft.kraft_version
    if kraft_version:
        finalized = finalized | {KRAFT_VERSION: kraft_version}
    return Done(
        response(
            api_keys=_served(context.family, call.listener, hidden, context.pushed, _unsettled(context)),
            supported_features=[
                response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, low, high in FEATURES
                if low > 0 or call.api_version >= FROM_0
            ],
            finalized_features_epoch=epoch,
            finalized_features=[
                response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(finalized.items())
            ],
        )
    )


def _hidden(context: Context, telemetry: bool) -> tuple[int, ...]:
    """APIs that nobody is told of: those of telemetry where clients are not asked for their metrics, and those of kinds of
    groups that are not served."""
    groups = context.groups if isinstance(context, BrokerContext) else None
    found: tuple[int, ...] = () if telemetry else TELEMETRY
    if groups is None or not groups.serves_consumers():
        found += CONSUMERS
    if groups is None or not groups.serves_share_groups():
        found += SHARE_GROUPS
    if groups is None or not groups.serves_streams():
        found += STREAMS
    return found


def _unsettled(context: Context) -> tuple[int, ...]:
    """APIs of which the newest version, which Apache Kafka calls unstable, is told as well: that of two-phase commit where
    it is on."""
    on = isinstance(context, BrokerContext) and context.transactions.machine.settings.two_phase
    return (INIT_PRODUCER_ID,) if on else ()


@cache
def _served(
    family: str, listener: Listener, hidden: tuple[int, ...], pushed: bool, unsettled: tuple[int, ...]
) -> list["ApiVersionsResponse.ApiVersion"]:
    """Every API of a listener with its versions. Nobody changes the list: a new client asks for it first of all."""
    kind = message("ApiVersionsResponse").ApiVersion
    rows = sorted(served(family, pushed)[listener].items())
    told = {key: api.versions if key in unsettled else api.advertised for key, api in rows if key not in hidden}
    return [
        kind(api_key=key, min_version=versions.start, max_version=versions.stop - 1) for key, versions in told.items()
    ]


def _finalized(context: Context, call: Call) -> tuple[int, dict[str, int]]:
    """(metadata offset, levels of features) as committed. A controller lays its answers on this connection out in the level
    that it tells here (A02)."""
    if isinstance(context, ControllerContext):
        context.role.layout_level(call)
        return context.role.finalized()
    assert isinstance(context, BrokerContext)
    image = context.cache.image
    return image.next_offset - 1, image.features()
