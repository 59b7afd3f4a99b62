"""A disk for one simulated replica: the content of the page cache, and what survives a crash.

Batches are `actors.ports.Batch` values whose data is a short unique name. A sync makes durable what was there when it
began. A crash keeps what was durable and, as the seed decides, some of what was written since: a torn tail is cut, an
unsynced truncation may be undone, an unsynced quorum-state may or may not be there.
"""

from bisect import bisect_left
from random import Random

from actors.ports import Batch
from actors.raft import EpochTable, HardState, SnapshotId, SnapshotSlice
from actors.raft.log import NO_SNAPSHOT

SNAPSHOT_BYTES = 3000


class Contents:
    """Everything that a directory holds."""

    __slots__ = ("batches", "hard", "snapshots", "start")

    def __init__(self) -> None:
        self.hard = HardState()
        self.start = NO_SNAPSHOT
        self.snapshots: list[SnapshotId] = []
        self.batches: list[Batch] = []

    def copy(self) -> "Contents":
        other = Contents()
        other.hard, other.start = self.hard, self.start
        other.snapshots, other.batches = list(self.snapshots), list(self.batches)
        return other

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.start.end_offset

    @property
    def first_offset(self) -> int:
        return self.batches[0].base_offset if self.batches else self.start.end_offset

    def find(self, offset: int) -> int:
        """Index of the batch that holds `offset`, or of the first after it."""
        return bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)

    def at(self, offset: int) -> Batch | None:
        place = self.find(offset)
        return self.batches[place] if place < len(self.batches) and self.batches[place].base_offset <= offset else None

    def has(self, batch: Batch) -> bool:
        """Whether that batch, which is committed, is in the log or in the snapshot before it."""
        kept = self.at(batch.base_offset)
        return kept == batch if kept is not None else self.start.end_offset > batch.last_offset

    def truncate(self, end_offset: int) -> None:
        del self.batches[self.find(end_offset) :]

    def table(self) -> EpochTable:
        """The epoch table, as recovery finds it."""
        entries: list[tuple[int, int]] = []
        for batch in self.batches:
            if not entries or entries[-1][0] != batch.epoch:
                entries.append((batch.epoch, batch.base_offset))
        return EpochTable(entries, self.start, self.end_offset)


class Disk:
    """Implements LogReader over the page cache. `page` is what the process sees, `durable` what a crash leaves."""

    def __init__(self) -> None:
        self.page = Contents()
        self.durable = Contents()
        self.dirty = False
        """Whether anything but appended batches changed since the last sync."""
        self._syncs: dict[int, tuple[Contents | int, HardState]] = {}

    # -- LogReader

    def read(self, offset: int, bytes_max: int) -> list[Batch]:
        found: list[Batch] = []
        size = 0
        batches = self.page.batches
        for place in range(self.page.find(offset), len(batches)):
            batch = batches[place]
            size += len(batch.data)
            if found and size > bytes_max:
                break
            found.append(batch)
        return found

    def read_snapshot(self, snapshot: SnapshotId, position: int, bytes_max: int) -> SnapshotSlice:
        if snapshot not in self.page.snapshots:
            raise FileNotFoundError(str(snapshot))
        return SnapshotSlice(SNAPSHOT_BYTES, bytes(max(0, min(bytes_max, SNAPSHOT_BYTES - position))))

    # -- writing

    def append(self, batches: list[Batch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.page.end_offset, (batch, self.page.end_offset)
            self.page.batches.append(batch)

    def truncate(self, end_offset: int) -> None:
        self._settle()
        self.page.truncate(end_offset)

    def restart_at(self, snapshot: SnapshotId) -> None:
        self._settle()
        self.page.batches = []
        self.page.start = snapshot
        self.page.snapshots = [snapshot]

    def cut(self, latest: SnapshotId, start: SnapshotId) -> None:
        """A snapshot that the replica took. It is durable at once, together with everything below it."""
        self._settle()
        for contents in (self.page, self.durable):
            assert contents.end_offset >= latest.end_offset
            contents.snapshots = [one for one in contents.snapshots if one.end_offset >= start.end_offset] + [latest]
            contents.start = start
            contents.batches = [batch for batch in contents.batches if batch.base_offset >= start.end_offset]

    def _settle(self) -> None:
        """Before anything but an append: syncs in flight cover what was there when they began, not what comes now."""
        for token, (state, hard) in self._syncs.items():
            if isinstance(state, int):
                copy = self.page.copy()
                copy.truncate(state)
                self._syncs[token] = (copy, hard)
        self.dirty = True

    def set_hard(self, hard: HardState) -> None:
        self.page.hard = hard

    # -- durability

    def begin_sync(self, token: int) -> None:
        state: Contents | int = self.page.copy() if self.dirty else self.page.end_offset
        self._syncs[token] = (state, self.page.hard)
        self.dirty = False

    def end_sync(self, token: int) -> None:
        state, hard = self._syncs.pop(token)
        if isinstance(state, Contents):
            self.durable = state
        else:
            have = self.durable
            place = self.page.find(have.end_offset)
            have.batches.extend(batch for batch in self.page.batches[place:] if batch.last_offset < state)
        self.durable.hard = hard

    def crash(self, random: Random) -> None:
        """Crash the disk: the durable part survives, and some of the rest may be there too."""
        kept = self.durable.copy()
        if random.random() < 0.5 and self.page.start == kept.start:
            same = 0
            both = min(len(kept.batches), len(self.page.batches))
            while same < both and kept.batches[same] == self.page.batches[same]:
                same += 1
            if same == len(kept.batches) or random.random() < 0.5:
                kept.batches = self.page.batches[: random.randint(same, len(self.page.batches))]
        if random.random() < 0.5:
            kept.hard = self.page.hard
        self.page, self.durable = kept, kept.copy()
        self._syncs.clear()
        self.dirty = False

    def wipe(self) -> None:
        self.__init__()  # type: ignore[misc]
