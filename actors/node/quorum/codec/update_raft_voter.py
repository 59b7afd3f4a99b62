"""UpdateRaftVoter (82), version 0: a voter of the metadata quorum says where it is reached, and what it supports (KIP-853).

Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, VOTER_NOT_FOUND (`raft/change.py`).
"""

from typing import TYPE_CHECKING, Any

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec import voter as shared
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.raft import ReplicaKey, Voter
from actors.raft.messages import ChangeResponse, UpdateVoterRequest
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UpdateRaftVoterRequest, UpdateRaftVoterResponse

NAME = "UpdateRaftVoter"
PURPOSE = "voters"


def read_request(own: Identity, request: "UpdateRaftVoterRequest", version: int) -> UpdateVoterRequest | Refusal:
    """The request of a voter, or the answer that refuses it."""
    cls = message("UpdateRaftVoterResponse")
    if metadata.foreign(own, request):
        return Refusal(cls(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    found = shared.endpoints(request.listeners)
    endpoints = () if found is None else shared.first(found, own.listener_name)
    if request.voter_id < 0 or not endpoints:
        return Refusal(cls(error_code=ErrorCode.INVALID_REQUEST))
    feature = request.k_raft_version_feature
    voter = Voter(
        ReplicaKey(request.voter_id, request.voter_directory_id),
        endpoints,
        (feature.min_supported_version, feature.max_supported_version),
    )
    return UpdateVoterRequest(0, request.current_leader_epoch, voter)


def write_reply(own: Identity, response: ChangeResponse) -> "UpdateRaftVoterResponse":
    """The answer as a Kafka message: it names the leader and its address."""
    cls = message("UpdateRaftVoterResponse")
    address = own.addresses.find(response.leader_id) if response.leader_id >= 0 else None
    host, port = address or ("", 0)
    leader = cls.CurrentLeader(leader_id=response.leader_id, leader_epoch=response.epoch, host=host, port=port)
    return cls(error_code=response.error, current_leader=leader)


def write_request(own: Identity, request: UpdateVoterRequest) -> Any:
    """The request as a Kafka message."""
    cls = message("UpdateRaftVoterRequest")
    lowest, highest = request.voter.kraft_versions
    return cls(
        cluster_id=own.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=request.voter.key.id,
        voter_directory_id=request.voter.key.directory_id,
        listeners=shared.listeners(cls.Listener, request.voter),
        k_raft_version_feature=cls.KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest),
    )


def read_reply(own: Identity, request: UpdateVoterRequest, reply: Any) -> ChangeResponse | None:
    """The answer to `request`; None if it cannot be used."""
    error = metadata.error(reply.error_code)
    return None if error is None else ChangeResponse(request.serial, error, -1, -1)
