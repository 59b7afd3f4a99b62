"""What the machine wants done: one `Ready` at a time, its fields in the order in which the node acts.

This file alone decides which message may leave before a sync and which only after it.

Rules:

1. `send` holds messages that claim nothing durable: a leader's fetch answers; pre-votes and rejections of an epoch that is.
2. A message that claims something durable (a vote, a voter's fetch, an announced epoch, an answer to an announcement)
   leaves after a sync that began when all that it claims had been written. If nothing is unsynced, it leaves at once.
3. Syncs finish in the order in which they began.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.ports import Batch, Buffer
from actors.raft.log import Log
from actors.raft.messages import Message, ReplicaKey, SnapshotId


class HardState(NamedTuple):
    """The content of quorum-state. `voted` is the vote given in `epoch`."""

    epoch: int = 0
    voted: ReplicaKey | None = None
    leader_id: int = -1


class Leadership(NamedTuple):
    """This replica leads `epoch`. When that was decided, the log ended at `next_offset`."""

    epoch: int
    next_offset: int


class SnapshotPart(NamedTuple):
    """Bytes of a snapshot in transfer, to be written at `position`. `last`: verify the file, then call
    `Raft.snapshot_received`."""

    snapshot: SnapshotId
    position: int
    data: Buffer
    last: bool


class Ready(NamedTuple):
    """All that the node has to do now, in the order of the fields. Several may be in flight: each has its own sync
    token."""

    lost: bool = False
    """0 the leadership is lost: undo to the high watermark, held replies become NOT_CONTROLLER."""
    snapshot_parts: Sequence[SnapshotPart] = ()
    """1 write into the unfinished snapshot file; not durable yet."""
    load_snapshot: SnapshotId | None = None
    """2 the verified file gets its name (part of sync), the log starts anew at its end, images load it."""
    truncate_to: int | None = None
    """3 cut the log."""
    append: Sequence[Batch] = ()
    """4 write these batches to the log."""
    hard_state: HardState | None = None
    """5 replace quorum-state (part of sync)."""
    send: Sequence[tuple[int, Message]] = ()
    """6 send at once: these messages claim no durability."""
    sync: int | None = None
    """7 the token of a sync, or None: make 2 to 5 durable, then call `Raft.synced(token)`."""
    after_sync: Sequence[tuple[int, Message]] = ()
    """8 send these only after that sync."""
    high_watermark: int = -1
    """9 replay up to here, release held replies."""
    gained: Leadership | None = None
    """10 start to act as leader; set only once its LeaderChange is committed."""


class Outbox:
    """The effects of the inputs since the last Ready."""

    __slots__ = ("_token", "claims", "gained", "hard_changed", "load_snapshot", "lost", "parts", "send", "truncate_to")

    def __init__(self) -> None:
        self._token = 0
        self.lost = False
        self.parts: list[SnapshotPart] = []
        self.load_snapshot: SnapshotId | None = None
        self.truncate_to: int | None = None
        self.hard_changed = False
        self.send: list[tuple[int, Message]] = []
        self.claims: list[tuple[int, Message]] = []
        self.gained: Leadership | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing waits, apart from unwritten batches and a moved high watermark."""
        return not (self.send or self.claims or self.hard_changed or self.lost or self.parts) and (
            self.load_snapshot is None and self.truncate_to is None and self.gained is None
        )

    def take(self, log: Log, hard: HardState, high_watermark: int) -> Ready:
        """Build the next Ready. The outbox is empty afterwards."""
        append, log.unwritten = log.unwritten, []
        changed = bool(append) or self.hard_changed or self.truncate_to is not None or self.load_snapshot is not None
        sync = None
        send, claims = self.send, self.claims
        if changed or (claims and log.syncing):
            self._token += 1
            sync = self._token
            log.sync_started(sync, hard.epoch)
        else:
            send, claims = send + claims, []
        ready = Ready(
            lost=self.lost,
            snapshot_parts=self.parts,
            load_snapshot=self.load_snapshot,
            truncate_to=self.truncate_to,
            append=append,
            hard_state=hard if self.hard_changed else None,
            send=send,
            sync=sync,
            after_sync=claims,
            high_watermark=high_watermark,
            gained=self.gained,
        )
        self.lost = self.hard_changed = False
        self.parts, self.send, self.claims = [], [], []
        self.load_snapshot = self.truncate_to = self.gained = None
        return ready
