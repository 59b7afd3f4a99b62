"""FetchSnapshot (59), versions 0 and 1: a slice of a snapshot file of the metadata partition (KIP-630).

Version notes: 1 directory id of the asker (KIP-853).
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (whole request); UNKNOWN_TOPIC_OR_PARTITION, SNAPSHOT_NOT_FOUND,
POSITION_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (partition).
"""

from typing import TYPE_CHECKING

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.raft import ReplicaKey, SnapshotId
from actors.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchSnapshotRequest as FetchSnapshotRequestData
    from actors.wire.schemas.rpc import FetchSnapshotResponse as FetchSnapshotResponseData

NAME = "FetchSnapshot"
PURPOSE = "metadata"


def read_request(own: Identity, request: "FetchSnapshotRequestData", version: int) -> FetchSnapshotRequest | Refusal:
    """The request of a peer, or the answer that refuses it."""
    cls = message("FetchSnapshotResponse")
    if metadata.foreign(own, request):
        return Refusal(cls(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return Refusal(cls(error_code=ErrorCode.INVALID_REQUEST))
    asked = metadata.partition(own, request.topics, "name", "partition")
    if asked is None:
        topic = request.topics[0]
        unknown = cls.PartitionSnapshot(
            index=topic.partitions[0].partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unaligned_records=b""
        )
        return Refusal(cls(topics=[cls.TopicSnapshot(name=topic.name, partitions=[unknown])]))
    return FetchSnapshotRequest(
        0,
        ReplicaKey(request.replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        asked.position,
        request.max_bytes,
    )


def write_reply(own: Identity, response: FetchSnapshotResponse) -> "FetchSnapshotResponseData":
    """The answer as a Kafka message."""
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
        topics=[cls.TopicSnapshot(name=own.topic, partitions=[partition])],
        node_endpoints=metadata.endpoints(own, cls.NodeEndpoint, response.leader_id),
    )


def write_request(own: Identity, request: FetchSnapshotRequest) -> "FetchSnapshotRequestData":
    """The request as a Kafka message."""
    cls = message("FetchSnapshotRequest")
    partition = cls.PartitionSnapshot(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=cls.SnapshotId(end_offset=request.snapshot.end_offset, epoch=request.snapshot.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return cls(
        cluster_id=own.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.bytes_max,
        topics=[cls.TopicSnapshot(name=own.topic, partitions=[partition])],
    )


def read_reply(
    own: Identity, request: FetchSnapshotRequest, reply: "FetchSnapshotResponseData"
) -> FetchSnapshotResponse | None:
    """The answer to `request`; None if it cannot be used."""
    partition = metadata.partition(own, reply.topics, "name", "index")
    error = None if partition is None else metadata.error(partition.error_code)
    if reply.error_code or partition is None or error is None:
        return None
    metadata.learn(own, reply, partition.current_leader.leader_id if partition.current_leader else -1)
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
