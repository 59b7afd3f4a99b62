"""Leaders that may be gone: what this broker has seen with its own eyes, before the controller says so.

A client whose leader dies asks for metadata at once, and would get the dead leader again from a broker that has not heard of
the fencing yet; it then waits for its own reconnects, half a second and more. So an answer that would name a leader whose
connection to this broker just broke waits a moment for the controller's decision.

This file alone decides whom that concerns and for how long. Rules:

1. Doubt begins when the connection on which this broker fetches from a leader is lost, and ends with the next answer from
   there, with another registration of it, or after DOUBT_MS, whatever comes first.
2. It begins once for a connection that has worked: a link that stays away delays nobody for longer.
"""

from collections.abc import Iterator, Mapping

DOUBT_MS = 300
"""A fencing takes a tenth of it; an answer without it costs a client more."""


class SuspectedLeaders:
    """Brokers in doubt. `unfenced`: broker epoch of each broker that is registered and not fenced, kept by others. Nobody
    doubts who is fenced: no answer names it as a leader."""

    def __init__(self, unfenced: Mapping[int, int]) -> None:
        self._unfenced = unfenced
        self._heard: set[int] = set()
        """Whose present connection has brought an answer."""
        self._doubted: dict[int, tuple[int, int]] = {}
        """Broker -> (its epoch, until when)."""

    def heard(self, broker: int) -> None:
        """It has answered."""
        self._heard.add(broker)
        self._doubted.pop(broker, None)

    def lost(self, broker: int, mono_ms: int) -> None:
        """The connection to it is gone, or could not be made."""
        epoch = self._unfenced.get(broker)
        if broker in self._heard and epoch is not None:
            self._doubted[broker] = epoch, mono_ms + DOUBT_MS
        self._heard.discard(broker)

    def now(self, mono_ms: int) -> Iterator[tuple[int, int]]:
        """(broker, until when) of everyone in doubt."""
        for broker, (epoch, until_ms) in self._doubted.items():
            if mono_ms < until_ms and self._unfenced.get(broker) == epoch:
                yield broker, until_ms
