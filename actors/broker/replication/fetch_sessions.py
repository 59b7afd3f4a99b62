"""Fetch sessions (KIP-227): the partitions of a fetcher are kept here, so that a request names only changes.

This file alone decides which session a request belongs to and which of its partitions must be looked at. Rules:

1. Session id 0 means no session. Epoch -1 fetches without a session (and closes the one named), 0 asks for a new
   session, and higher epochs count the requests of a session.
2. Only *dirty* entries are looked at: those that the request names, those that grew or whose high watermark moved since
   the last answer, and those that did not fit into it. A fetcher of ten thousand idle partitions costs nothing.
3. A registered broker always gets a session, and one only. Clients get one while there is room, which is limited by the
   number of sessions, by `ENTRIES_MAX` partitions in all of them, and by what the ledger has for their principal. A session
   that has been unused for two minutes gives way. A client that claims to be a replica but is no registered broker counts
   as a client.
4. Entries that did not fit stay in front of those that were sent: the order of `dirty` makes fetching fair. An entry
   that was sent stays dirty, at the end, until the fetcher names its new position. So an answer that the fetcher threw
   away is sent again, including its high watermark.
5. A request without a session gets a temporary one that no later request can find, so that all requests take the same
   path. So does a session for whose partitions there is no room any more: it ends behind the answer to this request.

A session knows its partitions by name. Which replica that is now, and that its changes mark an entry dirty, is for
`replicas.py`: what is said here of sessions and entries that end or begin has to be told there.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from actors.broker.log.aborted_search import AbortedFound
from actors.broker.replication.partition import Partition
from actors.ledger import EVERYBODY, NODES, Account, Ledger
from actors.ports import Buffer
from actors.wire.errors import ErrorCode

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
FIRST_EPOCH = 1
"""The epoch of the request behind the one that has begun a session."""
EPOCH_MAX = (1 << 31) - 1
IDLE_MS = 120_000
SLOTS = 1000
ENTRIES_MAX = 250_000
"""The limit on partitions in all sessions of clients together."""
ENTRY_BYTES = 512
"""The bytes that one entry takes in memory."""
UNSENT = -2
NONE = ErrorCode.NONE
"""A module name, because every request uses it and the look-up of an enum member costs more."""

Topic = bytes | str
"""A topic id or, in requests below version 13, a name."""
Key = tuple[Topic, int]
Warm = tuple[int, int, Buffer]
"""(fetch offset, offset after the batches, batches) that has been read for an answer that is waiting."""


class Wanted(NamedTuple):
    """One partition as a request names it."""

    topic: Topic
    number: int
    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start: int
    bytes_max: int


class SessionPartition:
    """One partition of a fetcher: what the fetcher wants, and what it was last sent."""

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
        "told_high_watermark",
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
        """What was read for the next look."""
        self.aborted: AbortedFound | None = None
        """What was found of aborted transactions for the next look."""
        self.unread = -1
        """The fetch offset at which a job could not read; -1: there is none."""
        self.told_high_watermark = -1
        """The high watermark in the last answer that named the partition; other than `sent_high_watermark` it stays
        when a request names it."""
        self.fresh = True
        """Whether the fetcher has stated its position since the last look. If so, the position must be noted."""
        self.sent_high_watermark = UNSENT
        self.sent_log_start = UNSENT
        self.ask(wanted)

    def ask(self, wanted: Wanted) -> None:
        """Note what a request says of the partition. A client that names it again hears of it when there is something new,
        as from Apache Kafka. A broker gets a complete answer: it may have a new replica, which knows no high watermark."""
        if self.session.replica >= 0:
            self.sent_high_watermark = UNSENT
            self.sent_log_start = UNSENT
        self.fetch_offset = wanted.fetch_offset
        self.leader_epoch = wanted.leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start = wanted.log_start
        self.bytes_max = wanted.bytes_max
        self.fresh = True

    def stir(self) -> "Session":
        """Note that the partition changed: its session must look at it for the next answer."""
        session = self.session
        session.dirty[self] = None
        return session


class Session:
    """One fetcher's session. Invariant: `dirty` is a subset of `entries`."""

    __slots__ = (
        "charged", "committed_only", "dirty", "entries", "epoch", "id", "key", "principal", "registered", "replica",
        "used_ms", "uses_ids",
    )  # fmt: skip

    def __init__(self, id: int, replica: int, uses_ids: bool, mono_ms: int, principal: str = EVERYBODY) -> None:
        self.id = id
        self.principal = principal
        """The principal for whom the session is kept."""
        self.charged = 0
        """The bytes that the account has for the session. Invariant: 0 unless later requests can find it."""
        self.epoch = FIRST_EPOCH
        """The epoch that the next request must carry."""
        self.replica = replica
        self.registered = False
        """Whether the session belongs to a registered broker. Such a session takes no place among the clients' and does not
        expire."""
        self.uses_ids = uses_ids
        self.committed_only = False
        """Whether the last request read up to the last stable offset. Invariant: what is not dirty has nothing more for
        such a reader."""
        self.entries: dict[Key, SessionPartition] = {}
        self.dirty: dict[SessionPartition, None] = {}
        self.used_ms = mono_ms
        self.key = object()
        """Waiting key: an entry became dirty, or a newer request of the session has come."""

    def want(self, wanted: Iterable[Wanted]) -> list[SessionPartition]:
        """Add or change partitions. Returns the entries that are new."""
        added = []
        for one in wanted:
            entry = self.entries.get((one.topic, one.number))
            if entry is None:
                entry = self.entries[one.topic, one.number] = SessionPartition(one, self)
                added.append(entry)
            else:
                entry.ask(one)
                self.dirty.pop(entry, None)
            self.dirty[entry] = None
        return added

    def isolate(self, committed_only: bool) -> None:
        """Note whether a request reads up to the last stable offset only. If that is other than the last time, there
        may be something to read anywhere."""
        self.committed_only = committed_only
        if self.entries:
            self.dirty = self.dirty | dict.fromkeys(self.entries.values())

    def forget(self, keys: Iterable[Key]) -> list[SessionPartition]:
        """Drop partitions from the session. Returns the entries that are gone."""
        gone = [entry for key in keys if (entry := self.entries.pop(key, None)) is not None]
        self.clean(gone)
        return gone

    def end(self) -> None:
        """Let the entries go: they and the session name each other, so else they stay until cycles are looked for."""
        self.entries, self.dirty = {}, {}

    def clean(self, entries: Iterable[SessionPartition]) -> None:
        """Take entries off the dirty ones: they need not be looked at until they change."""
        for entry in entries:
            self.dirty.pop(entry, None)

    def soil(self, entries: Iterable[SessionPartition]) -> None:
        """Put entries that are to be looked at again in front of the other dirty ones."""
        self.dirty = dict.fromkeys(entries) | self.dirty


