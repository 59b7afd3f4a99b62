"""Lists of all topics, written once for all who ask in the same generation of the metadata, and what is kept of them.

A list of a million partitions has 50 MB and more. This file alone decides who shares one, how long it is kept, and what
happens when those that peers are still reading leave no room for the next. Rules:

1. A list belongs to a generation of the image, and to whatever else makes it differ (`api/handlers/metadata.py`). A
   request that comes while it is being written does the next slice of it, so nobody waits for another's connection.
2. It is kept until a newer generation is asked for, or nobody has asked for it for `KEPT_MS`; longer for those that read it,
   and a request that comes meanwhile gets it too; not for so long where somebody waits for room. Its bytes are counted once,
   however many read it.
3. While `BYTES_MAX` are kept, no further one is begun: a request for it waits. Of those that are being written the oldest
   alone goes on then, and only if what is kept beside it is less, or nothing is whole. So at most that and one list are kept
   together.
4. Peers that have had a list for `READ_MS` and have not read it lose their connection, the longest first, while somebody
   waits for room. A waiter gets no answer after `WAIT_MS`.
"""

import weakref
from collections.abc import Callable, Generator, Hashable
from typing import NamedTuple

from actors.node.net.request_channel import RequestChannel
from actors.node.runtime.answers import Answer, Close, Parked
from actors.node.runtime.runtime import Runtime
from fastpath.messages.encoder import Encoded

BYTES_MAX = 32 << 20
KEPT_MS = 2_000
READ_MS = 10_000
WAIT_MS = 30_000
LOOK_MS = 200
ROOM_KEY = ("room for a list of topics",)
Begun = tuple[Generator[None, None, Encoded], Callable[[], int]]
"""What writes a list, slice by slice, and how many bytes that has by now."""


class TopicList:
    """One list, while it is written and afterwards. `whole`: None: it is not yet."""

    __slots__ = (
        "__weakref__",
        "_failed",
        "_steps",
        "_written",
        "asked_ms",
        "expected",
        "number",
        "size",
        "whole",
        "writer",
    )

    def __init__(self, number: int, writer: Hashable, begun: Begun, expected: int) -> None:
        """`number`: of two lists the older one has the smaller. `writer`: whose rights it is written by. `expected`: how
        many bytes it may have."""
        self.number = number
        self.writer = writer
        self.asked_ms = 0
        self.expected = expected
        self.whole: Encoded | None = None
        self.size = 0
        self._steps, self._written = begun
        self._failed: BaseException | None = None

    def go_on(self) -> None:
        """Write the next slice. Raises what writing it raises, for everybody who asks for it."""
        if self._failed is not None:
            raise self._failed
        try:
            next(self._steps)
        except StopIteration as end:
            self.whole = end.value
            self.size = sum(map(len, end.value.parts))
        except BaseException as error:
            self._failed = error
            raise

    @property
    def bytes(self) -> int:
        """How many bytes it takes, or will take."""
        return self.size if self.whole is not None else max(self._written(), self.expected)


class _Reader(NamedTuple):
    """A connection that has a list and may not have read it yet."""

    conn: int
    list: TopicList
    since_ms: int
    read_at: int
    """How much of its answers the connection's peer has taken once it has the list (`Connection.taken`)."""


