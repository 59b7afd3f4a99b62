"""What goes with a flush of what this broker follows."""

from types import SimpleNamespace
from typing import Any

from actors.node.roles.broker.replication.partition_effects import PartitionEffects


class Followed:
    """A partition in a directory of its own."""

    def __init__(self) -> None:
        self.log, self.leader = SimpleNamespace(disk=object()), 1


def test_a_leader_is_not_asked_while_what_is_in_another_directory_is_being_synced() -> None:
    """A directory that failed at once had the leader told of what was in the other one before that was durable."""
    failing, sound = Followed(), Followed()
    held: list[Any] = []

    def flush(replicas: Any, partitions: list[Any], then: Any, waits: Any) -> None:
        if failing in partitions:
            then(None)
        else:
            held.append(then)

    replicas: Any = SimpleNamespace(waiting_for_room=set(), made_durable=lambda partition: None)
    logs: Any = SimpleNamespace(flushes=SimpleNamespace(flush=flush))
    nothing: Any = None
    effects = PartitionEffects(nothing, replicas, logs, nothing, nothing, [])
    asked: list[bool] = []
    both: Any = [failing, sound]
    effects.sync(both, lambda: asked.append(not effects.syncs_from(1)))
    assert asked == [False]
    held.pop()(None)
    assert asked == [False, True]
