"""Groups that change their protocol while they have members: what is refused, what survives, and who owns what meanwhile."""

import random
import time
from collections.abc import Iterator

import pytest

from actors.broker.groups import embedded
from actors.broker.groups.classic.state import Group as ClassicGroup
from actors.broker.groups.classic_requests import Joined, Synced
from actors.broker.groups.consumer.requests import ConsumerBeat
from actors.wire.errors import ErrorCode
from actors.wire.limits import PARTITIONS_MAX
from actors.wire.messages import encode, message
from tests.unit.broker.groups.consumer.world import World, assignment_bytes, subscription_bytes

CLASSIC = 2


def classic_group(world: World, members: dict[str, dict[str, tuple[int, ...]]]) -> int:
    """A stable classic group, in which each member has this; its generation."""
    for name in members:
        world.classic_join(name, "t")
    for name in list(members)[:-1]:
        world.classic_join(name, "t", known=True)
    group = world.machine.group("g")
    assert isinstance(group, ClassicGroup) and group.leader is not None
    for name in members:
        world.classic_sync(name, group.generation, members)
    assert group.state.value == "Stable"
    return group.generation


def joined(world: World, ticket: int) -> Joined:
    found = world.answers[ticket]
    assert isinstance(found, Joined)
    return found


def test_the_log_has_one_form_of_a_group_that_has_changed() -> None:
    world = World(t=4)
    classic_group(world, {"a": {"t": (0, 1)}, "b": {"t": (2, 3)}})
    world.kinds()
    assert world.join("c", "t").error is ErrorCode.NONE
    written = world.kinds()
    assert written[0] == -CLASSIC and all(kind > 0 for kind in written[1:])
    assert world.heir().group().state() == "Reconciling"
    world.beat("c", -1)
    written = world.kinds()
    assert written[-1] == CLASSIC and {kind for kind in written[:-1] if kind > 0} == set()
    heir = world.heir().machine
    group = heir.group("g")
    assert isinstance(group, ClassicGroup) and set(group.members) == {"a", "b"}
    assert heir.groups("consumer") == []


@pytest.mark.parametrize(
    ("assignment", "metadata"),
    [
        (assignment_bytes({"t": (0,)}, b"sticky"), None),
        (b"\0\1\0\0\0\7", None),
        (b"\0", None),
        (assignment_bytes({"t": (0,)}), b"\0\1\0\0\0\1\0\7t"),
        (assignment_bytes({"t": (0,)}), b""),
    ],
    ids=["custom", "cut", "short", "cut-metadata", "no-metadata"],
)
def test_a_group_whose_bytes_cannot_be_kept_stays_classic(assignment: bytes, metadata: bytes | None) -> None:
    world = World(t=2)
    world.classic_join("a", "t", metadata=metadata)
    world._ticket += 1
    world.machine.sync("g", world._ticket, "a", None, 1, "consumer", "range", [("a", assignment)], world.now)
    world.drain()
    world.kinds()
    beat = world.join("b", "t")
    assert beat.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "Cannot upgrade classic group g to consumer group" in str(beat.message)
    assert world.kinds() == [] and world.classic_heartbeat("a", 1) is ErrorCode.NONE


def test_what_an_assignment_says_beyond_the_topics_is_left_out_and_nothing_is_held_twice() -> None:
    world = World(t=2)
    classic_group(world, {"a": {"t": (0, 1, 9), "gone": (0,)}, "b": {"t": (1,)}})
    world.join("c", "t")
    held = {id: dict(member.current.assigned) for id, member in world.group().members.items()}
    flat = sorted(n for parts in held.values() for numbers in parts.values() for n in numbers)
    assert flat == [0, 1]


