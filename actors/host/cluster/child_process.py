"""One node under a supervisor: what is known of its process, and the ports that are kept for it.

This file alone decides when a node counts as ready, and in which words its end is reported.
"""

import signal
import socket

from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.net.server import PortTaken


class Child:
    """The process of one node. `pid` 0: not running. `held`: not started again until a command asks for it."""

    def __init__(self, member: plans.Member) -> None:
        self.member = member
        self.pid = 0
        self.pipe = -1
        self.pending = b""
        self.held = False
        self.restart = False
        self.crashes = 0
        self.started_s = 0.0
        self.due_s: float | None = None
        self.running = False
        self.listening: set[str] = set()
        self.sentence = ""
        self.why = ""
        """Why the process is started again."""
        self.directory_id: bytes | None = None
        """The id of the metadata log's directory when the process began; None: it was not formatted."""
        self.gone = False
        """Whether the node's files are gone, so that it is over when its process has ended."""
        self.kill_s: float | None = None
        """The time at which a process that is to end is killed."""
        self._reserved: list[socket.socket] = []

    @property
    def ready(self) -> bool:
        """Whether the node has started and, with the broker role, serves its clients."""
        wanted = {x.name for x in self.member.config.listeners if x.kind in ("client", "inter-broker")}
        return self.running and wanted <= self.listening

    def reserve(self) -> None:
        """Keep the node's ports from other programs. Raises PortTaken; then none is kept."""
        try:
            for listener in self.member.config.listeners:
                self._reserved.append(plans.reserve(listener.host, listener.port))
        except PortTaken:
            self.release()
            raise

    def release(self) -> None:
        """Give the node's ports back."""
        while self._reserved:
            self._reserved.pop().close()


def directory_id(member: plans.Member) -> bytes | None:
    """The id of the directory that a node has now; None: it has none that it could use."""
    try:
        found = storage.read(member.config.metadata_log_dir)
    except (storage.StorageError, OSError):
        return None
    return None if found is None else found.directory_id


def reason(code: int, sentence: str) -> str:
    """The way in which a process ended, for people. `code` is that of `os.waitstatus_to_exitcode`."""
    if code < 0:
        return f"it was ended by signal {-code} ({signal.strsignal(-code)})"
    return f"it ended with code {code}" + (f": {sentence}" if sentence else "")
