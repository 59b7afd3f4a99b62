"""When a member of a streams group that says nothing of its tasks, or others than it has, is told them again."""

from actors.broker.groups.streams.topology import Topology
from tests.unit.broker.groups.streams.world import HEARTBEAT_MS, World, subtopology

READS = Topology(0, (subtopology("0", "lines"),))
EPOCH = 2
"""Where the first member of a group is."""
TASKS = {"active": {"0": (0, 1)}}
OTHERS = {"active": {"0": (0,)}}


def told(world: World, owned: dict[str, dict[str, tuple[int, ...]]] | None, wait_ms: int = 0) -> bool:
    """Whether a heartbeat of `a` after so long is answered with its tasks."""
    world.pass_ms(wait_ms)
    return world.answer(world.beat("a", EPOCH, owned)).tasks is not None


def test_a_member_with_other_tasks_is_told_its_own_once_in_a_heartbeat_interval() -> None:
    """The answer may have been lost, or the member may be on its way to what it said. Rule 2."""
    world = World(lines=2)
    joined = world.join("a", READS)
    assert joined.epoch == EPOCH and joined.tasks is not None
    assert not told(world, OTHERS, HEARTBEAT_MS - 1)
    assert told(world, OTHERS, 1)
    assert not told(world, OTHERS) and not told(world, OTHERS, HEARTBEAT_MS - 1)
    assert told(world, OTHERS, 1)
    assert not told(world, None, HEARTBEAT_MS) and not told(world, TASKS), "it says nothing of them, or has them"
    assert told(world, OTHERS)
