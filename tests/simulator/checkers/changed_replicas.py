"""Which replicas a turn has changed. Checks nothing itself: it looks once at every replica, for all who judge what changed.

What counts: leader epoch, high watermark, who leads, and where the log ends.
"""

from typing import Any, NamedTuple

from actors.broker.partition import Partition
from tests.simulator.checkers.hooks import Hooks


class Standing(NamedTuple):
    """Of one replica, after a turn."""

    leader_epoch: int
    high_watermark: int
    led: bool
    log_end_offset: int


NEW = Standing(-1, -1, False, -1)
"""Before the first look in a life of its process."""


class ChangedReplicas:
    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._seen: dict[str, dict[Partition, Standing]] = {}

    def ended(self, process: Any) -> None:
        """The turn that ended it may have committed something and said so. A restarted one begins with what its disk has."""
        if process.alive:
            self.turned(process)
        self._seen.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """Tell of every replica here that does not stand where it stood."""
        broker = process.node.broker
        if broker is None:
            return
        me, seen = broker.cache.me, self._seen.setdefault(process.name, {})
        changed: list[tuple[Partition, Standing]] = []
        for partition in broker.replicas:
            end = partition.log.log_end_offset
            now = partition.leader_epoch, partition.high_watermark, partition.leader == me, end
            before = seen.get(partition)
            if before != now:
                seen[partition] = Standing(*now)
                changed.append((partition, before or NEW))
        if changed:
            for function in self._hooks.changed:
                for partition, before in changed:
                    function(process, partition, before)
