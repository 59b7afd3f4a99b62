"""Consumer groups in their coordinator: what is written, what waits for what, and what becomes of names, limits and time."""

import random
import tracemalloc

import pytest

from actors.broker.groups.classic.records import group_record
from actors.broker.groups.consumer.next_heartbeat import (
    AFTER_MS,
    BEATS_A_SECOND,
    LEAST_MS,
    HeartbeatInputs,
    next_heartbeat_ms,
)
from actors.broker.groups.consumer.records import GROUP, RecordKey, record
from actors.broker.groups.consumer.state import MemberState
from actors.broker.groups.records import CommittedOffset
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups.consumer.world import HEARTBEAT_MS, SESSION_MS, World

MEMBER_BYTES_MAX = 1_200
"""Of one that has told its names and one topic, without what the log has of it."""


def settle(world: World, members: dict[str, dict[str, tuple[int, ...]]], rounds: int = 6) -> None:
    """Let members send heartbeats and do as they are told, until all are settled. `members`: what each has."""
    for _ in range(rounds):
        for id in members:
            epoch = world.group().members[id].current.epoch
            beat = world.answer(world.beat(id, epoch, members[id]))
            assert beat.error is ErrorCode.NONE
            given = world.assigned(beat)
            if given is not None:
                members[id] = given


def test_a_join_writes_kafkas_records_and_an_ordinary_heartbeat_none() -> None:
    world = World(t=2)
    beat = world.join("a", "t")
    assert (beat.epoch, beat.interval_ms, world.assigned(beat)) == (2, 5_000, {"t": (0, 1)})
    assert world.kinds() == [5, 3, 7, 6, 8]
    assert world.answer(world.beat("a", 2)).assigned is None
    assert world.kinds() == []
    world.answer(world.beat("a", -1))
    assert world.kinds() == [-8, -7, -5, 3]


def test_a_member_for_which_something_is_to_come_asks_sooner() -> None:
    """A group of many settles in the time that its steps need, not in a heartbeat interval for each step."""
    world = World(interval_ms=1_000, t=4)
    assert world.join("a", "t").interval_ms == 1_000 + AFTER_MS, "others may come with it"
    world.pass_ms(300)
    joined = world.join("b", "t")
    assert joined.interval_ms == 1_000 + AFTER_MS, "the next assignment is made before that"
    again = [world.answer(world.beat("a", 2, {"t": (0, 1, 2, 3)})).interval_ms for _ in range(2)]
    assert again == [1_000 + AFTER_MS] * 2
    world.pass_ms(joined.interval_ms)
    assert world.answer(world.beat("b", joined.epoch)).interval_ms == LEAST_MS, "another member has what it waits for"
    revoked = world.answer(world.beat("a", 2, {"t": (0, 1, 2, 3)}))
    assert world.assigned(revoked) == {"t": (0, 1)}
    asked, interval_ms = 0, LEAST_MS
    while interval_ms < HEARTBEAT_MS // 2:
        world.pass_ms(interval_ms)
        asked, interval_ms = asked + 1, world.answer(world.beat("b", 3)).interval_ms
    assert asked < 30, "it is not asked in vain for long"
    world.pass_ms(30_000)
    assert world.answer(world.beat("b", 3)).interval_ms == HEARTBEAT_MS, "never more than the group's"
    world.beat("a", 2, {"t": (0, 1)})
    given = world.answer(world.beat("b", 3))
    assert (world.assigned(given), given.interval_ms) == ({"t": (2, 3)}, HEARTBEAT_MS)


def test_a_member_for_which_nothing_is_to_come_asks_as_often_as_the_group_is_set_to() -> None:
    world = World(interval_ms=1_000, t=4)
    assert world.join("a", "none").interval_ms == HEARTBEAT_MS, "it has nothing to let go of"
    assert world.join("b", "t").interval_ms == 1_000 + AFTER_MS
    world.pass_ms(2_000)
    assert world.answer(world.beat("b", world.group().members["b"].current.epoch)).interval_ms == 1_000 + AFTER_MS
    world.pass_ms(1_000)
    assert world.answer(world.beat("b", world.group().members["b"].current.epoch)).interval_ms == HEARTBEAT_MS


