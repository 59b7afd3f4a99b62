"""What the classic members of a consumer group are answered, when, and how long each of them has for what it owes."""

import pytest

from actors.broker.groups.classic.state import Group as ClassicGroup
from actors.broker.groups.classic_requests import Joined, Synced
from actors.broker.groups.consumer import mixed_groups
from actors.wire.errors import ErrorCode, WireError
from tests.unit.broker.groups.consumer.world import World

CLASSIC = 2
"""The kind of the record of a classic group."""
SESSION_MS = 10_000
"""How long a classic member of `World` may be silent."""
STEP_MS = 4_000
"""The rebalance timeout of those that owe a step."""


def joined(world: World, ticket: int) -> Joined:
    found = world.answers[ticket]
    assert isinstance(found, Joined)
    return found


def synced(world: World, ticket: int) -> Synced:
    found = world.answers[ticket]
    assert isinstance(found, Synced)
    return found


def epoch(world: World, member: str) -> int:
    return world.group().members[member].current.epoch


def mixed(rebalance_ms: int = 60_000, size_max: int = 1_000) -> World:
    """A group with member n of KIP-848 and classic member a, which has asked for its assignment."""
    world = World(t=2, size_max=size_max)
    world.join("n", "t")
    joined(world, world.classic_join("a", "t", rebalance_ms=rebalance_ms))
    assert synced(world, world.classic_sync("a", epoch(world, "a"))).error is ErrorCode.NONE
    return world


def owing() -> World:
    """`mixed`, whose member a owes a join: there is another target since it has asked for its assignment."""
    world = mixed(STEP_MS)
    world.join("o", "t")
    assert world.group().target_epoch > epoch(world, "a")
    return world


def is_there(world: World) -> bool:
    return "a" in world.group().members


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_member_gets_its_assignment_once_the_log_has_what_that_rests_on(error: ErrorCode) -> None:
    world = World(t=2)
    world.join("n", "t")
    world.held = True
    join = world.classic_join("a", "t")
    sync = world.classic_sync("a", epoch(world, "a"))
    assert not {join, sync} & world.answers.keys()
    world.held = False
    world.drain(error)
    assert joined(world, join).error is error
    answer = synced(world, sync)
    assert answer.error is error and bool(answer.assignment) is (error is ErrorCode.NONE)


def test_a_sync_is_answered_in_the_words_of_its_request() -> None:
    world = mixed()
    for ticket, type, protocol in ((901, "consumer", "range"), (902, None, None)):
        world.machine.sync("g", ticket, "a", None, epoch(world, "a"), type, protocol, [], world.now)
        world.drain()
        answer = synced(world, ticket)
        assert (answer.protocol_type, answer.protocol) == (type, protocol)


def test_a_sync_is_a_sign_of_life() -> None:
    world = mixed()
    for _ in range(3):
        world.pass_ms(SESSION_MS - 1)
        assert synced(world, world.classic_sync("a", epoch(world, "a"))).error is ErrorCode.NONE
    world.pass_ms(SESSION_MS - 1)
    assert is_there(world)
    world.pass_ms(1)
    assert not is_there(world)


def test_a_heartbeat_is_a_sign_of_life() -> None:
    world = mixed()
    for _ in range(3):
        world.pass_ms(SESSION_MS - 1)
        world.classic_heartbeat("a", epoch(world, "a"))
    world.pass_ms(SESSION_MS - 1)
    assert is_there(world)


def test_who_hears_of_a_rebalance_in_the_answer_to_a_sync_has_its_timeout_to_join() -> None:
    world = owing()
    assert synced(world, world.classic_sync("a", epoch(world, "a"))).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(STEP_MS - 1)
    assert is_there(world)
    world.pass_ms(1)
    assert not is_there(world)


