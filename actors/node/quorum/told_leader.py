"""The active controller, as a broker knows it that does not pull the metadata log: it follows no leader of the quorum,
so it learns the active controller from pushed metadata, and asks one controller after the other until then (KIP-291,
push mode).

Rules:

1. The controller that pushes under the highest epoch is active, until a request to it fails or it says that it is not.
2. A controller that is not active may know which one is.
3. A controller that pushes under a lower epoch than another one before is not believed (R497-51).
"""

from actors.node.quorum.addresses import Address, Addresses


class ToldLeader:
    """The controller to ask. A controller that is only tried has no id here."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._tried = 0
        """How many controllers have been tried."""
        self.epoch = -1
        """The highest epoch under which metadata was pushed."""
        self.id = -1
        """The controller that is believed to be active; -1: none."""

    def told(self, id: int, epoch: int, host: str, port: int) -> None:
        """Take over that controller `id` pushes under `epoch`, and that its listener is at `host` and `port`."""
        if epoch >= self.epoch:
            self.epoch = epoch
            if host:
                self._addresses.learn(id, host, port)
            self.id = id if self._addresses.find(id) is not None else -1

    def failed(self, active: int = -1) -> None:
        """Note that the controller at `address()` does not answer, or is not active; `active` is the one that it names
        (-1: it names none)."""
        known = active >= 0 and active != self.id and self._addresses.find(active) is not None
        self.id = active if known else -1
        if not known:
            self._tried += 1

    def address(self) -> Address | None:
        """The controller listener to ask; None: no address is known."""
        if self.id >= 0:
            return self._addresses.find(self.id)
        known = [address for id in self._addresses.bootstrap if (address := self._addresses.find(id)) is not None]
        return known[self._tried % len(known)] if known else None
