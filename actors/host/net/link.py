"""One TCP connection: bytes in, whole frames out; frames in, bytes out.

This file alone decides how bytes become frames. A frame is a length of four bytes and that many bytes more. Small
frames are read many at once into a buffer that all connections of a plane share, and are copied out of it. A frame that
does not fit gets memory from the plane's pool, and the socket reads straight into that. Memory grows with the bytes
that arrive, not with the length that is claimed: the system gives a fresh block no page before it is written.
`unfinished_frames.py` decides how much memory unfinished frames of inbound connections may hold together,
`read_budget.py` how much they may bring between two turns of the node.

When the node takes no more from a connection, the bytes that were read and not handed over stay here, 64 KiB at most,
and the socket is not read. When the node goes on, it gets those bytes first. The same holds while the peer does not
read its answers: above `UNSENT_BYTES_HIGH` unsent bytes none of its requests is taken, until they fall below
`UNSENT_BYTES_LOW`.
"""

import asyncio
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol, cast

from actors.host.net.read_budget import ReadBudget
from actors.host.net.unfinished_frames import FREE_BYTES, FrameRoom
from actors.node.runtime.meters import Idle
from actors.wire.messages import Buffer
from fastpath.bytes.frame_pool import Pool

SCRATCH_BYTES = 64 << 10
SPARE_BYTES_MAX = 32 << 20
UNSENT_BYTES_HIGH = 1 << 20
UNSENT_BYTES_LOW = 256 << 10
CLOSE_TIMEOUT_S = 30.0

_length = struct.Struct(">i").unpack_from


class Reader:
    """The reading side of one plane: the buffer that its connections share, memory for large frames, a count of frames,
    and what they may bring at once; None: as much as they have."""

    __slots__ = ("budget", "frames", "idle", "pool", "room", "scratch", "view")

    def __init__(self, unfinished_bytes_max: int, budget: ReadBudget | None = None) -> None:
        self.scratch = bytearray(SCRATCH_BYTES)
        self.view = memoryview(self.scratch)
        self.pool = Pool(SPARE_BYTES_MAX)
        self.room = FrameRoom(unfinished_bytes_max)
        self.budget = budget
        self.frames = 0
        self.idle = Idle()


class LinkOwner(Protocol):
    """The object that is told about a connection: the loop."""

    def opened(self, link: "Link") -> None: ...
    def received(self, conn: int, frame: memoryview) -> bool:
        """Take a frame. False: hand over no more of this connection before `pause(False)`."""
        ...

    def congested(self, link: "Link", congested: bool) -> None: ...
    def lost(self, link: "Link") -> None: ...
    def waits(self, link: "Link") -> None: ...
    def muted(self, link: "Link") -> bool: ...
    def stands(self, link: "Link") -> None:
        """Called when a connection has brought its share, so that another pass begins soon."""
        ...

    def too_large(self, link: "Link", size: int) -> None: ...
    def no_memory(self, link: "Link", size: int) -> None:
        """Called when there is no memory for a frame, to close the connection."""
        ...


