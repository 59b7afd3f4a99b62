"""Classic groups: who is in, which generation, what is answered when, and what survives in the log."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import ANY

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from actors.broker.coordinators.coordination import Record
from actors.broker.coordinators.java_hash import java_hash
from actors.broker.groups.classic import groups as classic_groups
from actors.broker.groups.classic import records as classic
from actors.broker.groups.classic import state
from actors.broker.groups.classic.rebalance import GroupPolicy
from actors.broker.groups.classic.records import group_key, group_record
from actors.broker.groups.classic.state import Group, GroupState
from actors.broker.groups.classic_requests import Joined, JoinRequest, Synced
from actors.broker.groups.consumer import settings as consumer
from actors.broker.groups.coordinator import Coordinator
from actors.broker.groups.kinds import GroupSettings
from actors.broker.groups.member_groups import GroupConfig
from actors.broker.groups.records import CommittedOffset, ForeignLine, GroupLine, OffsetLine, offset_record, read
from actors.broker.groups.share import groups as share
from actors.ports import Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import encode, message

READERS = {classic.GROUP_KEY: classic.read}
ASSIGNORS = ("range", "cooperative-sticky")
SHARE = share.ShareGroupSettings(10, lambda group: GroupConfig(45_000, 5_000, 0), 30_000)
CONSUMER = consumer.ConsumerGroupSettings(10, ("uniform",), 600_000, lambda group: GroupConfig(45_000, 5_000, 0))


def told(generation: int = -1, owned: Sequence[int] = (), user_data: bytes | None = None) -> bytes:
    """A member's metadata as Java's consumers write it, in version 3: what it owns, and since which generation."""
    kind = message("ConsumerProtocolSubscription")
    parts = [kind.TopicPartition(topic="t", partitions=list(owned))] if owned else []
    said = kind(topics=["t"], user_data=user_data, owned_partitions=parts, generation_id=generation, rack_id=None)
    return b"\0\3" + encode(said, 3)


class NoTopics:
    """A cluster without topics."""

    version = 0

    def named(self, name: str) -> None:
        return None

    def name(self, topic_id: bytes) -> None:
        return None

    def names(self) -> tuple[str, ...]:
        return ()


class World:
    """One coordinator, a clock, and a log that commits at once unless it is held."""

    def __init__(self, delay_ms: int = 0, size_max: int = 10) -> None:
        self.machine = Coordinator(
            GroupSettings(1, GroupPolicy(delay_ms, size_max), 100, 60_000, 64, 1_000_000, CONSUMER, SHARE), NoTopics()
        )
        self.now = Now(1, 1_000_000)
        self.log: list[Record] = []
        self.held = False
        self.verdicts: dict[int, Joined | Synced] = {}
        self._ticket = 0
        self.heard: dict[str, int] = {}
        """Member id -> the generation that its process has last heard of."""
        self.machine.gained(0, 1)
        self.machine.loaded(0, 1, self.now)

    def protocols(self, member: str = "") -> list[tuple[str, bytes]]:
        """What the process of a member says of itself. One that has just started knows no generation."""
        generation = self.heard.get(member, -1)
        return [(name, told(generation, range(max(0, generation)))) for name in ASSIGNORS]

    def drain(self, error: ErrorCode = ErrorCode.NONE) -> None:
        while self.machine.answers or (self.machine.writes and not self.held):
            for ticket, verdict in self.machine.answers:
                assert ticket not in self.verdicts, "a request is answered once"
                self.verdicts[ticket] = verdict
                if isinstance(verdict, Joined) and verdict.error is ErrorCode.NONE:
                    self.heard[verdict.member_id] = verdict.generation
            self.machine.answers.clear()
            if not self.held:
                writes, self.machine.writes = self.machine.writes, []
                for write in writes:
                    if error is ErrorCode.NONE:
                        self.log.extend(write.records)
                    self.machine.written(write.token, error, self.now)
        for group in self.machine.groups():
            group.check()

    def join(
        self,
        member: str = "",
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] | None = None,
        version: int = 9,
        fresh: str = "",
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        kind: str = "consumer",
    ) -> int:
        self._ticket += 1
        request = JoinRequest(
            version,
            member,
            instance,
            "client",
            "/127.0.0.1",
            rebalance_ms,
            session_ms,
            kind,
            self.protocols(member) if protocols is None else protocols,
            fresh or f"m{self._ticket}",
            "User:client",
        )
        self.machine.join("g", self._ticket, request, self.now)
        self.drain()
        return self._ticket

    def sync(self, member: str, generation: int, assignments=(), instance: str | None = None) -> int:
        self._ticket += 1
        self.machine.sync("g", self._ticket, member, instance, generation, None, None, assignments, self.now)
        self.drain()
        return self._ticket

    def pass_time(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.machine.tick(self.now)
        self.drain()

    def statics(self, *instances: str, version: int = 9, session_ms: int = 10_000) -> dict[str, str]:
        """A stable group of static members, the leader first, each of which has joined in every generation; their ids."""
        ids: dict[str, str] = {}
        for name in instances:
            tickets = {name: self.join(instance=name, version=version, session_ms=session_ms)}
            for known, id in ids.items():
                tickets[known] = self.join(id, instance=known, version=version, session_ms=session_ms)
            ids = {known: self.joined(tickets[known]).member_id for known in (*ids, name)}
            generation = self.joined(tickets[name]).generation
            for known in reversed(ids):
                self.sync(ids[known], generation, [(id, name.encode()) for name, id in ids.items()], instance=known)
        return ids

    def heir(self) -> Coordinator:
        """A coordinator that knows what the log says."""
        heir = World()
        heir.machine.gained(0, 2)
        heir.machine.load(0, 2, self.log)
        heir.machine.loaded(0, 2, self.now)
        return heir.machine

    def joined(self, ticket: int) -> Joined:
        verdict = self.verdicts[ticket]
        assert isinstance(verdict, Joined)
        return verdict

    def synced(self, ticket: int) -> Synced:
        verdict = self.verdicts[ticket]
        assert isinstance(verdict, Synced)
        return verdict

    def stable(self, count: int) -> list[str]:
        """A stable group of `count` members; their ids, the leader first."""
        members: list[str] = []
        for _ in range(count):
            given_id = self.joined(self.join())
            assert given_id.error is ErrorCode.MEMBER_ID_REQUIRED
            members.append(given_id.member_id)
        tickets = [self.join(member) for member in members]
        self.pass_time(0)
        answers = [self.joined(ticket) for ticket in tickets]
        generation = answers[0].generation
        leader = answers[0].leader
        followers = [self.sync(member, generation) for member in members if member != leader]
        assert all(ticket not in self.verdicts for ticket in followers), "nobody is answered before the leader"
        self.sync(leader, generation, [(member, member.encode()) for member in members])
        return [leader, *(member for member in members if member != leader)]


def test_new_members_get_an_id_first_and_join_with_it() -> None:
    world = World()
    first = world.joined(world.join())
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED and first.member_id
    second = world.joined(world.join(first.member_id))
    assert second.error is ErrorCode.NONE and second.generation == 1 and second.leader == first.member_id
    assert [id for id, _, _ in second.members] == [first.member_id]


def test_old_clients_join_at_once() -> None:
    world = World()
    assert world.joined(world.join(version=3)).error is ErrorCode.NONE


def test_the_leader_alone_learns_the_members_and_all_get_their_assignment() -> None:
    world = World()
    leader, follower = world.stable(2)
    group = world.machine.group("g")
    assert not isinstance(group, ErrorCode) and group is not None
    assert group.state is GroupState.STABLE
    assert {verdict.assignment for verdict in world.verdicts.values() if isinstance(verdict, Synced)} == {
        leader.encode(),
        follower.encode(),
    }
    leaders = [v for v in world.verdicts.values() if isinstance(v, Joined) and v.members]
    assert {answer.member_id for answer in leaders if answer.generation == group.generation} == {leader}


def test_nobody_is_answered_before_the_assignment_is_committed() -> None:
    world = World()
    id = world.joined(world.join()).member_id
    world.join(id)
    world.held = True
    ticket = world.sync(id, 1, [(id, b"x")])
    assert ticket not in world.verdicts
    world.held = False
    world.drain()
    assert world.synced(ticket).assignment == b"x"


def test_a_write_that_takes_longer_than_the_phase_is_waited_for() -> None:
    """The coordinator once looked at the same deadline for ever, inside one turn (simulator, seed 21)."""
    world = World()
    id = world.joined(world.join(session_ms=60_000)).member_id
    world.join(id, session_ms=60_000, rebalance_ms=5_000)
    world.held = True
    ticket = world.sync(id, 1, [(id, b"x")])
    world.pass_time(5_000)
    assert world.machine.deadline_ms() > world.now.mono_ms, "nothing is due again and again"
    world.held = False
    world.drain()
    assert world.synced(ticket).assignment == b"x"
    world.pass_time(60_000)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode) and not group.members, "its session still ends"


def test_a_failed_write_sends_everybody_back_to_join() -> None:
    world = World()
    id = world.joined(world.join()).member_id
    world.join(id)
    world.held = True
    ticket = world.sync(id, 1, [(id, b"x")])
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.synced(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.joined(world.join(id)).generation == 2


def test_a_newcomer_makes_the_others_rejoin() -> None:
    world = World()
    leader, follower = world.stable(2)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    generation = group.generation
    newcomer = world.joined(world.join()).member_id
    waiting = world.join(newcomer)
    assert world.machine.heartbeat("g", leader, None, generation, world.now) is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(leader)
    assert waiting not in world.verdicts
    world.join(follower)
    assert world.joined(waiting).generation == generation + 1
    assert world.machine.heartbeat("g", leader, None, generation, world.now) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_is_silent_for_its_session_is_dropped() -> None:
    world = World()
    leader, follower = world.stable(2)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    world.pass_time(9_000)
    assert world.machine.heartbeat("g", leader, None, group.generation, world.now) is ErrorCode.NONE
    world.pass_time(2_000)
    assert list(group.members) == [leader]
    assert world.machine.heartbeat("g", follower, None, group.generation, world.now) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_phase_does_not_wait_for_ever() -> None:
    world = World()
    leader, follower = world.stable(2)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    ticket = world.join(leader)
    for _ in range(4):  # the follower's heart beats, but it does not rejoin
        world.pass_time(8_000)
        world.machine.heartbeat("g", follower, None, group.generation, world.now)
    assert world.joined(ticket).error is ErrorCode.NONE
    assert list(group.members) == [leader]


def test_a_member_that_never_syncs_is_dropped_at_the_end_of_the_phase() -> None:
    world = World()
    ids = [world.joined(world.join()).member_id for _ in range(2)]
    for id in ids:
        world.join(id)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    leader = group.leader
    assert leader
    for _ in range(4):
        world.pass_time(8_000)
        world.machine.heartbeat("g", leader, None, group.generation, world.now)
        for id in ids:
            world.machine.heartbeat("g", id, None, group.generation, world.now)
    assert group.state is GroupState.PREPARING or not group.members


def test_a_member_that_heartbeats_and_never_syncs_is_dropped_from_a_stable_group_too() -> None:
    world = World()
    ids = [world.joined(world.join()).member_id for _ in range(2)]
    tickets = [world.join(id) for id in ids]
    answer = world.joined(tickets[0])
    silent = next(id for id in ids if id != answer.leader)
    world.sync(answer.leader, answer.generation, [(id, b"x") for id in ids])
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode) and group.state is GroupState.STABLE
    seen = []
    for _ in range(4):
        world.pass_time(8_000)
        seen += [world.machine.heartbeat("g", id, None, answer.generation, world.now) for id in (answer.leader, silent)]
    assert seen[:6] == [ErrorCode.NONE] * 6, "nothing happens within the rebalance timeout of 30 s"
    assert seen[6:] == [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_that_syncs_late_but_in_time_stays() -> None:
    world = World()
    ids = [world.joined(world.join()).member_id for _ in range(2)]
    tickets = [world.join(id) for id in ids]
    answer = world.joined(tickets[0])
    late = next(id for id in ids if id != answer.leader)
    world.sync(answer.leader, answer.generation, [(id, id.encode()) for id in ids])
    for at in range(8):
        world.pass_time(8_000)
        for id in (answer.leader, late):
            assert world.machine.heartbeat("g", id, None, answer.generation, world.now) is ErrorCode.NONE
        if at == 1:
            assert world.synced(world.sync(late, answer.generation)).assignment == late.encode()


def test_an_empty_group_waits_for_newcomers_before_its_first_generation() -> None:
    world = World(delay_ms=3_000)
    first = world.join(version=3)
    world.pass_time(2_000)
    second = world.join(version=3)
    world.pass_time(1_500)
    assert first not in world.verdicts, "a newcomer extends the wait"
    world.pass_time(3_000)
    assert world.joined(first).generation == world.joined(second).generation == 1


def test_leaving_hands_the_group_to_the_rest_and_the_last_one_leaves_it_empty() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert world.machine.leave("g", [(leader, None), ("nobody", None)], world.now) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    world.drain()
    assert world.joined(world.join(follower)).leader == follower
    assert world.machine.leave("g", [(follower, None)], world.now) == [ErrorCode.NONE]
    world.drain()
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode) and group.state is GroupState.EMPTY
    assert read(READERS, *world.log[-1]).data.members == {}  # type: ignore[union-attr]


def test_kip_345_a_static_member_returns_without_a_rebalance_and_fences_its_old_self() -> None:
    world = World()
    first = world.joined(world.join(instance="a"))
    world.sync(first.member_id, 1, [(first.member_id, b"mine")], instance="a")
    back = world.joined(world.join(instance="a", fresh="a-2"))
    assert back.generation == 1 and back.skip_assignment and back.member_id == "a-2"
    assert world.synced(world.sync("a-2", 1, instance="a")).assignment == b"mine"
    assert world.machine.heartbeat("g", first.member_id, "a", 1, world.now) is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", [5, 6, 7, 8, 9])
@pytest.mark.parametrize("restarted", ["a", "b", "c"])
def test_kip_345_nobody_moves_when_a_static_member_restarts_whatever_its_metadata_says(
    version: int, restarted: str
) -> None:
    """Its process knows neither a generation nor what it owned, so its metadata is another one each time (KIP-792)."""
    world = World()
    ids = world.statics("a", "b", "c", version=version)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    generation, leader = group.generation, group.leader
    assert generation == 3 and leader == ids["a"]
    for number in range(3):
        before = ids[restarted]
        back = world.joined(world.join(instance=restarted, version=version, fresh=f"{restarted}-{number}"))
        ids[restarted] = back.member_id
        assert back.error is ErrorCode.NONE and back.generation == generation and group.state is GroupState.STABLE
        leads = restarted == "a"
        assert back.skip_assignment == (leads and version >= 9)
        assert bool(back.members) == (leads and version >= 9), "KIP-814: only a leader that is told to skip learns them"
        assert back.leader == (back.member_id if leads and version >= 9 else before if leads else leader)
        synced = world.synced(world.sync(back.member_id, generation, instance=restarted))
        assert synced.error is ErrorCode.NONE and synced.assignment == restarted.encode()
        codes = {world.machine.heartbeat("g", ids[name], name, generation, world.now) for name in ids}
        assert codes == {ErrorCode.NONE}, "nobody is asked to join anew"
        assert world.machine.heartbeat("g", before, restarted, generation, world.now) is ErrorCode.FENCED_INSTANCE_ID
    heir = world.heir()
    assert {name: heir.heartbeat("g", ids[name], name, generation, world.now) for name in ids} == dict.fromkeys(
        ids, ErrorCode.NONE
    )
    written = heir.group("g")
    assert written and not isinstance(written, ErrorCode)
    told_now = {name: written.members[id].metadata("range") for name, id in ids.items()}
    assert told_now[restarted] == told(), "the leader of the next generation sees what it says now"


def test_kip_345_a_static_member_that_restarts_with_another_protocol_makes_the_group_choose_anew() -> None:
    world = World()
    first = world.joined(world.join(instance="a", protocols=[("range", b"1"), ("sticky", b"1")]))
    world.sync(first.member_id, 1, [(first.member_id, b"mine")], instance="a")
    same = world.joined(world.join(instance="a", protocols=[("range", b"2"), ("roundrobin", b"2")]))
    assert same.generation == 1 and same.skip_assignment, "range is chosen still"
    other = world.joined(world.join(instance="a", protocols=[("roundrobin", b"3"), ("range", b"3")]))
    assert other.generation == 2 and other.protocol == "roundrobin" and not other.skip_assignment


@pytest.mark.parametrize("restarted", ["a", "b"])
def test_kip_345_a_static_member_that_restarts_before_the_assignment_begins_another_join_phase(restarted: str) -> None:
    """The leader may assign to the id that is gone."""
    world = World()
    ids = world.statics("a", "b")
    tickets = [world.join(ids["a"], instance="a"), world.join(ids["b"], instance="b")]
    assert world.joined(tickets[0]).generation == 3
    waits = world.sync(ids["b"], 3, instance="b")
    back = world.join(instance=restarted, fresh="again")
    error = ErrorCode.FENCED_INSTANCE_ID if restarted == "b" else ErrorCode.REBALANCE_IN_PROGRESS
    assert world.synced(waits).error is error and back not in world.verdicts
    other = "b" if restarted == "a" else "a"
    joined = world.joined(world.join(ids[other], instance=other))
    assert joined.generation == 4 == world.joined(back).generation
    assert world.joined(back).leader == ("again" if restarted == "a" else ids["a"])


@pytest.mark.parametrize("restarted", ["a", "b"])
def test_kip_345_a_static_member_that_restarts_in_a_join_phase_has_joined_it(restarted: str) -> None:
    world = World()
    ids = world.statics("a", "b")
    other = "b" if restarted == "a" else "a"
    newcomer = world.join(version=3)
    first = world.join(ids[restarted], instance=restarted)
    back = world.join(instance=restarted, fresh="again")
    assert world.joined(first).error is ErrorCode.FENCED_INSTANCE_ID and newcomer not in world.verdicts
    world.join(ids[other], instance=other)
    assert world.joined(back).generation == world.joined(newcomer).generation == 3


def test_a_join_phase_in_which_nobody_has_joined_goes_on_until_somebody_comes_or_all_are_gone() -> None:
    world = World()
    ids = world.statics("a", "b", session_ms=60_000)
    newcomer = world.join(version=3, fresh="n")
    assert world.machine.leave("g", [("n", None)], world.now) == [ErrorCode.NONE]
    world.drain()
    assert world.joined(newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID
    world.pass_time(30_000)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    assert group.state is GroupState.PREPARING and group.generation == 2 and len(group.members) == 2
    assert world.machine.deadline_ms() > world.now.mono_ms, "nothing is due again and again"
    ticket = world.join(ids["b"], instance="b", session_ms=60_000)
    world.pass_time(29_999)
    assert ticket not in world.verdicts, "a is waited for"
    world.pass_time(1)
    assert world.joined(ticket).leader == ids["b"] and world.joined(ticket).generation == 3


def test_a_member_that_has_waited_for_an_assignment_has_a_whole_session_to_join_anew() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader), world.join(follower)
    waits = world.sync(follower, 2)
    for _ in range(3):
        world.pass_time(8_000)
        world.machine.heartbeat("g", leader, None, 2, world.now)
    world.join(version=3)
    assert world.synced(waits).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_time(9_999)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode) and follower in group.members
    world.pass_time(1)
    assert follower not in group.members


class CountedWalks(dict[str, Any]):
    """Members of a group; counts how often somebody walks over all of them."""

    walks = 0

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def items(self) -> Any:
        self.walks += 1
        return super().items()

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()


def test_a_rebalance_walks_over_the_members_as_often_in_a_group_of_fifty_as_of_five(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Group, "check", lambda group: None)
    walks = {}
    for size in (5, 50):
        world = World(size_max=1000)
        members = world.stable(size)
        group = world.machine.group("g")
        assert group and not isinstance(group, ErrorCode)
        group.members = counted = CountedWalks(group.members)
        tickets = [world.join(member) for member in members]
        assert world.joined(tickets[-1]).generation == group.generation
        for member in members:
            world.machine.heartbeat("g", member, None, group.generation, world.now)
        for member in reversed(members):
            world.sync(member, group.generation, [(member, b"x") for member in members])
        assert group.state is GroupState.STABLE
        for number in range(size):
            world.pass_time(number)
        walks[size] = counted.walks
    assert walks[50] == walks[5], walks


def test_members_that_fall_silent_one_by_one_are_found_without_a_walk_over_the_others() -> None:
    world = World(size_max=1000)
    for _ in range(200):
        world.join(version=3, session_ms=60_000)
    world.pass_time(30_000)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    quiet = list(group.members)
    looked = []
    whole = group._deadline_ms
    group._deadline_ms = lambda id: (looked.append(id), whole(id))[1]  # type: ignore[method-assign]
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(Group, "check", lambda group: None)
    try:
        for place, member in enumerate(quiet):
            world.now = Now(world.now.mono_ms + 1, world.now.wall_ms + 1)
            if place % 2:
                group.touch(group.members[member], world.now.mono_ms)
        for _ in range(60_000 // 50):
            world.pass_time(50)
    finally:
        monkeypatch.undo()
    assert len(looked) <= 4 * len(quiet), len(looked)


def test_ids_that_are_given_out_and_not_used_have_a_bound_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PENDING_MAX", 100)
    world = World(size_max=1000)
    ids = [world.joined(world.join()).member_id for _ in range(1000)]
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    assert list(group.pending) == ids[-100:]
    assert len(group._deadlines) <= 2 * 100 + state.DEADLINES_SLACK, "what is outdated goes too"
    assert world.joined(world.join(ids[0])).error is ErrorCode.UNKNOWN_MEMBER_ID
    late = world.join(ids[-1])
    world.pass_time(30_000)
    assert world.joined(late).generation == 1


def test_ids_of_all_groups_that_are_not_used_have_a_bound_and_a_group_of_nothing_else_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of these requests invents a group."""
    monkeypatch.setattr(classic_groups, "UNUSED_MAX", 100)
    world = World()
    commit(world, 5)
    member = world.joined(world.join(version=3)).member_id
    kept = world.joined(world.join()).member_id
    for number in range(500):
        invent(world, number)
    groups = {group.id: list(group.pending) for group in world.machine.groups()}
    assert len(groups) == 101 and groups["g"] == [], "it has a member, and stays; the id that it gave out is gone"
    assert groups["g499"] == ["x499"] and "g399" not in groups and groups["g400"] == ["x400"]
    assert world.joined(world.join(kept)).error is ErrorCode.UNKNOWN_MEMBER_ID
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode) and member in group.members


