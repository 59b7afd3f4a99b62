"""ISR proposals on their way to the controller (KIP-497): one AlterIsr at a time, with all that has come up in a turn.

Which change a leader proposes is decided in `broker/replication/isr_transitions.py`; what may be in one request, and
what an answer settles, in `broker/replication/alter_isr_requests.py`. This file alone decides that a broker which does
not serve proposes nothing.
"""

from typing import Any

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.replication.replicas import Replicas
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.replication.partition_effects import PartitionEffects
from actors.node.runtime.meters import Meter
from actors.node.runtime.runtime import Runtime

METERS = ("IsrExpandsPerSec", "IsrShrinksPerSec", "FailedIsrUpdatesPerSec")


class AlterIsr:
    """The proposals of one broker."""

    def __init__(
        self,
        runtime: Runtime,
        channels: Channels,
        replicas: Replicas,
        lifecycle: Lifecycle,
        availability: Availability,
        partition_effects: PartitionEffects,
    ) -> None:
        self._runtime = runtime
        self._channels = channels
        self._replicas = replicas
        self._lifecycle = lifecycle
        self._availability = availability
        self._partition_effects = partition_effects
        self.meters = {name: Meter() for name in METERS}
        self._counted = 0
        """The sum of the counts of ISR changes at the last look."""

    def end_turn(self) -> None:
        """Count what has changed, and send what is queued."""
        self.count()
        if not self._replicas.proposals.idle:
            self.send()

    def count(self) -> None:
        """Count the changes since the last turn (R497-49)."""
        replicas = self._replicas
        counted = replicas.isr_expands + replicas.isr_shrinks + replicas.isr_failures
        if counted == self._counted:
            return
        self._counted = counted
        counts = (replicas.isr_expands, replicas.isr_shrinks, replicas.isr_failures)
        for of, count in zip(self.meters.values(), counts, strict=True):
            if count > of.count:
                of.mark(count - of.count, self._runtime.now.mono_ms)

    def send(self) -> None:
        """Send the queued proposals, if no request is under way."""
        sender = self._replicas.proposals
        if not self._availability.serving:
            return
        request = sender.flush(self._lifecycle.epoch, self._runtime.now.mono_ms)
        if request is None:
            return

        def answered(reply: Any) -> None:
            now_ms = self._runtime.now.mono_ms
            if isinstance(reply, ChannelError):
                moved = sender.lost(reply.reason != "unknown", now_ms)
            else:
                moved = sender.answered(reply, now_ms)
            self._replicas.answered(moved, now_ms)
            self._partition_effects.run()

        self._channels.controller("AlterIsr", request, answered, purpose="isr")
