"""The controller that drives brokers in ZooKeeper mode beside this broker, as it shows itself to clients.

Brokers in ZooKeeper mode name it among the brokers and as the controller, so this broker has to name it too: a client that
finds two brokers of different minds drops the controller from its list whenever it asks the other one, and with it the
requests that are in flight there.
"""

from actors.metadata.ops import BrokerSet


class Driving:
    """The controller of brokers in ZooKeeper mode, as the answers to this broker's heartbeats name it."""

    def __init__(self) -> None:
        self.controller: BrokerSet | None = None
        """The controller, with its listeners for clients; None: no broker is in ZooKeeper mode."""
