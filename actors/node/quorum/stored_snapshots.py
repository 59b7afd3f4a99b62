"""The way of snapshots to the disk: those that a role has taken, and those that a leader has sent (KIP-630).

This file alone decides when a snapshot gets its name: one of our own once everything below its end is committed and durable
here; a received one once it is durable and was read back whole, which is tried until there is room and a descriptor for it.
One that cannot be made, as the image has something that the format cannot say, ends no node: all of them have that image,
and the log has everything. It is given up for a newer one.
"""

from collections.abc import Callable
from typing import Any

from actors.node.quorum.checkpoints import HEAD_BYTES, verify
from actors.node.quorum.store import Store
from actors.node.quorum.syncs import FULL_RETRY_MS
from actors.node.runtime.runtime import Runtime
from actors.ports import Content, DiskFailed, DiskFull, NotMade
from actors.raft import Raft, SnapshotId


class StoredSnapshots:
    """The snapshots of one replica's metadata log."""

    def __init__(self, runtime: Runtime, store: Store, raft: Raft) -> None:
        self._runtime = runtime
        self._store = store
        self._raft = raft

    def take_in(self, end_offset: int, epoch: int, content: Content) -> None:
        """Take a checkpoint of a role, which is released when nobody writes it any more; `store` writes it when it may have
        its name."""
        self._store.take_in(SnapshotId(end_offset, epoch), content)

    def store(self) -> None:
        """Write what a role has handed over, if it is safe now."""
        runtime, store, raft = self._runtime, self._store, self._raft
        taken = store.next_taken(min(raft.high_watermark, raft.durable_offset), runtime.now.mono_ms)
        if taken is None:
            return
        snapshot, content = taken

        def stored(result: Exception | None) -> None:
            if isinstance(result, DiskFull):
                runtime.log.error(f"no snapshot until there is room, the log goes on growing: {result}")
                store.not_stored(content, runtime.now.mono_ms)
                runtime.waiting.timers.at(store.again_ms, lambda: self.store())
                return
            if isinstance(result, NotMade):
                runtime.log.error(
                    f"the snapshot at {snapshot.end_offset} cannot be made, the log goes on growing: {result}"
                )
                store.not_made(content, runtime.now.mono_ms)
                runtime.waiting.timers.at(store.again_ms, lambda: self.store())
                return
            if result is not None:
                runtime.stop(1, f"a checkpoint cannot be written: {result}")
                return
            try:
                start = store.stored(snapshot, content, raft.epochs.start)
                if start is not None:
                    raft.snapshot_taken(snapshot, start)
                    store.log.delete_below(start.end_offset)
            except DiskFull as error:
                runtime.log.error(f"superfluous metadata stays until the next snapshot, there is no room: {error}")
            except DiskFailed as error:
                runtime.stop(1, f"the metadata log cannot be written: {error}")

        runtime.sync((), [(store.disk, store.checkpoints.path(snapshot), content)], stored)

    def verify(self, snapshot: SnapshotId, file: Any) -> None:
        """Make a received file durable and check it outside the loop, then tell raft. The last part of it is written."""
        runtime, checkpoints = self._runtime, self._store.checkpoints

        def checked(result: Any) -> None:
            if not checkpoints.receives(file):
                return  # given up, and perhaps unlinked, for one that another leader sends
            if isinstance(result, DiskFull):
                later(result, lambda: runtime.work(check, checked))
            elif isinstance(result, Exception):
                runtime.stop(1, f"a received checkpoint cannot be read: {result}")
            else:
                damage, voters = result
                if damage is not None:
                    runtime.log.warning(
                        f"the snapshot in {file.path} came damaged at byte {damage.position}: {damage.reason}"
                    )
                self._raft.snapshot_received(snapshot, damage is None, runtime.now, voters)

        def check() -> Any:
            damage = verify(file)
            return damage, self._store.voters_of(file.read_cold(0, HEAD_BYTES)) if damage is None else None

        def durable(result: Exception | None) -> None:
            if isinstance(result, DiskFull):
                later(result, sync)
            elif result is not None:
                runtime.stop(1, f"a received checkpoint cannot be made durable: {result}")
            else:
                runtime.work(check, checked)

        def sync() -> None:
            if checkpoints.receives(file):
                runtime.sync((file,), (), durable)

        def later(full: DiskFull, again: Callable[[], None]) -> None:
            runtime.log.error(f"a received checkpoint waits until there is room and a descriptor: {full}")
            runtime.waiting.timers.at(runtime.now.mono_ms + FULL_RETRY_MS, again)

        sync()
