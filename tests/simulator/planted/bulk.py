"""Worlds in which the controller's bulk work goes in many small slices: a slice is a few partitions, and little may be
ahead of what is committed. Brokers die together, and controllers die amid the work that this makes.

The mistakes here are planted where a slice ends and the next one begins, where brokers share a pass, and where a new
controller goes on with what the old one left.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actors.controller.brokers import fencing_passes
from actors.controller.partitions.leader_election import PartitionChange, choose_leader, leave
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
    return [instead(fencing_passes, "SLICE_COST", SLICE_COST), instead(role, "AHEAD_BYTES_MAX", AHEAD_BYTES)]


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


def _same_epochs(image: Image, block: Block) -> Block:
    """The changes under the epochs that the partitions have."""
    same = Block()
    for one in block:
        row = image.partition(image.topic_row(one.topic_id), one.number)
        epochs = image.leader_epoch(row), image.partition_epoch(row)
        same.append(one.topic_id, one.number, None, one.isr, one.leader, *epochs)
    return same


def _judged(judge: Any) -> Sequence[Patch]:
    """Departures that are judged by a function in the place of `leave`."""
    return [instead(fencing_passes, "departures", _one_by_one), instead(fencing_passes, "leave", judge)]


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
def search_ends_with_its_first_slice() -> Sequence[Patch]:
    """Of the partitions that have no leader only the first slice is looked at when a broker comes back."""
    come_back = fencing_passes.come_back

    def first_slice(state: State, wanted: None, now: Any, random: Any) -> Result:
        result = come_back(state, wanted, now, random)
        state.soft.search = None
        return result

    return [instead(fencing_passes, "come_back", first_slice)]


@mistake("bulk")
def search_skips_where_a_slice_ends() -> Sequence[Patch]:
    """The next slice of a search begins one partition too late."""
    elections = fencing_passes.elections

    def skipping(*given: Any) -> Any:
        block, judged, next_row, cost = elections(*given)
        return block, judged, next_row + 1 if 0 <= next_row < given[3] - 1 else next_row, cost

    return [instead(fencing_passes, "elections", skipping)]


@mistake("bulk")
def committed_bytes_stay_ahead() -> Sequence[Patch]:
    """What was ahead of the high watermark counts as ahead for ever, so bulk work waits for ever."""
    committed = ControllerRole.committed

    def counted(self: ControllerRole, high_watermark: int) -> None:
        size = self._ahead_bytes
        committed(self, high_watermark)
        self._ahead_bytes = size

    return [instead(ControllerRole, "committed", counted)]


@mistake("bulk")
def elected_under_the_same_epoch() -> Sequence[Patch]:
    """A broker that comes back leads under the leader epoch in which nobody led."""
    elections = fencing_passes.elections

    def same_epoch(image: Image, *given: Any) -> Any:
        block, judged, next_row, cost = elections(image, *given)
        return _same_epochs(image, block), judged, next_row, cost

    return [instead(fencing_passes, "elections", same_epoch)]


@mistake("bulk")
def departure_brings_others_in() -> Sequence[Patch]:
    """When brokers leave an ISR all other living replicas come into it, whatever they lack."""

    def all_others(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        change = leave(state, row, brokers)
        if change is None or change.leader < 0:
            return change
        usable = state.soft.usable(state.image).ids
        members = tuple(one for one in state.image.replicas(row) if one in usable and one not in brokers)
        return change._replace(isr=members)

    return _judged(all_others)


@mistake("bulk")
def departure_keeps_the_partition_epoch() -> Sequence[Patch]:
    """The ISR that brokers have left has the partition epoch of the ISR before."""
    departures = fencing_passes.departures

    def same_epoch(image: Image, *given: Any) -> Any:
        block, judged, next_row, cost = departures(image, *given)
        return _same_epochs(image, block), judged, next_row, cost

    return [instead(fencing_passes, "departures", same_epoch)]


@mistake("bulk")
def search_elects_out_of_all_replicas() -> Sequence[Patch]:
    """A search gives a partition the first living replica as its leader, in sync or not."""

    def listed(
        image: Image, usable: Any, from_row: int, to_row: int, cost_max: int, unclean: Any, aside: Any = ()
    ) -> tuple[Block, list[int], int, int]:
        end = min(from_row + AMONG, to_row)
        rows = [row for row in range(from_row, end) if image.is_partition(row) and image.leader(row) < 0]
        return Block(), rows, end if end < to_row else -1, AMONG

    def first_living(state: State, row: int) -> PartitionChange | None:
        replicas = state.image.replicas(row)
        leader = choose_leader(replicas, replicas, state.soft.usable(state.image).ids)
        return PartitionChange(row, (leader,), leader) if leader >= 0 else None

    return [instead(fencing_passes, "elections", listed), instead(fencing_passes, "_found", first_living)]


@mistake("bulk")
def leader_stays_outside_of_the_isr() -> Sequence[Patch]:
    """A leader that has left the ISR goes on to lead."""

    def stays(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        change = leave(state, row, brokers)
        leader = state.image.leader(row)
        return change if change is None or leader in change.isr else change._replace(leader=leader)

    return _judged(stays)


def _searched(change: Any) -> Sequence[Patch]:
    """Searches in which each partition without a leader is changed by a function of the leader that it should get."""
    elections = fencing_passes.elections

    def changed(image: Image, usable: Any, *given: Any) -> Any:
        block, judged, next_row, cost = elections(image, usable, *given)
        other = Block()
        for one in block:
            isr, leader = change(
                image.replicas(image.partition(image.topic_row(one.topic_id), one.number)), one, usable
            )
            other.append(one.topic_id, one.number, None, isr, leader, one.leader_epoch, one.partition_epoch)
        return other, judged, next_row, cost

    return [instead(fencing_passes, "elections", changed)]


@mistake("bulk")
def search_elects_outside_of_the_isr() -> Sequence[Patch]:
    """A search gives a partition the first living replica as its leader and leaves the ISR as it is."""
    return _searched(lambda replicas, one, usable: (one.isr, next(id for id in replicas if id in usable)))


@mistake("bulk")
def search_brings_others_in() -> Sequence[Patch]:
    """When a search finds a leader, all living replicas come into the ISR."""
    return _searched(lambda replicas, one, usable: (tuple(id for id in replicas if id in usable), one.leader))