def invent(world: World, number: int) -> None:
    """A client asks for a member id in a group that nobody has heard of: `x<number>` in `g<number>`."""
    request = JoinRequest(9, "", None, "c", "/h", 30_000, 10_000, "consumer", world.protocols(), f"x{number}")
    world.machine.join(f"g{number}", 10_000 + number, request, world.now)
    world.drain()


@pytest.mark.parametrize("given_back", (False, True), ids=("lapsed", "given back"))
def test_a_group_that_is_nothing_but_a_member_id_goes_with_it(given_back: bool) -> None:
    world = World()
    commit(world, 5)
    kept = world.joined(world.join()).member_id
    for number in range(20):
        invent(world, number)
        if given_back:
            assert world.machine.leave(f"g{number}", [(f"x{number}", None)], world.now) == [ErrorCode.NONE]
            world.drain()
    assert given_back or len(world.machine.groups()) == 21
    world.pass_time(10_000)
    assert [group.id for group in world.machine.groups()] == ["g"], "it has committed an offset"
    assert world.joined(world.join(kept)).error is ErrorCode.UNKNOWN_MEMBER_ID
    other = world.joined(world.join()).member_id
    world.join(other)
    assert world.machine.deadline_ms() <= world.now.mono_ms + 30_000, "the end of its join phase is planned"
    world.pass_time(30_000)
    world.machine.leave("g", [(other, None)], world.now)
    world.drain()
    assert [group.id for group in world.machine.groups()] == ["g"], "the log has its generation"


