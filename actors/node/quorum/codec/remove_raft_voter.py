"""RemoveRaftVoter (81), version 0: a voter of the metadata quorum is removed from the voters (KIP-853).

Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION,
VOTER_NOT_FOUND (`raft/change.py`).
"""

from typing import TYPE_CHECKING, Any

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec import voter as shared
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.raft import ReplicaKey
from actors.raft.messages import ChangeResponse, RemoveVoterRequest
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import RemoveRaftVoterRequest, RemoveRaftVoterResponse

NAME = "RemoveRaftVoter"
PURPOSE = "voters"


def read_request(own: Identity, request: "RemoveRaftVoterRequest", version: int) -> RemoveVoterRequest | Refusal:
    """The request of a client or of a controller, or the answer that refuses it."""
    cls = message("RemoveRaftVoterResponse")
    if metadata.foreign(own, request):
        return Refusal(cls(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    if request.voter_id < 0:
        reason = "Remove voter request didn't include a valid voter"
        return Refusal(cls(error_code=ErrorCode.INVALID_REQUEST, error_message=reason))
    return RemoveVoterRequest(0, ReplicaKey(request.voter_id, request.voter_directory_id))


def write_reply(own: Identity, response: ChangeResponse) -> "RemoveRaftVoterResponse":
    """The answer as a Kafka message."""
    return message("RemoveRaftVoterResponse")(error_code=response.error, error_message=shared.sentence(response))


def write_request(own: Identity, request: RemoveVoterRequest) -> Any:
    """The request as a Kafka message."""
    key = request.voter
    cls = message("RemoveRaftVoterRequest")
    return cls(cluster_id=own.cluster_id, voter_id=key.id, voter_directory_id=key.directory_id)


def read_reply(own: Identity, request: RemoveVoterRequest, reply: Any) -> ChangeResponse | None:
    """The answer to `request`; None if it cannot be used."""
    error = metadata.error(reply.error_code)
    return None if error is None else ChangeResponse(request.serial, error, -1, -1, reply.error_message)
