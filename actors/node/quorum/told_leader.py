"""Which controller is active, for a broker that does not pull the metadata log: it follows no leader of the quorum, so it is
told by whoever pushes metadata, and asks one controller after the other until then (KIP-291, push mode).

Rules:

1. Who pushes under the highest epoch is active, until a request to it fails or it says that it is not.
2. A controller that is not active may know who is.
3. Who pushes under a lower epoch than another one before is not believed (R497-51).
"""

from actors.node.quorum.addresses import Address, Addresses


class ToldLeader:
    """The controller to ask. One that is only tried has no id here."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._tried = 0
        """How many controllers have been tried."""
        self.epoch = -1
        """The highest epoch under which metadata was pushed."""
        self.id = -1
        """The controller that is believed to be active; -1: none."""

    def told(self, id: int, epoch: int, host: str, port: int) -> None:
        """Controller `id` pushes under `epoch`, and its listener is there."""
        if epoch >= self.epoch:
            self.epoch = epoch
            if host:
                self._addresses.learn(id, host, port)
            self.id = id if self._addresses.find(id) is not None else -1

    def failed(self, active: int = -1) -> None:
        """The controller at `address()` does not answer, or is not active; `active` is, as it says (-1: it says nothing)."""
        known = active >= 0 and active != self.id and self._addresses.find(active) is not None
        self.id = active if known else -1
        if not known:
            self._tried += 1

    def address(self) -> Address | None:
        """Where to ask."""
        if self.id >= 0:
            return self._addresses.find(self.id)
        known = [address for id in self._addresses.bootstrap if (address := self._addresses.find(id)) is not None]
        return known[self._tried % len(known)] if known else None
