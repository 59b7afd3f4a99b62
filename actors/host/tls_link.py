"""A connection over TLS: what it brings is counted in records too.

A record of TLS may have one byte in it, and costs about what a thousand bytes cost to read. A quarter of a megabyte of such
records takes the loop 20 ms, and brings 11,000 bytes. This file alone decides what of a connection over TLS is read at once,
and what that counts for its ration. Rules:

1. A record counts like `RECORD_BYTES`, besides what is in it.
2. A read is offered little room. It grows with each read that fills it, so that many bytes have come before many fit; where
   many records were read at once, the next read has room for `RECORDS_A_READ` like these. What does not fit is read when
   others had their turn.
"""

import asyncio
import ssl
import time
from typing import Any

from actors.host.link import Link

RECORD_BYTES = 1 << 10
RECORDS_A_READ = 512
FIRST_BYTES = 1 << 10
"""The room of the first read, which is more than a client's first request takes."""
GROWTH_BYTES = 2 << 10
ENOUGH_BYTES = 32 << 10
"""A room of so many bytes has no limit from then on: 256 KiB have come before."""
WHOLE_BYTES = 1 << 20
MANY = 64
"""Records of one read that are looked at for how much is in them."""


class CountedRecords(ssl.SSLObject):
    """One end of TLS that counts how often it is read: each time brings one record, or a part of one."""

    reads = 0

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """As in the class above."""
        self.reads += 1
        return super().read(len, buffer)


class TlsLink(Link):
    """A connection of a peer, over TLS."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._counted: CountedRecords
        self._reads = 0
        self._room_bytes = FIRST_BYTES
        """How much a read is offered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the handshake is over."""
        self._counted = transport.get_extra_info("ssl_object")
        super().connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """asyncio: where the next bytes go."""
        buffer = super().get_buffer(sizehint)
        return buffer if len(buffer) <= self._room_bytes else buffer[: self._room_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio: so many bytes are there."""
        began_ns = time.monotonic_ns()
        reads = self._counted.reads
        records, self._reads = max(1, reads - self._reads), reads
        if nbytes >= self._room_bytes:
            self._room_bytes += GROWTH_BYTES if self._room_bytes < ENOUGH_BYTES else WHOLE_BYTES
        if records > MANY:
            self._room_bytes = min(self._room_bytes, max(1, nbytes // records) * RECORDS_A_READ)
        size = nbytes + (records - 1) * RECORD_BYTES
        if self._ration is not None and self._ration.took(self, size):
            self.owner.stands(self)
        self._take(nbytes)
        self.reader.idle.busy_ns += time.monotonic_ns() - began_ns
