"""Fetch (1) on the controller listener, versions 13 to 18: how replicas pull the metadata log (KIP-595, KIP-630).

Advertised from 4 as Apache Kafka does; versions before 13 name the topic and are refused with INVALID_REQUEST.
Version notes: 15 ReplicaState, 17 directory id (KIP-853), 18 the asker's high watermark (KIP-1166).
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, UNKNOWN_TOPIC_ID (whole request or partition);
NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INVALID_REQUEST for negative numbers,
DUPLICATE_BROKER_REGISTRATION for a replica that runs twice (partition; Apache Kafka notices that of brokers alone).
Skipped: sessions (every fetch is whole), PartitionMaxBytes (0 in every fetch of a replica: MaxBytes counts).
"""

from typing import TYPE_CHECKING, Any

from actors.node.quorum.codec import partition as metadata
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.files import TOPIC_ID
from actors.node.quorum.identity import Identity
from actors.ports import Batch
from actors.raft import Error, OffsetAndEpoch, ReplicaKey, SnapshotId
from actors.raft.messages import FetchRequest, FetchResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from fastpath.records.batch import CorruptBatch

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchRequest as FetchRequestData
    from actors.wire.schemas.rpc import FetchResponse as FetchResponseData

NAME = "Fetch"
PURPOSE = "metadata"
FIRST_BY_ID = 13


def read_request(
    own: Identity, request: "FetchRequestData", version: int, connection: int = -1
) -> FetchRequest | Refusal:
    """The request of a peer that came on that connection, or the answer that refuses it."""
    cls = message("FetchResponse")
    if metadata.foreign(own, request):
        return Refusal(cls(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    if version < FIRST_BY_ID or len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return Refusal(cls(error_code=ErrorCode.INVALID_REQUEST))
    topic, asked = request.topics[0], request.topics[0].partitions[0]
    if topic.topic_id != TOPIC_ID or asked.partition != 0:
        partition = cls.PartitionData(
            partition_index=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_ID, high_watermark=-1, records=b""
        )
        return Refusal(cls(responses=[cls.FetchableTopicResponse(topic_id=topic.topic_id, partitions=[partition])]))
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    return FetchRequest(
        0,
        ReplicaKey(replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        asked.fetch_offset,
        asked.last_fetched_epoch,
        asked.high_watermark,
        request.max_wait_ms,
        request.max_bytes,
        connection,
    )


def write_reply(own: Identity, response: FetchResponse) -> "FetchResponseData":
    """The answer as a Kafka message."""
    cls = message("FetchResponse")
    partition = cls.PartitionData(
        partition_index=0,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        aborted_transactions=[],
        records=[batch.data for batch in response.batches],
        current_leader=cls.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
    )
    if response.diverging is not None:
        point = response.diverging
        partition.diverging_epoch = cls.EpochEndOffset(epoch=point.epoch, end_offset=point.offset)
    if response.snapshot is not None:
        snapshot = response.snapshot
        partition.snapshot_id = cls.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    return cls(
        responses=[cls.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])],
        node_endpoints=metadata.endpoints(own, cls.NodeEndpoint, response.leader_id),
    )


def write_request(own: Identity, request: FetchRequest) -> "FetchRequestData":
    """The request as a Kafka message."""
    cls = message("FetchRequest")
    partition = cls.FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return cls(
        cluster_id=own.cluster_id,
        replica_state=cls.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.bytes_max,
        topics=[cls.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def read_reply(own: Identity, request: FetchRequest, reply: "FetchResponseData") -> FetchResponse | None:
    """The answer to `request`; None if it cannot be used, damaged batches included."""
    if reply.error_code or len(reply.responses) != 1 or len(reply.responses[0].partitions) != 1:
        return None
    partition = reply.responses[0].partitions[0]
    error = metadata.error(partition.error_code)
    leader, diverging, snapshot = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    if error is None:
        return None
    try:
        found = _batches(partition.records) if error is Error.NONE else ()
    except CorruptBatch:
        return None
    metadata.learn(own, reply, partition.current_leader.leader_id if partition.current_leader else -1)
    return FetchResponse(
        request.serial,
        error,
        -1 if leader is None else leader.leader_id,
        -1 if leader is None else leader.leader_epoch,
        partition.high_watermark,
        partition.log_start_offset,
        None if diverging is None else OffsetAndEpoch(diverging.end_offset, diverging.epoch),
        None if snapshot is None else SnapshotId(snapshot.end_offset, snapshot.epoch),
        found,
    )


def _batches(records: Any) -> tuple[Batch, ...]:
    """Every whole batch, checked. Raises CorruptBatch; a cut last one is left out."""
    found = []
    if records is not None:
        data = memoryview(records)
        for header in batches.headers(data):
            batches.verify(data, header.position)
            end = header.position + header.size
            found.append(Batch(header.base_offset, header.last_offset, header.epoch, data[header.position : end]))
    return tuple(found)