def test_members_that_wait_in_a_classic_group_are_told_to_join_anew() -> None:
    world = World(t=2)
    classic_group(world, {"a": {"t": (0, 1)}})
    waiting = world.classic_join("b", "t")
    assert waiting not in world.answers
    world.join("c", "t")
    assert joined(world, waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = joined(world, world.classic_join("b", "t"))
    assert (again.error, again.members, again.protocol) == (ErrorCode.NONE, (), "range")


def test_sizes_of_both_forms_are_limits() -> None:
    world = World(t=2, size_max=2)
    classic_group(world, {"a": {"t": (0,)}, "b": {"t": (1,)}, "d": {}})
    assert "group.consumer.max.size (2)" in str(world.join("c", "t").message)
    world.classic_leave("d")
    world.classic_join("a", "t", known=True), world.classic_join("b", "t", known=True)
    assert world.join("c", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(world.machine.find("g"), ClassicGroup), "a refused member changes nothing"
    other = World(t=2, classic_max=1)
    for name in ("a", "b"):
        other.join("n", "t")
        other.classic_join(name, "t")
    other.beat("n", -1)
    assert other.group().classic_members == 2, "too many for a classic group"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"protocols": ("other",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\0\1\0\0"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "one", "known": True}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "static", "known": True}, ErrorCode.FENCED_INSTANCE_ID),
        ({"version": 4}, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_joins_that_are_refused(more: dict[str, object], error: ErrorCode) -> None:
    world = World(t=2)
    world.join("n", "t")
    world.classic_join("a", "t", protocols=("range", "cooperative-sticky"))
    world.classic_join("s", "t", instance="static")
    answer = joined(world, world.classic_join("x", "t", **more))  # type: ignore[arg-type]
    assert answer.error is error and "x" not in world.group().members
    if error is ErrorCode.MEMBER_ID_REQUIRED:
        assert answer.member_id == "x"


def test_requests_of_members_that_are_none_or_not_classic_are_refused() -> None:
    world = World(t=2)
    world.join("n", "t")
    world.classic_join("a", "t", instance="one")
    epoch = world.group().members["a"].current.epoch
    machine, now = world.machine, world.now
    assert machine.heartbeat("g", "n", None, 2, now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.heartbeat("g", "x", None, 2, now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.heartbeat("g", "a", "two", epoch, now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.heartbeat("g", "b", "one", epoch, now) is ErrorCode.FENCED_INSTANCE_ID
    assert machine.heartbeat("g", "a", "one", epoch - 1, now) is ErrorCode.ILLEGAL_GENERATION
    for ticket, protocol, wanted in (
        (901, "range", ErrorCode.NONE),
        (902, "roundrobin", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ):
        machine.sync("g", ticket, "a", "one", epoch, "consumer", protocol, [], now)
        world.drain()
        found = world.answers[ticket]
        assert isinstance(found, Synced) and found.error is wanted


def test_offsets_are_committed_and_fetched_in_the_generation() -> None:
    world = World(t=2)
    classic_group(world, {"a": {"t": (0, 1)}})
    world.join("c", "t")
    machine, now = world.machine, world.now
    assert machine.commit_error("g", "a", None, 1, now) is ErrorCode.NONE
    assert machine.commit_error("g", "a", None, 7, now) is ErrorCode.ILLEGAL_GENERATION
    world.classic_join("a", "t", known=True)
    epoch = world.group().members["a"].current.epoch
    assert epoch > 1 and machine.commit_error("g", "a", None, 1, now) is ErrorCode.STALE_MEMBER_EPOCH
    assert machine.stale_error("g", "a") is ErrorCode.ILLEGAL_GENERATION
    assert machine.stale_error("g", "c") is ErrorCode.STALE_MEMBER_EPOCH
    assert machine.fetch_error("g", "a", 1) is ErrorCode.ILLEGAL_GENERATION
    assert machine.fetch_error("g", "a", epoch) is ErrorCode.NONE


def test_a_change_that_could_not_be_written_is_written_with_the_next() -> None:
    world = World(t=2)
    classic_group(world, {"a": {"t": (0, 1)}})
    world.held = True
    ticket = world.beat("c", 0, {}, ("t",), rebalance_ms=60_000)
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.answer(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.join("c", "t").error is ErrorCode.NONE
    assert set(world.heir().group().members) == {"a", "c"} and world.heir().machine.group("g") is None
    world.held = True
    ticket = world.beat("c", -1)
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.answer(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.classic_join("a", "t", known=True)
    group = world.machine.group("g")
    assert isinstance(group, ClassicGroup)
    world.classic_sync("a", group.generation, {"a": {"t": (0, 1)}})
    heir = world.heir().machine
    assert heir.groups("consumer") == [] and isinstance(heir.group("g"), ClassicGroup)
    assert group.former == {}


def test_removals_that_were_under_way_when_the_group_became_classic_are_written_again() -> None:
    world = World(t=2)
    world.join("n", "t"), world.join("o", "t")
    world.classic_join("a", "t")
    world.held = True
    world.beat("n", -1), world.beat("o", -1)
    assert world.machine.group("g") is not None
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group = world.machine.group("g")
    assert isinstance(group, ClassicGroup)
    world.classic_join("a", "t", known=True)
    world.classic_sync("a", group.generation, {"a": {"t": (0, 1)}})
    assert world.heir().machine.groups("consumer") == []


def test_a_join_that_waits_for_an_assignment_hears_that_the_group_is_classic() -> None:
    world = World(t=2)
    world.join("n", "t")
    world.idle = True
    waiting = world.classic_join("a", "t")
    assert waiting not in world.answers
    world.beat("n", -1)
    assert joined(world, waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.idle = False
    world.drain()


def test_a_classic_member_is_told_of_another_assignment_before_it_has_asked_for_this_one() -> None:
    world = World(t=2)
    world.join("n", "t")
    answer = joined(world, world.classic_join("a", "t"))
    world.join("o", "t")
    ticket = world.classic_sync("a", answer.generation)
    assert world.answers[ticket].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_never_asks_for_its_assignment_is_removed() -> None:
    world = World(t=2)
    world.join("n", "t")
    answer = joined(world, world.classic_join("a", "t", rebalance_ms=12_000))
    world.beat("n", 2, {"t": (0, 1)})
    world.pass_ms(6_000)
    world.classic_heartbeat("a", answer.generation)
    world.pass_ms(5_999)
    assert "a" in world.group().members
    world.classic_heartbeat("a", answer.generation)
    world.pass_ms(1)
    assert "a" not in world.group().members


def test_what_a_classic_member_still_uses_goes_to_nobody_when_its_group_changes_to_and_fro() -> None:
    """A coordinator that dies between forgets that all were to join anew (simulator, `migrating` 6203055)."""
    world = World(t=2)
    classic_group(world, {"a": {"t": (0, 1)}})
    world.join("n", "t")
    world.beat("n", -1)
    heir = world.heir()
    group = heir.machine.group("g")
    assert isinstance(group, ClassicGroup) and embedded.Embedded().assignment(group.members["a"].assignment) == {
        "t": {0, 1}
    }
    again = heir.join("n", "t")
    assert again.error is ErrorCode.NONE and not heir.assigned(again)
    assert {member.id: member.current.held for member in heir.group().members.values()}["a"] == {
        heir.topics.id("t"): {0, 1}
    }


def test_a_classic_group_that_is_deleted_takes_its_former_records_along() -> None:
    world = World(t=2)
    world.join("n", "t")
    world.classic_join("a", "t")
    world.held = True
    world.beat("n", -1)
    world.held = False
    world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.classic_leave("a")
    codes: list[ErrorCode] = []
    world.machine.delete("g", codes.append)
    world.drain()
    heir = world.heir().machine
    assert codes == [ErrorCode.NONE] and heir.find("g") is None


# ---- who owns what


class Client:
    """A consumer of one protocol or the other. `owned`: the partitions of t that it reads now."""

    def __init__(self, world: World, name: str, classic: bool) -> None:
        self.world, self.name, self.classic = world, name, classic
        self.epoch = 0
        self.owned: set[int] = set()
        self.ticket = 0
        self.joining = self.syncing = False

    def lose(self) -> None:
        self.owned, self.epoch = set(), 0

    def step(self) -> None:
        if self.classic:
            self._classic()
        else:
            self._beat()

    def _beat(self) -> None:
        owned = {"t": tuple(sorted(self.owned))} if self.owned else {}
        told = ("t",) if self.epoch == 0 else None
        ticket = self.world.beat(self.name, self.epoch, owned, told, rebalance_ms=60_000 if self.epoch == 0 else -1)
        answer = self.world.answers[ticket]
        assert isinstance(answer, ConsumerBeat)
        if answer.error is not ErrorCode.NONE:
            self.lose()
            return
        self.epoch = answer.epoch
        if answer.assigned is not None:
            self.owned = {n for numbers in answer.assigned.values() for n in numbers}

    def _classic(self) -> None:
        if self.ticket:
            self._answered()
        elif self.epoch == 0:
            self._join()
        else:
            error = self.world.classic_heartbeat(self.name, self.epoch)
            if error is ErrorCode.REBALANCE_IN_PROGRESS:
                self.owned = set()  # an eager consumer lets go of all before it joins
                self._join()
            elif error is not ErrorCode.NONE:
                self.lose()

    def _join(self) -> None:
        known = self.epoch != 0
        if not known:
            self.world.classic_leave(self.name)  # this world gives it the same id again
        self.ticket, self.joining = self.world.classic_join(self.name, "t", known=known), True

    def _answered(self) -> None:
        found = self.world.answers.get(self.ticket)
        if found is None:
            return
        self.ticket = 0
        if found.error is not ErrorCode.NONE:
            if found.error is not ErrorCode.REBALANCE_IN_PROGRESS:
                self.lose()
            elif self.joining:
                self._join()
            else:
                self._join()
        elif isinstance(found, Joined):
            self.epoch, self.joining = found.generation, False
            ids = [id for id, _, _ in found.members]
            given = {id: {"t": tuple(range(place, 6, len(ids)))} for place, id in enumerate(ids)}
            self.ticket = self.world.classic_sync(self.name, self.epoch, given)
        elif isinstance(found, Synced):
            self.owned = set(embedded.Embedded().assignment(found.assignment).get("t", ()))

    def leave(self) -> None:
        if self.ticket:
            return
        self.owned = set()
        if self.classic:
            self.world.classic_leave(self.name)
        elif self.epoch:
            self.world.beat(self.name, -1)
        self.epoch = 0


def names() -> Iterator[str]:
    return iter([f"m{number}" for number in range(10_000)])


@pytest.mark.parametrize("seed", range(40))
def test_a_partition_has_one_owner_while_a_group_changes_its_protocol(seed: int) -> None:
    draw, world, fresh = random.Random(seed), World(t=6), names()
    clients = [Client(world, next(fresh), classic=True) for _ in range(3)]
    changes = 0
    form = "classic"
    for _ in range(250):
        kind = draw.random()
        if kind < 0.06 and len(clients) < 6:
            clients.append(Client(world, next(fresh), classic=draw.random() < 0.5))
        elif kind < 0.12 and len(clients) > 1:
            gone = draw.choice(clients)
            if not gone.ticket:
                gone.leave()
                clients.remove(gone)
        elif kind < 0.14:
            world.pass_ms(100)
        else:
            draw.choice(clients).step()
        owners: dict[int, str] = {}
        for client in clients:
            for partition in client.owned:
                assert owners.setdefault(partition, client.name) == client.name, f"two read {partition}"
        found = world.machine.find("g")
        if found is not None and found.type != form:
            form, changes = found.type, changes + 1
    for _ in range(30):
        for client in clients:
            client.step()
    owned = sorted(partition for client in clients for partition in client.owned)
    assert owned == list(range(6)), "in the end each partition has one owner"
    assert changes, "the group changes its form"


def test_metadata_of_any_version_is_read() -> None:
    told = embedded.Embedded().subscription(subscription_bytes(("u", "t", "t"), {"t": (1, 2)}))
    assert told == embedded.Subscribed(("t", "u"), {"t": frozenset((1, 2))}, None)
    newest = b"\0\7" + subscription_bytes(("t",), {})[2:] + b"\0\0\0\5" + b"\0\1r" + b"what comes later"
    assert embedded.Embedded().subscription(newest) == embedded.Subscribed(("t",), {}, "r")
    oldest = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    assert embedded.Embedded().subscription(oldest) == embedded.Subscribed(("t",), {}, None)
    assert embedded.Embedded().assignment(embedded.assignment_bytes(oldest, {"t": frozenset((2, 1))})) == {
        "t": frozenset((1, 2))
    }


def test_a_member_that_says_more_than_a_request_may_is_refused() -> None:
    """Eight megabytes of metadata name a million partitions, which nobody has counted: they came as bytes."""
    world = World(t=2)
    assert world.join("b", "t").error is ErrorCode.NONE
    for entries, error in (
        (PARTITIONS_MAX - 2, ErrorCode.NONE),
        (PARTITIONS_MAX, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ):
        metadata = subscription_bytes(("t",), {"t": (0,) * entries})
        assert joined(world, world.classic_join("a", "t", metadata=metadata)).error is error


def test_a_group_whose_members_say_too_much_together_stays_classic() -> None:
    world = World(t=2)
    many = embedded.GROUP_ENTRIES_MAX // 2
    for name in ("a", "b"):
        world.classic_join(name, "t", metadata=subscription_bytes(("t",), {"t": (0,) * many}))
    world.classic_join("a", "t", known=True, metadata=subscription_bytes(("t",), {"t": (0,) * many}))
    group = world.machine.group("g")
    assert isinstance(group, ClassicGroup)
    for name in ("a", "b"):
        world.classic_sync(name, group.generation, {"a": {"t": (0,)}, "b": {"t": (1,)}})
    beat = world.join("c", "t")
    assert beat.error is ErrorCode.GROUP_ID_NOT_FOUND and "more than 500000 topics" in str(beat.message)
    assert isinstance(world.machine.group("g"), ClassicGroup)
    world.classic_join("b", "t", known=True)
    world.classic_join("a", "t", known=True)
    for name in ("a", "b"):
        world.classic_sync(name, group.generation, {"a": {"t": (0,)}, "b": {"t": (1,)}})
    assert world.join("c", "t").error is ErrorCode.NONE


def test_many_members_of_many_topics_say_more_together_than_a_request_may() -> None:
    """250 consumers of a thousand topics, as a pattern finds them, with a cooperative assignor: each names all topics."""
    world = World(classic_max=250, **{f"topic_{number}": 1 for number in range(1_000)})
    names = tuple(world.topics.sizes)
    members = {f"m{place}": {name: (0,) for name in names[place::250]} for place in range(250)}
    said = {id: subscription_bytes(names, owned) for id, owned in members.items()}
    for known in (False, True):
        for id, metadata in said.items():
            world.classic_join(id, known=known, metadata=metadata)
    group = world.machine.group("g")
    assert isinstance(group, ClassicGroup) and len(group.members) == 250
    for id in members:
        world.classic_sync(id, group.generation, members)
    assert world.join("new", names[0]).error is ErrorCode.NONE
    changed = world.group()
    assert len(changed.members) == 251 and len(changed.members["m7"].subscription.topics) == 1_000


def test_the_same_topic_again_and_again_is_not_gone_through_each_time() -> None:
    kind = message("ConsumerProtocolSubscription")
    again = [kind.TopicPartition(topic="t", partitions=[number]) for number in range(PARTITIONS_MAX // 2 - 1)]
    metadata = b"\0\1" + encode(kind(topics=[], user_data=None, owned_partitions=again), 1)
    began = time.process_time()
    told = embedded.Embedded().subscription(metadata)
    assert len(told.owned["t"]) == len(again)
    assert time.process_time() - began < 10, "a minute, if all that came before are copied for each"
