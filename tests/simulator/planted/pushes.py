"""Mistakes of push mode: what controllers tell brokers that do not pull the metadata log, and what those obey (KIP-291)."""

from collections.abc import Iterator, Sequence
from typing import Any

from actors.controller.brokers.unregistration import turn_ended
from actors.controller.pushes.pushes import Changes, Outbox
from actors.node.roles.broker.metadata.pushed_metadata import PushedMetadata
from actors.node.roles.controller.pusher import Pusher
from actors.node.roles.controller.role import ControllerRole
from actors.wire.errors import ErrorCode
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("pushed")
def what_is_not_committed_is_pushed() -> Sequence[Patch]:
    """Brokers are told of the newest state that the active controller has, which it may have to take back."""
    send = Pusher._send

    def newest(self: Any, image: Any, outbox: Any, process: Any) -> None:
        send(self, self._role.image, outbox, process)

    return [instead(Pusher, "_send", newest)]


@mistake("pushed")
def two_requests_are_in_flight_to_a_broker() -> Sequence[Patch]:
    """The next request leaves before the one before is answered."""
    following = Outbox.next

    def hasty(self: Any, image: Any, sender: Any) -> Any:
        self.in_flight = None
        return following(self, image, sender)

    return [instead(Outbox, "next", hasty)]


@mistake("pushed")
def leader_and_isr_comes_before_update_metadata() -> Sequence[Patch]:
    """A follower is to fetch from a leader whose address it does not know."""

    def tell(self: Any, image: Any, sender: Any) -> Iterator[Any]:
        offset, everything = image.next_offset, self._everything
        batch, self._fresh, self._everything, self._kept = self._fresh, Changes(), False, False
        whole = None if everything else batch
        if everything:
            yield from self._metadata(image, sender, whole, batch.gone, offset)
        yield from self._replicas(image, sender, whole)
        if not everything:
            yield from self._metadata(image, sender, whole, batch.gone, offset)
        yield from self._stops(image, sender, whole)
        self.acknowledged = offset

    return [instead(Outbox, "_tell", tell)]


@mistake("pushed")
def a_deposed_controller_goes_on_pushing() -> Sequence[Patch]:
    """A deposed controller keeps its connections and tells what it replays as a standby."""
    lost, stop = ControllerRole.lost, Pusher.stop

    def keeps(self: Any) -> None:
        legacy = self.soft.legacy
        Pusher.stop = lambda self: None  # type: ignore[method-assign]
        try:
            lost(self)
        finally:
            Pusher.stop = stop  # type: ignore[method-assign]
        self.soft.legacy = legacy

    def end(self: Any) -> None:
        turn_ended(self.soft)
        if self.pusher is not None:
            self.pusher.end(self._cut)

    return [instead(ControllerRole, "lost", keeps), instead(ControllerRole, "end", end)]


@mistake("pushed")
def a_broker_obeys_a_controller_of_an_older_epoch() -> Sequence[Patch]:
    """A broker obeys the controller that pushed last."""

    def refused(self: Any, request: Any) -> ErrorCode | None:
        if request.broker_epoch != -1 and request.broker_epoch < self._lifecycle.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return None

    return [instead(PushedMetadata, "refused", refused)]


@mistake("pushed")
def deletions_are_not_pushed() -> Sequence[Patch]:
    """A broker that is told keeps what it knew of a topic that is gone."""
    add = Changes.add

    def forgetful(self: Any, other: Any) -> None:
        add(self, other)
        self.gone.clear()

    return [instead(Changes, "add", forgetful)]


@mistake("pushed")
def settings_of_topics_are_not_pushed() -> Sequence[Patch]:
    """Brokers that are told of metadata serve topics with the defaults of their own files."""
    metadata = Outbox._metadata

    def bare(self: Any, *given: Any) -> Iterator[Any]:
        for request in metadata(self, *given):
            for topic in request.body.topic_states:
                topic.settings = []
            yield request

    return [instead(Outbox, "_metadata", bare)]


@mistake("pushed")
def everything_does_not_end_what_it_leaves_out() -> Sequence[Patch]:
    """A broker goes on leading partitions of which the controller says that it has no replica."""
    return [instead(PushedMetadata, "_leave_unnamed", lambda self, request: None)]
