"""AddRaftVoter (80), versions 0 and 1: a controller becomes a voter of the metadata quorum (KIP-853).

Version notes: 1 the answer may come when the change is written, before it is committed (KIP-1186).
Behaviour: the time limit in the request is not looked at, as in Apache Kafka; controller.quorum.request.timeout.ms is.
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION,
DUPLICATE_VOTER (`raft/change.py`).
"""

from typing import TYPE_CHECKING

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec import voter as shared
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.raft import ReplicaKey, Voter
from actors.raft.messages import AddVoterRequest, ChangeResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AddRaftVoterRequest, AddRaftVoterResponse

NAME = "AddRaftVoter"
PURPOSE = "voters"


def read_request(own: Identity, request: "AddRaftVoterRequest", version: int) -> AddVoterRequest | Refusal:
    """The request of a client or of a controller, or the answer that refuses it."""
    cls = message("AddRaftVoterResponse")
    if metadata.foreign(own, request):
        return Refusal(cls(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    if request.voter_id < 0:
        reason = "Add voter request didn't include a valid voter"
        return Refusal(cls(error_code=ErrorCode.INVALID_REQUEST, error_message=reason))
    found = shared.endpoints(request.listeners)
    endpoints = () if found is None else shared.first(found, own.listener_name)
    if not endpoints:
        names = [listener.name for listener in request.listeners[: shared.LISTENERS_MAX]]
        reason = (
            f"Add voter request didn't include the endpoint ({names}) for the default listener {own.listener_name}, or has "
            f"one that cannot be used"
        )
        return Refusal(cls(error_code=ErrorCode.INVALID_REQUEST, error_message=reason))
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    return AddVoterRequest(0, Voter(key, endpoints), request.ack_when_committed)


def write_reply(own: Identity, response: ChangeResponse) -> "AddRaftVoterResponse":
    """The answer as a Kafka message."""
    return message("AddRaftVoterResponse")(error_code=response.error, error_message=shared.sentence(response))


def write_request(own: Identity, request: AddVoterRequest) -> "AddRaftVoterRequest":
    """The request as a Kafka message."""
    cls = message("AddRaftVoterRequest")
    return cls(
        cluster_id=own.cluster_id,
        timeout_ms=0,
        voter_id=request.voter.key.id,
        voter_directory_id=request.voter.key.directory_id,
        listeners=shared.listeners(cls.Listener, request.voter),
        ack_when_committed=request.wait,
    )


def read_reply(own: Identity, request: AddVoterRequest, reply: "AddRaftVoterResponse") -> ChangeResponse | None:
    """The answer to `request`; None if it cannot be used."""
    error = metadata.error(reply.error_code)
    return None if error is None else ChangeResponse(request.serial, error, -1, -1, reply.error_message)
