"""DescribeQuorum (55), versions 0 to 2: leader, epoch, high watermark and every replica of the metadata partition.

Behaviour: only the leader knows the replicas. A broker passes the request on to it; a controller that does not lead
answers NOT_LEADER_OR_FOLLOWER with the leader it knows. Both names of the topic are taken, and the one asked for is
answered (reading A09: Apache Kafka's tools insist on `__cluster_metadata`).
Version notes: 1 fetch and caught-up times (KIP-836), 2 directory ids, nodes with endpoints, messages (KIP-853).
Errors: INVALID_REQUEST (whole request); UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (partition).
"""

from typing import TYPE_CHECKING, Any

from actors.node.api.contexts import Context
from actors.node.api.table import ON_A_CONTROLLER, rpc
from actors.node.quorum.files import TOPICS
from actors.node.quorum.replica import QuorumReplica
from actors.node.runtime.answers import Answer, Done, Forward
from actors.node.runtime.calls import Call, Listener
from actors.raft import Error, ReplicaState, Role
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeQuorumRequest, DescribeQuorumResponse

NAMES = frozenset(TOPICS.values())


@rpc(
    55,
    "DescribeQuorum",
    range(0, 3),
    listeners=(Listener.CLIENT, Listener.INTER_BROKER, Listener.CONTROLLER),
    enveloped=True,
)
def describe_quorum(context: Context, request: "DescribeQuorumRequest", call: Call) -> Answer:
    """Answer as the leader of the quorum, or name it."""
    quorum = context.quorum
    if quorum.raft.role is not Role.LEADER and call.listener not in ON_A_CONTROLLER:
        return Forward()
    cls = message("DescribeQuorumResponse")
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        code = ErrorCode.INVALID_REQUEST
        return Done(cls(error_code=code, error_message="Ask for the one partition of the metadata topic."))
    topic, number = request.topics[0], request.topics[0].partitions[0].partition_index
    partition = cls.PartitionData(partition_index=number)
    nodes: list[Any] = []
    if topic.topic_name not in NAMES or number != 0:
        partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition.error_message = "Only partition 0 of the metadata topic is replicated by the quorum."
    else:
        _describe(quorum, cls, partition)
        nodes = _nodes(quorum, cls)
    return Done(cls(topics=[cls.TopicData(topic_name=topic.topic_name, partitions=[partition])], nodes=nodes))


def _describe(quorum: QuorumReplica, cls: Any, partition: "DescribeQuorumResponse.PartitionData") -> None:
    found = quorum.raft.describe()
    partition.leader_id = found.leader_id
    partition.leader_epoch = found.epoch
    partition.high_watermark = found.high_watermark
    if quorum.raft.role is Role.LEADER:
        partition.current_voters = [_state(cls, state) for state in found.voters]
        partition.observers = [_state(cls, state) for state in found.observers]
    else:
        partition.error_code = Error.NOT_LEADER_OR_FOLLOWER
        partition.error_message = "This controller does not lead the quorum."


def _state(cls: "type[DescribeQuorumResponse]", state: ReplicaState) -> "DescribeQuorumResponse.ReplicaState":
    return cls.ReplicaState(
        replica_id=state.key.id,
        replica_directory_id=state.key.directory_id,
        log_end_offset=state.log_end_offset,
        last_fetch_timestamp=state.last_fetch_ms,
        last_caught_up_timestamp=state.last_caught_up_ms,
    )


def _nodes(quorum: QuorumReplica, cls: Any) -> list["DescribeQuorumResponse.Node"]:
    """Where the voters are, as far as it is known."""
    nodes = []
    for voter in quorum.identity.voters.voters.members:
        address = quorum.identity.addresses.find(voter.key.id)
        name = voter.endpoints[0][0] if voter.endpoints else "CONTROLLER"
        listeners = [] if address is None else [cls.Listener(name=name, host=address[0], port=address[1])]
        listeners += [cls.Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints[1:]]
        nodes.append(cls.Node(node_id=voter.key.id, listeners=listeners))
    return nodes
