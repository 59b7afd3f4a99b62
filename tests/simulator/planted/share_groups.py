"""Mistakes of share groups, on the leader of a partition and in what it asks share coordinators to keep (KIP-932)."""

from collections.abc import Sequence
from typing import Any

from actors.broker.groups.share.delivery import acquisition_locks
from actors.broker.groups.share.delivery.delivery_states import DeliveryState
from actors.broker.groups.share.delivery.in_flight import NEVER_MS, DeliveryChange, InFlightRun, StateBatch
from actors.broker.groups.share.delivery.in_flight_window import NO_GAP, Window
from actors.node.api.share.share_acknowledgements import HOLDS, Acknowledgements
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("shared")
def share_acknowledgements_answered_before_they_are_stored() -> Sequence[Patch]:
    """The next leader gives out again what is done."""

    def waits(self: Acknowledgements) -> list[Any]:
        self.outcomes |= dict.fromkeys(self.left, HOLDS)
        self.left.clear()
        return []

    return [instead(Acknowledgements, "waits", waits)]


@mistake("shared")
def acquisition_locks_never_end() -> Sequence[Patch]:
    """What a member keeps nobody else gets."""
    return [instead(acquisition_locks, "expire", lambda window, now_ms, delivery_limit: (None, NEVER_MS))]


@mistake("shared")
def records_acquired_while_another_member_has_them() -> Sequence[Patch]:
    """Two members process a record at a time."""
    free = (DeliveryState.AVAILABLE, DeliveryState.ACQUIRED)
    return [instead(InFlightRun, "available", property(lambda self: self.state in free and self.change is None))]


@mistake("shared")
def deliveries_are_not_counted() -> Sequence[Patch]:
    """A record that nobody can process is delivered for ever."""

    def acquire(self: InFlightRun, member: str, lock_ms: int) -> None:
        self.state = self.target = DeliveryState.ACQUIRED
        self.member, self.lock_ms = member, lock_ms

    return [instead(InFlightRun, "acquire", acquire)]


@mistake("shared")
def another_leader_begins_with_the_start_alone() -> Sequence[Patch]:
    """Another leader gives out records again that are done behind the first one that is not."""
    loaded = Window.loaded

    def forgetful(start: int, stored: Sequence[StateBatch]) -> Window:
        return loaded(start, ())

    return [instead(Window, "loaded", staticmethod(forgetful))]


@mistake("shared")
def windows_move_over_what_is_only_acquired() -> Sequence[Patch]:
    """A member that dies takes its records with it."""
    return [instead(InFlightRun, "over", property(lambda self: self.state is not DeliveryState.AVAILABLE))]


@mistake("shared")
def gaps_of_the_stored_state_are_forgotten() -> Sequence[Patch]:
    """Records that were in flight when the leader died come to nobody."""
    loaded = Window.loaded

    def without(start: int, stored: Sequence[StateBatch]) -> Window:
        window = loaded(start, stored)
        window.gap = NO_GAP
        return window

    return [instead(Window, "loaded", staticmethod(without))]


@mistake("shared")
def released_records_lose_their_deliveries() -> Sequence[Patch]:
    """A record that nobody can process is delivered for ever, by one leader after the other."""
    add = DeliveryChange.add

    def forgetful(self: DeliveryChange, first: int, last: int, state: int, count: int) -> None:
        add(self, first, last, state, 1 if state == DeliveryState.AVAILABLE else count)

    return [instead(DeliveryChange, "add", forgetful)]
