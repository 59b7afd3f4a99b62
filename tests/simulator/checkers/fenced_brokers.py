"""Fenced brokers serve no client: a broker that serves is registered under the epoch that it believes in (KIP-631,
Fencing).

Nor do they answer a client: every frame that leaves for a client is checked too, since a request may get past the check
of the lease.

A broker that serves has also replayed its own registration (serving_knows_its_registration): its metadata is no older
than that.

A broker ends its lease before the controller does, so this holds although the broker may not know yet that it is
fenced. A broker in a controlled shutdown serves until it has the answer to its last heartbeat.
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
        """Check a frame that leaves a broker for a client."""
        if isinstance(link.other(sender), Process) or not isinstance(sender, Process):
            return
        broker = sender.node.broker if sender.node is not None else None
        if broker is not None and not broker.availability.serving and not broker.lifecycle.stopping:
            raise Violation(self.name, f"{sender.name} answers a client while it is {broker.lifecycle.state.name}")

    def turned(self, process: Any) -> None:
        """Check whether this broker may serve."""
        broker = process.node.broker
        if broker is None or not broker.availability.serving or broker.lifecycle.stopping:
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
