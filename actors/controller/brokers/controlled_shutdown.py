"""ControlledShutdown (7): a broker that is told of metadata asks whether it may stop (KIP-291, R291-72).

Brokers of Apache Kafka ask so in ZooKeeper mode; those of rayft ask by a heartbeat, whether they pull or not. The answer
names the partitions that the broker leads still; when it names none the broker may stop.
"""

from typing import TYPE_CHECKING

from actors.controller.soft_state import Shutdown
from actors.controller.state import Result, State, broker_epoch_holds
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ControlledShutdownRequest


def moved_key(broker: int) -> tuple[str, int]:
    """The waiting key that is signalled when all that can be moved away from a broker has been."""
    return ("moved away", broker)


def controlled_shutdown(state: State, request: "ControlledShutdownRequest", now: Now, random: Random) -> Result:
    """Carry out a ControlledShutdownRequest. Other brokers become leaders in slices, as in a shutdown that was asked
    for by a heartbeat; the answer waits until that is done. Errors: 77; 102 for a broker that is not registered."""
    kind = message("ControlledShutdownResponse")
    soft, image, broker = state.soft, state.image, request.broker_id
    if broker not in soft.leases:
        return Result((), kind(error_code=int(ErrorCode.BROKER_ID_NOT_REGISTERED)))
    if request.broker_epoch >= 0 and not broker_epoch_holds(state, broker, request.broker_epoch):
        return Result((), kind(error_code=int(ErrorCode.STALE_BROKER_EPOCH)))
    if broker not in soft.stopping:
        soft.stopping[broker] = Shutdown(now.mono_ms)
        soft.changed()
    left = [
        kind.RemainingPartition(
            topic_name=image.topic_name(image.topic_of(int(row))), partition_index=image.number(int(row))
        )
        for row in image.rows_led_by(broker).data
    ]
    reply = kind(remaining_partitions=left)
    if left and soft.stopping[broker].moved_offset < 0:
        return Result((), reply, wait=moved_key(broker))
    return Result((), reply)