class Opened(NamedTuple):
    """The session that a request belongs to, and sessions that have ended."""

    error: int
    session: Session | None
    """The session; None: the request is refused. A session with id 0 serves this request only."""
    incremental: bool
    ended: Sequence[Session]
    """Sessions that have ended by now. Their entries must be detached from their partitions."""


class Sessions:
    """All fetch sessions of a broker."""

    def __init__(self, below: Callable[[int], int], slots: int = SLOTS, account: Account | None = None) -> None:
        self._below = below
        self._slots = slots
        self._by_id: dict[int, Session] = {}
        self.account = account or Ledger().account("FetchSessions", ENTRIES_MAX * ENTRY_BYTES)
        """The ledger's account of the sessions. Invariant: it has what is charged for the sessions that later requests
        can find."""

    def __len__(self) -> int:
        return len(self._by_id)

    def open(
        self,
        session_id: int,
        epoch: int,
        replica: int,
        uses_ids: bool,
        mono_ms: int,
        *,
        registered: bool = False,
        principal: str = EVERYBODY,
        committed_only: bool = False,
    ) -> Opened:
        """Find, make or end the session that (session_id, epoch) names. `principal`: the one that asks. `committed_only`:
        this request reads up to the last stable offset. A new session of a registered broker ends its others.

        Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        ended = self.evict(mono_ms)
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id and (named := self._by_id.get(session_id)) is not None:
                self.close(named)
                ended.append(named)
            session = self._make(epoch == INITIAL_EPOCH, replica, uses_ids, mono_ms, NODES if registered else principal)
            if registered:
                for old in self.replica_sessions(replica):
                    if old is not session:
                        self.close(old)
                        ended.append(old)
            session.committed_only = committed_only
            return Opened(NONE, session, False, ended)
        found = self._by_id.get(session_id)
        if found is None:
            return Opened(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None, False, ended)
        if found.uses_ids is not uses_ids:
            return Opened(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None, False, ended)
        if found.epoch != epoch:
            return Opened(ErrorCode.INVALID_FETCH_SESSION_EPOCH, None, False, ended)
        found.epoch = 1 if epoch == EPOCH_MAX else epoch + 1  # never 0, which asks for a new session
        found.used_ms = mono_ms
        if registered and found.replica == replica and not found.registered:
            found.registered = True
            self._charge(found, -found.charged)
            found.principal = NODES
            self._charge(found, ENTRY_BYTES * len(found.entries))
        if found.committed_only is not committed_only:
            found.isolate(committed_only)
        return Opened(NONE, found, True, ended)

    def want(self, session: Session, wanted: Iterable[Wanted]) -> Sequence[SessionPartition]:
        """Take in partitions that a request names. Returns the entries to attach to their partitions: those that are new.
        Where there is no room for these no later request finds the session, and all of it is to be attached anew:
        partitions need not tell it what changes."""
        added = session.want(wanted)
        return added if not added or self.grew(session, len(added)) else list(session.entries.values())

    def forget(self, session: Session, keys: Iterable[Key]) -> Sequence[SessionPartition]:
        """Take out partitions that a request drops. Returns the entries to detach."""
        gone = session.forget(keys)
        self.grew(session, -len(gone))
        return gone

    def grew(self, session: Session, entries: int) -> bool:
        """Charge a session for partitions that it has more. Returns False if there is no room for them, and no later
        request will find this session."""
        if session.id not in self._by_id:
            return True
        size = ENTRY_BYTES * entries
        if size <= 0 or self.account.has_room(session.principal, size):
            self._charge(session, size)
            return True
        self.close(session)
        session.id = 0
        return False

    def evict(self, mono_ms: int) -> list[Session]:
        """End clients' sessions that were not used for two minutes, once half of the slots are taken. Returns them."""
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
        """End a session from the broker's side."""
        if self._by_id.pop(session.id, None) is not None:
            self._charge(session, -session.charged)

    def _charge(self, session: Session, size: int) -> None:
        session.charged += size
        self.account.keep(session.principal, size)

    def _make(self, kept: bool, replica: int, uses_ids: bool, mono_ms: int, principal: str) -> Session:
        registered = principal == NODES
        if not kept or (not registered and len(self._by_id) >= self._slots):
            return Session(0, replica, uses_ids, mono_ms)
        chosen = self._below(EPOCH_MAX) + 1
        while chosen in self._by_id:
            chosen = self._below(EPOCH_MAX) + 1
        session = self._by_id[chosen] = Session(chosen, replica, uses_ids, mono_ms, principal)
        session.registered = registered
        return session
