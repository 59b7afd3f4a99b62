"""Generations and epochs of groups at the end of what their fields hold."""

from typing import Any

import pytest

from actors.broker.groups.consumer.state import ConsumerGroup
from actors.broker.groups.epochs import EPOCH_MAX
from actors.broker.groups.streams.answers import Endpoint
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups.consumer.world import World as ConsumerWorld
from tests.unit.broker.groups.streams.test_groups import READS
from tests.unit.broker.groups.streams.world import World as StreamsWorld
from tests.unit.broker.groups.test_coordinator import ASSIGNORS, told
from tests.unit.broker.groups.test_coordinator import World as ClassicWorld
from tests.unit.node.roles.broker.groups.share.cluster import Member, made


def test_the_generation_behind_the_last_one_is_the_first() -> None:
    world = ClassicWorld()
    members = world.stable(2)
    group: Any = world.machine.group("g")
    group.generation = EPOCH_MAX - 1
    for generation in (EPOCH_MAX, 1, 2):
        said = [(name, told(1)) for name in ASSIGNORS]
        tickets = [world.join(member, protocols=said) for member in members]
        assert {world.joined(ticket).generation for ticket in tickets} == {generation}
        synced = [world.sync(member, generation, [(one, b"x") for one in members]) for member in members]
        assert {world.synced(ticket).error for ticket in synced} == {ErrorCode.NONE}
        assert world.machine.heartbeat("g", members[0], None, generation, world.now) is ErrorCode.NONE
        stale = world.machine.heartbeat("g", members[0], None, generation % EPOCH_MAX + 2, world.now)
        assert stale is ErrorCode.ILLEGAL_GENERATION
    heir: Any = world.heir().group("g")
    assert heir.generation == 2


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_group_that_has_used_up_its_epochs_says_what_to_do_and_lets_its_members_go(kind: str) -> None:
    world: Any = ConsumerWorld(lines=2) if kind == "consumer" else StreamsWorld(lines=2)

    def join(member: str) -> Any:
        return world.join(member, "lines" if kind == "consumer" else READS)

    def epoch() -> int:
        group = world.machine.shards[0].find("g")
        return int(group.epoch)

    assert join("a").error is ErrorCode.NONE
    group = world.machine.shards[0].find("g")
    group.epoch = group.target_epoch = EPOCH_MAX - 2
    assert join("b").error is ErrorCode.NONE and epoch() == EPOCH_MAX - 1
    assert join("c").error is ErrorCode.NONE and epoch() == EPOCH_MAX
    for member in ("d", "e"):
        refused = join(member)
        assert refused.error is ErrorCode.INVALID_REQUEST and "stop all of its members, delete it" in refused.message
    for member in "abc":
        assert world.answer(world.beat(member, -1)).error is ErrorCode.NONE
        assert epoch() == EPOCH_MAX, "written, read and not one more"
    codes: list[ErrorCode] = []
    world.machine.delete("g", codes.append)
    world.drain()
    assert codes == [ErrorCode.NONE]
    assert join("a").error is ErrorCode.NONE and epoch() < 10
    assert isinstance(group, ConsumerGroup) == (kind == "consumer")


def test_a_share_group_that_has_used_up_its_epochs_does_so_too() -> None:
    lab = made()
    first = Member(lab, "a")
    first.settle()
    group: Any = lab.broker(1).groups.machine.find("g")
    group.epoch = group.target_epoch = EPOCH_MAX - 1
    assert Member(lab, "b").beat().error_code == 0 and group.epoch == EPOCH_MAX
    refused = Member(lab, "c").beat()
    assert refused.error_code == ErrorCode.INVALID_REQUEST and "used up its epochs" in refused.error_message
    assert first.beat(epoch=-1).error_code == 0 and group.epoch == EPOCH_MAX


def test_the_epoch_of_endpoints_behind_the_last_one_is_the_first() -> None:
    """Members only compare it for being the same."""
    world = StreamsWorld(lines=2)
    world.join("a", READS, endpoint=Endpoint("host", 1))
    group: Any = world.machine.shards[0].find("g")
    group.way.endpoint_epoch = EPOCH_MAX
    group.way.moved(group.members["a"])
    assert group.way.endpoint_epoch == 1
