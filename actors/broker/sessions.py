"""Fetch sessions (KIP-227): what a fetcher has asked for, kept here, so that a request names only what changed.

This file alone decides which session a request belongs to and which of its partitions must be looked at. Rules:

1. Session id 0 is no session. Epoch -1 asks without one (and closes the one named), 0 asks for a new one, the others count.
2. Only *dirty* entries are looked at: those the request names, those that grew or whose high watermark moved since the last
   answer, those that did not fit into it. A fetcher of ten thousand idle partitions costs nothing.
3. A registered broker gets a session always, and one only. Clients get one while there is room: for so many sessions and
   for `ENTRIES_MAX` partitions in all of theirs; the longest unused goes after two minutes. Whoever claims to be a replica
   and is no registered broker is a client here.
4. What did not fit stays in front of what was sent: the order of `dirty` is the fairness. What was sent stays dirty, at the
   end, until the fetcher names its new position: an answer that it threw away is sent again, its high watermark too.
5. A request without a session gets one of its own that nobody can find again: there is one way to look.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from actors.broker.log.aborted_search import AbortedFound
from actors.broker.partition import Partition
from actors.ports import Buffer
from actors.wire.errors import ErrorCode

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EPOCH_MAX = (1 << 31) - 1
IDLE_MS = 120_000
SLOTS = 1000
ENTRIES_MAX = 250_000
"""Partitions in all sessions of clients together; one takes about half a kilobyte."""
UNSENT = -2

Topic = bytes | str
"""A topic id, or a name in requests below version 13."""
Key = tuple[Topic, int]
Warm = tuple[int, int, Buffer]
"""(fetch offset, offset behind, batches) that has been read for an answer that is waiting."""


class Wanted(NamedTuple):
    """One partition of a request."""

    topic: Topic
    number: int
    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start: int
    bytes_max: int


class Entry:
    """One partition of a fetcher: what it wants, and what it was last told."""

    __slots__ = (
        "aborted",
        "bytes_max",
        "fetch_offset",
        "fresh",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "number",
        "partition",
        "sent_high_watermark",
        "sent_log_start",
        "session",
        "topic",
        "unread",
        "warm",
    )

    def __init__(self, wanted: Wanted, session: "Session") -> None:
        self.topic = wanted.topic
        self.number = wanted.number
        self.partition: Partition | None = None
        self.session = session
        self.warm: Warm | None = None
        """Of the next look."""
        self.aborted: AbortedFound | None = None
        """The same of aborted transactions."""
        self.unread = -1
        """Fetch offset at which a thread could not read; -1: none."""
        self.fresh = True
        """The fetcher said where it is since the last look: its position is to be noted."""
        self.ask(wanted)

    def ask(self, wanted: Wanted) -> None:
        """Take in what a request says. Who names a partition takes in no answer that was sent before: it hears anew."""
        self.sent_high_watermark = UNSENT
        self.sent_log_start = UNSENT
        self.fetch_offset = wanted.fetch_offset
        self.leader_epoch = wanted.leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start = wanted.log_start
        self.bytes_max = wanted.bytes_max
        self.fresh = True

    def stir(self) -> "Session":
        """The partition changed: look at it with the next answer of its session."""
        session = self.session
        session.dirty[self] = None
        return session


class Session:
    """One fetcher's session. Invariant: `dirty` is a part of `entries`."""

    __slots__ = (
        "committed_only", "dirty", "entries", "epoch", "id", "key", "registered", "replica", "used_ms", "uses_ids",
    )  # fmt: skip

    def __init__(self, id: int, replica: int, uses_ids: bool, mono_ms: int) -> None:
        self.id = id
        self.epoch = 1
        """The epoch that the next request must carry."""
        self.replica = replica
        self.registered = False
        """Whether it is of a registered broker: it has no place among the clients' then, and does not expire."""
        self.uses_ids = uses_ids
        self.committed_only = False
        """As the last request said. Invariant: what is not dirty has nothing more for such a reader."""
        self.entries: dict[Key, Entry] = {}
        self.dirty: dict[Entry, None] = {}
        self.used_ms = mono_ms
        self.key = object()
        """Waiting key: something became dirty, or a newer request of the session has come."""

    def want(self, wanted: Iterable[Wanted]) -> list[Entry]:
        """Add and change partitions; the entries that are new."""
        added = []
        for one in wanted:
            entry = self.entries.get((one.topic, one.number))
            if entry is None:
                entry = self.entries[one.topic, one.number] = Entry(one, self)
                added.append(entry)
            else:
                entry.ask(one)
                self.dirty.pop(entry, None)
            self.dirty[entry] = None
        return added

    def isolate(self, committed_only: bool) -> None:
        """A request says something else than the last one: there may be something to read anywhere."""
        self.committed_only = committed_only
        if self.entries:
            self.dirty = self.dirty | dict.fromkeys(self.entries.values())

    def forget(self, keys: Iterable[Key]) -> list[Entry]:
        """Drop partitions; the entries that are gone."""
        gone = [entry for key in keys if (entry := self.entries.pop(key, None)) is not None]
        for entry in gone:
            self.dirty.pop(entry, None)
        return gone


