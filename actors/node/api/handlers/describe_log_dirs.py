"""DescribeLogDirs (35), versions 1 to 5: sizes of the partitions in each log directory.

Errors, by directory: KAFKA_STORAGE_ERROR for one that is offline.

Version notes: 2 flexible, 3 top-level error, 4 total and usable bytes (not known here: -1), 5 cordoned.
"""

from typing import Any

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message


@rpc(
    35,
    "DescribeLogDirs",
    range(1, 6),
    listeners=(Listener.CLIENT,),
    lane=Lane.DATA,
    reads=Subject.RECORDS | Subject.METADATA,
)
@in_slices
def describe_log_dirs(context: BrokerContext, request: Any, call: Call) -> Steps:
    """Every directory, with the partitions asked for."""
    kind = message("DescribeLogDirsResponse")
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    results = []
    pace = Pace()
    for path, disk in context.storage.paths():
        if context.storage.failed(disk):
            results.append(
                kind.DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
            )
            continue
        topics: dict[str, Any] = {}
        for partition in list(context.replicas):
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
