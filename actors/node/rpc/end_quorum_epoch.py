"""EndQuorumEpoch (54), versions 0 and 1: the leader of the metadata quorum gives up its epoch (KIP-595).

Version notes: 1 candidates with directory ids instead of bare ids, the leader's endpoints (KIP-853).
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); FENCED_LEADER_EPOCH, INVALID_REQUEST (partition: a leader
that is no voter, or an epoch too far ahead; `raft/belief.py`).
"""

from typing import TYPE_CHECKING, Any

from actors.node import quorum_wire
from actors.node.registry import Answer, Call, Done, Lane, Listener, rpc
from actors.raft import ReplicaKey
from actors.raft.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.quorum import Quorum

NAME = "EndQuorumEpoch"
PURPOSE = "quorum"


@rpc(54, NAME, range(0, 2), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def end_quorum_epoch(node: "Node", request: Any, call: Call) -> Answer:
    """Ask raft: the first of the preferred candidates stands at once."""
    quorum = node.quorum
    if quorum_wire.foreign(quorum, request):
        return Done(message("EndQuorumEpochResponse")(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    asked = quorum_wire.partition(quorum, request.topics, "topic_name", "partition_index")
    if asked is None:
        return Done(message("EndQuorumEpochResponse")(error_code=ErrorCode.INVALID_REQUEST))
    preferred = [ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in asked.preferred_candidates]
    known = {key.id: key for key in quorum.raft_voters.keys}
    preferred += [known[id] for id in asked.preferred_successors if id in known]
    question = EndQuorumEpochRequest(0, asked.leader_id, asked.leader_epoch, preferred)
    return quorum.ask(question, lambda response: _reply(quorum, response))


def _reply(quorum: "Quorum", response: EndQuorumEpochResponse) -> Any:
    cls = message("EndQuorumEpochResponse")
    partition = cls.PartitionData(
        partition_index=0, error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    return cls(
        topics=[cls.TopicData(topic_name=quorum.topic, partitions=[partition])],
        node_endpoints=quorum_wire.endpoints(quorum, cls.NodeEndpoint, response.leader_id),
    )


def outgoing(quorum: "Quorum", request: EndQuorumEpochRequest) -> Any:
    """The request as it travels."""
    cls = message("EndQuorumEpochRequest")
    partition = cls.PartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            cls.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in request.preferred
        ],
    )
    topics = [cls.TopicData(topic_name=quorum.topic, partitions=[partition])]
    return cls(cluster_id=quorum.cluster_id, topics=topics)


def incoming(quorum: "Quorum", request: EndQuorumEpochRequest, reply: Any) -> EndQuorumEpochResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = quorum_wire.partition(quorum, reply.topics, "topic_name", "partition_index")
    error = None if partition is None else quorum_wire.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    quorum_wire.learn(quorum, reply)
    return EndQuorumEpochResponse(request.serial, error, partition.leader_id, partition.leader_epoch)
