"""Bytes of a connection as frames, without a copy of large ones.

A driver reads into `buffer()` and says how much came (`filled`). Small frames come out of one scratch; a frame that is
larger has memory of its own, into which the rest is read. Memory for a frame is taken as its bytes come, not as its length
says: the system gives pages when they are written.
"""

import numpy as np

from actors.client.errors import NoKafka

SCRATCH_BYTES = 1 << 16
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")


def _room(size: int) -> memoryview:
    return memoryview(np.empty(size, np.uint8).data)


class Frames:
    """The incoming side of one connection."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._scratch = _room(SCRATCH_BYTES)
        self._held = 0
        """The number of bytes in the scratch that belong to no whole frame yet."""
        self._large: memoryview | None = None
        self._large_held = 0

    @property
    def cut(self) -> bool:
        """Whether part of a frame is there."""
        return bool(self._held) or self._large is not None

    def buffer(self) -> memoryview:
        """The memory to read into; never empty."""
        if self._large is not None:
            return self._large[self._large_held :]
        return self._scratch[self._held :]

    def filled(self, count: int) -> list[memoryview]:
        """The frames, without their lengths, that are whole now. Raises NoKafka if a length cannot be one."""
        if self._large is not None:
            self._large_held += count
            if self._large_held < len(self._large):
                return []
            frame, self._large, self._large_held = self._large, None, 0
            return [frame]
        found: list[memoryview] = []
        position, end = 0, self._held + count
        while end - position >= 4:
            size = self._size(position)
            have = end - position - 4
            if have >= size:
                frame = _room(size)
                frame[:] = self._scratch[position + 4 : position + 4 + size]
                found.append(frame)
                position += 4 + size
                continue
            if size + 4 > SCRATCH_BYTES:
                self._large = _room(size)
                self._large[:have] = self._scratch[position + 4 : end]
                self._large_held = have
                position = end
            break
        self._held = end - position
        if position and self._held:
            self._scratch[: self._held] = bytes(self._scratch[position:end])
        return found

    def _size(self, position: int) -> int:
        head = bytes(self._scratch[position : position + 4])
        size = int.from_bytes(head, "big", signed=True)
        if 4 <= size <= self._bytes_max:
            return size
        if head == b"HTTP":
            raise NoKafka("it answers HTTP, not Kafka's protocol: check the port")
        if head[:2] in TLS_RECORDS:
            raise NoKafka("it speaks TLS: set security.protocol to SSL or SASL_SSL")
        if 0 <= size < 4:
            raise NoKafka(f"it sent a frame of {size} bytes, which is too short for an answer of Kafka's")
        if size < 0:
            raise NoKafka("it sent a frame of negative length: it does not speak Kafka's protocol")
        raise NoKafka(
            f"it sent a frame of {size} bytes, and receive.message.max.bytes is {self._bytes_max}: it does not speak "
            f"Kafka's protocol, or that limit is too low"
        )
