"""The directory of the metadata log as a whole: recovery over all its files, and what is replaced with each sync.

This file alone decides what a directory means when its files disagree:

1. A checkpoint that ends beyond the log wins, and so does one of a later epoch than the log has: the node stopped
   between taking it over and emptying the log, and what the log has behind it was never committed.
2. The log starts at the oldest checkpoint that lies within it. A log that begins later than every checkpoint ends has
   lost its beginning: the start is refused.
3. The voters are those of the newest checkpoint, and then those of each Voters record in the log behind its end.
4. A log that ends below its durable mark, with no checkpoint beyond it, has lost its end: the start is refused.
5. quorum-state is what it says; a newer epoch in the log is raft's to notice. leader-epoch-checkpoint is rebuilt from
   the log and written for Kafka's tools only.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.node.quorum import files
from actors.node.quorum.checkpoints import Checkpoints
from actors.node.quorum.durable_mark import DurableMark
from actors.node.quorum.log import MetadataLog
from actors.node.quorum.voters import voters_in
from actors.ports import Batch, Buffer, Content, Disk, DiskFailed, DiskFull, File
from actors.raft import EpochTable, HardState, SnapshotId, SnapshotSlice, VoterHistory, Voters
from fastpath.records import batch as bytes_of

NO_SNAPSHOT = SnapshotId(0, 0)
CONTROL_BIT = 0x20
SNAPSHOT_RETRY_MS = 10_000
"""The time in ms after which a checkpoint that found no room is tried again."""


class Recovered(NamedTuple):
    """The state that a directory of the metadata log holds."""

    hard: HardState
    table: EpochTable
    latest: SnapshotId
    voters: VoterHistory
    """The voters, with the offsets from which they count."""
    notices: Sequence[str]
    """Sentences for the operator."""


class Store:
    """The files of the metadata log's directory. Implements raft's LogReader."""

    def __init__(self, disk: Disk, directory: str, segment_bytes: int, segment_ms: int) -> None:
        self.disk = disk
        self.directory = directory
        self.log = MetadataLog(disk, directory, segment_bytes, segment_ms)
        self.checkpoints = Checkpoints(disk, directory)
        self.mark = DurableMark(disk, directory)
        self.joined = False
        """Whether the file `joined` says that this disk has been a voter's, or is being written."""
        self.bytes_since_snapshot = 0
        self.taken: tuple[SnapshotId, Content] | None = None
        """A snapshot written by a role that waits for its end to be committed and durable."""
        self.again_ms = 0
        """The monotonic time before which no snapshot is stored, since there was no room."""
        self._bytes_at_taken = 0
        self._storing: Content | None = None
        """The content of the snapshot that is being written."""
        self._written_epochs: bytes = b""
        self._hard = HardState()

    # -- raft's LogReader

    def read(self, offset: int, bytes_max: int) -> list[Batch] | None:
        return self.log.read(offset, bytes_max)

    def read_snapshot(self, snapshot: SnapshotId, position: int, bytes_max: int) -> SnapshotSlice | None:
        return self.checkpoints.slice(snapshot, position, bytes_max)

    # -- recovery

    def recover(self, now_ms: int) -> Recovered:
        """Read everything but `joined`. Raises DamagedFile, DiskFailed."""
        self.checkpoints.recover()
        head = self.checkpoints.head()
        newest = self.checkpoints.latest or NO_SNAPSHOT
        entries: list[tuple[int, int]] = []
        named = self.voters_of(head)
        voters = [] if named is None else [(newest.end_offset - 1, named)]

        def seen(batch: Batch, attributes: int) -> None:
            if not entries or batch.epoch > entries[-1][0]:
                entries.append((batch.epoch, batch.base_offset))
            if batch.base_offset >= newest.end_offset:
                self.bytes_since_snapshot += len(batch.data)
                found = voters_in(batch) if attributes & CONTROL_BIT else None
                if found is not None:
                    voters.append(found)

        unusable = self.mark.recover()
        notices = self.log.recover(now_ms, seen, self.mark.offset)
        if unusable is not None:
            notices.append(unusable)
        if max(self.log.end_offset, newest.end_offset) < self.mark.offset:
            raise files.DamagedFile(
                f"{self.directory}: the log ends at offset {self.log.end_offset}, but was durable up to "
                f"{self.mark.offset}. Restore it from a copy, or empty the directory and let this node fetch the log from "
                f"the others"
            )
        start = self._start(newest)
        last_epoch = entries[-1][0] if entries else newest.epoch
        if self.log.end_offset < newest.end_offset or last_epoch < newest.epoch or not self.log.segments:
            if self.log.segments:
                notices.append(
                    f"{self.directory}: the log ends before the checkpoint {newest.end_offset}, it starts anew"
                )
            self.log.restart_at(newest.end_offset, now_ms)
            entries, start = [], newest
            voters = voters[: named is not None]
            self.bytes_since_snapshot = 0
        if self.checkpoints.ids:
            self.checkpoints.keep([one for one in self.checkpoints.ids if one.end_offset >= start.end_offset], newest)
        table = EpochTable(entries, start, self.log.end_offset)
        return Recovered(self._quorum_state(), table, newest, VoterHistory(Voters(), voters), notices)

    def has_joined(self, directory_id: bytes) -> bool:
        """Read whether this disk has been the disk of a voter that joined by itself. `directory_id` is that of this
        disk: a file that came here from another one says nothing."""
        self.joined = self._read_small(files.JOINED) == files.joined(directory_id)
        return self.joined

    def _start(self, newest: SnapshotId) -> SnapshotId:
        first = self.log.start_offset if self.log.segments else newest.end_offset
        for snapshot in self.checkpoints.ids:
            if snapshot.end_offset >= first:
                return snapshot
        if first > 0:
            raise files.DamagedFile(
                f"{self.directory}: the log begins at offset {first} and no checkpoint reaches it. Restore the missing "
                f"file, or empty the directory and let this node fetch the log from the others"
            )
        return NO_SNAPSHOT

    def _quorum_state(self) -> HardState:
        content = self._read_small(files.QUORUM_STATE)
        if content is not None:
            self._hard = files.read_quorum_state(content, f"{self.directory}/{files.QUORUM_STATE}")
        return self._hard

    def _read_small(self, name: str) -> bytes | None:
        """The content of a small file; None: there is no such file."""
        path = f"{self.directory}/{name}"
        if not self.disk.exists(path):
            return None
        file = self.disk.open(path)
        try:
            return bytes(file.read_cold(0, file.size))
        finally:
            file.close()

    def voters_of(self, data: Buffer) -> Voters | None:
        """The voters that a snapshot names; it begins with a control batch."""
        if not len(data):
            return None
        head = bytes_of.header(data)
        found = voters_in(Batch(head.base_offset, head.last_offset, head.epoch, memoryview(data)[: head.size]))
        return None if found is None else found[1]

    # -- writing

    def replacements(self, hard: HardState | None, table: EpochTable) -> list[tuple[Disk, str, bytes]]:
        """The small files that a sync writes anew: quorum-state if it changed, the epochs if they did."""
        found: list[tuple[Disk, str, bytes]] = []
        if not self._written_epochs:
            found.append((self.disk, f"{self.directory}/{files.PARTITION}", files.partition()))
        epochs = files.epochs(table.entries())
        if epochs != self._written_epochs:
            self._written_epochs = epochs
            found.append((self.disk, f"{self.directory}/{files.EPOCHS}", epochs))
        if hard is not None:
            found.append((self.disk, f"{self.directory}/{files.QUORUM_STATE}", files.quorum_state(hard)))
        return found

    def adopt(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Put a received checkpoint in the place of everything. Raises DiskFull: to be called again until there is room."""
        if snapshot not in self.checkpoints.ids:
            self.checkpoints.adopt_part(snapshot)
        # A power cut that kept the names that go and not this one would leave a log that no checkpoint reaches.
        self.disk.settle(self.directory)
        self.checkpoints.keep([], snapshot)
        self.log.restart_at(snapshot.end_offset, now_ms)
        self.bytes_since_snapshot = 0
        self._give_up_taken()

    def take_in(self, snapshot: SnapshotId, content: Content) -> None:
        """Take a snapshot of a role in the place of one that waits."""
        self._give_up_taken()
        self.taken = (snapshot, content)

    def _give_up_taken(self) -> None:
        if self.taken is not None and self.taken[1] is not self._storing:
            _release(self.taken[1])
        self.taken = None

    def next_taken(self, safe_offset: int, now_ms: int) -> tuple[SnapshotId, Content] | None:
        """The snapshot to be stored now: everything in it is below `safe_offset`, committed and durable."""
        if (
            self.taken is None
            or self._storing is not None
            or self.taken[0].end_offset > safe_offset
            or now_ms < self.again_ms
        ):
            return None
        self._storing = self.taken[1]
        self._bytes_at_taken = self.bytes_since_snapshot
        return self.taken

    def stored(self, snapshot: SnapshotId, content: Content, start: SnapshotId) -> SnapshotId | None:
        """Note that the checkpoint is durable; returns where the log starts from now on. None: a newer one was received
        meanwhile."""
        self._storing = None
        _release(content)
        if self.taken is not None and self.taken[0] == snapshot:
            if self.taken[1] is not content:
                _release(self.taken[1])
            self.taken = None
        latest = self.checkpoints.latest
        if latest is not None and latest.end_offset >= snapshot.end_offset:
            if snapshot not in self.checkpoints.ids:
                self.checkpoints.discard(snapshot)
            return None
        if latest is not None and latest.end_offset > start.end_offset:
            start = latest
        self.checkpoints.keep([one for one in self.checkpoints.ids if one.end_offset >= start.end_offset], snapshot)
        self.bytes_since_snapshot -= self._bytes_at_taken
        self.log.roll()
        return start

    def not_stored(self, content: Content, now_ms: int) -> None:
        """Note that there was no room for the checkpoint: it, or a newer one, is tried again at `again_ms`."""
        self._storing = None
        if self.taken is None or self.taken[1] is not content:
            _release(content)
        self.again_ms = now_ms + SNAPSHOT_RETRY_MS

    def not_made(self, content: Content, now_ms: int) -> None:
        """Note that the checkpoint could not be made: only a newer one is tried, from `again_ms` on."""
        if self.taken is not None and self.taken[1] is content:
            self.taken = None
        self.not_stored(content, now_ms)

    def take_garbage(self) -> list[tuple[str, File | None]]:
        """The files that may be unlinked now."""
        garbage = [*self.log.garbage, *self.checkpoints.garbage]
        self.log.garbage, self.checkpoints.garbage = [], []
        return garbage

    def unlink(self, garbage: Sequence[tuple[str, File | None]]) -> list[tuple[str, DiskFull | DiskFailed]]:
        """Unlink files and close them. Blocking. Returns those that stay, which keep no other from going, and why."""
        left: list[tuple[str, DiskFull | DiskFailed]] = []
        for path, file in garbage:
            if file is not None:
                file.close()
            try:
                self.disk.remove(path)
            except (DiskFull, DiskFailed) as error:
                left.append((path, error))
        return left


def _release(content: Content) -> None:
    """Let go of what a snapshot is made from."""
    release = getattr(content, "release", None)
    if release is not None and not isinstance(content, memoryview):
        release()
