"""Which replicas a turn has changed. It checks nothing itself: it looks once at every replica, for all checkers of
changes.

A change is one of the leader epoch, of the high watermark, of the leader, or of the log's end or start.
"""

from typing import Any, NamedTuple

from actors.broker.replication.partition import Partition
from tests.simulator.checkers.hooks import Hooks


class Standing(NamedTuple):
    """The state of one replica after a turn."""

    leader_epoch: int
    high_watermark: int
    led: bool
    log_end_offset: int
    log_start_offset: int


NEW = Standing(-1, -1, False, -1, -1)
"""The standing before the first look in a life of its process."""


class ChangedReplicas:
    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._seen: dict[str, dict[Partition, Standing]] = {}

    def ended(self, process: Any) -> None:
        """The last turn of the process may have committed something and said so. After a restart it begins with what
        its disk has."""
        if process.alive:
            self.turned(process)
        self._seen.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """Report every replica of this process whose standing has changed."""
        broker = process.node.broker
        if broker is None:
            return
        me, seen = broker.cache.me, self._seen.setdefault(process.name, {})
        changed: list[tuple[Partition, Standing]] = []
        for partition in (*broker.replicas, *self._offline(broker, seen)):
            log = partition.log
            now = (
                partition.leader_epoch, partition.high_watermark, partition.leader == me, log.log_end_offset,
                log.log_start_offset,
            )  # fmt: skip
            before = seen.get(partition)
            if before != now:
                seen[partition] = Standing(*now)
                changed.append((partition, before or NEW))
        if changed:
            for function in self._hooks.changed:
                for partition, before in changed:
                    function(process, partition, before)

    @staticmethod
    def _offline(broker: Any, seen: dict[Partition, Standing]) -> list[Partition]:
        """Replicas that were here in the last look and are offline now: the turn may have committed something and said so
        before their directory failed."""
        if not broker.replicas.offline:
            return []
        offline = [one for one in seen if (one.topic_id, one.number) in broker.replicas.offline]
        here = set(broker.replicas)
        return [one for one in offline if one not in here]
