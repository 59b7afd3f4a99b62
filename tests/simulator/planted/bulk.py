"""Worlds in which the controller's bulk work goes in many small slices: a slice is a few partitions, and little may be
ahead of what is committed. Brokers die together, and controllers die amid the work that this makes.

The mistakes here are planted where a slice ends and the next one begins, where brokers share a pass, and where a new
controller goes on with what the old one left.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actors.controller.brokers import fencing
from actors.controller.brokers.fencing import Slice
from actors.controller.partitions.partition_changes import PartitionChange, choose_leader, leave
from actors.controller.soft_state import Soft, Usable
from actors.controller.state import Result, State
from actors.metadata.image import Image
from actors.node.roles.controller import role
from actors.node.roles.controller.role import ControllerRole
from fastpath.image.blocks import Block
from tests.simulator.planted.aimed import AimedFaults
from tests.simulator.planted.registry import Patch, instead, mistake

SLICE_COST = 3
AHEAD_BYTES = 400
AMONG = 3
"""At most so many partitions are looked at in a slice where each is judged by itself."""
MENU = {"die together": 8, "kill": 3, "controllers lose power": 3, "short reigns": 2, "controller alone": 2, "slow link": 2,
        "follower freezes": 2, "orderly restart": 3, "leader falls behind": 2}  # fmt: skip


class TogetherFaults(AimedFaults):
    """The aimed faults, and brokers that die together."""

    def _more(self) -> dict[str, Any]:
        return {**super()._more(), "die together": self.die_together}

    def die_together(self) -> bool:
        """Two brokers or more are killed at once, or one soon after the other; sometimes the active controller dies
        amid what this makes."""
        free = self._free_brokers()
        if len(free) < 2:
            return False
        self.choose.shuffle(free)
        for number, process in enumerate(free[: self._between(2, len(free))]):
            late_ms = 0 if number == 0 else self.choose.choice((0, 0, 1, 3, 10))
            self._after(late_ms, lambda process=process: self._killed_too(process))
        active = self.cluster.active()
        if active is not None and self.choose.randrange(2):
            self._after(self._between(1, 400), lambda: self._kill(active, "amid bulk work"))
        return True

    def _killed_too(self, process: Any) -> None:
        if process in self._free_brokers():
            self._kill(process, "together with others")


def small() -> Sequence[Patch]:
    """Small slices, and little that may be ahead."""
    return [instead(fencing, "SLICE_COST", SLICE_COST), instead(role, "AHEAD_BYTES_MAX", AHEAD_BYTES)]


def _one_by_one(
    image: Image,
    leaving: Any,
    usable: Any,
    from_row: int,
    cost_max: int,
    one_epoch: bool,
    aside: Any = (),
    judges_last: Any = None,
) -> tuple[Block, list[int], int, int]:
    """A pass that changes nothing itself and lists all partitions."""
    end = min(from_row + AMONG, image.row_end)
    rows = [row for row in range(from_row, end) if image.is_partition(row)]
    return Block(), rows, end if end < image.row_end else -1, AMONG


def _judged(judge: Any) -> Sequence[Patch]:
    """Departures that are judged by a function in the place of `leave`."""
    return [instead(fencing, "departures", _one_by_one), instead(fencing, "leave", judge)]


@mistake("bulk")
def fenced_after_the_first_slice() -> Sequence[Patch]:
    """A broker is fenced when the first slice of the partitions that it leaves is done."""
    fence = fencing.fence

    def hasty(state: State, wanted: None, now: Any, random: Any) -> Result:
        result = fence(state, wanted, now, random)
        ops, ended = [*result.ops], [*result.reply.ended]
        for broker in [*state.soft.leaving]:
            registered = state.image.broker(broker)
            if registered is not None and not registered.fenced:
                ops.append(state.family.fenced(broker, registered.epoch))
            del state.soft.leaving[broker]
            ended.append(broker)
        state.soft.leaving_row = 0
        return result._replace(ops=ops, reply=Slice(tuple(ended), result.reply.cost))

    return [instead(fencing, "fence", hasty)]


@mistake("bulk")
def pass_is_not_gone_round() -> Sequence[Patch]:
    """A broker that joins the pass of others is done with its last partition, whatever came before it joined."""
    fence = fencing.fence

    def short(state: State, wanted: None, now: Any, random: Any) -> Result:
        row = state.soft.leaving_row
        for broker, departure in [*state.soft.leaving.items()]:
            if departure.from_row < 0 < row:
                state.soft.leaving[broker] = departure._replace(from_row=row, around=True)
        return fence(state, wanted, now, random)

    return [instead(fencing, "fence", short)]


@mistake("bulk")
def last_members_that_leave_together_are_replaced() -> Sequence[Patch]:
    """Where all members of an ISR leave at once, a replica outside of it leads."""

    def replaced(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        image = state.image
        if image.isr(row) and set(image.isr(row)) <= set(brokers):
            usable = state.soft.usable(image).ids - set(brokers)
            heir = choose_leader(image.replicas(row), image.replicas(row), usable)
            if heir >= 0:
                return PartitionChange(row, (heir,), heir)
        return leave(state, row, brokers)

    return _judged(replaced)


@mistake("bulk")
def all_members_that_leave_together_stay() -> Sequence[Patch]:
    """Where all members of an ISR leave at once, none of them leaves it."""

    def stay(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        image = state.image
        if len(image.isr(row)) > 1 and set(image.isr(row)) <= set(brokers):
            return PartitionChange(row, image.isr(row), -1) if image.leader(row) >= 0 else None
        return leave(state, row, brokers)

    return _judged(stay)


@mistake("bulk")
def only_the_first_of_several_leaves() -> Sequence[Patch]:
    """Of several brokers that leave an ISR together only the first one is taken out."""

    def first(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        mine = next((broker for broker in brokers if broker in state.image.isr(row)), -1)
        return leave(state, row, {mine: brokers[mine]}) if mine >= 0 else None

    return _judged(first)


@mistake("bulk")
def leader_that_leaves_goes_on() -> Sequence[Patch]:
    """A broker that leaves together with others stays the leader."""

    def goes_on(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        change = leave(state, row, brokers)
        leader = state.image.leader(row)
        if change is not None and len(brokers) > 1 and leader in brokers and leader in change.isr:
            change = change._replace(leader=leader)
        return change

    return _judged(goes_on)


@mistake("bulk")
def one_that_leaves_takes_over() -> Sequence[Patch]:
    """The next leader of a partition may be a broker that is leaving too."""

    def usable(soft: Soft, image: Image) -> Usable:
        found = ordinary(soft, image)
        gone = [broker for broker in soft.leaving if image.is_unfenced(broker)]
        return found._replace(ids=found.ids | frozenset(gone))

    ordinary = Soft.usable

    def heir(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        change = leave(state, row, {next(iter(brokers)): False})
        return change

    return [*_judged(heir), instead(Soft, "usable", usable)]


@mistake("bulk")
def search_ends_with_its_first_slice() -> Sequence[Patch]:
    """Of the partitions that have no leader only the first slice is looked at when a broker comes back."""
    come_back = fencing.come_back

    def first_slice(state: State, wanted: None, now: Any, random: Any) -> Result:
        result = come_back(state, wanted, now, random)
        state.soft.search = None
        return result

    return [instead(fencing, "come_back", first_slice)]


@mistake("bulk")
def search_skips_where_a_slice_ends() -> Sequence[Patch]:
    """The next slice of a search begins one partition too late."""
    elections = fencing.elections

    def skipping(*given: Any) -> Any:
        block, judged, next_row, cost = elections(*given)
        return block, judged, next_row + 1 if 0 <= next_row < given[3] - 1 else next_row, cost

    return [instead(fencing, "elections", skipping)]


@mistake("bulk")
def new_controller_looks_for_nobody() -> Sequence[Patch]:
    """A new active controller gives no leader to the partitions that the old one left without one."""
    gained = ControllerRole.gained

    def begins(self: ControllerRole, epoch: int, next_offset: int) -> None:
        gained(self, epoch, next_offset)
        self.soft.electing = {}

    return [instead(ControllerRole, "gained", begins)]


@mistake("bulk")
def committed_bytes_stay_ahead() -> Sequence[Patch]:
    """What was ahead of the high watermark counts as ahead for ever, so bulk work waits for ever."""
    committed = ControllerRole.committed

    def counted(self: ControllerRole, high_watermark: int) -> None:
        size = self._flushed_bytes
        committed(self, high_watermark)
        self._flushed_bytes = size

    return [instead(ControllerRole, "committed", counted)]


@mistake("bulk")
def elected_under_the_same_epoch() -> Sequence[Patch]:
    """A broker that comes back leads under the leader epoch in which nobody led."""
    elections = fencing.elections

    def same_epoch(image: Image, *given: Any) -> Any:
        block, judged, next_row, cost = elections(image, *given)
        same = Block()
        for one in block:
            row = image.partition(image.topic_row(one.topic_id), one.number)
            epochs = image.leader_epoch(row), image.partition_epoch(row)
            same.append(one.topic_id, one.number, None, one.isr, one.leader, *epochs)
        return same, judged, next_row, cost

    return [instead(fencing, "elections", same_epoch)]


@mistake("bulk")
def who_comes_back_late_is_forgotten() -> Sequence[Patch]:
    """A broker that comes back while a search is under way is not looked for when that has ended."""
    come_back = fencing.come_back

    def forgetting(state: State, wanted: None, now: Any, random: Any) -> Result:
        if state.soft.search is not None:
            state.soft.electing.clear()
        return come_back(state, wanted, now, random)

    return [instead(fencing, "come_back", forgetting)]


@mistake("bulk")
def departure_is_lost_when_others_end() -> Sequence[Patch]:
    """When a departure ends, those that have joined its pass end with it."""
    fence = fencing.fence

    def losing(state: State, wanted: None, now: Any, random: Any) -> Result:
        result = fence(state, wanted, now, random)
        if result.reply.ended:
            state.soft.leaving.clear()
            state.soft.leaving_row = 0
        return result

    return [instead(fencing, "fence", losing)]