class Opened(NamedTuple):
    """What a request's session turned out to be."""

    error: int
    session: Session | None
    """None: refused. Its id is 0 when nobody will find it again."""
    incremental: bool
    closed: Session | None
    """A session that ended by this request; its entries are to be detached from their partitions."""


class Sessions:
    """All fetch sessions of a broker."""

    def __init__(self, below: Callable[[int], int], slots: int = SLOTS) -> None:
        self._below = below
        self._slots = slots
        self._by_id: dict[int, Session] = {}
        self._entries = 0
        """Invariant: the number of entries in all sessions of clients that can be found again."""

    def __len__(self) -> int:
        return len(self._by_id)

    def open(
        self, session_id: int, epoch: int, replica: int, uses_ids: bool, mono_ms: int, *, registered: bool = False
    ) -> Opened:
        """Find, make or end the session that (session_id, epoch) means.

        Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            closed = self._by_id.get(session_id) if session_id else None
            if closed is not None:
                self.close(closed)
            made = self._make(epoch == INITIAL_EPOCH, replica, uses_ids, mono_ms, registered)
            return Opened(ErrorCode.NONE, made, False, closed)
        session = self._by_id.get(session_id)
        if session is None:
            return Opened(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None, False, None)
        if session.uses_ids is not uses_ids:
            return Opened(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None, False, None)
        if session.epoch != epoch:
            return Opened(ErrorCode.INVALID_FETCH_SESSION_EPOCH, None, False, None)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.used_ms = mono_ms
        if registered and session.replica == replica and not session.registered:
            session.registered = True
            self._entries -= len(session.entries)
        return Opened(ErrorCode.NONE, session, True, None)

    def grew(self, session: Session, entries: int) -> bool:
        """A session has so many partitions more. False: that is too much for all, and it cannot be found again."""
        if session.registered or session.id not in self._by_id:
            return True
        self._entries += entries
        if entries <= 0 or self._entries <= ENTRIES_MAX:
            return True
        self.close(session)
        session.id = 0
        return False

    def evict(self, mono_ms: int) -> list[Session]:
        """Clients' sessions that were not used for two minutes, once the room is half gone; they are gone now."""
        if len(self._by_id) * 2 < self._slots:
            return []
        old = [
            session
            for session in self._by_id.values()
            if not session.registered and mono_ms - session.used_ms > IDLE_MS
        ]
        for session in old:
            self.close(session)
        return old

    def replica_sessions(self, replica: int) -> list[Session]:
        """Sessions of one registered broker, oldest first."""
        return [session for session in self._by_id.values() if session.registered and session.replica == replica]

    def close(self, session: Session) -> None:
        """End a session from this side."""
        if self._by_id.pop(session.id, None) is not None and not session.registered:
            self._entries -= len(session.entries)

    def _make(self, kept: bool, replica: int, uses_ids: bool, mono_ms: int, registered: bool) -> Session:
        if not kept or (not registered and len(self._by_id) >= self._slots):
            return Session(0, replica, uses_ids, mono_ms)
        chosen = self._below(EPOCH_MAX) + 1
        while chosen in self._by_id:
            chosen = self._below(EPOCH_MAX) + 1
        session = self._by_id[chosen] = Session(chosen, replica, uses_ids, mono_ms)
        session.registered = registered
        return session
