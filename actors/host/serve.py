"""Runs one node in this process: directories, ports, log, loop.

This file alone decides the order of a start: directories are checked and locked, every port is reserved, then the node
is made and recovers. An error before that is reported in one sentence, with exit code 3. The node's own reasons are in
`Effects.stop` (0 as asked, 1 cannot go on, 78 another process holds the id).
"""

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from actors.host import storage
from actors.host.loop import Event, Loop, nobody, stopwatch
from actors.host.net.http_door import CONNECTIONS_MAX
from actors.host.net.server import Listeners, PortTaken
from actors.host.net.tls import Contexts
from actors.host.work import descriptors
from actors.host.work.kept_room import Rooms
from actors.host.work.locks import Lock
from actors.host.work.log_repeats import Repeats
from actors.host.work.system_random import SystemRandom
from actors.settings.keys import ConfigError
from actors.settings.node_config import NodeConfig

REFUSED = 3
SETTING = "rayft.metrics.listen"
ID_TAKEN = 78


INDENTED = "\n    "


def one_line(text: str) -> str:
    """A text in which nothing ends the line, or cannot be printed."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class Journal:
    """The log of a node: one line for each event, with the time and the level. What cannot be printed in it, such as the
    end of a line in the name of a user, is escaped; further lines of a traceback are indented, so that none of them looks
    like an event. Lines that repeat are counted (`Repeats`). A line that cannot be written is lost: the disk that is full
    may be the log's too, and the node must go on."""

    def __init__(self, stream: TextIO, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock_s = clock_s
        self._repeats = Repeats()

    def info(self, text: str) -> None:
        """What an operator may like to know."""
        self._line("INFO ", one_line(text))

    def warning(self, text: str) -> None:
        """What an operator should look at some day."""
        self._line("WARN ", one_line(text))

    def error(self, text: str) -> None:
        """What an operator should look at now."""
        self._line("ERROR", INDENTED.join(one_line(line) for line in text.split("\n")).rstrip())

    def settle(self) -> None:
        """Report counted lines whose interval is over. To be called about once a second."""
        if self._repeats.counting:
            for level, text in self._repeats.due(self._clock_s()):
                self._write(level, text)

    def end(self) -> None:
        """Report all counted lines, because the log ends."""
        for level, text in self._repeats.all(self._clock_s()):
            self._write(level, text)

    def _line(self, level: str, text: str) -> None:
        now_s = self._clock_s()
        for one in self._repeats.due(now_s):
            self._write(*one)
        if self._repeats.admits(level, text, now_s):
            self._write(level, text)

    def _write(self, level: str, text: str) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        line = f"{stamp}.{int(now * 1000) % 1000:03d} {level} {text}\n"
        with contextlib.suppress(OSError):
            try:
                self._stream.write(line)
            except UnicodeError:
                self._stream.write(line.encode("ascii", "backslashreplace").decode())
            self._stream.flush()


def serve(
    config: NodeConfig,
    log: Journal,
    event: Event = nobody,
    *,
    main_thread: bool = True,
    looping: Callable[[Loop], None] | None = None,
    secret_files: Sequence[str] = (),
) -> tuple[int, str]:
    """Run a node until it stops. Returns (exit code, sentence). `looping` gets the loop, so that another thread can
    stop it. `secret_files`: paths of files with secrets, those of TLS excepted, which nobody else should read."""
    if sys.flags.optimize:
        return REFUSED, "assertions are part of a node: run Python without -O."
    descriptors.raise_limit()
    if main_thread:
        os.umask(0o077)  # for files that libraries write; the project's own code gives each file its mode
    with contextlib.ExitStack() as kept:
        try:
            found = storage.check(config)
            for directory in found:
                kept.callback(Lock(directory.path).close)
        except storage.StorageError as error:
            return REFUSED, str(error)
        except OSError as error:
            return REFUSED, storage.unusable(error)
        try:
            tls = Contexts(config, log)
            listeners = Listeners(config)
            kept.callback(listeners.close)
        except (ConfigError, storage.StorageError, PortTaken, OSError) as error:
            return REFUSED, str(error)
        config = config.with_ports(listeners.ports())
        private = [storage.open_to_others(directory.path) for directory in found]
        private += [storage.secret_open_to_others(path) for path in dict.fromkeys((*secret_files, *tls.key_files()))]
        for notice in (*config.notices, descriptors.too_few(), listeners.open_to_others(), *private):
            if notice is not None:
                log.warning(notice)
        loop = Loop(config, listeners, log, tls)
        loop.every_second(log.settle)
        loop.every_second(lambda: loop.distrust(tls.renew()))
        reserve = descriptors.Reserve()
        kept.callback(reserve.close)
        loop.every_second(lambda: _renew(reserve, log))
        rooms = Rooms(log)
        loop.every_second(rooms.look)
        kept.callback(loop.close)
        if main_thread:
            loop.signals()
        if looping is not None:
            looping(loop)
        try:
            endpoint = _endpoint(config, loop)
            if endpoint is not None:
                kept.callback(endpoint.close)
                log.info(f"metrics are at http://{config.value(SETTING)}/metrics, port {endpoint.port}")
                if endpoint.open_to_others:
                    log.warning(
                        f"{SETTING}={config.value(SETTING)}: whoever reaches that port reads them. Bind 127.0.0.1."
                    )
            stop = loop.run(lambda: _node(config, found, log, reserve, rooms), event)
        except (ConfigError, PortTaken) as error:
            return REFUSED, str(error)
    log.end()
    (log.info if stop.code == 0 else log.error)(f"process {os.getpid()} ends: {stop.sentence}")
    return stop.code, stop.sentence


def _endpoint(config: NodeConfig, loop: Loop):  # type: ignore[no-untyped-def]
    """The HTTP endpoint of the metrics; None if the setting is empty. Its package is imported only if it is needed."""
    from actors.host import metrics

    where = config.value(SETTING)
    if not where:
        return None
    endpoint = metrics.Endpoint(metrics.address(where), loop.metrics)
    loop.own("MetricsDoor", lambda: endpoint.bytes_kept, f"{CONNECTIONS_MAX} connections")
    return endpoint


def _renew(reserve: descriptors.Reserve, log: Journal) -> None:
    """Take back what was lent of the reserve, and say that it was."""
    if reserve.lent:
        reserve.lent = 0
        log.warning("no descriptor was left for a file, and one of the reserve was taken: raise ulimit -n.")
    reserve.fill()


def _node(  # type: ignore[no-untyped-def]
    config: NodeConfig, found: list[storage.Directory], log: Journal, reserve: descriptors.Reserve, rooms: Rooms
):
    from actors.host.work.disk import HANDLES_MAX, LocalDisk
    from actors.node.node import Node
    from actors.node.runtime.storage import Storage

    first = found[0]
    handles_max = descriptors.handles_max(len(found), HANDLES_MAX)
    kept_bytes = config.value("rayft.kept.room.bytes")
    disks = [
        LocalDisk(os.path.abspath(directory.path), handles_max, reserve=reserve, kept_bytes=kept_bytes)
        for directory in found
    ]
    rooms.watch(disks)
    return Node(
        config,
        Storage(
            cluster_id=first.cluster_id,
            family=first.family,
            format_level=first.level,
            disks=disks,
            directory_ids=[directory.directory_id for directory in found],
            paths=[directory.path for directory in found],
            transaction_version=first.transaction_version,
            bootstrap=first.bootstrap,
            group_version=first.group_version,
            share_version=first.share_version,
            streams_version=first.streams_version,
        ),
        SystemRandom(),
        log,
        stopwatch,
    )


def hostname() -> str:
    """The host name to advertise for a listener on every interface."""
    return socket.getfqdn()
