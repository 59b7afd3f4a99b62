"""DescribeLogDirs (35), versions 1 to 5: sizes of the partitions in each log directory, and of its volume (KIP-827).

Behaviour: a replica that is moved between directories is in both, in the new one as a future replica whose lag is what it
lacks of the log's end (KIP-113). The lag of any other is what it lacks of the high watermark.

A replica that is arriving, as a broker with many new ones makes a few in a turn, is made first, so that it is shown.

Errors, by directory: KAFKA_STORAGE_ERROR for one that is offline.

Version notes: 2 flexible, 3 top-level error, 4 total and usable bytes, 5 cordoned (no directory is).
"""

from typing import TYPE_CHECKING, Any

from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.ports import DiskFailed
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeLogDirsRequest, DescribeLogDirsResponse

ARRIVAL = 4
"""The entries that a replica counts as which is made here."""


@rpc(35, "DescribeLogDirs", range(1, 6), listeners=[Listener.BRIDGE], lane=Lane.DATA)
def on_a_controller(context: ControllerContext, request: "DescribeLogDirsRequest", call: Call) -> Answer:
    """A controller names no directory: clients of brokers in ZooKeeper mode ask every broker, and take it for one."""
    return Done(message("DescribeLogDirsResponse")())


@rpc(
    35,
    "DescribeLogDirs",
    range(1, 6),
    listeners=(Listener.CLIENT,),
    lane=Lane.DATA,
    reads=Subject.RECORDS | Subject.METADATA,
)
@in_slices
def describe_log_dirs(context: BrokerContext, request: "DescribeLogDirsRequest", call: Call) -> Steps:
    """Every directory, with the partitions asked for."""
    kind = message("DescribeLogDirsResponse")
    wanted: set[tuple[str, int]] | None = None
    pace = SliceCount()
    if request.topics is not None:
        wanted = set()
        for topic in request.topics:
            if pace.over():
                yield
            for number in topic.partitions:
                wanted.add((topic.topic, number))
                if pace.over():
                    yield
    for topic_id, numbers in list(context.replicas.arriving.items()):
        # They have a directory from when they are made on, and whoever asks for one has it made.
        image = context.cache.image
        row = image.topic_row(topic_id)
        name = image.topic_name(row) if row >= 0 else ""
        for number in [one for one in numbers if wanted is None or (name, one) in wanted]:
            context.replicas.get(topic_id, number)
            if pace.over(ARRIVAL):
                yield
    results = []
    for path, disk in context.logs.directories.paths():
        if pace.over():
            yield
        space = None
        if not context.logs.directories.failed(disk):
            try:
                space = disk.space()
            except DiskFailed as error:
                context.logs.directories.failing[disk] = error
        if space is None:
            results.append(
                kind.DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
            )
            continue
        topics: dict[str, Any] = {}
        for partition in list(context.replicas):
            if pace.over():
                yield
            if partition.removed or (wanted is not None and (partition.topic, partition.number) not in wanted):
                continue
            for log in (partition.log, context.logs.futures.by_partition.get(partition)):
                if log is None or log.disk is not disk:
                    continue
                shown = topics.get(partition.topic)
                if shown is None:
                    shown = topics[partition.topic] = kind.DescribeLogDirsTopic(name=partition.topic, partitions=[])
                shown.partitions.append(_one(kind, partition, log))
        results.append(
            kind.DescribeLogDirsResult(
                log_dir=path,
                topics=list(topics.values()),
                total_bytes=space.total_bytes,
                usable_bytes=space.usable_bytes,
            )
        )
    return Done(kind(results=results))


def _one(
    kind: "type[DescribeLogDirsResponse]", partition: Partition, log: PartitionLog
) -> "DescribeLogDirsResponse.DescribeLogDirsPartition":
    future = log is not partition.log
    behind = partition.log.log_end_offset if future else partition.high_watermark
    return kind.DescribeLogDirsPartition(
        partition_index=partition.number,
        partition_size=log.size,
        offset_lag=max(0, behind - log.log_end_offset),
        is_future_key=future,
    )
