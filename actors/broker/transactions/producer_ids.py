"""Producer ids of this broker: taken one by one from blocks that the controller allocates (AllocateProducerIds).

The next block is requested when nine tenths of the present one are used, so that no client waits for it.
"""

RETRY_MS = 100


class ProducerIds:
    """The block of producer ids in use and the one after it."""

    def __init__(self) -> None:
        self.key = ("producer ids",)
        """Waiting key: a block has come."""
        self._next = self._end = 0
        self._low = 0
        """The next block is requested when no more ids than this are left."""
        self._spare: tuple[int, int] | None = None
        self._asked = False
        self._not_before_ms = 0

    def wants(self, mono_ms: int) -> bool:
        """Whether a block should be requested now."""
        return (
            not self._asked
            and self._spare is None
            and self._end - self._next <= self._low
            and mono_ms >= self._not_before_ms
        )

    def asked(self) -> None:
        """Note that the request for a block has been sent."""
        self._asked = True

    def given(self, start: int, length: int) -> None:
        """Take a block that has come."""
        self._asked = False
        if self._next < self._end:
            self._spare = start, start + length
        else:
            self._next, self._end = start, start + length
        self._low = length // 10

    def failed(self, mono_ms: int) -> None:
        """Note that the request for a block failed. Repeat it after a pause."""
        self._asked = False
        self._not_before_ms = mono_ms + RETRY_MS

    def take(self) -> int | None:
        """A producer id that no other producer has; None until a block has come."""
        if self._next == self._end and self._spare is not None:
            self._next, self._end = self._spare
            self._spare = None
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1
