"""The syncs of the metadata log that are in flight: what each of them covers, and when raft hears that it is done.

This file alone decides when a sync counts. Rules:

1. Syncs count in the order in which they began, whatever the order in which the host finishes them.
2. When a sync counts, what waited for it is sent first; then raft hears of it.
3. A broker without room tries again until there is some. A controller stops, so that another one leads. Any other failure
   stops the node.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from actors.node.quorum.log import Segment
from actors.node.quorum.store import Store
from actors.node.quorum.transport import Transport
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed, DiskFull, SyncClass
from actors.raft import Raft, Ready
from actors.raft.messages import Message

FULL_RETRY_MS = 1000


class _Sync:
    """A sync in flight. Invariant: `raft.synced` is called for it after all that began before it."""

    __slots__ = ("after", "done", "token")

    def __init__(self, token: int, after: Sequence[tuple[int, Message]]) -> None:
        self.token = token
        self.after = after
        self.done = False


class Syncs:
    """The syncs of one replica. Invariant: tokens rise along the queue, and its first one is not done."""

    def __init__(self, runtime: Runtime, store: Store, transport: Transport, raft: Raft, waits_for_room: bool) -> None:
        """`waits_for_room`: a full disk does not stop this node."""
        self._runtime = runtime
        self._store = store
        self._transport = transport
        self._raft = raft
        self._waits_for_room = waits_for_room
        self._queue: deque[_Sync] = deque()
        self._newest: dict[str, tuple[Disk, str, bytes]] = {}
        """The newest replacement that was submitted, by path."""

    @property
    def idle(self) -> bool:
        """Whether no sync is in flight, so that none can name a file that is unlinked now."""
        return not self._queue

    def begin(self, ready: Ready) -> None:
        """Begin a sync of what has been written up to here, and of what `ready` replaces."""
        assert ready.sync is not None
        assert not self._queue or self._queue[-1].token < ready.sync, (self._queue[-1].token, ready.sync)
        sync = _Sync(ready.sync, ready.after_sync)
        self._queue.append(sync)
        replacements = self._store.replacements(ready.hard_state, self._raft.epochs)
        self._newest.update((one[1], one) for one in replacements)
        dirty = self._store.log.take_dirty()
        self._submit(sync, dirty, replacements)

    def _submit(self, sync: _Sync, dirty: Sequence[Segment], replacements: Sequence[tuple[Disk, str, bytes]]) -> None:
        # When it is tried again, a later one may have written newer content.
        current = [one for one in replacements if self._newest[one[1]] is one]
        files = [segment.file for segment in dirty]
        done = partial(self._done, sync, dirty, partial(self._submit, sync, dirty, replacements))
        self._runtime.sync(files, current, done, SyncClass.QUORUM)

    def _done(self, sync: _Sync, dirty: Sequence[Segment], again: Callable[[], None], result: Exception | None) -> None:
        runtime = self._runtime
        if isinstance(result, DiskFull) and self._waits_for_room:
            runtime.log.error(f"metadata is not made durable until there is room: {result}")
            runtime.waiting.timers.at(runtime.now.mono_ms + FULL_RETRY_MS, again)
            return
        if result is not None:
            runtime.stop(1, f"the metadata log cannot be made durable: {result}")
            return
        try:
            self._store.log.synced(dirty)
        except DiskFailed as error:
            runtime.stop(1, f"the metadata log cannot be made durable: {error}")
            return
        sync.done = True
        while self._queue and self._queue[0].done:
            first = self._queue.popleft()
            self._transport.tell(first.after)
            self._raft.synced(first.token)
