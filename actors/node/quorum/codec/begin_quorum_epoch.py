"""BeginQuorumEpoch (53), versions 0 and 1: a new leader of the metadata quorum makes itself known (KIP-595).

Version notes: 1 voter key and the leader's endpoints (KIP-853).
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); FENCED_LEADER_EPOCH, INVALID_VOTER_KEY, INVALID_REQUEST
(partition: a leader that is no voter, or an epoch too far ahead; `raft/belief.py`).
Behaviour: the endpoint is believed only of a leader that this replica has not heard yet.
"""

from typing import TYPE_CHECKING

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.raft import ReplicaKey
from actors.raft.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import BeginQuorumEpochRequest as BeginQuorumEpochRequestData
    from actors.wire.schemas.rpc import BeginQuorumEpochResponse as BeginQuorumEpochResponseData

NAME = "BeginQuorumEpoch"
PURPOSE = "quorum"


def read_request(
    own: Identity, request: "BeginQuorumEpochRequestData", version: int
) -> BeginQuorumEpochRequest | Refusal:
    """The request of a peer, or the answer that refuses it."""
    if metadata.foreign(own, request):
        return Refusal(message("BeginQuorumEpochResponse")(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    asked = metadata.partition(own, request.topics, "topic_name", "partition_index")
    if asked is None:
        return Refusal(message("BeginQuorumEpochResponse")(error_code=ErrorCode.INVALID_REQUEST))
    voter = own.me if request.voter_id < 0 else ReplicaKey(request.voter_id, asked.voter_directory_id)
    return BeginQuorumEpochRequest(0, voter, asked.leader_id, asked.leader_epoch, request.voter_id >= 0)


def write_reply(own: Identity, response: BeginQuorumEpochResponse) -> "BeginQuorumEpochResponseData":
    """The answer as a Kafka message."""
    cls = message("BeginQuorumEpochResponse")
    partition = cls.PartitionData(
        partition_index=0, error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    return cls(
        topics=[cls.TopicData(topic_name=own.topic, partitions=[partition])],
        node_endpoints=metadata.endpoints(own, cls.NodeEndpoint, response.leader_id),
    )


def write_request(own: Identity, request: BeginQuorumEpochRequest) -> "BeginQuorumEpochRequestData":
    """The request as a Kafka message."""
    cls = message("BeginQuorumEpochRequest")
    partition = cls.PartitionData(
        partition_index=0,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return cls(
        cluster_id=own.cluster_id,
        voter_id=request.voter.id,
        topics=[cls.TopicData(topic_name=own.topic, partitions=[partition])],
        leader_endpoints=metadata.own_endpoints(own, cls.LeaderEndpoint),
    )


def read_reply(
    own: Identity, request: BeginQuorumEpochRequest, reply: "BeginQuorumEpochResponseData"
) -> BeginQuorumEpochResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = metadata.partition(own, reply.topics, "topic_name", "partition_index")
    error = None if partition is None else metadata.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    metadata.learn(own, reply, partition.leader_id)
    return BeginQuorumEpochResponse(request.serial, error, partition.leader_id, partition.leader_epoch)


def read_other(request: BeginQuorumEpochRequest, reply: "BeginQuorumEpochResponseData") -> str | None:
    """What answers at the endpoint, if it is not the voter that the request names; None: it is. The voter's key is
    compared before anything else."""
    if reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        return "a controller of another cluster"
    found = [one.error_code for topic in reply.topics for one in topic.partitions]
    if reply.error_code or len(found) != 1:
        return "a node that does not say which controller it is"
    return "another controller" if found[0] == ErrorCode.INVALID_VOTER_KEY else None
