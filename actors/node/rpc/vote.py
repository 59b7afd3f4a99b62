"""Vote (52), versions 0 to 2: who should lead the metadata quorum (KIP-595, KIP-996).

Version notes: 1 voter key and directory ids (KIP-853), 2 pre-votes.
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH,
INVALID_VOTER_KEY, INVALID_REQUEST (partition).
"""

from typing import TYPE_CHECKING, Any

from actors.node import quorum_wire
from actors.node.registry import Answer, Call, Done, Lane, Listener, rpc
from actors.raft import ReplicaKey
from actors.raft.messages import VoteRequest, VoteResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.quorum import Quorum

NAME = "Vote"
PURPOSE = "quorum"


@rpc(52, NAME, range(0, 3), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def vote(node: "Node", request: Any, call: Call) -> Answer:
    """Ask raft; its answer leaves when the vote is durable."""
    quorum = node.quorum
    if quorum_wire.foreign(quorum, request):
        return Done(message("VoteResponse")(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    asked = quorum_wire.partition(quorum, request.topics, "topic_name", "partition_index")
    if asked is None:
        return Done(message("VoteResponse")(error_code=ErrorCode.INVALID_REQUEST))
    voter = quorum.me if request.voter_id < 0 else ReplicaKey(request.voter_id, asked.voter_directory_id)
    question = VoteRequest(
        0,
        ReplicaKey(asked.replica_id, asked.replica_directory_id),
        voter,
        asked.replica_epoch,
        asked.last_offset_epoch,
        asked.last_offset,
        asked.pre_vote,
    )
    return quorum.ask(question, lambda response: _reply(quorum, response))


def _reply(quorum: "Quorum", response: VoteResponse) -> Any:
    cls = message("VoteResponse")
    partition = cls.PartitionData(
        partition_index=0,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        vote_granted=response.granted,
    )
    return cls(
        topics=[cls.TopicData(topic_name=quorum.topic, partitions=[partition])],
        node_endpoints=quorum_wire.endpoints(quorum, cls.NodeEndpoint, response.leader_id),
    )


def outgoing(quorum: "Quorum", request: VoteRequest) -> Any:
    """The request as it travels."""
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
    topics = [cls.TopicData(topic_name=quorum.topic, partitions=[partition])]
    return cls(cluster_id=quorum.cluster_id, voter_id=request.voter.id, topics=topics)


def incoming(quorum: "Quorum", request: VoteRequest, reply: Any) -> VoteResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = quorum_wire.partition(quorum, reply.topics, "topic_name", "partition_index")
    error = None if partition is None else quorum_wire.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    quorum_wire.learn(quorum, reply)
    return VoteResponse(request.serial, error, partition.leader_id, partition.leader_epoch, partition.vote_granted)
