"""A connection over TLS, whose records are counted like bytes, and whose failed handshake is explained to the peer.

A record of TLS may have one byte in it, and costs about what a thousand bytes cost to read. A quarter of a megabyte of such
records takes the loop 20 ms, and brings 11,000 bytes. This file alone decides what of a connection over TLS is read at once,
and what that counts for its budget. Rules:

1. A record counts like `RECORD_BYTES`, besides what is in it.
2. A read is offered little room. It grows with each read that fills it, so that many bytes have come before many fit; where
   many records were read at once, the next read has room for `RECORDS_A_READ` like these. What does not fit is read when
   others had their turn.
3. A handshake that fails ends with TLS's own word for it (an alert: that the certificate has expired, say). The event loop
   closes the connection without sending it, and a client would take that for a broken line and come again for ever.
4. What is sent is encrypted in pieces of `PIECE_BYTES`, when the socket has taken the piece before. So a large answer is on
   its way while the rest is encrypted, lies in the processor's cache, and is never there twice; and others have their turn
   after two pieces, since the loop gives the socket what was written when the callbacks of a round have run. Small parts are
   copied together while the socket takes nothing: what a peer does not read is counted in bytes, and a part of ten has 300.
"""

import asyncio
import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from actors.host.net.link import CLOSE_TIMEOUT_S, UNSENT_BYTES_HIGH, UNSENT_BYTES_LOW, Link
from actors.wire.messages import Buffer

RECORD_BYTES = 1 << 10
RECORDS_A_READ = 512
FIRST_BYTES = 1 << 10
"""The room in bytes of the first read, which is more than a client's first request takes."""
GROWTH_BYTES = 2 << 10
ENOUGH_BYTES = 32 << 10
"""The room in bytes from which on it has no limit: 256 KiB have come before."""
WHOLE_BYTES = 1 << 20
MANY = 64
"""The number of records in one read from which on their size limits the next read."""
PIECE_BYTES = 256 << 10
SMALL_BYTES = 16 << 10
"""Parts below this are encrypted together: each piece is a record of TLS at least."""
UNREAD_BYTES = 64 << 10
"""How many bytes that a peer has sent are read and thrown away before its connection is closed: behind unread bytes the
system ends a connection with a reset, which may overtake an alert."""
accepted: ContextVar[socket.socket | None] = ContextVar("accepted", default=None)
"""The socket of the handshake that begins in this context."""


class CountedRecords(ssl.SSLObject):
    """One end of TLS that counts how often it is read: each time brings one record, or a part of one. A handshake that
    fails is told to the peer at the socket of `accepted`."""

    reads = 0
    _socket: socket.socket | None = None
    _outgoing: ssl.MemoryBIO

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *given: Any, **more: Any) -> "CountedRecords":
        found: CountedRecords = super()._create(incoming, outgoing, *given, **more)  # type: ignore[misc]
        found._outgoing, found._socket = outgoing, accepted.get()
        return found

    def do_handshake(self) -> None:
        """Shake hands, and send the peer TLS's alert if that fails."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self._socket is not None:
                with contextlib.suppress(OSError):  # the peer has gone, or reads nothing
                    self._socket.send(self._outgoing.read())
                    self._socket.recv(UNREAD_BYTES)
            raise
        self._socket = None

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """Read, and count the read as one record."""
        self.reads += 1
        return super().read(len, buffer)


class TlsLink(Link):
    """A connection of a peer, over TLS.

    Invariant: while `_parts` has something, asyncio has told that it is full.
    """

    write_limits = (1, 0)
    """asyncio is full when the socket has not taken what was encrypted."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._parts: deque[memoryview | bytearray] = deque()
        """What is to be encrypted, of `_waiting_bytes`."""
        self._waiting_bytes = 0
        self._full = self._congested = self._ends_soon = False
        self._counted: CountedRecords
        self._reads = 0
        self._room_bytes = FIRST_BYTES
        """How many bytes the next read may bring."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the handshake is over."""
        self._counted = transport.get_extra_info("ssl_object")
        super().connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by asyncio for the place where the next bytes go."""
        buffer = super().get_buffer(sizehint)
        return buffer if len(buffer) <= self._room_bytes else buffer[: self._room_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio when `nbytes` bytes are in that place."""
        began_ns = time.monotonic_ns()
        reads = self._counted.reads
        records, self._reads = max(1, reads - self._reads), reads
        if nbytes >= self._room_bytes:
            self._room_bytes += GROWTH_BYTES if self._room_bytes < ENOUGH_BYTES else WHOLE_BYTES
        if records > MANY:
            self._room_bytes = min(self._room_bytes, max(1, nbytes // records) * RECORDS_A_READ)
        size = nbytes + (records - 1) * RECORD_BYTES
        if self._budget is not None and self._budget.took(self, size):
            self.owner.stands(self)
        self._take(nbytes)
        self.reader.idle.busy_ns += time.monotonic_ns() - began_ns

    # ---- what is sent

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send an answer, or a request, in order behind what was sent before."""
        for part in parts:
            view = memoryview(part).cast("B")
            self._waiting_bytes += len(view)
            if not self._full or len(view) >= SMALL_BYTES:
                self._parts.append(view)
                continue
            last = self._parts[-1] if self._parts else None
            if isinstance(last, bytearray) and len(last) + len(view) < SMALL_BYTES:
                last += view
            else:
                self._parts.append(bytearray(view))
        self._encrypt()

    def pause_writing(self) -> None:
        """Called by asyncio when the socket has not taken what was encrypted."""
        self._full = True

    def resume_writing(self) -> None:
        """Called by asyncio when the socket has taken it."""
        self._full = False
        self._encrypt()

    def unsent_bytes(self) -> int:
        """How many bytes the kernel has not taken, but for a piece."""
        return self._waiting_bytes + self.transport.get_write_buffer_size()

    def close(self) -> None:
        """Close once everything written has been handed to the kernel, or after a time limit."""
        if self._parts and not self._dead:
            self._dead = self._ends_soon = True
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self.abort)
        else:
            super().close()

    def abort(self) -> None:
        """Close the connection at once, without sending what is left."""
        self._forget()
        super().abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the connection is over."""
        self._forget()
        super().connection_lost(exc)

    def _forget(self) -> None:
        self._parts.clear()
        self._waiting_bytes = 0
        self._ends_soon = False

    def _encrypt(self) -> None:
        """Hand over as much as the socket takes."""
        while self._parts and not self._full:
            piece = self._piece()
            self._waiting_bytes -= len(piece)
            self.transport.write(piece)
        unsent_bytes = self.unsent_bytes()
        if unsent_bytes > UNSENT_BYTES_HIGH and not self._congested:
            self._congested = True
            super().pause_writing()
        elif unsent_bytes <= UNSENT_BYTES_LOW and self._congested:
            self._congested = False
            super().resume_writing()
        if self._ends_soon and not self._parts:
            self._ends_soon = False
            self.transport.close()

    def _piece(self) -> Buffer:
        """Take out what is encrypted next."""
        first = self._parts.popleft()
        if len(first) >= SMALL_BYTES:
            if len(first) > PIECE_BYTES:
                self._parts.appendleft(first[PIECE_BYTES:])
            return first[:PIECE_BYTES]
        small, size = [first], len(first)
        while self._parts and len(self._parts[0]) < SMALL_BYTES and size < PIECE_BYTES:
            small.append(self._parts.popleft())
            size += len(small[-1])
        return b"".join(small) if len(small) > 1 else first
