"""ApiVersions (18) as a leader asks it of a controller that is to be a voter: does it support kraft.version 1 (KIP-853)?"""

from typing import TYPE_CHECKING

from actors.node.quorum.identity import Identity
from actors.raft.messages import ProbeRequest, ProbeResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ApiVersionsRequest, ApiVersionsResponse

NAME = "ApiVersions"
PURPOSE = "voters"
FEATURE = "kraft.version"
VOTE = 52
"""The API key of Vote. Only controllers' listeners serve it: a broker that was named as a voter would never vote."""


def write_request(own: Identity, request: ProbeRequest) -> "ApiVersionsRequest":
    """The request as a Kafka message."""
    return message("ApiVersionsRequest")(client_software_name="rayft", client_software_version="1")


def read_reply(own: Identity, request: ProbeRequest, reply: "ApiVersionsResponse") -> ProbeResponse:
    """The answer to `request`."""
    if reply.error_code != ErrorCode.NONE:
        known = {code.value: code.name for code in ErrorCode}
        return ProbeResponse(request.serial, None, known.get(reply.error_code, str(reply.error_code)))
    if all(api.api_key != VOTE for api in reply.api_keys):
        return ProbeResponse(request.serial, None, "without Vote: it is no controller that answers there")
    for feature in reply.supported_features:
        if feature.name == FEATURE:
            return ProbeResponse(request.serial, (feature.min_version, feature.max_version))
    return ProbeResponse(request.serial, None)