def test_the_members_of_a_large_group_together_ask_no_more_often_than_a_coordinator_can_bear() -> None:
    for members in (1, 100, 1_000, 5_000):
        soon_ms = next_heartbeat_ms(
            HEARTBEAT_MS, 0, HeartbeatInputs(members, wanted=True, age_ms=0, has=False, waits=False)
        )
        assert soon_ms < HEARTBEAT_MS and members / soon_ms * 1000 <= BEATS_A_SECOND
    crowd = HeartbeatInputs(100_000, wanted=True, age_ms=0, has=True, waits=True)
    assert next_heartbeat_ms(HEARTBEAT_MS, 0, crowd) == HEARTBEAT_MS


def test_nobody_asks_sooner_in_a_group_with_classic_members() -> None:
    """As Apache Kafka's ConsumerProtocolMigrationTest expects it."""
    world = World(t=3)
    world.join("a", "t")
    world.classic_join("c", "t")
    world.join("b", "t")
    member = world.group().members["b"]
    assert world.group().classic_members == 1 and member.current.state is MemberState.UNRELEASED_PARTITIONS
    assert world.answer(world.beat("b", member.current.epoch)).interval_ms == HEARTBEAT_MS


def test_no_answer_leaves_before_what_it_says_is_committed() -> None:
    world = World(t=1)
    world.join("a", "t")
    world.held = True
    joining, ordinary = world.beat("b", 0, {}, ("t",), rebalance_ms=1), world.beat("a", 2)
    assert not {joining, ordinary} & world.answers.keys()
    world.held = False
    world.drain()
    assert world.answer(joining).epoch == 3
    assert world.answer(ordinary).error is ErrorCode.NONE


def test_what_could_not_be_written_is_written_with_the_next_heartbeat_of_anybody() -> None:
    world = World(t=1)
    world.join("a", "t")
    world.held = True
    world.beat("b", 0, {}, ("t",), rebalance_ms=1)
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.kinds()
    world.beat("a", 2, {"t": (0,)})
    assert {5, 3, 7, 6, 8} <= set(world.kinds())
    assert world.heir().group().members.keys() == {"a", "b"}


def test_a_write_behind_one_that_failed_is_not_believed() -> None:
    world = World(t=1)
    world.join("a", "t")
    world.held = True
    first = world.beat("b", 0, {}, ("t",), rebalance_ms=1)
    second = world.beat("c", 0, {}, ("t",), rebalance_ms=1)
    writes, world.machine.writes = world.machine.writes, []
    for place, write in enumerate(writes):
        world.machine.written(write.token, ErrorCode.REQUEST_TIMED_OUT if place == 0 else ErrorCode.NONE, world.now)
    world.held = False
    world.drain()
    assert world.answer(first).error is not ErrorCode.NONE
    assert world.answer(second).error is not ErrorCode.NONE


def test_who_waits_for_an_assignment_is_told_when_the_leadership_is_lost() -> None:
    world = World(t=1)
    world.idle = True
    ticket = world.beat("a", 0, {}, ("t",), rebalance_ms=1)
    assert ticket not in world.answers
    world.machine.lost(0)
    world.drain()
    assert world.answer(ticket).error is ErrorCode.NOT_COORDINATOR


def test_a_leadership_that_is_lost_while_the_log_is_read_leaves_nothing() -> None:
    world = World(t=1)
    world.join("a", "t")
    machine = world.machine
    machine.gained(0, 2)
    machine.load(0, 2, world.log)
    machine.lost(0)
    machine.loaded(0, 2, world.now)
    assert machine.groups("consumer") == []