def test_who_hears_of_a_rebalance_in_the_answer_to_a_heartbeat_has_its_timeout_to_join() -> None:
    world = owing()
    assert world.classic_heartbeat("a", epoch(world, "a")) is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(STEP_MS - 1)
    assert world.classic_heartbeat("a", epoch(world, "a")) is ErrorCode.REBALANCE_IN_PROGRESS, (
        "which gives no more time"
    )
    world.pass_ms(1)
    assert not is_there(world)


def test_who_owes_nothing_has_all_time() -> None:
    world = mixed(STEP_MS)
    for _ in range(3):
        world.pass_ms(STEP_MS)
        assert world.classic_heartbeat("a", epoch(world, "a")) is ErrorCode.NONE


def test_a_full_group_says_so_before_it_gives_an_id() -> None:
    """As Apache Kafka's: a member that was given an id would come again, and be refused then."""
    world = mixed(size_max=2)
    answer = joined(world, world.classic_join("b", "t", version=4))
    assert (answer.error, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


# ---- back to the classic protocol


def left_over(world: World) -> set[int]:
    """The kinds of the records that compaction leaves: the last of each key, but for removals."""
    return {int.from_bytes(key[:2], "big") for key, value in dict(world.log).items() if value is not None}


def test_no_record_of_the_consumer_group_is_left() -> None:
    """Not even of the member that has left: a compacted log forgets removals, and such a record would be a group again."""
    world = mixed()
    assert len(left_over(world)) > 1
    world.beat("n", -1)
    assert isinstance(world.machine.group("g"), ClassicGroup)
    assert left_over(world) == {CLASSIC}


def test_no_record_is_left_whose_removal_was_under_way() -> None:
    world = mixed()
    world.join("o", "t")
    world.held = True
    world.beat("o", -1)
    world.beat("n", -1)
    removals, others = world.machine.writes[:1], world.machine.writes[1:]
    world.machine.writes = removals
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.machine.writes += others
    world.drain()
    assert isinstance(world.machine.group("g"), ClassicGroup)
    assert left_over(world) == {CLASSIC}


def test_a_group_is_classic_for_all_whose_heartbeats_wait() -> None:
    world = mixed()
    world.idle = True
    waiting = world.beat("o", 0, {}, ("t",), rebalance_ms=60_000)
    assert waiting not in world.answers
    world.beat("o", -1), world.beat("n", -1)
    assert isinstance(world.machine.group("g"), ClassicGroup)
    assert world.answer(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID
    world.idle = False
    world.drain()


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_static_member_that_comes_back_classic_joins_once_its_group_is_written(error: ErrorCode) -> None:
    world = World(t=2)
    world.join("n", "t", instance="one")
    generation = epoch(world, "n")
    world.held = True
    ticket = world.classic_join("m", "t", instance="one")
    assert isinstance(world.machine.group("g"), ClassicGroup) and ticket not in world.answers
    world.held = False
    world.drain(error)
    answer = joined(world, ticket)
    assert answer.error is error
    if error is ErrorCode.NONE:
        assert (answer.member_id, answer.generation, answer.protocol) == ("m", generation, "range")


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_who_leaves_last_is_told_once_the_classic_group_is_written(error: ErrorCode) -> None:
    world = mixed()
    world.held = True
    ticket = world.beat("n", -1)
    assert ticket not in world.answers
    world.held = False
    world.drain(error)
    assert world.answer(ticket).error is error


def test_a_group_that_cannot_be_put_into_classic_bytes_stays_and_shares_what_was_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> ClassicGroup:
        raise WireError("ConsumerProtocolSubscription", "cut short", 0)

    world = mixed()
    monkeypatch.setattr(mixed_groups, "to_classic", refuse)
    world.beat("n", -1)
    group = world.group()
    assert set(group.members) == {"a"} and not group.gone
    assert group.targets["a"] == {world.topics.id("t"): frozenset((0, 1))}
    assert world.classic_heartbeat("a", epoch(world, "a")) is ErrorCode.REBALANCE_IN_PROGRESS