class TopicLists:
    """The lists of a broker."""

    def __init__(self, runtime: Runtime, requests: RequestChannel) -> None:
        self._runtime, self._requests = runtime, requests
        self._newest: dict[Hashable, TopicList] = {}
        """The lists that others may still share. Invariant: all of one generation."""
        self._generation: Hashable = None
        self._alive: weakref.WeakSet[TopicList] = weakref.WeakSet()
        """Every list that somebody has: those, those that are read, and those that are written for requests under way."""
        self._readers: list[_Reader] = []
        self._largest = self._begun = 0
        self._wanted_until_ms = -1
        """Until when somebody waits for room; -1: nobody does."""
        self._looks = False
        runtime.ledger.owner("TopicLists", self.bytes_kept, f"{BYTES_MAX >> 20} MiB and one list")

    def bytes_kept(self) -> int:
        """How much is kept of all lists."""
        return sum(one.bytes for one in self._alive)

    def find(
        self, generation: Hashable, key: Hashable, writer: Hashable, begin: Callable[[], Begun]
    ) -> TopicList | None:
        """The list of a key in a generation. One that is not there is begun by `writer`; None: there is no room for it."""
        if generation != self._generation:
            self._newest.clear()
            self._generation = generation
        found = self._newest.get(key)
        if found is None or found._failed is not None:
            self._sweep()
            if self.bytes_kept() >= BYTES_MAX:
                return None
            self._begun += 1
            found = self._newest[key] = TopicList(self._begun, writer, begin(), self._largest)
            self._alive.add(found)
        found.asked_ms = self._runtime.now.mono_ms
        self._look_later()
        return found

    def go_on(self, list: TopicList) -> bool:
        """Write the next slice of a list; False: there is no room for it yet."""
        if self.bytes_kept() >= BYTES_MAX and list is not self._going_on():
            return False
        list.go_on()
        return True

    def _going_on(self) -> TopicList | None:
        """The list that is written on while there is no room for others."""
        oldest = min((one for one in self._alive if one.whole is None), key=lambda one: one.number, default=None)
        if oldest is None or self.bytes_kept() - oldest.bytes < BYTES_MAX:
            return oldest
        return None if any(one.whole is not None for one in self._alive) else oldest

    def wait(self, again: Callable[[int], Answer], until_ms: int = 0) -> Parked:
        """Ask `again` when there is room; it is told until when its request may wait. `until_ms`: that time, of a request
        that has waited; 0: it has not."""
        until_ms = until_ms or self._runtime.now.mono_ms + WAIT_MS
        self._wanted_until_ms = max(self._wanted_until_ms, until_ms)
        self._look_later()

        def go_on(expired: bool) -> Answer:
            return (
                Close("other lists of topics that are still read leave no room for another")
                if expired
                else again(until_ms)
            )

        return Parked([ROOM_KEY], until_ms, go_on)

    def reads(self, conn: int, list: TopicList) -> None:
        """Note that a connection gets a list that is whole, with the answer of this turn."""
        self._largest = list.size
        connection = self._requests.connections.get(conn)
        if connection is not None:
            self._readers.append(_Reader(conn, list, self._runtime.now.mono_ms, connection.answered + list.size))
            self._count()

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + LOOK_MS, self._look)

    def _look(self) -> None:
        now_ms, self._looks = self._runtime.now.mono_ms, False
        self._sweep()
        self._drop(now_ms)
        if now_ms < self._wanted_until_ms:
            while self.bytes_kept() >= BYTES_MAX and self._readers and now_ms - self._readers[0].since_ms >= READ_MS:
                self._give_up(self._readers[0])
            if self.bytes_kept() < BYTES_MAX or self._going_on() is not None:
                self._wanted_until_ms = -1
                self._runtime.waiting.signal(ROOM_KEY)
        if self._newest or self._readers or now_ms < self._wanted_until_ms:
            self._look_later()

    def _drop(self, now_ms: int) -> None:
        """Share no further a list that nobody reads, and has asked for lately; while there is no room for another, one that
        is whole goes at once."""
        read = {reader.list for reader in self._readers}
        crowded = now_ms < self._wanted_until_ms and self.bytes_kept() >= BYTES_MAX
        for key, one in list(self._newest.items()):
            if one not in read and (now_ms - one.asked_ms >= KEPT_MS or (crowded and one.whole is not None)):
                del self._newest[key]

    def _give_up(self, reader: _Reader) -> None:
        connection = self._requests.connections.get(reader.conn)
        if connection is not None:
            self._requests.close(
                connection, f"it has not read its list of all topics for {READ_MS // 1000} s, and others wait for room"
            )
        self._sweep()

    def _sweep(self) -> None:
        """Forget readers that have read what they got, or are gone."""
        if self._readers:
            get = self._requests.connections.get
            self._readers = [
                one
                for one in self._readers
                if (at := get(one.conn)) is not None and at.unread > 0 and at.taken < one.read_at
            ]
            self._count()

    def _count(self) -> None:
        self._requests.connections.shared_bytes = sum(one.list.size for one in self._readers)
