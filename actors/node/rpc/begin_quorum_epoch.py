"""BeginQuorumEpoch (53), versions 0 and 1: a new leader of the metadata quorum makes itself known (KIP-595).

Version notes: 1 voter key and the leader's endpoints (KIP-853).
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); FENCED_LEADER_EPOCH, INVALID_VOTER_KEY, INVALID_REQUEST
(partition: a leader that is no voter, or an epoch too far ahead; `raft/belief.py`).
Behaviour: the endpoint is believed only of a leader that this replica has not heard yet.
"""

from typing import TYPE_CHECKING, Any

from actors.node import quorum_wire
from actors.node.registry import Answer, Call, Done, Lane, Listener, rpc
from actors.raft import ReplicaKey
from actors.raft.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.quorum import Quorum

NAME = "BeginQuorumEpoch"
PURPOSE = "quorum"


@rpc(53, NAME, range(0, 2), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def begin_quorum_epoch(node: "Node", request: Any, call: Call) -> Answer:
    """Ask raft; its answer leaves when the epoch is durable."""
    quorum = node.quorum
    if quorum_wire.foreign(quorum, request):
        return Done(message("BeginQuorumEpochResponse")(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    asked = quorum_wire.partition(quorum, request.topics, "topic_name", "partition_index")
    if asked is None:
        return Done(message("BeginQuorumEpochResponse")(error_code=ErrorCode.INVALID_REQUEST))
    voter = quorum.me if request.voter_id < 0 else ReplicaKey(request.voter_id, asked.voter_directory_id)
    if quorum.raft.follows(voter, asked.leader_id, asked.leader_epoch):
        for endpoint in request.leader_endpoints[:1]:
            quorum.addresses.learn(asked.leader_id, endpoint.host, endpoint.port)
    question = BeginQuorumEpochRequest(0, voter, asked.leader_id, asked.leader_epoch)
    return quorum.ask(question, lambda response: _reply(quorum, response))


def _reply(quorum: "Quorum", response: BeginQuorumEpochResponse) -> Any:
    cls = message("BeginQuorumEpochResponse")
    partition = cls.PartitionData(
        partition_index=0, error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    return cls(
        topics=[cls.TopicData(topic_name=quorum.topic, partitions=[partition])],
        node_endpoints=quorum_wire.endpoints(quorum, cls.NodeEndpoint, response.leader_id),
    )


def outgoing(quorum: "Quorum", request: BeginQuorumEpochRequest) -> Any:
    """The request as it travels."""
    cls = message("BeginQuorumEpochRequest")
    partition = cls.PartitionData(
        partition_index=0,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return cls(
        cluster_id=quorum.cluster_id,
        voter_id=request.voter.id,
        topics=[cls.TopicData(topic_name=quorum.topic, partitions=[partition])],
        leader_endpoints=quorum_wire.own_endpoints(quorum, cls.LeaderEndpoint),
    )


def incoming(quorum: "Quorum", request: BeginQuorumEpochRequest, reply: Any) -> BeginQuorumEpochResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = quorum_wire.partition(quorum, reply.topics, "topic_name", "partition_index")
    error = None if partition is None else quorum_wire.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    quorum_wire.learn(quorum, reply)
    return BeginQuorumEpochResponse(request.serial, error, partition.leader_id, partition.leader_epoch)
