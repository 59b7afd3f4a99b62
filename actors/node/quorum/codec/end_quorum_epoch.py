"""EndQuorumEpoch (54), versions 0 and 1: the leader of the metadata quorum gives up its epoch (KIP-595).

Version notes: 1 candidates with directory ids instead of bare ids, the leader's endpoints (KIP-853).
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); FENCED_LEADER_EPOCH, INVALID_REQUEST (partition: a leader
that is no voter, or an epoch too far ahead; `raft/belief.py`).
"""

from typing import TYPE_CHECKING, Any

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.raft import ReplicaKey
from actors.raft.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import EndQuorumEpochRequest as EndQuorumEpochRequestData
    from actors.wire.schemas.rpc import EndQuorumEpochResponse as EndQuorumEpochResponseData

NAME = "EndQuorumEpoch"
PURPOSE = "quorum"


def read_request(own: Identity, request: "EndQuorumEpochRequestData", version: int) -> EndQuorumEpochRequest | Refusal:
    """The request of a peer, or the answer that refuses it."""
    if metadata.foreign(own, request):
        return Refusal(message("EndQuorumEpochResponse")(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    asked = metadata.partition(own, request.topics, "topic_name", "partition_index")
    if asked is None:
        return Refusal(message("EndQuorumEpochResponse")(error_code=ErrorCode.INVALID_REQUEST))
    preferred = [ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in asked.preferred_candidates]
    known = {key.id: key for key in own.voters.voters.keys}
    preferred += [known[id] for id in asked.preferred_successors if id in known]
    return EndQuorumEpochRequest(0, asked.leader_id, asked.leader_epoch, preferred)


def write_reply(own: Identity, response: EndQuorumEpochResponse) -> "EndQuorumEpochResponseData":
    """The answer as a Kafka message."""
    cls = message("EndQuorumEpochResponse")
    partition = cls.PartitionData(
        partition_index=0, error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    return cls(
        topics=[cls.TopicData(topic_name=own.topic, partitions=[partition])],
        node_endpoints=metadata.endpoints(own, cls.NodeEndpoint, response.leader_id),
    )


def write_request(own: Identity, request: EndQuorumEpochRequest) -> Any:
    """The request as a Kafka message."""
    cls = message("EndQuorumEpochRequest")
    partition = cls.PartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            cls.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in request.preferred
        ],
    )
    topics = [cls.TopicData(topic_name=own.topic, partitions=[partition])]
    return cls(cluster_id=own.cluster_id, topics=topics)


def read_reply(own: Identity, request: EndQuorumEpochRequest, reply: Any) -> EndQuorumEpochResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = metadata.partition(own, reply.topics, "topic_name", "partition_index")
    error = None if partition is None else metadata.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    metadata.learn(own, reply, partition.leader_id)
    return EndQuorumEpochResponse(request.serial, error, partition.leader_id, partition.leader_epoch)
