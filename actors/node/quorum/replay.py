"""The way of committed batches to the roles of a node, and the moment when a role hears that this node leads the
quorum.

This file alone decides when a role sees a batch: committed ones only, each once, in order, after the snapshot before them. A
lost leadership comes first, a gained one last and only when everything below it has been replayed (KIP-631).

A snapshot is loaded a slice a turn (`metadata/snapshot.py` has its size); what it replaces is freed in slices too. Rules:

1. Until the snapshot is whole the roles show what they showed before, and see no batch. Then all of them take over in one
   step. At a start they show nothing, and no other node is heard before (`node.py`).
2. A newer snapshot begins anew, and what was made of the older one is dropped. So does the same one if there was no
   descriptor to read a piece of it.
3. One that is not sound is the end of the node: the log begins behind it, and what is known does not reach so far.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

from actors.metadata.snapshot import InPieces
from actors.node.quorum.log import READ_BYTES
from actors.node.quorum.store import Store
from actors.node.runtime.runtime import Runtime
from actors.ports import Batch, Buffer
from actors.raft import Leadership, SnapshotId

END = object()
REPLAY_BYTES = READ_BYTES
"""About how many bytes of committed batches one turn replays: what one read of the file gives."""


class NodeRole(Protocol):
    """A role of the node, as it follows the metadata log."""

    def loading(self, data: Buffer | InPieces, snapshot: SnapshotId) -> Iterator[None]:
        """Begin to load a snapshot beside what is known, in the place of one that is being loaded: the slices. Raises
        CorruptMetadata, DiskFull, DiskFailed in one of them; what is known stays then."""
        ...

    def loaded(self) -> Iterator[None]:
        """Put the snapshot whose last slice is done in the place of what is known. The slices in which that is freed."""
        ...

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
        self.loading: SnapshotId | None = None
        """The snapshot that is being loaded; None: none is."""
        self._slices: Iterator[None] | None = None
        """The slices of it that are left; None: it is to be begun."""
        self._leavings: Iterator[None] | None = None
        """The slices in which is freed what snapshots have replaced; None: nothing is left of it."""
        self._sliced = False
        """Whether this turn has had its slice."""

    def load(self, snapshot: SnapshotId) -> None:
        """Begin again at a snapshot that is on the disk. Raises FileNotFoundError, DiskFull, DiskFailed: it is not begun."""
        self.loading, self._slices = snapshot, None
        self._begin(snapshot)

    def _begin(self, snapshot: SnapshotId) -> None:
        data = self._store.checkpoints.load(snapshot)
        self._slices = chain.from_iterable([role.loading(data, snapshot) for role in self.roles])

    @property
    def due(self) -> bool:
        """Whether the next turn has something to do here, whatever comes."""
        return self.behind or self._leavings is not None

    def begin_turn(self) -> None:
        """Let as much be loaded as in any turn, and free a slice of what was replaced."""
        self._sliced = False
        self._free()

    def _free(self) -> None:
        if self._leavings is not None and next(self._leavings, END) is END:
            self._leavings = None

    def _load_on(self, snapshot: SnapshotId) -> None:
        """Do the next slice of a snapshot, and put it in the place of what is known if that was the last one. Raises
        CorruptMetadata, DiskFull, DiskFailed; after DiskFull it may be called again."""
        if self._slices is None:
            self._begin(snapshot)
        assert self._slices is not None
        slices, self._slices = self._slices, None
        if next(slices, END) is not END:
            self._slices = slices
            return
        self.loading = None
        self._leavings = chain(self._leavings or (), *[role.loaded() for role in self.roles])
        self.applied = snapshot.end_offset
        self.loads += 1
        self._free()

    def lost(self, epoch: int) -> None:
        """Note that this node no longer leads."""
        self.pending = None
        self.leads = False
        self._runtime.log.info(f"no longer leader of the quorum, epoch {epoch}")
        for role in self.roles:
            role.lost()
        self._runtime.waiting.lost()

    def run(self, high_watermark: int) -> None:
        """Hand a slice of a snapshot or committed batches to the roles, up to a budget; then say what is committed. Raises
        what a slice of a snapshot raises."""
        if self.loading is not None:
            self.behind = True
            if not self._sliced:
                self._sliced = True
                self._load_on(self.loading)
            if self.loading is not None:
                return
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
