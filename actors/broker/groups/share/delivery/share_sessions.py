"""Share sessions: which partitions a member of a share group fetches from this broker (KIP-932).

A session belongs to a group and a member, and to the connection on which it began. This file alone decides which session a
request belongs to. Rules:

1. Epoch 0 begins a session, and ends the member's old one; -1 ends it. Others count its requests, and each must follow the
   last one.
2. A request names only what changes: partitions that are added, and those that are forgotten.
3. There are `sessions_max` sessions at most, with `ENTRIES_MAX` partitions in all of them, and for one principal as many as
   the ledger has room for.
4. A session ends with its connection.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.replication.admission import RequestRefused
from actors.ledger import EVERYBODY, Account, Ledger
from actors.wire.errors import ErrorCode

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = (1 << 31) - 1
ENTRIES_MAX = 250_000
"""The limit on partitions in all sessions together."""
ENTRY_BYTES = 400
"""The bytes that a partition takes, in its session and among the uses of its share partition."""

Named = tuple[bytes, int]
"""The name of a partition in a request: (topic id, number)."""


class SessionOwner(NamedTuple):
    """The group and the member whose session it is."""

    group: str
    member: str


class ShareSession:
    """One member's session. `epoch`: what its next request must carry."""

    __slots__ = ("connection", "epoch", "owner", "partitions", "principal")

    def __init__(self, owner: SessionOwner, connection: int, principal: str) -> None:
        self.principal = principal
        self.owner = owner
        self.connection = connection
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[Named, None] = {}
        """The partitions of the session, in the order in which they were named."""


class ShareSessions:
    """All share sessions of a broker."""

    def __init__(self, sessions_max: int, account: Account | None = None) -> None:
        self.account = account or Ledger().account("ShareSessions", ENTRIES_MAX * ENTRY_BYTES)
        """The ledger's account of the sessions. Invariant: it has what the partitions of all sessions take."""
        self.sessions_max = sessions_max
        self.by_owner: dict[SessionOwner, ShareSession] = {}
        self.uses: dict[SharePartitionKey, int] = {}
        """The number of sessions that name a share partition; share partitions that none names are not in it."""
        self._entries = 0
        """The number of partitions of all sessions."""

    @property
    def entries(self) -> int:
        """The partitions of all sessions."""
        return self._entries

    def begin(self, owner: SessionOwner, connection: int, principal: str = EVERYBODY) -> ShareSession:
        """Begin a session. The old one of that owner must have been ended. Raises RequestRefused:
        SHARE_SESSION_LIMIT_REACHED."""
        if len(self.by_owner) >= self.sessions_max or not self.account.has_room(principal, ENTRY_BYTES):
            raise RequestRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self.by_owner[owner] = ShareSession(owner, connection, principal)
        return session

    def follow(self, owner: SessionOwner, epoch: int) -> ShareSession:
        """The session of a request that is not its first; it counts, if it is not the last. Raises RequestRefused:
        SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
        session = self.by_owner.get(owner)
        if session is None:
            raise RequestRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise RequestRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = INITIAL_EPOCH + 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def add(self, session: ShareSession, named: Iterable[Named]) -> list[Named]:
        """Add partitions that a request names. Returns those that are new. Raises RequestRefused,
        SHARE_SESSION_LIMIT_REACHED, if there is no room for more."""
        added = [one for one in dict.fromkeys(named) if one not in session.partitions]
        if not self.account.charge(session.principal, ENTRY_BYTES * len(added)):
            raise RequestRefused(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED, "share sessions name too many partitions already"
            )
        session.partitions.update(dict.fromkeys(added))
        self._entries += len(added)
        for topic_id, number in added:
            key = SharePartitionKey(session.owner.group, topic_id, number)
            self.uses[key] = self.uses.get(key, 0) + 1
        return added

    def forget(self, session: ShareSession, named: Iterable[Named]) -> list[Named]:
        """Drop partitions that a request does not want any more. Returns those that were there."""
        gone = [one for one in dict.fromkeys(named) if one in session.partitions]
        for one in gone:
            del session.partitions[one]
        self._unused(session, gone)
        return gone

    def end(self, session: ShareSession) -> bool:
        """End a session. Returns False if it was over already."""
        if self.by_owner.get(session.owner) is not session:
            return False
        del self.by_owner[session.owner]
        self._unused(session, session.partitions)
        return True

    def _unused(self, session: ShareSession, named: Collection[Named]) -> None:
        self._entries -= len(named)
        self.account.give_back(session.principal, ENTRY_BYTES * len(named))
        for topic_id, number in named:
            key = SharePartitionKey(session.owner.group, topic_id, number)
            self.uses[key] -= 1
            if not self.uses[key]:
                del self.uses[key]
