"""The turn that runs, as every floor of a node needs it: its time, random numbers, waiting, what goes on outside the
loop, and the end.

This file alone keeps the jobs and syncs that are under way, and why the node stops. Nothing here knows a role, the
quorum or a connection. What the turn wants done outside gathers here, and the node makes its effects of it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from actors.ledger import Ledger
from actors.node.runtime.effects import Stop
from actors.node.runtime.peer_lines import PeerLines
from actors.node.runtime.steps import Steps
from actors.node.runtime.waiting import Waiting
from actors.ports import (
    Content,
    Directory,
    Disk,
    Download,
    File,
    Now,
    Owner,
    Random,
    Run,
    Sync,
    SyncClass,
    Work,
    WorkKind,
    departures,
)
from actors.ports.zookeeper import Change, Multi, Read, Reads, Request
from actors.settings.node_config import NodeConfig


class Log(Protocol):
    """The place where a node says what an operator should know. One sentence a line."""

    def info(self, text: str) -> None: ...
    def warning(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...


class Runtime:
    """The turn that is running. `now` is its time."""

    def __init__(self, config: NodeConfig, random: Random, log: Log, stopwatch: Callable[[], int] = lambda: 0) -> None:
        """`stopwatch` counts nanoseconds; it decides how many requests a turn handles, and nothing else."""
        self.config = config
        self.random = random
        self.log = log
        self.stopwatch = stopwatch
        self.now = Now(0, 0)
        self.ledger = Ledger(config.value("rayft.peer.memory.bytes"), config.value("rayft.peer.memory.principal.bytes"))
        """The memory that is kept for peers."""
        self.steps = Steps(log.warning)
        """The steps of work that take too long."""
        self.waiting = Waiting(stopwatch, self.steps.took)
        self.peer_lines = PeerLines(lambda: self.now.mono_ms, self.waiting.timers.at)
        """The bound on lines of the log whose number peers decide."""
        self.syncs: list[Sync] = []
        self.works: list[Work] = []
        self.downloads: list[Download] = []
        """The downloads that this turn wants done outside the loop."""
        self.zookeeper: list[Request] = []
        """The requests to ZooKeeper of this turn."""
        self.stopped: Stop | None = None
        """The reason why the node ends after this turn; the first reason stands."""
        self._completions: deque[tuple[int, object]] = deque()
        self._then: dict[int, Callable[[Any], None]] = {}
        self._next_token = 0

    def sync(
        self,
        files: Sequence[File | Directory],
        replacements: Sequence[tuple[Disk, str, Content]],
        then: Callable[[Any], None],
        kind: SyncClass = SyncClass.DATA,
        runs: Sequence[Run] = (),
    ) -> None:
        """Make files durable and replace small ones, behind what goes beside each other in `runs`; later `then(None)`,
        `then(DiskFailed)` or `then(DiskFull)`."""
        self.syncs.append(Sync(self._token(then), files, replacements, kind, runs, departures(replacements, runs)))

    def work(
        self,
        job: Callable[[], object],
        then: Callable[[Any], None],
        kind: WorkKind = WorkKind.DISK,
        owner: Owner | None = None,
    ) -> None:
        """Run `job` outside the loop; `then(result)` or `then(exception)` in a later turn."""
        self.works.append(Work(self._token(then), job, kind, owner))

    def download(self, url: str, trusted: str, bytes_max: int, then: Callable[[Any], None]) -> None:
        """Fetch a document of at most `bytes_max` bytes; `then(bytes)` or `then(exception)` in a later turn. `trusted`: PEM
        file for an https server; empty: what the system trusts."""
        self.downloads.append(Download(self._token(then), url, trusted, bytes_max))

    def read_zookeeper(self, reads: Sequence[Read], watch: bool, then: Callable[[Any], None]) -> None:
        """Read znodes; later `then(results)` or `then(exception)` in another turn."""
        self.zookeeper.append(Reads(self._token(then), reads, watch))

    def change_zookeeper(self, changes: Sequence[Change], then: Callable[[Any], None]) -> None:
        """Change znodes, all or none; later `then(results)` or `then(exception)` in another turn."""
        self.zookeeper.append(Multi(self._token(then), changes))

    def done(self, token: int, result: object) -> None:
        """Take the end of a sync or a job; `result` is its value or the exception."""
        self._completions.append((token, result))

    def complete(self) -> None:
        """Call those that wait for the syncs and jobs that have ended."""
        while self._completions:
            token, result = self._completions.popleft()
            then = self._then.pop(token, None)
            if then is not None:
                then(result)

    def stop(self, code: int, sentence: str) -> None:
        """End the process after this turn's effects."""
        if self.stopped is None:
            self.stopped = Stop(code, sentence)

    def taken(self) -> tuple[list[Sync], list[Work], list[Download]]:
        """The syncs, jobs and downloads that this turn wants done outside; the next turn begins with none."""
        found = self.syncs, self.works, self.downloads
        self.syncs, self.works = [], []
        if self.downloads:
            self.downloads = []
        return found

    def taken_zookeeper(self) -> list[Request]:
        """The requests to ZooKeeper of this turn; the next turn begins with none."""
        found, self.zookeeper = self.zookeeper, []
        return found

    def _token(self, then: Callable[[Any], None]) -> int:
        self._next_token += 1
        self._then[self._next_token] = then
        return self._next_token
