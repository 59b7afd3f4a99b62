"""Leaders that may be gone: this broker lost its connection to them, and the controller has not fenced them yet.

A client whose leader dies asks for metadata at once. A broker that has not heard of the fencing yet would name the dead
leader again, and the client would then wait half a second or more before it asks again. So a Metadata answer that would
name a leader whose connection to this broker just broke waits a moment for the controller's decision.

This file alone decides which leaders are suspected, and for how long. Rules:

1. Suspicion begins when the connection on which this broker fetches from a leader is lost. It ends with the next answer
   from that leader, with a new registration of it, or after DOUBT_MS, whichever comes first.
2. It begins once for each connection that has worked: a link that stays broken delays no further answers.
"""

from collections.abc import Iterator, Mapping

DOUBT_MS = 300
"""How long a leader is suspected, ms. Fencing takes a tenth of this. A client that gets the dead leader's name loses
more time than this."""


class SuspectedLeaders:
    """Brokers that may be gone, because the connection to them was lost. `unfenced`: broker epoch of each broker that
    is registered and not fenced, kept by others. A broker that is fenced is never doubted: no answer names it as a
    leader."""

    def __init__(self, unfenced: Mapping[int, int]) -> None:
        self._unfenced = unfenced
        self._heard: set[int] = set()
        """Brokers whose present connection has brought an answer."""
        self._doubted: dict[int, tuple[int, int]] = {}
        """The epoch of each suspected broker, and until when it is suspected."""

    def heard(self, broker: int) -> None:
        """Note that a broker has answered."""
        self._heard.add(broker)
        self._doubted.pop(broker, None)

    def lost(self, broker: int, mono_ms: int) -> None:
        """Note that the connection to a broker is gone, or could not be made."""
        epoch = self._unfenced.get(broker)
        if broker in self._heard and epoch is not None:
            self._doubted[broker] = epoch, mono_ms + DOUBT_MS
        self._heard.discard(broker)

    def now(self, mono_ms: int) -> Iterator[tuple[int, int]]:
        """(broker, until when) of every suspected leader."""
        for broker, (epoch, until_ms) in self._doubted.items():
            if mono_ms < until_ms and self._unfenced.get(broker) == epoch:
                yield broker, until_ms
