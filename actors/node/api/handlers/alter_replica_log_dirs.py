"""AlterReplicaLogDirs (34), versions 1 and 2: which directory of this broker holds a replica.

Behaviour: naming the directory where a replica lies already is no change. Replicas are not moved between the directories of
a broker: such a request is refused, and a reassignment to another broker and back does it.

Errors: LOG_DIR_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE (it is not on this broker), INVALID_REQUEST (a
move).
"""

from typing import Any

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message


@rpc(34, "AlterReplicaLogDirs", range(1, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA)
@in_slices
def alter_replica_log_dirs(context: BrokerContext, request: Any, call: Call) -> Steps:
    """Judge every entry; topics in the order of their first mention."""
    kind = message("AlterReplicaLogDirsResponse")
    results: dict[str, Any] = {}
    pace = Pace()
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.get(topic.name)
            if result is None:
                result = kind.AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[])
                results[topic.name] = result
            for number in topic.partitions:
                code = _judge(context, directory.path, topic.name, number)
                result.partitions.append(
                    kind.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                )
                if pace.over():
                    yield
            if pace.over():
                yield
    return Done(kind(results=list(results.values())))


def _judge(context: BrokerContext, path: str, topic: str, number: int) -> ErrorCode:
    disk = dict(context.storage.paths()).get(path)
    if disk is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = context.replicas.get(topic, number)
    if partition is None:
        absent = context.lookups.absent(topic, number)
        return ErrorCode.REPLICA_NOT_AVAILABLE if absent is ErrorCode.NOT_LEADER_OR_FOLLOWER else absent
    return ErrorCode.NONE if partition.log.disk is disk else ErrorCode.INVALID_REQUEST
