"""FetchSnapshot (59), versions 0 and 1: a slice of a snapshot file of the metadata partition (KIP-630).

Version notes: 1 directory id of the asker (KIP-853).
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); UNKNOWN_TOPIC_OR_PARTITION, SNAPSHOT_NOT_FOUND,
POSITION_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (partition).
"""

from typing import TYPE_CHECKING, Any

from actors.node import quorum_wire
from actors.node.registry import Answer, Call, Done, Lane, Listener, rpc
from actors.raft import ReplicaKey, SnapshotId
from actors.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.quorum import Quorum

NAME = "FetchSnapshot"
PURPOSE = "metadata"


@rpc(59, NAME, range(0, 2), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def fetch_snapshot(node: "Node", request: Any, call: Call) -> Answer:
    """Ask raft for the slice."""
    quorum = node.quorum
    cls = message("FetchSnapshotResponse")
    if quorum_wire.foreign(quorum, request):
        return Done(cls(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return Done(cls(error_code=ErrorCode.INVALID_REQUEST))
    asked = quorum_wire.partition(quorum, request.topics, "name", "partition")
    if asked is None:
        topic = request.topics[0]
        unknown = cls.PartitionSnapshot(
            index=topic.partitions[0].partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unaligned_records=b""
        )
        return Done(cls(topics=[cls.TopicSnapshot(name=topic.name, partitions=[unknown])]))
    question = FetchSnapshotRequest(
        0,
        ReplicaKey(request.replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        asked.position,
        request.max_bytes,
    )
    return quorum.ask(question, lambda response: _reply(quorum, response))


def _reply(quorum: "Quorum", response: FetchSnapshotResponse) -> Any:
    cls = message("FetchSnapshotResponse")
    partition = cls.PartitionSnapshot(
        index=0,
        error_code=response.error,
        snapshot_id=cls.SnapshotId(end_offset=response.snapshot.end_offset, epoch=response.snapshot.epoch),
        current_leader=cls.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    return cls(
        topics=[cls.TopicSnapshot(name=quorum.topic, partitions=[partition])],
        node_endpoints=quorum_wire.endpoints(quorum, cls.NodeEndpoint, response.leader_id),
    )


def outgoing(quorum: "Quorum", request: FetchSnapshotRequest) -> Any:
    """The request as it travels."""
    cls = message("FetchSnapshotRequest")
    partition = cls.PartitionSnapshot(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=cls.SnapshotId(end_offset=request.snapshot.end_offset, epoch=request.snapshot.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return cls(
        cluster_id=quorum.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.bytes_max,
        topics=[cls.TopicSnapshot(name=quorum.topic, partitions=[partition])],
    )


def incoming(quorum: "Quorum", request: FetchSnapshotRequest, reply: Any) -> FetchSnapshotResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = quorum_wire.partition(quorum, reply.topics, "name", "index")
    error = None if partition is None else quorum_wire.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    quorum_wire.learn(quorum, reply)
    leader, snapshot = partition.current_leader, partition.snapshot_id
    return FetchSnapshotResponse(
        request.serial,
        error,
        -1 if leader is None else leader.leader_id,
        -1 if leader is None else leader.leader_epoch,
        SnapshotId(snapshot.end_offset, snapshot.epoch),
        partition.size,
        partition.position,
        partition.unaligned_records if partition.unaligned_records is not None else b"",
    )
