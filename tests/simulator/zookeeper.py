"""The ZooKeeper of a world, in memory: sessions, ephemeral znodes, one-time watches, transactions, czxids.

It answers the requests of `actors/ports/zookeeper.py` as a real one does: in order, a transaction as a whole, a watch
once. Its caller decides when answers and events arrive.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from actors.ports.zookeeper import (
    Change,
    Changed,
    Check,
    Children,
    Create,
    Delete,
    Event,
    Get,
    Multi,
    Read,
    Reads,
    Rejected,
    Write,
    Znode,
)


class Entry:
    """A znode with its data and versions."""

    def __init__(self, data: bytes, czxid: int, owner: int) -> None:
        self.data = data
        self.version = 0
        self.czxid = self.mzxid = czxid
        self.owner = owner
        """The session that it goes with; 0: it is persistent."""
        self.numbered = 0
        """The number of the next sequential child."""


class ZooKeeper:
    """The ensemble, with all znodes. Invariant: the parent of each path is there."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {"": Entry(b"", 0, 0)}
        self.zxid = 0
        self._watches: dict[tuple[type, str], set[int]] = defaultdict(set)
        self._sessions: dict[int, Callable[[Event], None]] = {}
        self._next_session = 1
        self.history: list[tuple[int, Change]] = []
        """(session, change) of all that was changed, for tests."""

    # ---- sessions

    def begin(self, happened: Callable[[Event], None]) -> int:
        """Begin a session and return its number. `happened` is told of its watches."""
        session, self._next_session = self._next_session, self._next_session + 1
        self._sessions[session] = happened
        return session

    def end(self, session: int) -> None:
        """A session expires, or is closed: what is ephemeral goes, and is told of."""
        self._sessions.pop(session, None)
        for watchers in self._watches.values():
            watchers.discard(session)
        for path in [path for path, entry in self.entries.items() if entry.owner == session]:
            self.zxid += 1
            self._fire(self._delete(path))

    def forget_watches(self, session: int) -> None:
        """The connection was lost and is back."""
        for watchers in self._watches.values():
            watchers.discard(session)

    # ---- requests

    def answer(self, session: int, request: Reads | Multi) -> object:
        """What a request answers; the changes are made."""
        if isinstance(request, Reads):
            return tuple(self._read(session, read, request.watch) for read in request.reads)
        return self.multi(session, request.changes)

    def multi(self, session: int, changes: Any) -> object:
        """All changes or none."""
        before = {path: (entry, dict(vars(entry))) for path, entry in self.entries.items()}
        self.zxid += 1
        results, fired = [], []
        for place, change in enumerate(changes):
            try:
                result, events = self._change(session, change)
            except Rejected as error:
                self.entries = {path: entry for path, (entry, _) in before.items()}
                for entry, old in before.values():
                    vars(entry).update(old)
                return Rejected(error.reason, place)
            results.append(result)
            fired += events
        self.history += [(session, change) for change in changes]
        self._fire(fired)
        return tuple(results)

    def put(self, path: str, data: bytes, session: int = 0) -> int:
        """Make or write a znode, with all above it, as somebody else; the czxid."""
        names = path.split("/")[1:]
        for end in range(1, len(names)):
            parent = "/" + "/".join(names[:end])
            if parent not in self.entries:
                self.multi(session, [Create(parent)])
        change = Write(path, data) if path in self.entries else Create(path, data, ephemeral=session != 0)
        result = self.multi(session, [change])
        assert not isinstance(result, Exception), result
        return self.entries[path].czxid

    def remove(self, path: str) -> None:
        """Delete a znode and all below it, as somebody else."""
        for one in sorted((one for one in self.entries if one == path or one.startswith(path + "/")), reverse=True):
            self.multi(0, [Delete(one)])

    def get(self, path: str) -> bytes | None:
        """The data of a znode."""
        return self.entries[path].data if path in self.entries else None

    def names(self, path: str) -> tuple[str, ...] | None:
        """The names of its children."""
        if path not in self.entries:
            return None
        return tuple(sorted(one.rpartition("/")[2] for one in self.entries if one and one.rpartition("/")[0] == path))

    def _read(self, session: int, read: Read, watch: bool) -> Any:
        path = "" if read.path == "/" else read.path
        entry = self.entries.get(path)
        if watch and (entry is not None or isinstance(read, Get)):
            self._watches[type(read), path].add(session)
        if entry is None:
            return None
        if isinstance(read, Children):
            return self.names(path)
        return Znode(entry.data, entry.version, entry.czxid, entry.owner != 0, entry.mzxid)

    def _change(self, session: int, change: Change) -> tuple[Any, list[tuple[type, str]]]:
        if isinstance(change, Create):
            path = change.path
            parent = self.entries.get(path.rpartition("/")[0])
            if parent is None:
                raise Rejected("missing")
            if change.sequential:
                path, parent.numbered = f"{path}{parent.numbered:010d}", parent.numbered + 1
            if path in self.entries:
                raise Rejected("exists")
            self.entries[path] = Entry(change.data, self.zxid, session if change.ephemeral else 0)
            return path, [(Get, path), (Children, path.rpartition("/")[0])]
        entry = self.entries.get(change.path)
        if entry is None:
            raise Rejected("missing")
        if change.version not in (-1, entry.version):
            raise Rejected("version")
        if isinstance(change, Check):
            return None, []
        if isinstance(change, Write):
            entry.data, entry.version, entry.mzxid = change.data, entry.version + 1, self.zxid
            return entry.version, [(Get, change.path)]
        if self.names(change.path):
            raise Rejected("not empty")
        return None, self._delete(change.path)

    def _delete(self, path: str) -> list[tuple[type, str]]:
        del self.entries[path]
        return [(Get, path), (Children, path), (Children, path.rpartition("/")[0])]

    def _fire(self, events: list[tuple[type, str]]) -> None:
        for session, path in dict.fromkeys(self._watching(events)):
            if session in self._sessions:
                self._sessions[session](Changed(path))

    def _watching(self, events: list[tuple[type, str]]) -> Iterator[tuple[int, str]]:
        for key in events:
            for session in sorted(self._watches.pop(key, ())):
                yield session, key[1] or "/"
