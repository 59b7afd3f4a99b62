"""DescribeLogDirs (35), versions 1 to 5: sizes of the partitions in each log directory.

Errors, by directory: KAFKA_STORAGE_ERROR for one that is offline.

Version notes: 2 flexible, 3 top-level error, 4 total and usable bytes (not known here: -1), 5 cordoned.
"""

from typing import TYPE_CHECKING, Any

from actors.node.registry import Call, Done, Lane, Listener, Subject, rpc
from actors.node.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(
    35,
    "DescribeLogDirs",
    range(1, 6),
    listeners=(Listener.CLIENT,),
    lane=Lane.DATA,
    reads=Subject.RECORDS | Subject.METADATA,
)
@in_slices
def describe_log_dirs(node: "Node", request: Any, call: Call) -> Steps:
    """Every directory, with the partitions asked for."""
    role = node.broker
    assert role is not None
    kind = message("DescribeLogDirsResponse")
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    results = []
    pace = Pace()
    for path, disk in role.storage.paths():
        if role.storage.failed(disk):
            results.append(
                kind.DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
            )
            continue
        topics: dict[str, Any] = {}
        for partition in list(role.replicas):
            if pace.over():
                yield
            if partition.removed or partition.log.disk is not disk:
                continue
            if wanted is not None and (partition.topic, partition.number) not in wanted:
                continue
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = kind.DescribeLogDirsTopic(name=partition.topic, partitions=[])
            lag = 0 if partition.leads else max(0, partition.high_watermark - partition.log.log_end_offset)
            topic.partitions.append(
                kind.DescribeLogDirsPartition(
                    partition_index=partition.number, partition_size=partition.log.size, offset_lag=lag
                )
            )
        results.append(kind.DescribeLogDirsResult(log_dir=path, topics=list(topics.values())))
    return Done(kind(results=results))
