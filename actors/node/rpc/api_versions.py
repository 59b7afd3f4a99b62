"""ApiVersions (18), versions 0 to 4, on every listener; the header of the answer is always version 0.

Behaviour: shows the table of the listener that was asked, the features this software supports and those that are
finalized. A version that is too new is answered in the layout of version 0 with UNSUPPORTED_VERSION and the range of
this API alone (KIP-511).

Errors: UNSUPPORTED_VERSION, INVALID_REQUEST (software name or version that is no such thing).
"""

import re
from typing import TYPE_CHECKING, Any

from actors.node.registry import TABLE, Answer, Call, Done, Lane, Listener, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

KEY = 18
NAMED_FROM = 3
FEATURES = (("metadata.format", 1, 2),)
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@rpc(KEY, "ApiVersions", range(0, 5), listeners=tuple(Listener), lane=Lane.DATA)
def api_versions(node: "Node", request: Any, call: Call) -> Answer:
    """Say what this listener serves."""
    response = message("ApiVersionsResponse")
    if request is None:
        own = TABLE[call.listener, KEY].advertised
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
    served = sorted(api.key for (listener, _), api in TABLE.items() if listener is call.listener)
    keys = []
    for key in served:
        span = TABLE[call.listener, key].advertised
        keys.append(response.ApiVersion(api_key=key, min_version=span.start, max_version=span.stop - 1))
    epoch, finalized = _finalized(node, call)
    return Done(
        response(
            api_keys=keys,
            supported_features=[
                response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, low, high in FEATURES
            ],
            finalized_features_epoch=epoch,
            finalized_features=[
                response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(finalized.items())
            ],
        )
    )


def _finalized(node: "Node", call: Call) -> tuple[int, dict[str, int]]:
    """(metadata offset, levels of features) as committed. A controller lays its answers on this connection out in the level
    that it tells here (A02)."""
    if call.listener is Listener.CONTROLLER:
        assert node.controller is not None
        node.controller.layout_level(call)
        return node.controller.finalized()
    assert node.broker is not None
    return node.broker.image.next_offset - 1, node.broker.image.features()
