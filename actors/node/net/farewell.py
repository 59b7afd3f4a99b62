"""The requests that are still handled after their peer has closed its connection: those that wait for no answer, if
they have arrived whole.

This file alone decides what outlives its connection: Produce with acks=0, and LeaveGroup. A producer with acks=0 waits
for no answer, so it sends and closes; a consumer that is interrupted takes its leave and closes, and the others of its
group would wait for its session to end. Apache Kafka reads on from a connection that its peer has closed until the
answer to a request cannot be sent. Rules:

1. These requests are handled in their order and in their connection's share of the time, those that wait for a thread
   or a write too. The answers to all others are dropped, and requests that have not begun to write are dropped too. One
   that has begun goes on, since a later one may wait for it (`batch_inspections.py`).
2. The connection is forgotten when the last of them is handled. One that fails takes the others with it, as on a
   connection that is open.
3. `CLOSED_MAX` connections may stay, and none while the requests of all connections hold more memory than they may.
"""

import struct
from collections.abc import Callable

from actors.node.net.connections import DATA_KINDS, Connections, Slot
from actors.node.net.request_queue import RequestQueue
from actors.wire import framing
from actors.wire.errors import WireError

CLOSED_MAX = 1000
PRODUCE, FLEXIBLE_FROM = 0, 9
LEAVE_GROUP = 13
_LENGTH = struct.Struct(">h")


class Farewell:
    """The connections that their peers have closed and that stay until what they sent is handled."""

    def __init__(self, connections: Connections, queue: RequestQueue, drop: Callable[[Slot], None]) -> None:
        """`drop` is called for a slot whose answer is not sent any more."""
        self._connections = connections
        self._queue = queue
        self._drop = drop
        self.staying: dict[int, list[Slot]] = {}
        """The connections that stay, each with the requests that had begun to write: with the connection they go."""

    def stays(self, conn: int) -> bool:
        """Take a connection that its peer has closed. Returns whether something of it is still handled."""
        connections = self._connections
        connection = connections.get(conn)
        if connection is None or connection.kind not in DATA_KINDS or not connection.slots:
            return False
        if len(self.staying) >= CLOSED_MAX or connections.bytes_held > connections.bytes_max:
            return False
        kept = {id(slot) for slot in connection.slots if slot.frame is not None and outlives(slot.frame)}
        connections.sift(connection, outlives)

        def wanted(frame: memoryview, slot: Slot) -> bool:
            if outlives(frame):
                kept.add(id(slot))
                return True
            return slot.writer is not None

        self._queue.sift(conn, wanted)
        if not kept and not connection.waiting:
            return False
        others = self.staying[conn] = []
        connections.congested(conn, False)
        for slot in list(connection.slots):
            if id(slot) not in kept:
                if slot.writer is None:
                    slot.give_up()
                else:
                    others.append(slot)
                self._drop(slot)
        self._queue.go_on(conn)
        return True

    def over(self) -> list[int]:
        """The connections of which everything is handled; they are not remembered here any more."""
        over = []
        for conn in self.staying:
            connection = self._connections.get(conn)
            if connection is None or not connection.slots:
                over.append(conn)
        for conn in over:
            for slot in self.staying.pop(conn):
                slot.give_up()
        return over


def outlives(frame: memoryview) -> bool:
    """Whether a request is handled even if its peer has gone."""
    return without_answer(frame) or (len(frame) >= _LENGTH.size and _LENGTH.unpack_from(frame)[0] == LEAVE_GROUP)


def without_answer(frame: memoryview) -> bool:
    """Whether a request is a Produce with acks=0. One that cannot be read is not."""
    if len(frame) < 2 or _LENGTH.unpack_from(frame)[0] != PRODUCE:
        return False
    try:
        header, position = framing.decode_request_header(frame)
        if header.api_version >= FLEXIBLE_FROM:
            size, position = framing.decode_uvarint(frame, position, "ProduceRequest.transactional_id")
            size -= 1
        else:
            (size,) = _LENGTH.unpack_from(frame, position)
            position += _LENGTH.size
        (acks,) = _LENGTH.unpack_from(frame, position + max(size, 0))
    except (WireError, struct.error):
        return False
    return bool(acks == 0)
