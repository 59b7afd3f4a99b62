"""AlterReplicaLogDirs (34), versions 1 and 2: which directory of this broker holds a replica (KIP-113).

Behaviour: a replica that is here is moved while it is served, and NONE says that the move has begun, or that there is
nothing to do. What becomes of it DescribeLogDirs says. A replica that this broker does not have yet will begin in that
directory.

Errors: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (the directory or the replica is offline; a move does not begin while any
directory is), INVALID_TOPIC_EXCEPTION (the name is too long for a move), UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE
(it is not on this broker).
"""

from typing import TYPE_CHECKING, Any

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterReplicaLogDirsRequest


@rpc(34, "AlterReplicaLogDirs", range(1, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA)
@in_slices
def alter_replica_log_dirs(context: BrokerContext, request: "AlterReplicaLogDirsRequest", call: Call) -> Steps:
    """Begin every move; topics in the order of their first mention."""
    kind = message("AlterReplicaLogDirsResponse")
    results: dict[str, Any] = {}
    pace = SliceCount()
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.get(topic.name)
            if result is None:
                result = kind.AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[])
                results[topic.name] = result
            for number in topic.partitions:
                code = context.moves.ask(directory.path, topic.name, number)
                result.partitions.append(
                    kind.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                )
                if pace.over():
                    yield
            if pace.over():
                yield
    return Done(kind(results=list(results.values())))
