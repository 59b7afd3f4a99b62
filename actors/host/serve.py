"""Runs one node in this process: directories, ports, log, loop.

This file alone decides the order of a start: directories are checked and locked, every port is reserved, then the node
is made and recovers. An error before that is reported in one sentence, with exit code 3. The node's own reasons are in
`Effects.stop` (0 as asked, 1 cannot go on, 78 another process holds the id).
"""

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from actors.host import storage
from actors.host.loop import Event, Loop, nobody, stopwatch
from actors.host.net.http_door import CONNECTIONS_MAX
from actors.host.net.server import Listeners, PortTaken
from actors.host.net.tls import Contexts
from actors.host.work import descriptors
from actors.host.work.journal import CONFIG, FORMAT, Journal, configure
from actors.host.work.kept_room import Rooms
from actors.host.work.locks import Lock
from actors.host.work.system_random import SystemRandom
from actors.settings.keys import ConfigError
from actors.settings.node_config import NodeConfig

REFUSED = 3
SETTING = "rayft.metrics.listen"
OTLP, OTLP_INTERVAL = "rayft.metrics.otlp.endpoint", "rayft.metrics.otlp.interval.ms"
OTLP_HEADERS = "rayft.metrics.otlp.headers"
ID_TAKEN = 78


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
    if config.value(FORMAT) == "json":
        log.for_programs(config.node_id)
        if main_thread:
            log.take_standard_error()
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
            if config.value(CONFIG):
                configure(config.value(CONFIG))
            tls = Contexts(config, log)
            listeners = Listeners(config)
            kept.callback(listeners.close)
        except (ConfigError, storage.StorageError, PortTaken, OSError) as error:
            return REFUSED, str(error)
        config = config.with_ports(listeners.ports())
        private = [storage.open_to_others(directory.path) for directory in found]
        private += [storage.secret_open_to_others(path) for path in dict.fromkeys((*secret_files, *tls.key_files()))]
        for notice in (*config.notices, _unsynced(config), descriptors.too_few(), listeners.open_to_others(), *private):
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
            sender = _sender(config, loop, found[0])
            if sender is not None:
                kept.callback(sender.close)
                loop.every_second(lambda: _warn(sender.news(), log))
            stop = loop.run(lambda: _node(config, found, log, reserve, rooms), event)
        except (ConfigError, PortTaken) as error:
            return REFUSED, str(error)
    log.end()
    (log.info if stop.code == 0 else log.error)(f"process {os.getpid()} ends: {stop.sentence}")
    return stop.code, stop.sentence


def _unsynced(config: NodeConfig) -> str | None:
    """The warning of a node that does not wait for its disks; None: it does."""
    if config.value(storage.SYNC):
        return None
    return f"{storage.SYNC}=false: a loss of power may take what was acknowledged. That is for tests."


def _endpoint(config: NodeConfig, loop: Loop):  # type: ignore[no-untyped-def]
    """The HTTP endpoint of the metrics; None if the setting is empty. It is imported only if it is needed."""
    from actors.host.metrics import endpoint as door

    where = config.value(SETTING)
    if not where:
        return None
    endpoint = door.Endpoint(door.address(where), door.Node(lambda: whole(loop), loop.lacks))
    loop.own("MetricsDoor", lambda: endpoint.bytes_kept, f"{CONNECTIONS_MAX} connections")
    return endpoint


def _sender(config: NodeConfig, loop: Loop, directory: storage.Directory):  # type: ignore[no-untyped-def]
    """What sends the metrics to a collector; None if the setting is empty. It is imported only if it is needed. Raises
    ConfigError."""
    where = config.value(OTLP)
    if not where:
        return None
    from actors.host.metrics import otlp

    resource = {
        "service.name": "rayft", "service.namespace": directory.cluster_id, "service.instance.id": str(config.node_id),
        "host.name": socket.gethostname(),
    }  # fmt: skip
    return otlp.Sender(
        otlp.endpoint(where), config.value(OTLP_INTERVAL) / 1000, lambda: whole(loop), resource,
        otlp.headers(config.value(OTLP_HEADERS) or ""),
    )  # fmt: skip


def _warn(sentence: str | None, log: Journal) -> None:
    if sentence is not None:
        log.warning(sentence)


def whole(loop: Loop) -> list[Any]:
    """The metrics of the node and those of its process, for other threads; empty if the node does not answer."""
    from actors.host.metrics.process import process_samples

    found = loop.metrics()
    return [*found, *process_samples()] if found else []


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
    kept_bytes, synced = config.value("rayft.kept.room.bytes"), config.value(storage.SYNC)
    disks = [
        LocalDisk(os.path.abspath(directory.path), handles_max, reserve=reserve, kept_bytes=kept_bytes, synced=synced)
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