def test_nobody_waits_for_an_id_that_gave_way_to_another_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_groups, "UNUSED_MAX", 3)
    world = World()
    member = world.joined(world.join(version=3)).member_id
    world.join()
    ticket = world.join(member, protocols=[(name, told(user_data=b"new")) for name in ASSIGNORS])
    assert ticket not in world.verdicts, "the join phase waits for the member that was given an id"
    for number in range(3):
        invent(world, number)
    assert world.joined(ticket).generation == 2


def test_an_id_that_is_used_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_groups, "UNUSED_MAX", 3)
    world = World(delay_ms=100, size_max=100)
    for _ in range(20):
        world.join(world.joined(world.join()).member_id)
    late = [world.joined(world.join()).member_id for _ in range(3)]
    assert all(world.join(id) not in world.verdicts for id in late)


def rejoining() -> tuple[World, int]:
    """A static member of a stable group has come back as `a-2`, which is not committed yet; its ticket."""
    world = World()
    first = world.joined(world.join(instance="a"))
    world.sync(first.member_id, 1, [(first.member_id, b"mine")], instance="a")
    world.held = True
    return world, world.join(instance="a", fresh="a-2")


def test_kip_345_a_static_member_hears_its_new_id_once_another_coordinator_would_know_it() -> None:
    world, ticket = rejoining()
    assert ticket not in world.verdicts
    world.held = False
    world.drain()
    assert world.joined(ticket).member_id == "a-2"
    heir = World()
    heir.machine.gained(0, 2)
    heir.machine.load(0, 2, world.log)
    heir.machine.loaded(0, 2, heir.now)
    assert heir.machine.heartbeat("g", "a-2", "a", 1, heir.now) is ErrorCode.NONE


