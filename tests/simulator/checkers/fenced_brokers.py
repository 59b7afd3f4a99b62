"""Fenced brokers serve nobody: whoever serves is registered, under the broker epoch it believes in (KIP-631, Fencing).

And they answer nobody: what leaves for a client is looked at too, since a request may get past whoever asks for the lease.

Who serves has also replayed its own registration (serving_knows_its_registration): what it knows is no older than that.

A broker ends its lease before the controller does, so this holds although it may not know yet that it is fenced. One that
stops in order serves until it has the answer to its last heartbeat.
"""

from typing import Any

from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.world import Process


class FencedBrokers:
    name = "fenced_brokers_serve_nobody"

    def __init__(self, metadata: MetadataLog) -> None:
        self._metadata = metadata

    def sent(self, link: Any, sender: Any, frame: memoryview) -> None:
        """A frame leaves."""
        if isinstance(link.other(sender), Process) or not isinstance(sender, Process):
            return
        broker = sender.node.broker if sender.node is not None else None
        if broker is not None and not broker.lookups.serving and not broker.lifecycle.stopping:
            raise Violation(self.name, f"{sender.name} answers a client while it is {broker.lifecycle.state.name}")

    def turned(self, process: Any) -> None:
        """Whether this broker may serve."""
        broker = process.node.broker
        if broker is None or not broker.lookups.serving or broker.lifecycle.stopping:
            return
        if broker.cache.image.next_offset <= broker.lifecycle.epoch:
            raise Violation(
                "serving_knows_its_registration",
                f"{process.name} serves under epoch {broker.lifecycle.epoch} and has replayed up to "
                f"{broker.cache.image.next_offset}",
            )
        registration = self._metadata.image.broker(broker.cache.me)
        epoch = registration.epoch if registration is not None else None
        if epoch != broker.lifecycle.epoch:
            raise Violation(
                self.name, f"{process.name} serves under epoch {broker.lifecycle.epoch}; committed is {epoch}"
            )
