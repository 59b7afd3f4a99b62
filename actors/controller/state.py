"""What every operation of the controller takes and returns (KIP-631, Controller: Persistence and Visibility).

An operation is `(State, request, now, random) -> Result`. It reads the image and returns ops, but changes nothing.
Replaying the ops makes the change, on the active controller as on every other node. The one exception is `soft_state.py`:
leases and other state that is never in the log.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from actors.controller.options import Options
from actors.controller.soft_state import Soft
from actors.metadata.dialects import dialect
from actors.metadata.families import Family
from actors.metadata.image import Image
from actors.ports import Now, Random

METADATA_FORMAT = "metadata.format"


class State(NamedTuple):
    """The latest state, uncommitted changes included (R631-097)."""

    image: Image
    soft: Soft
    options: Options
    next_offset: int
    """Offset of the first record that the operation would write. A BrokerSet that comes first has it as its epoch."""
    me: int
    """Id of this controller, the active one."""
    level: int
    """The finalized level of `metadata.format`."""
    high_watermark: int
    controllers: frozenset[int]
    """Ids of all controllers of the quorum: no broker may have one of them (R631-028)."""

    @property
    def family(self) -> Family:
        """The family of the cluster's records, which says what they can hold."""
        return dialect(self.level).family


class Result(NamedTuple):
    """The result of an operation.

    The reply leaves once everything below `seen` is committed; None: everything that the operation could see, its own
    ops included. With `wait` the operation has not ended: it runs again when that key is signalled, and `reply` is sent
    if that takes too long.
    """

    ops: Sequence[Any]
    reply: Any
    atomic: bool = True
    seen: int | None = None
    wait: Hashable | None = None


Operation = Callable[[State, Any, Now, Random], Result]


def broker_epoch_holds(state: State, broker_id: int, broker_epoch: int) -> bool:
    """Whether that broker holds a live lease under exactly that epoch (R497-39)."""
    lease = state.soft.leases.get(broker_id)
    return lease is not None and lease.epoch == broker_epoch and broker_epoch >= 0