def test_a_static_member_whose_new_id_cannot_be_written_asks_again() -> None:
    world, ticket = rejoining()
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.joined(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.held = True
    ticket = world.join(instance="a", fresh="a-3")
    world.machine.writes.clear()
    world.machine.lost(0)
    world.drain()
    assert world.joined(ticket).error is ErrorCode.NOT_COORDINATOR


def test_of_two_that_come_back_as_the_same_static_member_the_second_stays() -> None:
    world, first = rejoining()
    second = world.join(instance="a", fresh="a-3")
    world.held = False
    world.drain()
    assert world.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    assert world.joined(second).member_id == "a-3"


def test_a_group_takes_no_member_of_another_kind_or_without_common_protocol() -> None:
    world = World()
    world.stable(1)
    assert world.joined(world.join(kind="connect")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.joined(world.join(protocols=[("sticky", b"")])).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_session_timeouts_outside_the_limits_are_refused() -> None:
    world = World()
    assert world.joined(world.join(session_ms=99)).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.joined(world.join(session_ms=60_001)).error is ErrorCode.INVALID_SESSION_TIMEOUT


SIZE_MAX = 10


def test_a_stable_group_that_is_full_takes_only_who_is_in_it() -> None:
    world = World()
    members = world.stable(SIZE_MAX)
    refused = world.joined(world.join(version=3))
    assert refused == Joined(ErrorCode.GROUP_MAX_SIZE_REACHED), "without an id, as in Apache Kafka"
    assert world.joined(world.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(members[0]) not in world.verdicts


def test_a_join_phase_is_full_when_so_many_have_joined_and_the_last_ones_to_come_go() -> None:
    """As in Apache Kafka: members that are known but have not joined yet hold no place against those that have."""
    world = World()
    late, *others = world.stable(SIZE_MAX)
    first = world.join(others[0], protocols=[("range", b"other topics")])
    tickets = [first, *(world.join(member) for member in others[1:]), world.join(version=3)]
    assert all(ticket not in world.verdicts for ticket in tickets), (
        "nine of ten, and one that is new, wait for the tenth"
    )
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode) and len(group.members) == SIZE_MAX + 1
    assert world.joined(world.join(version=3)).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    again = world.join(others[3])
    assert world.joined(tickets[3]).error is ErrorCode.UNKNOWN_MEMBER_ID and again not in world.verdicts, "repeated"
    assert world.joined(world.join(late)) == Joined(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert world.joined(again).generation == world.joined(first).generation == 2, "nobody is missing any more"
    assert len(group.members) == SIZE_MAX and late not in group.members


def test_an_id_that_comes_too_late_into_a_full_join_phase_is_given_back() -> None:
    world = World(delay_ms=100)
    id = world.joined(world.join()).member_id
    tickets = [world.join(version=3) for _ in range(SIZE_MAX)]
    assert world.joined(world.join(id)).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_time(100), world.pass_time(100)
    assert {world.joined(ticket).generation for ticket in tickets} == {1}


def test_a_static_member_that_restarts_in_a_full_group_takes_no_further_place() -> None:
    names = [f"s{number}" for number in range(SIZE_MAX)]
    world = World()
    ids = world.statics(*names)
    assert world.joined(world.join(instance="other")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    back = world.joined(world.join(instance="s3"))
    assert back.error is ErrorCode.NONE and back.generation == SIZE_MAX
    first = world.join(ids["s0"], instance="s0")
    for name in names[1:]:
        assert first not in world.verdicts
        world.join(instance=name)
    assert world.joined(first).generation == SIZE_MAX + 1


def commit(world: World, offset: int, member: str = "", generation: int = -1) -> list[ErrorCode]:
    seen: list[ErrorCode] = []
    error = world.machine.commit_error("g", member, None, generation, world.now)
    if error is not ErrorCode.NONE:
        return [error]
    world.machine.commit("g", [("t", 0, CommittedOffset(offset, 3, "note", world.now.wall_ms))], seen.append)
    world.drain()
    return seen


def test_an_offset_is_visible_only_once_it_is_committed() -> None:
    world = World()
    world.held = True
    assert commit(world, 7) == []
    assert world.machine.fetch("g") == {}
    world.held = False
    world.drain()
    assert world.machine.fetch("g") == {("t", 0): CommittedOffset(7, 3, "note", world.now.wall_ms)}


def test_who_may_commit() -> None:
    world = World()
    assert commit(world, 1) == [ErrorCode.NONE], "no members: anybody"
    assert commit(world, 1, "x", 4) == [ErrorCode.UNKNOWN_MEMBER_ID]
    (leader,) = world.stable(1)
    assert commit(world, 2) == [ErrorCode.UNKNOWN_MEMBER_ID], "members: nobody from outside"
    assert commit(world, 2, leader, 99) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(world, 2, leader, 1) == [ErrorCode.NONE]
    world.join(leader)
    assert commit(world, 3, leader, 2) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_another_coordinator_knows_all_that_was_committed() -> None:
    world = World()
    leader, follower = world.stable(2)
    commit(world, 42, leader, 1)
    heir = World()
    heir.machine.gained(0, 2)
    assert heir.machine.fetch("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    heir.machine.load(0, 2, world.log)
    heir.machine.load(0, 1, [offset_record("g", "t", 0, None)])  # of an epoch that is over
    heir.machine.loaded(0, 2, heir.now)
    offsets = heir.machine.fetch("g")
    assert not isinstance(offsets, ErrorCode) and offsets["t", 0].offset == 42
    group = heir.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    assert sorted(group.members) == sorted([leader, follower]) and group.leader == leader
    assert heir.machine.heartbeat("g", follower, None, group.generation, heir.now) is ErrorCode.NONE
    heir.pass_time(10_001)
    assert not group.members, "members that do not show up after the move expire"


def loaded(*records: tuple[bytes | None, bytes | None]) -> tuple[World, list[str]]:
    """A coordinator that has loaded this log, and what it says of it."""
    world = World()
    world.machine.gained(0, 2)
    strange = world.machine.load(0, 2, records)
    world.machine.loaded(0, 2, world.now)
    return world, strange


def test_a_key_that_means_nothing_here_is_passed_over_when_a_shard_is_loaded() -> None:
    first, later = (offset_record("g", "u", 0, CommittedOffset(offset, -1, "", 5)) for offset in (1, 2))
    heir, strange = loaded(first, (b"\x00\x01\xff", None), (None, b"x"), (b"\x7f\x00", b"x"), later)
    assert len(strange) == 1
    offsets = heir.machine.fetch("g")
    assert not isinstance(offsets, ErrorCode) and offsets["u", 0].offset == 2


LATER_KIND = b"\x00\x03\x00\x01g", b"\x00\x00members of a protocol that is not known here"
LATER_OFFSET = offset_record("g", "t", 0, None)[0], b"\x00\x63of a later release"
LATER_GROUP = group_key("g"), b"\x00\x63of a later release"
KNOWN = offset_record("g", "u", 0, CommittedOffset(1, -1, "", 5))


@pytest.mark.parametrize("foreign", [LATER_KIND, LATER_OFFSET, LATER_GROUP], ids=["kind", "offset", "group"])
def test_nothing_is_written_of_a_group_with_a_record_that_cannot_be_read(foreign: tuple[bytes, bytes]) -> None:
    w, strange = loaded(KNOWN, foreign, foreign)
    assert len(strange) == 1 and "'g'" in strange[0], "one sentence a group"
    machine, refused = w.machine, ErrorCode.UNSUPPORTED_VERSION
    assert w.joined(w.join()).error is refused
    assert machine.commit_error("g", "", None, -1, w.now) is refused
    assert machine.commit_error("g", "", None, -1, w.now, transactional=True) is refused
    told: list[ErrorCode] = []
    machine.delete("g", told.append)
    machine.delete_offsets("g", [("u", 0)], told.append)
    assert told == [refused, refused]
    assert machine.groups() == [] and machine.group("g") is refused
    assert machine.heartbeat("g", "m", None, 1, w.now) is ErrorCode.UNKNOWN_MEMBER_ID
    machine.expire_offsets(Now(w.now.mono_ms, w.now.wall_ms + (1 << 40)))
    machine.tick(Now(1 << 40, w.now.wall_ms + (1 << 40)))
    machine.lost(0)
    assert machine.writes == [] and w.log == []


def test_offsets_of_a_group_of_another_protocol_are_told_and_go_with_their_topic() -> None:
    w, _ = loaded(KNOWN, LATER_KIND)
    assert w.machine.fetch("g") == {("u", 0): CommittedOffset(1, -1, "", 5)}
    w.machine.forget_topic("u")
    w.drain()
    assert w.log == [offset_record("g", "u", 0, None)], "the record that is not known here stays"
    assert w.machine.fetch("g") == {} and w.machine.group("g") is ErrorCode.UNSUPPORTED_VERSION


def test_no_offset_is_told_of_a_group_with_one_that_cannot_be_read() -> None:
    """Whoever is told of none begins somewhere else."""
    w, _ = loaded(offset_record("g", "t", 0, CommittedOffset(7, -1, "", 5)), LATER_OFFSET)
    assert w.machine.fetch("g") is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("foreign", [LATER_KIND, LATER_OFFSET, LATER_GROUP], ids=["kind", "offset", "group"])
def test_a_group_is_itself_again_behind_the_end_of_what_could_not_be_read(foreign: tuple[bytes, bytes]) -> None:
    w, _ = loaded(KNOWN, foreign, (foreign[0], None))
    assert [group.id for group in w.machine.groups()] == ["g"]
    assert w.machine.fetch("g") == {("u", 0): CommittedOffset(1, -1, "", 5)}
    assert w.joined(w.join(version=3)).error is ErrorCode.NONE


def test_members_that_a_log_names_beside_a_record_of_another_protocol_are_left_alone() -> None:
    world = World()
    world.stable(2)
    w, _ = loaded(*world.log, LATER_KIND)
    w.pass_time(1 << 30)
    assert w.log == [] and w.machine.groups() == []


def test_a_deleted_group_leaves_a_tombstone_for_what_a_transaction_has_written() -> None:
    """Else the offset would come back with the next load, when the transaction is committed."""
    w = World()
    commit(w, 5)
    w.machine.commit_transactional("g", (9, 0), [("u", 1, CommittedOffset(1, -1, "", 5))], lambda error: None)
    w.drain()
    w.machine.delete("g", lambda error: None)
    w.drain()
    assert offset_record("g", "u", 1, None) in w.log and offset_record("g", "t", 0, None) in w.log


def test_a_group_with_offsets_in_an_open_transaction_only_is_one() -> None:
    """Apache Kafka lists and deletes it. Here it was not found until the transaction ended."""
    w = World()
    w.machine.commit_transactional("g", (9, 0), [("u", 1, CommittedOffset(1, -1, "", 5))], lambda error: None)
    assert w.machine.group("g") is None, "it is not committed yet"
    w.drain()
    group = w.machine.group("g")
    assert group and not isinstance(group, ErrorCode) and w.machine.kind_of(group).listed(group) == ("", "Empty")
    heir = World()
    heir.machine.gained(0, 2)
    heir.machine.load(0, 2, w.log, 9)
    heir.machine.loaded(0, 2, w.now)
    for world in (w, heir):
        codes: list[ErrorCode] = []
        world.machine.delete("g", codes.append)
        world.drain()
        assert codes == [ErrorCode.NONE] and world.machine.group("g") is None
        assert world.log[-1] == offset_record("g", "u", 1, None), "nothing of it comes back with another coordinator"
        place = world.machine.marker_place(0)
        assert place is not None
        world.machine.transaction_ended(0, 9, True, place)
        assert world.machine.group("g") is None and world.machine.fetch("g") == {}


def test_a_group_whose_transaction_was_aborted_goes_without_a_trace() -> None:
    w = World()
    w.machine.commit_transactional("g", (9, 0), [("u", 1, CommittedOffset(1, -1, "", 5))], lambda error: None)
    w.drain()
    w.machine.expire_offsets(w.now)
    assert w.machine.group("g") is not None, "its transaction is open"
    place = w.machine.marker_place(0)
    assert place is not None
    w.machine.transaction_ended(0, 9, False, place)
    written = len(w.log)
    w.machine.expire_offsets(w.now)
    w.drain()
    assert w.machine.group("g") is None and len(w.log) == written


def test_an_offset_in_a_transaction_goes_with_its_topic() -> None:
    w = World()
    w.machine.commit_transactional("g", (9, 0), [("u", 1, CommittedOffset(1, -1, "", 5))], lambda error: None)
    w.drain()
    w.machine.forget_topic("u")
    w.drain()
    assert w.log[-1] == offset_record("g", "u", 1, None)


def test_who_asks_for_an_assignment_while_the_group_is_loaded_joins_again() -> None:
    w = World()
    (member,) = w.stable(1)
    w.machine.gained(0, 2)
    assert w.synced(w.sync(member, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert w.joined(w.join(member)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_lost_leadership_tells_everybody_to_look_elsewhere() -> None:
    world = World()
    leader, _ = world.stable(2)
    ticket = world.join(leader)
    world.held = True
    assert commit(world, 1, leader, 99) == [ErrorCode.ILLEGAL_GENERATION]
    world.machine.lost(0)
    world.drain()
    assert world.joined(ticket).error is ErrorCode.NOT_COORDINATOR
    assert world.machine.fetch("g") is ErrorCode.NOT_COORDINATOR


def test_deleting_needs_an_empty_group_and_leaves_tombstones() -> None:
    world = World()
    (leader,) = world.stable(1)
    commit(world, 5, leader, 1)
    seen: list[ErrorCode] = []
    world.machine.delete("g", seen.append)
    world.machine.leave("g", [(leader, None)], world.now)
    world.drain()
    world.machine.delete("g", seen.append)
    world.machine.delete("h", seen.append)
    world.drain()
    assert seen == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE]
    assert [value for _, value in world.log[-2:]] == [None, None]
    assert world.machine.group("g") is None and world.machine.fetch("g") == {}


def heir_of(world: World) -> World:
    """Another coordinator, that has loaded what was committed."""
    heir = World()
    heir.machine.gained(0, 2)
    heir.machine.load(0, 2, world.log)
    heir.machine.loaded(0, 2, heir.now)
    heir.drain()
    return heir


def deleting() -> tuple[World, list[ErrorCode]]:
    """An empty group whose removal is written and not committed, and the answers to who asked for that."""
    world = World()
    assert commit(world, 5) == [ErrorCode.NONE]
    world.held = True
    seen: list[ErrorCode] = []
    world.machine.delete("g", seen.append)
    return world, seen


def test_nobody_joins_or_commits_for_a_group_that_is_being_deleted() -> None:
    world, seen = deleting()
    assert world.joined(world.join(version=3)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.machine.heartbeat("g", "m", None, 1, world.now) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.machine.leave("g", [("m", None)], world.now) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert commit(world, 6) == commit(world, 6, "m", 1) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.machine.delete("g", seen.append)
    assert seen == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.held = False
    world.drain()
    assert seen[1:] == [ErrorCode.NONE] and world.machine.group("g") is None
    assert world.joined(world.join(version=3)).generation == 1, "it is a new group then"


def test_a_group_whose_removal_cannot_be_written_goes_on() -> None:
    world, seen = deleting()
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert seen == [ErrorCode.COORDINATOR_NOT_AVAILABLE] and world.machine.fetch("g")
    assert world.joined(world.join(version=3)).error is ErrorCode.NONE


def test_a_commit_in_flight_when_its_group_is_deleted_does_not_come_back_with_another_coordinator() -> None:
    world = World()
    assert commit(world, 5) == [ErrorCode.NONE]
    world.held = True
    seen: list[ErrorCode] = []
    offset = CommittedOffset(7, -1, "", world.now.wall_ms)
    world.machine.commit("g", [("in flight", 0, offset)], seen.append)
    world.machine.delete("g", seen.append)
    world.held = False
    world.drain()
    assert seen == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.machine.fetch("g") == heir_of(world).machine.fetch("g") == {}


def test_a_commit_that_timed_out_is_removed_with_its_group() -> None:
    world = World()
    assert commit(world, 5) == [ErrorCode.NONE]
    world.held = True
    seen: list[ErrorCode] = []
    world.machine.commit("g", [("late", 0, CommittedOffset(7, -1, "", world.now.wall_ms))], seen.append)
    (write,) = world.machine.writes
    world.machine.writes.clear()
    world.machine.written(write.token, ErrorCode.COORDINATOR_NOT_AVAILABLE, world.now)
    world.log.extend(write.records)
    world.held = False
    world.machine.delete("g", seen.append)
    world.drain()
    assert seen == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]
    assert heir_of(world).machine.fetch("g") == {}


def test_offsets_of_an_empty_group_expire() -> None:
    world = World()
    commit(world, 5)
    world.pass_time(999_999)
    world.machine.expire_offsets(world.now)
    world.drain()
    assert world.machine.fetch("g")
    world.pass_time(1)
    world.machine.expire_offsets(world.now)
    world.drain()
    assert world.machine.fetch("g") == {}


def expire(world: World) -> None:
    world.machine.expire_offsets(world.now)
    world.drain()


def offsets_of(world: World) -> set[str]:
    offsets = world.machine.fetch("g")
    assert not isinstance(offsets, ErrorCode)
    return {topic for topic, _ in offsets}


def subscription(*topics: str) -> bytes:
    """A member's metadata in the consumer protocol, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def alive(world: World, ms: int, member: str, generation: int) -> None:
    for _ in range(ms // 9_000 + 1):
        world.pass_time(9_000)
        world.machine.heartbeat("g", member, None, generation, world.now)


def test_a_stable_group_loses_old_offsets_of_topics_that_nobody_subscribes_to() -> None:
    world = World()
    id = world.joined(world.join()).member_id
    answer = world.joined(world.join(id, protocols=[("range", subscription("a", "b"))]))
    assert answer.error is ErrorCode.NONE
    world.sync(id, answer.generation, [(id, b"")])
    for topic in ("a", "left"):
        offset = CommittedOffset(5, -1, "", world.now.wall_ms)
        world.machine.commit("g", [(topic, 0, offset)], lambda error: None)
    world.drain()
    alive(world, 900_000, id, answer.generation)
    expire(world)
    assert offsets_of(world) == {"a", "left"}, "not old enough"
    world.machine.commit("g", [("fresh", 0, CommittedOffset(5, -1, "", world.now.wall_ms))], lambda error: None)
    world.drain()
    alive(world, 100_000, id, answer.generation)
    expire(world)
    assert offsets_of(world) == {"a", "fresh"}
    assert world.machine.group("g")


def test_where_a_members_subscription_cannot_be_read_its_groups_offsets_stay() -> None:
    world = World()
    (member,) = world.stable(1)  # its metadata means nothing
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    assert commit(world, 5, member, group.generation) == [ErrorCode.NONE]
    alive(world, 1_000_000, member, group.generation)
    expire(world)
    assert offsets_of(world) == {"t"}


def test_an_empty_group_without_offsets_goes_and_leaves_a_tombstone() -> None:
    world = World()
    (member,) = world.stable(1)
    expire(world)
    assert world.machine.group("g")
    world.machine.leave("g", [(member, None)], world.now)
    world.drain()
    expire(world)
    assert world.machine.groups() == heir_of(world).machine.groups() == []


def test_a_group_that_only_gave_ids_out_goes_when_they_have_lapsed_without_a_trace() -> None:
    world = World()
    world.join()
    expire(world)
    assert world.machine.group("g"), "whoever has the id may still join"
    world.pass_time(10_000)
    expire(world)
    assert world.machine.groups() == [] and world.log == []


def test_old_offsets_do_not_go_with_a_group_that_commits_again() -> None:
    world = World()
    commit(world, 5)
    world.pass_time(1_000_000)
    world.held = True
    seen = commit(world, 6)
    world.machine.expire_offsets(world.now)
    world.held = False
    world.drain()
    offsets = world.machine.fetch("g")
    assert seen == [ErrorCode.NONE] and not isinstance(offsets, ErrorCode) and offsets["t", 0].offset == 6


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    world = World()
    commit(world, 5)
    world.machine.forget_topic("t")
    world.drain()
    assert world.machine.fetch("g") == {}


def test_offsets_of_a_deleted_topic_whose_removal_failed_go_later() -> None:
    world = World()
    commit(world, 5)
    world.held = True
    world.machine.forget_topic("t")
    (write,) = world.machine.writes
    world.machine.writes.clear()
    world.machine.written(write.token, ErrorCode.COORDINATOR_NOT_AVAILABLE, world.now)
    world.held = False
    world.machine.expire_offsets(world.now, lambda topic: True)
    world.drain()
    assert world.machine.fetch("g"), "a topic of that name is there again"
    world.machine.expire_offsets(world.now, lambda topic: topic != "t")
    world.drain()
    assert world.machine.fetch("g") == heir_of(world).machine.fetch("g") == {}


def test_a_topic_deleted_while_a_shard_is_loading_takes_its_offsets_along() -> None:
    world = World()
    commit(world, 5)
    heir = World()
    heir.machine.gained(0, 2)
    heir.machine.load(0, 2, world.log)
    heir.machine.forget_topic("t")
    heir.machine.loaded(0, 2, heir.now)
    heir.drain()
    assert heir.machine.fetch("g") == {}
    heir.log[:0] = world.log
    assert heir_of(heir).machine.fetch("g") == {}


def test_offsets_of_a_topic_that_was_gone_before_the_shard_was_gained_are_removed() -> None:
    world = World()
    commit(world, 5)
    heir = World()
    heir.machine.gained(0, 2)
    heir.machine.load(0, 2, [*world.log, offset_record("g", "u", 0, CommittedOffset(1, -1, "", 5))])
    heir.machine.loaded(0, 2, heir.now, lambda topic: topic == "u")
    heir.drain()
    offsets = heir.machine.fetch("g")
    assert not isinstance(offsets, ErrorCode) and list(offsets) == [("u", 0)]
    assert [record[1] for record in heir.log] == [None]


def test_a_commit_in_flight_when_its_topic_is_deleted_goes_too() -> None:
    world = World()
    world.held = True
    seen = commit(world, 5)
    world.machine.forget_topic("t")
    later = commit(world, 1)  # for a topic of that name that was made meanwhile
    world.machine.forget_topic("another")
    world.held = False
    world.drain()
    assert seen == later == [ErrorCode.NONE]
    assert [value is None for _, value in world.log] == [False, True, False], "in this order"
    world.machine.forget_topic("t")
    world.drain()
    assert world.machine.fetch("g") == heir_of(world).machine.fetch("g") == {}


def test_java_hash_places_groups_as_kafka_does() -> None:
    # Values of String.hashCode as the JVM computes them.
    assert java_hash("") == 0
    assert java_hash("a") == 97
    assert java_hash("console-consumer-12345") == java_reference("console-consumer-12345")
    assert java_hash("polygenelubricants") == -(1 << 31)
    machine = Coordinator(GroupSettings(50, GroupPolicy(0, 1), 0, 1, 0, 0, CONSUMER, SHARE), NoTopics())
    assert machine.partition_of("polygenelubricants") == 0


def test_a_topic_of_another_size_has_its_groups_elsewhere() -> None:
    world = World(delay_ms=1000)
    world.held = True
    written = commit(world, 5)
    waiting = world.join(version=3)
    assert world.machine.resized(None) == world.machine.resized(1) == []
    assert world.machine.resized(50) == [(0, 1)], "what is led is to be loaded anew"
    world.machine.writes.clear()
    world.drain()
    assert world.joined(waiting).error is ErrorCode.NOT_COORDINATOR and written == [ErrorCode.NOT_COORDINATOR]
    assert world.machine.partition_of("g") == ord("g") % 50
    assert world.machine.resized(None) == [] and world.machine.partition_of("g") == 0


def java_reference(text: str) -> int:
    value = sum(ord(char) * 31 ** (len(text) - 1 - index) for index, char in enumerate(text)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@given(st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_java_hash_agrees_with_its_definition_on_code_units(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    chars = "".join(chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2))
    assert java_hash(text) == java_reference(chars)


def test_records_round_trip() -> None:
    world = World()
    world.stable(2)
    group = world.machine.group("g")
    assert group and not isinstance(group, ErrorCode)
    line = read(READERS, *group_record(group))
    assert isinstance(line, GroupLine) and line.data is not None
    assert {m.id: (m.assignment, m.protocols) for m in line.data.members.values()} == {
        m.id: (m.assignment, [("range", m.metadata("range"))]) for m in group.members.values()
    }, "of the protocols the chosen one is written"
    committed = CommittedOffset(1 << 40, -1, "é", 5)
    assert read(READERS, *offset_record("g", "t", 3, committed)) == OffsetLine("g", "t", 3, committed)
    assert read(READERS, b"\x00\x07abc", None) is None, "it names no group"
    assert read(READERS, b"\x00\x07\x00\x01g rest", None) == ForeignLine(
        "g", b"\x00\x07\x00\x01g rest", True, None, ANY
    )


def test_a_member_says_no_more_of_itself_than_there_is_room_for() -> None:
    """What members say is kept for as long as they are members: it is charged, refused above the bound, and given back."""
    w = World()
    account = w.machine.kinds.classic.account
    account.bytes_max = 100_000
    long = [("range", b"x" * 60_000)]
    first = w.verdicts[w.join("", version=3, fresh="a", protocols=long)]
    assert first.error is ErrorCode.NONE and account.bytes > 60_000
    full = w.verdicts[w.join("", version=3, fresh="b", protocols=long)]
    assert full.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    w.join("", version=3, fresh="c", protocols=[("range", b"x")])
    again = w.join("a", protocols=long)
    assert again not in w.verdicts or w.verdicts[again].error is ErrorCode.NONE, "it takes the room that it has"
    before = account.bytes
    w.machine.leave("g", [("a", None), ("c", None)], w.now)
    w.drain()
    assert before > 60_000 and account.bytes == 0
    account._ledger.check()


def test_members_of_a_group_that_was_read_from_the_log_take_no_room_of_others_until_they_speak() -> None:
    w = World()
    joined = w.join("", version=3, fresh="a", protocols=[("range", b"x" * 50_000)])
    generation = w.verdicts[joined].generation  # type: ignore[union-attr]
    w.sync("a", generation, [("a", b"y" * 20_000)])
    later = Coordinator(w.machine.settings, NoTopics())
    later.gained(0, 1)
    later.load(0, 1, [(key, value) for key, value in w.log])
    later.loaded(0, 1, w.now)
    account = later.kinds.classic.account
    assert account.bytes > 70_000 and account.by_principal.keys() == {""}
    request = JoinRequest(
        9, "a", None, "c", "/h", 30_000, 10_000, "consumer", [("range", b"x" * 40_000)], "z", principal="User:a"
    )
    later.join("g", 1, request, w.now)
    assert account.by_principal.keys() == {"User:a"}
    later.lost(0)
    assert not account.bytes
    account._ledger.check()
