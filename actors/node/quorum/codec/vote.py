"""Vote (52), versions 0 to 2: a voter asks for votes to lead the metadata quorum (KIP-595, KIP-996).

Version notes: 1 voter key and directory ids (KIP-853), 2 pre-votes.
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH,
INVALID_VOTER_KEY, INVALID_REQUEST, DUPLICATE_BROKER_REGISTRATION for a leader that runs twice (partition).
"""

from typing import TYPE_CHECKING

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.raft import ReplicaKey
from actors.raft.messages import VoteRequest, VoteResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import VoteRequest as VoteRequestData
    from actors.wire.schemas.rpc import VoteResponse as VoteResponseData

NAME = "Vote"
PURPOSE = "quorum"


def read_request(own: Identity, request: "VoteRequestData", version: int) -> VoteRequest | Refusal:
    """The request of a peer, or the answer that refuses it."""
    if metadata.foreign(own, request):
        return Refusal(message("VoteResponse")(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    asked = metadata.partition(own, request.topics, "topic_name", "partition_index")
    if asked is None:
        return Refusal(message("VoteResponse")(error_code=ErrorCode.INVALID_REQUEST))
    voter = own.me if request.voter_id < 0 else ReplicaKey(request.voter_id, asked.voter_directory_id)
    return VoteRequest(
        0,
        ReplicaKey(asked.replica_id, asked.replica_directory_id),
        voter,
        asked.replica_epoch,
        asked.last_offset_epoch,
        asked.last_offset,
        asked.pre_vote,
        request.voter_id >= 0,
    )


def write_reply(own: Identity, response: VoteResponse) -> "VoteResponseData":
    """The answer as a Kafka message."""
    cls = message("VoteResponse")
    partition = cls.PartitionData(
        partition_index=0,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        vote_granted=response.granted,
    )
    return cls(
        topics=[cls.TopicData(topic_name=own.topic, partitions=[partition])],
        node_endpoints=metadata.endpoints(own, cls.NodeEndpoint, response.leader_id),
    )


def write_request(own: Identity, request: VoteRequest) -> "VoteRequestData":
    """The request as a Kafka message."""
    cls = message("VoteRequest")
    partition = cls.PartitionData(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.replica.id,
        replica_directory_id=request.replica.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    topics = [cls.TopicData(topic_name=own.topic, partitions=[partition])]
    return cls(cluster_id=own.cluster_id, voter_id=request.voter.id, topics=topics)


def read_reply(own: Identity, request: VoteRequest, reply: "VoteResponseData") -> VoteResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = metadata.partition(own, reply.topics, "topic_name", "partition_index")
    error = None if partition is None else metadata.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    metadata.learn(own, reply, partition.leader_id)
    return VoteResponse(request.serial, error, partition.leader_id, partition.leader_epoch, partition.vote_granted)
