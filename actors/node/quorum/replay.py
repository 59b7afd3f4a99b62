"""The way of committed batches to the roles of a node, and the moment when a role hears that this node leads the
quorum.

This file alone decides when a role sees a batch: committed ones only, each once, in order, after the snapshot before them. A
lost leadership comes first, a gained one last and only when everything below it has been replayed (KIP-631).
"""

from collections.abc import Sequence
from typing import Protocol

from actors.metadata.snapshot import InPieces
from actors.node.quorum.log import READ_BYTES
from actors.node.quorum.store import Store
from actors.node.runtime.runtime import Runtime
from actors.ports import Batch, Buffer
from actors.raft import Leadership, SnapshotId

REPLAY_BYTES = READ_BYTES
"""About how many bytes of committed batches one turn replays: what one read of the file gives."""


class NodeRole(Protocol):
    """A role of the node, as it follows the metadata log."""

    def load(self, data: Buffer | InPieces, snapshot: SnapshotId) -> None: ...
    def replay(self, batch: Batch) -> None: ...
    def committed(self, high_watermark: int) -> None: ...
    def gained(self, epoch: int, next_offset: int) -> None:
        """Called when this node is the active controller."""
        ...

    def lost(self) -> None:
        """Called when this node is no longer the active controller."""
        ...

    @property
    def full(self) -> bool:
        """Whether what was replayed in this turn is enough for one."""
        ...


class Replay:
    """The progress of this node's roles in the metadata log."""

    def __init__(self, runtime: Runtime, store: Store) -> None:
        self._runtime = runtime
        self._store = store
        self.roles: Sequence[NodeRole] = ()
        """The roles of the node, set before anything is replayed."""
        self.applied = 0
        """The offset below which the roles have replayed everything."""
        self.behind = False
        """Whether the next turn has more to replay."""
        self.pending: Leadership | None = None
        """The leadership that begins when what is below it has been replayed; None: there is none."""
        self.leads = False
        """Whether the roles know that this node leads."""
        self.loads = 0
        """How many snapshots were loaded."""

    def load(self, snapshot: SnapshotId) -> None:
        """Begin again at a snapshot that is on the disk."""
        data = self._store.checkpoints.load(snapshot)
        for role in self.roles:
            role.load(data, snapshot)
        self.applied = snapshot.end_offset
        self.loads += 1

    def lost(self, epoch: int) -> None:
        """Note that this node no longer leads."""
        self.pending = None
        self.leads = False
        self._runtime.log.info(f"no longer leader of the quorum, epoch {epoch}")
        for role in self.roles:
            role.lost()
        self._runtime.waiting.lost()

    def run(self, high_watermark: int) -> None:
        """Hand committed batches to the roles, up to a budget; then say what is committed."""
        before, budget = self.applied, REPLAY_BYTES
        full = False
        while self.applied < high_watermark and budget > 0 and not full:
            start = self.applied
            for batch in self._store.log.read(start, REPLAY_BYTES) or ():
                if batch.last_offset >= high_watermark:
                    break
                self._replay(batch)
                budget -= len(batch.data)
                full = any(role.full for role in self.roles)
                if full:
                    break
            if self.applied == start:  # read from disk first, or not written yet for want of room
                break
        self.behind = self.applied < high_watermark and (full or budget <= 0)
        if self.applied > before:
            for role in self.roles:
                role.committed(self.applied)
            self._runtime.waiting.committed(self.applied)
        if self.pending is not None and self.applied >= self.pending.next_offset:
            self._gain(self.pending)

    def _replay(self, batch: Batch) -> None:
        assert batch.base_offset <= self.applied <= batch.last_offset, (
            batch.base_offset,
            self.applied,
            batch.last_offset,
        )
        for role in self.roles:
            role.replay(batch)
        self.applied = batch.last_offset + 1

    def _gain(self, leadership: Leadership) -> None:
        self.pending = None
        self._runtime.log.info(f"leader of the quorum, epoch {leadership.epoch}, offset {leadership.next_offset}")
        for role in self.roles:
            role.gained(leadership.epoch, leadership.next_offset)
        self.leads = True
