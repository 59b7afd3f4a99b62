"""Consumer groups at rest: what wakes them, what does not, and that nobody sees a difference."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.groups.consumer import state
from actors.broker.groups.consumer.groups import REST_BEATS
from actors.broker.groups.consumer.resting import MEMBERS_MAX, RepeatedWords
from actors.broker.groups.consumer.state import OF_MEMBERS, ConsumerGroup
from actors.broker.groups.kind import Committer
from actors.broker.groups.member_groups import MEMBER, MEMBERS, GroupConfig
from actors.wire.errors import ErrorCode
from tests.seeds import first_are_quick
from tests.unit.broker.groups.consumer.world import HEARTBEAT_MS, SESSION_MS, World

REST_MS = (REST_BEATS + 1) * HEARTBEAT_MS


def settled(*ids: str, instances: bool = False) -> World:
    """Members that have a topic of twelve partitions, in a group that lies at rest."""
    world = World(t=12, other=1)
    held: dict[str, dict[str, tuple[int, ...]]] = {id: {} for id in ids}
    for id in ids:
        world.join(id, "t", instance=id.upper() if instances else None)
    for _ in range(4):
        for id in ids:
            epoch = world.group().members[id].current.epoch
            beat = world.answer(world.beat(id, epoch, held[id], instance=id.upper() if instances else None))
            held[id] = world.assigned(beat) or held[id]
    world.pass_ms(REST_MS)
    assert world.group().rest is not None
    return world


def seen(group: ConsumerGroup) -> dict[str, Any]:
    """All that there is to see of a group. It is awake afterwards."""
    found = {name: getattr(group, name) for name in OF_MEMBERS}
    found["members"] = [
        (id, member.id, member.subscription, member.current, member.session_due_ms, member.rebalance_due_ms)
        for id, member in group.members.items()
    ]
    return found


def test_what_lies_down_is_what_gets_up() -> None:
    world = settled("a", "b", "c", instances=True)
    group = world.group()
    first = seen(group)
    assert group.rest is None and sum(len(part) for part in first["holders"].values()) == 12
    group.lie_down()
    group.wake()
    assert seen(group) == first
    group.check()


def test_an_ordinary_heartbeat_wakes_no_group_and_is_answered_as_ever() -> None:
    world = settled("a", "b")
    group = world.group()
    at_rest = world.answer(world.beat("a", 3))
    assert group.rest is not None
    group.wake()
    assert at_rest == world.answer(world.beat("a", 3))
    assert group.rest is None and (at_rest.epoch, at_rest.interval_ms) == (3, HEARTBEAT_MS)


def test_static_members_rest_too() -> None:
    world = settled("a", "b", instances=True)
    assert world.answer(world.beat("a", 3, instance="A")).error is ErrorCode.NONE
    assert world.group().rest is not None
    assert world.answer(world.beat("a", 3, instance="B")).error is ErrorCode.FENCED_INSTANCE_ID
    assert world.group().rest is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda world: world.beat("a", 3, topics=("t", "other")),
        lambda world: world.beat("a", 3, regex="o.*"),
        lambda world: world.beat("a", 3, assignor="range"),
        lambda world: world.beat("a", 3, owned={"t": (0,)}),
        lambda world: world.beat("a", 3, rebalance_ms=7),
        lambda world: world.beat("a", 3, rack="r"),
        lambda world: world.beat("a", 2),
        lambda world: world.beat("nobody", 3),
        lambda world: world.beat("a", -1),
        lambda world: world.beat("c", 0, {}, ("t",), rebalance_ms=60_000),
    ],
)
def test_whatever_else_a_member_says_is_heard(ask: Callable[[World], int]) -> None:
    """Each is answered as by a group that never rests."""
    world, other = settled("a", "b"), settled("a", "b")
    other.group().wake()
    assert world.answer(ask(world)) == other.answer(ask(other))
    assert world.group().rest is None and seen(world.group()) == seen(other.group())
    assert world.written == other.written


def test_a_member_that_comes_from_elsewhere_is_not_only_heard() -> None:
    world = settled("a", "b")
    group = world.group()
    assert group.rest is not None
    assert not group.rest.heard("a", RepeatedWords(None, "client", "/10.0.0.9"), 1)
    assert group.rest.heard("a", RepeatedWords(None, "client", "/127.0.0.1"), 1)


def test_a_silent_member_of_a_group_at_rest_is_taken_out_when_its_session_ends() -> None:
    world = settled("a", "b")
    for _ in range(2):
        world.beat("a", 3)
        assert world.group().rest is not None and world.group().size() == 2
        world.pass_ms((SESSION_MS - REST_MS) // 2)
    assert [*world.group().members] == ["a"]
    assert world.assigned(world.answer(world.beat("a", 3))) == {"t": tuple(range(12))}


def test_sessions_that_become_shorter_count_from_the_next_heartbeat() -> None:
    world = settled("a", "b")
    kind = world.machine.kinds.consumer
    kind.settings = kind.settings._replace(config=lambda group: GroupConfig(6_000, HEARTBEAT_MS, 0))
    world.beat("a", 3)
    world.pass_ms(5_999)
    assert world.group().rest is not None
    world.pass_ms(1)
    assert [*world.group().members] == ["b"]


def test_all_members_of_a_group_at_rest_may_be_silent() -> None:
    world = settled("a", "b")
    world.pass_ms(SESSION_MS)
    assert world.group().state() == "Empty"


def test_a_session_that_began_at_rest_ends_after_the_group_was_woken() -> None:
    world = settled("a", "b")
    world.pass_ms(SESSION_MS - 20_000)
    world.beat("a", 3)
    world.group().wake()
    world.beat("b", 3)
    world.pass_ms(SESSION_MS - 1_000)
    assert world.group().size() == 2
    world.pass_ms(1_000)
    assert world.group().size() == 0


def test_a_member_that_was_heard_at_rest_and_never_again_is_taken_out() -> None:
    world = settled("a", "b")
    world.pass_ms(20_000)
    world.beat("b", 3)
    world.group().wake()
    world.pass_ms(SESSION_MS - REST_MS - 20_000)
    assert [*world.group().members] == ["b"], "the other was silent for longer"
    world.pass_ms(REST_MS + 20_000)
    assert world.group().size() == 0


def test_a_group_with_a_young_assignment_stays_awake() -> None:
    """Its members are told to ask sooner (reading G-48), which depends on what each has."""
    world = World(interval_ms=4 * REST_MS, t=1)
    world.join("a", "t")
    world.pass_ms(REST_MS)
    world.beat("a", 2)
    assert world.group().rest is None
    for _ in range(4):
        world.pass_ms(REST_MS)
        world.beat("a", 2)
    assert world.group().rest is not None


def test_a_group_of_which_something_is_not_written_stays_awake() -> None:
    world = World(t=1)
    world.held = True
    joins = world.beat("a", 0, {}, ("t",), rebalance_ms=60_000)
    world.pass_ms(REST_MS)
    assert world.group().rest is None and joins not in world.answers
    world.held = False
    world.drain(ErrorCode.NOT_COORDINATOR)
    world.pass_ms(REST_MS)
    assert world.group().rest is None, "the log may be behind"
    world.beat("a", 2)
    world.pass_ms(REST_MS)
    assert world.group().rest is not None


def test_a_woken_group_rests_again_and_the_plan_stays_small() -> None:
    world = settled("a", "b")
    for _ in range(200):
        world.group().wake()
        for id in ("a", "b"):
            world.beat(id, 3)
        world.pass_ms(REST_MS)
        assert world.group().rest is not None
    looks = [look[1] for look in world.machine.kinds.consumer.watched]
    assert looks.count(MEMBERS) == 1 and looks.count(MEMBER) <= 2 * (SESSION_MS // REST_MS + 1)


def test_metadata_wakes_only_those_whom_it_concerns() -> None:
    world = settled("a", "b")
    world.topics.set("unrelated", 3)
    assert world.answer(world.beat("a", 3)).epoch == 3
    assert world.group().rest is not None
    world.topics.set("t", 14)
    assert world.answer(world.beat("a", 3)).epoch == 4
    assert world.group().rest is None and world.group().epoch == 4


def test_who_commits_reads_lists_or_expires_offsets_wakes_nobody() -> None:
    world = settled("a", "b")
    kind, group = world.machine.kinds.consumer, world.group()
    assert kind.commit_error(group, Committer("a", None, 3), world.now) is ErrorCode.NONE
    assert kind.commit_error(group, Committer("z", None, 3), world.now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert kind.commit_error(group, Committer("", None, -1), world.now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert kind.fetch_error(group, "b", 3) is ErrorCode.NONE
    assert kind.fetch_error(group, "z", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert kind.removal_error(group) is ErrorCode.NON_EMPTY_GROUP
    assert kind.listed(group) == ("consumer", "Stable") and kind.size(group) == 2
    assert kind.subscribes(group)("t") and not kind.subscribes(group)("other")
    world.machine.expire_offsets(world.now)
    assert group.rest is not None
    assert kind.commit_error(group, Committer("a", None, 2), world.now) is ErrorCode.STALE_MEMBER_EPOCH
    assert kind.fetch_error(group, "a", 2) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_group_that_was_read_from_the_log_rests_soon() -> None:
    world = settled("a", "b")
    heir = world.heir()
    heir.pass_ms(REST_MS)
    assert heir.group().rest is not None
    assert heir.answer(heir.beat("a", 3)).epoch == 3
    heir.pass_ms(SESSION_MS - REST_MS - 1)
    heir.beat("a", 3)
    heir.pass_ms(1)
    assert [*heir.group().members] == ["a"], "the other was silent since the log was read"


def test_large_groups_and_those_with_expressions_stay_awake() -> None:
    world = World(t=1)
    for number in range(MEMBERS_MAX + 1):
        world.join(f"m{number}", "t")
    for member in world.group().members.values():
        world.beat(member.id, member.current.epoch, {})
    world.pass_ms(REST_MS)
    assert world.group().rest is None
    world.beat("a", 0, {}, None, regex="t.*", group="expression", rebalance_ms=60_000)
    for _ in range(3):
        world.pass_ms(REST_MS)
        world.beat("a", world.group("expression").members["a"].current.epoch, {}, group="expression")
    world.pass_ms(REST_MS)
    group = world.group("expression")
    assert group.rest is None and group.state() == "Stable" and group.holders


@pytest.mark.parametrize("seed", first_are_quick(range(12)))
def test_a_random_story_is_the_same_with_groups_that_never_rest(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for never in (False, True):
        with monkeypatch.context() as patch:
            if never:
                patch.setattr(state, "MEMBERS_MAX", -1)
            told.append(_story(random.Random(seed), never))
    assert told[0] == told[1]


def _story(random: random.Random, never: bool) -> list[Any]:
    """Members that come, go, are silent and ask for other topics, between long times in which nothing happens."""
    world, told, rested = World(interval_ms=1_000, t=4, u=2), list[Any](), 0
    held: dict[str, dict[str, tuple[int, ...]]] = {}
    epochs: dict[str, int] = {}

    def hear(id: str, ticket: int) -> None:
        beat = world.answers.get(ticket)
        told.append((id, beat))
        if beat is not None and beat.error is ErrorCode.NONE:
            epochs[id] = beat.epoch  # type: ignore[union-attr]
            held[id] = world.assigned(beat) or held.get(id, {})  # type: ignore[arg-type]
        elif beat is not None:
            epochs[id], held[id] = 0, {}

    for _ in range(300):
        action = random.random()
        id = random.choice("abcd")
        if action < 0.10:
            epochs[id], held[id] = 0, {}
            hear(id, world.beat(id, 0, {}, random.choice((("t",), ("t", "u"))), rebalance_ms=20_000))
        elif action < 0.13 and epochs.get(id):
            hear(id, world.beat(id, -1))
            epochs[id] = 0
        elif action < 0.16:
            world.topics.set(random.choice("tuv"), random.randint(1, 6))
        elif action < 0.20:
            told.append([(group.state(), group.size()) for group in world.machine.groups("consumer")])
        else:
            quiet = random.random() < 0.5
            for _ in range(random.randint(1, 9)):
                for other in [one for one, epoch in epochs.items() if epoch > 0 and random.random() < 0.95]:
                    owned = None if quiet and random.random() < 0.8 else held[other]
                    hear(other, world.beat(other, epochs[other], owned))
                world.pass_ms(5_000 if quiet else random.randint(1, 4_000))
                rested += any(group.rest is not None for group in world.machine.groups("consumer"))
    assert never or rested > 20, "the story has times of rest"
    assert not (never and rested)
    return [*told, world.log]


@pytest.mark.long
def test_what_they_cost_in_memory_can_be_measured() -> None:
    from bench.group_memory import AIM_BYTES, measured

    found = measured(groups=100, members=10, partitions=20)
    assert found["members"] == 1000 and found["beyond_records_a_member"] < AIM_BYTES