class Link(asyncio.BufferedProtocol):
    """A connection, inbound (`conn` above zero) or outbound (below zero).

    Invariant: in the middle of a large frame `_frame` has room for `_room` of its `_size` bytes and holds `_have`;
    otherwise `_head` holds the 0 to 3 bytes of a length that is not complete.
    """

    write_limits = (UNSENT_BYTES_HIGH, UNSENT_BYTES_LOW)
    """The unsent bytes of the transport at which asyncio calls `pause_writing`, and `resume_writing`."""

    def __init__(
        self, owner: LinkOwner, reader: Reader, conn: int, listener: str, frame_bytes_max: int, peer_host: str
    ) -> None:
        self.owner = owner
        self.reader = reader
        self.conn = conn
        self.listener = listener
        self.peer_host = peer_host
        self.peer_port = 0
        self.active = True
        """Whether bytes came or were handed over since the last sweep for idle connections."""
        self._unsent_bytes = 0
        """How many bytes were unsent at that sweep."""
        self.transport: asyncio.Transport
        self.open = False
        """Whether the connection is, or was, open."""
        self.counted = False
        """Whether the connection is one of those of its host that are counted."""
        self.speaks: tuple[str, str, str] | None = None
        """(listener, cipher, protocol) of TLS, while the connection counts as one that speaks so."""
        self.frame_bytes_max = frame_bytes_max
        """The largest frame that the peer may send; it grows when the peer has logged in."""
        self._head = b""
        self._kept: bytearray | None = None
        """Bytes that were read and that the node has not taken. Invariant: if there are some, reading is paused, and
        `_head` and `_frame` are empty."""
        self._frame: memoryview | None = None
        self._size = self._have = self._room = 0
        self.moved_ms = 0
        """The time when bytes of an unfinished frame arrived last, or reading was resumed (monotonic ms)."""
        self._outside = False
        """Whether the frame waits for room; then `_room` is `FREE_BYTES`."""
        self._paused_by_node = self._paused_by_peer = self._cut_off = False
        self._budget = reader.budget if conn > 0 else None
        self._stands = False
        """Whether the connection stands in the line of the budget."""
        self.share, self.share_of = 0, -1
        self._dead = False
        self.left = False
        """Whether the node has been told that the peer has closed the connection, though it is not read."""
        self._written = 0
        self._ends: deque[int] = deque()
        """The end of each answer that may not have left yet, counted in bytes written."""

    # ---- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.open = True
        self.transport.set_write_buffer_limits(*self.write_limits)
        peer = transport.get_extra_info("peername")
        self.peer_port = peer[1] if peer else 0
        self.owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._dead = True
        if self._stands and self._budget is not None:
            self._stands = False
            self._budget.leave(self)
        if self._frame is not None:
            self._frame = None
            self.reader.room.leave(self, _now_ms())
        self.owner.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        share = SCRATCH_BYTES if self._budget is None else self._budget.share(self)
        if self._frame is not None:
            end = self._room if self._budget is None else min(self._have + share, self._room)
            return self._frame[self._have : end]
        if self._head:
            kept = len(self._head)
            self.reader.view[:kept] = self._head
            return self.reader.view[kept : kept + share]
        return self.reader.view if share >= SCRATCH_BYTES else self.reader.view[:share]

    def buffer_updated(self, nbytes: int) -> None:
        began_ns = time.monotonic_ns()
        if self._budget is not None and self._budget.took(self, nbytes):
            self.owner.stands(self)
        self._take(nbytes)
        self.reader.idle.busy_ns += time.monotonic_ns() - began_ns

    def _take(self, nbytes: int) -> None:
        self.active = True
        if self._frame is not None:
            self._have += nbytes
            if self._have == self._size:
                frame, self._frame = self._frame, None
                if self._size > FREE_BYTES and self.conn > 0:
                    self.reader.room.leave(self, _now_ms())
                self.reader.frames += 1
                if not self.owner.received(self.conn, frame):
                    self._enough()
            else:
                self.moved_ms = _now_ms()
                if self._outside and self._have == self._room:
                    self._read_or_not()
        else:
            self._cut(self.reader.scratch, len(self._head) + nbytes)

    def pause_writing(self) -> None:
        """Take no more requests from a peer that does not read its answers. The connections that this node opened are
        still read, since two nodes that wait for each other would wait for ever."""
        if self.conn > 0:
            self._paused_by_peer = True
            self._read_or_not()
            self.owner.congested(self, True)

    def resume_writing(self) -> None:
        self._paused_by_peer = False
        self.owner.congested(self, False)
        self._read_or_not()

    # ---- the loop calls these

    def pause(self, paused: bool) -> None:
        """Stop or resume reading, as the node decides."""
        self._paused_by_node = paused
        self.moved_ms = _now_ms()
        self._read_or_not()

    def cut_off(self, cut: bool) -> None:
        """Stop or resume reading, as nothing comes over a network that is cut."""
        self._cut_off = cut
        self.moved_ms = _now_ms()
        self._read_or_not()

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send an answer, or a request, in order behind what was sent before."""
        self.transport.writelines(parts)

    def wrote(self, size: int) -> None:
        """Note that an answer of `size` bytes was handed to the transport."""
        self._written += size
        self._ends.append(self._written)
        self.unsent()

    def unsent(self) -> int:
        """The number of answers that the kernel has not taken whole yet."""
        gone = self._written - self.unsent_bytes()
        while self._ends and self._ends[0] <= gone:
            self._ends.popleft()
        return len(self._ends)

    def unsent_bytes(self) -> int:
        """How many bytes the kernel has not taken."""
        return self.transport.get_write_buffer_size()

    def unread(self) -> bool:
        """Whether the connection is open and the node does not have it read, so that its end would not be seen."""
        return self._paused_by_node and not self._dead

    def idle(self) -> bool:
        """Whether nothing was read or taken by the kernel since the last call. A peer that reads an answer slowly is
        not idle."""
        unsent_bytes = self.unsent_bytes()
        idle = not self.active and unsent_bytes == self._unsent_bytes
        self.active, self._unsent_bytes = False, unsent_bytes
        return idle

    def close(self) -> None:
        """Close once everything written has been handed to the kernel, or after a time limit."""
        if not self._dead:
            self._dead = True
            self.transport.close()
            if self.transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self.transport.abort)

    def abort(self) -> None:
        """Close the connection at once, without sending what is left."""
        self._dead = True
        self.transport.abort()

    # ---- frames

    def _cut(self, data: bytearray, end: int) -> None:
        """Hand over the whole frames in `data`, as many as the node takes; keep the rest."""
        reader, position = self.reader, 0
        self._head = b""
        while end - position >= 4:
            (size,) = _length(data, position)
            if not 0 <= size <= self.frame_bytes_max:
                self._dead = True
                self.owner.too_large(self, size)
                return
            behind = position + 4 + size
            if end < behind:
                self._begin(size, memoryview(data)[position + 4 : end])
                return
            reader.frames += 1
            more = self.owner.received(self.conn, memoryview(data[position + 4 : behind]))
            position = behind
            if self._dead:
                return
            if not more:
                self._kept = data[position:end] if position < end else None
                self._enough()
                return
        if position < end:
            self._head = bytes(memoryview(data)[position:end])

    def _enough(self) -> None:
        """Stop handing over, since the node takes no more for now."""
        self._paused_by_node = True
        self._read_or_not()

    def _begin(self, size: int, start: memoryview) -> None:
        """Give a frame that is not whole yet memory of its own."""
        self.moved_ms = _now_ms()
        self._outside = self.conn > 0 and size > FREE_BYTES and not self.reader.room.ask(self, size, self.moved_ms)
        self._size, self._have, self._room = size, len(start), FREE_BYTES if self._outside else size
        self._frame = self._memory(self._room)
        if self._frame is None:
            if self.conn > 0 and size > FREE_BYTES:
                self.reader.room.leave(self, self.moved_ms)
            return
        self._frame[: self._have] = start
        if self._outside:
            self.owner.waits(self)

    def let_in(self) -> None:
        """Read on, since there is room for the frame that has begun."""
        assert self._frame is not None
        full = self._have == self._room
        whole = self._memory(self._size)
        if whole is None:
            return
        whole[: self._have] = self._frame[: self._have]
        self._outside, self._frame, self._room = False, whole, self._size
        if full:
            self._read_or_not()

    def _memory(self, size: int) -> memoryview | None:
        """Memory for `size` bytes of a frame; None: the system has none, and this connection ends. So no length that a
        peer claims ends the process, whatever limit it has."""
        try:
            return self.reader.pool.take(size)
        except MemoryError:
            self._dead = True
            self.owner.no_memory(self, size)
            return None

    def held_up(self) -> bool:
        """Whether this side has stopped reading the connection for now, for reasons of its own. A client that is over
        its quota is not read either, but it decides itself for how long: others do not wait for that."""
        return self._stands or (self._paused_by_node and not self.owner.muted(self))

    def stand(self, stands: bool) -> bool:
        """Put the connection into the line of the budget, or take it out. Returns whether it is read now."""
        self._stands = stands
        self.moved_ms = _now_ms()
        self._read_or_not()
        return not (self._dead or self._paused())

    def _read_or_not(self) -> None:
        if not (self._dead or self._paused()) and self._kept is not None:
            kept, self._kept = self._kept, None
            self._cut(kept, len(kept))
        if not self._dead:
            if self._paused():
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _paused(self) -> bool:
        full = self._outside and self._frame is not None and self._have == self._room
        return full or self._stands or self._paused_by_node or self._paused_by_peer or self._cut_off


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
