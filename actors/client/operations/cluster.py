"""The cluster as a whole: brokers, the quorum of controllers, log directories."""

from typing import Any, NamedTuple

from actors.client.asks import AnyNode, Ask, Know, Node, Steps
from actors.client.errors import ClientError, refused
from actors.client.metadata import Broker, Metadata
from actors.wire.messages import message

METADATA_TOPIC = "__cluster_metadata"


class Cluster(NamedTuple):
    """The brokers of a cluster, and its controller."""

    id: str | None
    controller: int
    """The id of the controller; -1: it is not known."""
    brokers: dict[int, Broker]


class Replica(NamedTuple):
    """A voter or an observer of the metadata log."""

    id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    """The wall clock time of its last fetch; -1: it is not told."""
    last_caught_up_ms: int


class Quorum(NamedTuple):
    """The quorum of controllers (KIP-595, KIP-836)."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: list[Replica]
    observers: list[Replica]
    nodes: dict[int, list[tuple[str, str, int]]]
    """The addresses of each voter, (listener, host, port); empty before Kafka 3.9."""


class LogDir(NamedTuple):
    """A log directory of a broker."""

    path: str
    total_bytes: int
    """The size of the disk; -1: it is not told (before Kafka 3.3)."""
    usable_bytes: int
    sizes: dict[tuple[str, int], int]
    """The bytes of each partition's replica."""
    lags: dict[tuple[str, int], int]
    moving: set[tuple[str, int]]
    """The replicas that are being copied into this directory."""
    error: ClientError | None = None
    """Why the directory cannot be used, and is not looked into."""


def describe_cluster() -> Steps[Cluster]:
    """Ask a broker anew for the brokers and the controller."""
    metadata: Metadata = yield Know((), fresh=True)
    return Cluster(metadata.cluster_id, metadata.controller, dict(metadata.brokers))


def describe_quorum() -> Steps[Quorum]:
    """The quorum, as its leader tells it (Kafka 3.3 and newer; not with ZooKeeper)."""
    kind = message("DescribeQuorumRequest")
    request = kind(
        topics=[kind.TopicData(topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)])]
    )
    reply = yield Ask(AnyNode(), "DescribeQuorum", lambda version: request)
    told = reply.message
    if told.error_code:
        raise refused("the quorum", told.error_code, told.error_message)
    if not told.topics or not told.topics[0].partitions:
        raise ClientError("the answer to DescribeQuorum is empty")
    part = told.topics[0].partitions[0]
    if part.error_code:
        raise refused("the quorum", part.error_code, part.error_message)
    nodes = {one.node_id: [(where.name, where.host, where.port) for where in one.listeners] for one in told.nodes}
    return Quorum(
        part.leader_id, part.leader_epoch, part.high_watermark,
        [_replica(one) for one in part.current_voters], [_replica(one) for one in part.observers], nodes,
    )  # fmt: skip


def _replica(one: Any) -> Replica:
    return Replica(
        one.replica_id, bytes(one.replica_directory_id), one.log_end_offset,
        one.last_fetch_timestamp, one.last_caught_up_timestamp,
    )  # fmt: skip


def describe_log_dirs(brokers: list[int] | None = None, *, sizes: bool = True) -> Steps[dict[int, Any]]:
    """The list of LogDir of each broker, or its ClientError. None: all brokers. Without `sizes` no replica is told, which is
    cheap however many there are."""
    metadata: Metadata = yield Know((), fresh=True)
    wanted = sorted(metadata.brokers) if brokers is None else brokers
    kind = message("DescribeLogDirsRequest")
    request = kind(topics=None if sizes else [])
    replies = yield [Ask(Node(one), "DescribeLogDirs", lambda version: request) for one in wanted]
    return {broker: _log_dirs(broker, reply) for broker, reply in zip(wanted, replies, strict=True)}


def _log_dirs(broker: int, reply: Any) -> list[LogDir] | ClientError:
    if isinstance(reply, ClientError):
        return reply
    if reply.message.error_code:
        return refused(f"log directories of broker {broker}", reply.message.error_code)
    found = []
    for one in reply.message.results:
        error = refused(f"log directory {one.log_dir} of broker {broker}", one.error_code) if one.error_code else None
        parts = [(topic.name, part) for topic in one.topics for part in topic.partitions]
        found.append(
            LogDir(
                one.log_dir, one.total_bytes, one.usable_bytes,
                {(name, part.partition_index): part.partition_size for name, part in parts if not part.is_future_key},
                {(name, part.partition_index): part.offset_lag for name, part in parts if not part.is_future_key},
                {(name, part.partition_index) for name, part in parts if part.is_future_key}, error,
            )
        )  # fmt: skip
    return found