def test_an_assignment_that_comes_for_members_that_left_changes_nothing() -> None:
    world = World(t=2)
    world.join("a", "t")
    world.idle = True
    waiting = world.beat("b", 0, {}, ("t",), rebalance_ms=1)
    world.beat("b", -1)
    world.idle = False
    world.drain()
    assert world.answer(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.answer(world.beat("a", 2, {"t": (0, 1)})).error is ErrorCode.NONE
    assert world.group().state() == "Stable"


def test_a_static_member_that_comes_back_while_an_assignment_is_made_gets_what_it_gives_the_old_one() -> None:
    world = World(t=2)
    world.join("a", "t", instance="one")
    world.beat("a", -2, instance="one")
    world.idle = True
    world.beat("b", 0, {}, ("t",), rebalance_ms=1)
    world.beat("c", 0, {}, ("t",), instance="one", rebalance_ms=1)
    world.idle = False
    world.drain()
    assert world.group().targets["c"] == {world.topics.id("t"): frozenset((0,))}


def test_another_coordinator_knows_all_and_its_members_go_on() -> None:
    world = World(t=6)
    held: dict[str, dict[str, tuple[int, ...]]] = {}
    for id in ("a", "b", "c"):
        held[id] = world.assigned(world.join(id, "t")) or {}
    settle(world, held)
    world.topics.set("t", 9)
    other = world.heir()
    assert other.group().state() == "Stable"
    settle(other, held)
    assert sorted(n for have in held.values() for n in have["t"]) == list(range(9))
    other.pass_ms(SESSION_MS + 1)
    assert other.group().state() == "Empty"


def test_a_group_takes_no_more_members_than_its_size() -> None:
    world = World(size_max=2, t=1)
    world.join("a", "t")
    world.join("b", "t")
    assert world.join("c", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("b", "t").error is ErrorCode.NONE, "who is in it may join again"


def test_a_member_costs_little_and_goes_when_it_is_silent() -> None:
    """A peer may make as many members as it has time for: each is gone after its session, and until then is small."""
    members = 500
    world = World(interval_ms=3_600_000, size_max=members, t=1)
    for number in range(members):
        assert world.join(f"member-{number}", "t").error is ErrorCode.NONE
    assert world.join("one more", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    tracemalloc.start()
    try:
        other = world.heir()
        held = tracemalloc.get_traced_memory()[0] / members
    finally:
        tracemalloc.stop()
    assert len(other.group().members) == members and held < MEMBER_BYTES_MAX, f"{held:.0f} bytes a member"
    other.pass_ms(SESSION_MS + 1)
    assert other.group().state() == "Empty" and not other.group().members and not other.group().targets


@pytest.mark.parametrize(
    ("ticket", "words"),
    [
        (lambda world: world.beat("a", 0, {}, ("t",)), "RebalanceTimeoutMs"),
        (lambda world: world.beat("a", 0, {"t": ()}, ("t",), rebalance_ms=1), "TopicPartitions"),
        (lambda world: world.beat("a", 0, None, ("t",), rebalance_ms=1), "TopicPartitions"),
        (lambda world: world.beat("a", 0, {}, None, rebalance_ms=1), "SubscribedTopicNames"),
        (lambda world: world.beat("", 0, {}, ("t",), rebalance_ms=1), "MemberId"),
        (lambda world: world.beat("", 5, version=0), "MemberId"),
        (lambda world: world.beat("a", -2), "InstanceId"),
        (lambda world: world.beat("a", -3), "MemberEpoch"),
        (lambda world: world.beat("a", 0, {}, ("t",), rebalance_ms=1, group=""), "GroupId"),
        (lambda world: world.beat("a", 0, {}, ("t",), rebalance_ms=1, instance=""), "InstanceId"),
        (lambda world: world.beat("a", 0, {}, ("t",), rebalance_ms=1, rack=""), "RackId"),
        (lambda world: world.beat("a" * 2000, 0, {}, ("t",), rebalance_ms=1), "characters"),
        (lambda world: world.beat("a", 0, {}, ("t" * 300,), rebalance_ms=1), "no topic"),
        (lambda world: world.beat("a", 0, {}, ("t" * 249,) * 1_053, rebalance_ms=1), "together"),
        (lambda world: world.beat("a", 0, {}, ("t",), rebalance_ms=1, rack="r" * 1025), "RackId"),
    ],
)
def test_malformed_requests_change_nothing_and_say_what_is_wrong(ticket, words: str) -> None:
    world = World(t=1)
    beat = world.answer(ticket(world))
    assert beat.error is ErrorCode.INVALID_REQUEST
    assert words in (beat.message or "")
    assert world.machine.groups("consumer") == [] and world.log == []


def test_old_clients_get_an_id() -> None:
    world = World(t=1)
    beat = world.join("", "t", version=0)
    assert beat.member_id == "fresh1" and world.assigned(beat) == {"t": (0,)}


def test_a_group_of_the_classic_protocol_with_members_is_none_of_these() -> None:
    world = World(t=1)
    world.join_classic()
    assert world.join("a", "t").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    world = World(t=1)
    codes: list[ErrorCode] = []
    world.machine.commit("g", [("t", 0, CommittedOffset(5, -1, "", 1))], codes.append)
    world.drain()
    assert codes == [ErrorCode.NONE]
    world.join("a", "t")
    assert [group.id for group in world.machine.groups()] == []
    other = world.heir()
    assert other.machine.groups() == [] and other.group().members
    assert other.machine.fetch("g") == {("t", 0): CommittedOffset(5, -1, "", 1)}


def test_an_empty_consumer_group_becomes_a_classic_one_and_leaves_no_record() -> None:
    world = World(t=1)
    world.join("a", "t")
    assert world.join_classic().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world.beat("a", -1)
    world.held = True
    world._ticket += 1
    world.held = False
    assert world.join_classic().error is ErrorCode.NONE
    assert world.machine.consumer_group("g") is None
    assert world.heir().machine.consumer_group("g") is None


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_who_is_taken_out_is_told_so_when_the_log_says_so(error: ErrorCode) -> None:
    world = World(t=4)
    world.join("a", "t")
    world.join("b", "t", instance="one")
    told: list[ErrorCode] = []
    assert world.machine.leave("g", [("x", None)], world.now, told.append) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert told.pop() is ErrorCode.NONE
    world.held = True
    assert world.machine.leave("g", [("", "one")], world.now, told.append) == [ErrorCode.NONE]
    world.drain()
    assert not told and "b" in world.heir().group().members
    world.held = False
    world.drain(error)
    assert told == [error]
    if error is ErrorCode.NONE:
        assert list(world.heir().group().members) == ["a"]


def test_an_administrator_takes_members_out() -> None:
    world = World(t=2)
    world.join("a", "t", instance="one")
    world.join("b", "t")
    asked = [("", "one"), ("x", None), ("c", "one"), ("b", None), ("b", None)]
    codes = world.machine.leave("g", [("c", "one")], world.now)
    assert codes == [ErrorCode.FENCED_INSTANCE_ID]
    codes = world.machine.leave("g", asked, world.now)
    world.drain()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert codes == [ErrorCode.NONE, unknown, fenced, ErrorCode.NONE, ErrorCode.NONE], "all leave at once, as in Kafka"
    assert world.group().members == {} and world.heir().group().members == {}


def test_who_may_commit_with_an_old_client_or_none() -> None:
    world = World(t=1)
    error = world.machine.commit_error
    world.join("a", "t")
    assert error("g", "", None, -1, world.now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error("g", "", None, -1, world.now, transactional=True) is ErrorCode.NONE
    assert error("g", "a", None, 9, world.now, transactional=True) is ErrorCode.ILLEGAL_GENERATION
    world.beat("a", -1)
    assert error("g", "", None, -1, world.now) is ErrorCode.NONE


def test_a_group_is_deleted_when_it_is_empty_and_leaves_no_record() -> None:
    world = World(t=1)
    codes: list[ErrorCode] = []
    world.join("a", "t", regex="t.*")
    world.machine.commit("g", [("t", 0, CommittedOffset(5, -1, "", 1))], codes.append)
    world.drain()
    world.machine.delete("g", codes.append)
    world.beat("a", -1)
    world.held = True
    world.machine.delete("g", codes.append)
    late = world.beat("b", 0, {}, ("t",), rebalance_ms=1)
    world.held = False
    world.drain()
    assert codes == [ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
    assert world.answer(late).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    values = {key: value for key, value in world.log}
    assert all(value is None for value in values.values()), "each key of the group ends with its removal"


def test_a_group_whose_removal_cannot_be_written_goes_on_and_is_written_anew() -> None:
    world = World(t=1)
    codes: list[ErrorCode] = []
    world.join("a", "t")
    world.beat("a", -1)
    world.held = True
    world.machine.delete("g", codes.append)
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.kinds()
    assert world.join("b", "t").error is ErrorCode.NONE
    assert {3, 6} <= set(world.kinds())


def test_offsets_of_topics_without_subscriber_expire_and_an_empty_group_goes_with_the_last() -> None:
    world = World(t=1, u=1)
    world.join("a", "t")
    offsets = [(name, 0, CommittedOffset(1, -1, "", world.now.wall_ms)) for name in ("t", "u")]
    world.machine.commit("g", offsets, lambda error: None)
    world.drain()
    world.pass_ms(40_000)
    world.beat("a", 2)
    world.now = world.now._replace(wall_ms=world.now.wall_ms + world.settings.retention_ms)
    world.machine.expire_offsets(world.now)
    world.drain()
    found = world.machine.fetch("g")
    assert not isinstance(found, ErrorCode) and set(found) == {("t", 0)}
    world.beat("a", -1)
    world.machine.expire_offsets(world.now)
    world.drain()
    assert world.machine.consumer_group("g") is None


def test_a_regular_expression_is_matched_outside_the_loop_and_brings_what_the_member_may_see() -> None:
    world = World(tee=1, tea=1, coffee=1)
    world.visible = {"tee", "coffee"}
    world.idle = True
    ticket = world.beat("a", 0, {}, None, regex="te.*", rebalance_ms=1)
    assert len(world.machine.kinds.consumer.jobs) == 1
    assert (world.answer(ticket).epoch, world.assigned(world.answer(ticket))) == (1, {})
    world.idle = False
    world.drain()
    assert world.assigned(world.answer(world.beat("a", 1, {}))) == {"tee": (0,)}
    assert 16 in world.kinds()
    assert world.heir().group().resolved["te.*"].topics == {"tee"}
    world.beat("a", 2, None, ("coffee",), regex="")
    assert -16 in world.kinds() and world.group().resolved == {}


def test_an_expression_that_matches_nothing_yet_moves_no_epoch() -> None:
    world = World(coffee=1)
    assert world.join("a", regex="te.*").epoch == 1
    assert (world.group().epoch, world.group().resolved["te.*"].topics) == (1, frozenset())
    world.topics.set("tea", 1)
    world.pass_ms(11_000)
    world.beat("a", 1)
    assert world.assigned(world.answer(world.beat("a", 1, {}))) == {"tea": (0,)}


def test_a_regular_expression_finds_topics_that_come_later() -> None:
    world = World(t1=1)
    world.join("a", regex="t.*")
    world.beat("a", 2)
    world.topics.set("t2", 1)
    world.pass_ms(11_000)
    world.beat("a", world.group().members["a"].current.epoch)
    beat = world.answer(world.beat("a", world.group().members["a"].current.epoch))
    assert {"t1", "t2"} == set(world.assigned(beat) or {}) or world.group().targets["a"].keys() == {
        world.topics.id("t1"), world.topics.id("t2"),
    }  # fmt: skip


@pytest.mark.parametrize("regex", ["(", "(?P<a>x)(?P=a)", "a{1000}{1000}", "x" * 1025])
def test_an_expression_that_is_none_or_explodes_is_refused(regex: str) -> None:
    world = World(t=1)
    beat = world.join("a", regex=regex)
    assert beat.error in (ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorCode.INVALID_REQUEST)
    assert beat.message and world.machine.groups("consumer") == []


def test_a_later_version_of_one_record_makes_the_group_foreign() -> None:
    world = World(t=1)
    world.join("a", "t")
    key = record(world.group(), RecordKey(GROUP))[0]
    world.log.append((key, b"\0\7later"))
    other = World(t=1)
    told = other.machine
    told.lost(0)
    told.gained(0, 2)
    assert len(told.load(0, 2, world.log)) == 1
    told.loaded(0, 2, other.now)
    assert other.join("b", "t").error is ErrorCode.UNSUPPORTED_VERSION
    assert other.kinds() == [] and told.groups("consumer") == []


def test_of_two_protocols_in_one_log_the_one_with_members_counts() -> None:
    world = World(t=1)
    world.join_classic()
    classic = world.machine.groups()[0]
    line = group_record(classic)
    other = World(t=1)
    other.join("a", "t")
    other.log.insert(0, (line[0], line[1]))
    heir = other.heir()
    assert heir.machine.groups() == [] and heir.group().members
    assert heir.log[-1] == (line[0], None)


def test_records_of_a_thousand_members_are_written_in_portions() -> None:
    world = World(interval_ms=1000, t=3000)
    ids = [f"{'m' * 40}{n}" for n in range(400)]
    for id in ids:
        world.join(id, "t")
    world.held = True
    world.pass_ms(1000)
    sizes = [sum(len(key) + len(value or b"") for key, value in write.records) for write in world.machine.writes]
    assert sum(sizes) > 1000 and max(sizes) <= (1 << 18)
    last = world.machine.writes[-1].records[-1][0]
    assert int.from_bytes(last[:2], "big") == 6, "the epoch comes behind the assignment that it is of"


@pytest.mark.parametrize("seed", range(20))
def test_at_all_times_a_partition_has_one_owner_and_in_the_end_each_has_one(seed: int) -> None:
    """Members that do as they are told, late, twice, or after a new coordinator has taken over."""
    chance = random.Random(seed)
    world = World(interval_ms=chance.choice((0, 1000)), t=chance.randint(1, 8), u=3)
    have: dict[str, dict[str, tuple[int, ...]]] = {}
    epochs: dict[str, int] = {}

    unsure: set[str] = set()
    """Members that have not heard an answer: they say all that there is to say, as Kafka's clients do."""
    losses = 0.1

    def speak(id: str) -> None:
        full = {"topics": ("t", "u"), "rebalance_ms": 60_000} if id in unsure else {}
        beat = world.answer(world.beat(id, epochs[id], have[id], **full))
        if beat.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            have[id] = {}
            beat = world.join(id, "t", "u")
        if chance.random() < losses:
            unsure.add(id)
            return
        assert beat.error is ErrorCode.NONE
        unsure.discard(id)
        epochs[id] = beat.epoch
        given = world.assigned(beat)
        if given is not None:
            have[id] = given
        used = [(name, n) for mine in have.values() for name, part in mine.items() for n in part]
        assert len(used) == len(set(used)), "two members use a partition"

    for step in range(120):
        what = chance.random()
        if what < 0.12 and len(have) < 6:
            id = f"m{step}"
            beat = world.join(id, "t", "u")
            have[id], epochs[id] = world.assigned(beat) or {}, beat.epoch
        elif what < 0.17 and have:
            id = chance.choice(sorted(have))
            world.beat(id, -1)
            del have[id], epochs[id]
        elif what < 0.20:
            world.topics.set("t", world.topics.sizes["t"] + 1)
        elif what < 0.23:
            world = world.heir()
        elif have:
            speak(chance.choice(sorted(have)))
        world.pass_ms(chance.randint(0, 300))
    losses = 0
    for _ in range(12):
        for id in sorted(have):
            speak(id)
        world.pass_ms(1000)
    if have:
        assert world.group().state() == "Stable"
        held = sorted(n for part in have.values() for n in part.get("t", ()))
        assert held == list(range(world.topics.sizes["t"]))


def test_a_clock_that_was_set_back_keeps_nobody_waiting_for_a_target() -> None:
    world = World(interval_ms=1_000, t=4)
    world.join("a", "t")
    world.pass_ms(5_000)
    world.now = Now(world.now.mono_ms, world.now.wall_ms - 1_000_000)
    joined = world.join("b", "t")
    assert world.group().target_epoch == world.group().epoch == joined.epoch
    world.pass_ms(5_000)
    assert world.group().target_epoch == world.group().epoch
