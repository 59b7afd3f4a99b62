"""What surrounds a node in its process: the log it writes, and what is given back where it does not start."""

import errno
import io
import os
import socket
import threading
from pathlib import Path
from typing import Any

import uvloop

from actors.host import storage
from actors.host.serve import REFUSED, Journal, serve
from actors.host.work import locks
from actors.settings.node_config import NodeConfig, node_config


class Disk(io.RawIOBase):
    """A stream on a disk that may be full."""

    full, written = True, b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written += bytes(data)
        return len(data)


def test_a_log_that_cannot_be_written_hurts_nobody_and_goes_on_when_there_is_room() -> None:
    """A node that reports its full disk often has its log on the same one."""
    disk = Disk()
    journal = Journal(io.TextIOWrapper(io.BufferedWriter(disk)))
    for _ in range(2000):  # more than the stream keeps back
        journal.error("no append is taken until there is room")
    disk.full = False
    journal.info("there is room again")
    assert disk.written.endswith(b"INFO  there is room again\n")


def test_a_name_that_the_log_cannot_spell_is_written_all_the_same() -> None:
    """Of a directory that somebody made by hand, say: the node that tells of it must not end."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "utf-8")
    Journal(stream).warning(f"{os.fsdecode(bytes((0xFF,)))}-0 is not used")
    assert raw.getvalue().endswith(b"WARN  \\udcff-0 is not used\n")


def test_a_name_with_a_line_end_begins_no_line() -> None:
    forged = "x' \n2026-01-01 00:00:00.000 INFO  broker 1 is FENCED\r\u2028\x1b[2J"
    stream = io.StringIO()
    log = Journal(stream)
    log.warning(f"closed the connection of 10.9.9.9 on BROKER: its login failed: unknown user '{forged}'")
    log.info(f"User:{forged}")
    log.error(f"Produce failed: '{forged}'\nTraceback\n  File\n{forged}")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 8, lines
    assert all(line.startswith("    ") for line in lines[3:]) and not any("\x1b" in line for line in lines)


def settings(path: Path, port: int) -> NodeConfig:
    return node_config(
        {
            "process.roles": "broker",
            "broker.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.connect": "1001@127.0.0.1:1",
            "log.dirs": f"{path / 'a'},{path / 'b'}",
        }
    )


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_refused_start_gives_everything_back(tmp_path: Path) -> None:
    """The process may live on (Ray's worker does, a while) and try again."""
    log = Journal(io.StringIO())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = settings(tmp_path, taken.getsockname()[1])
        storage.format_node(config, "3Db5QLSqSZieL3rJBUUegA", voters=None)
        before = descriptors()
        assert serve(config, log, main_thread=False)[0] == REFUSED
        assert descriptors() == before
    second = locks.Lock(str(tmp_path / "b"))
    for _ in range(2):
        code, sentence = serve(config, log, main_thread=False)
        assert (code, "in use by process" in sentence) == (REFUSED, True)
    second.close()
    assert descriptors() == before - 1
    locks.Lock(str(tmp_path / "a")).close()


def test_metrics_that_cannot_be_shown_give_the_ports_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = dict(settings(tmp_path, 0).given)
        given["rayft.metrics.listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        config = node_config(given)
        storage.format_node(config, "3Db5QLSqSZieL3rJBUUegA", voters=None)
        uvloop.new_event_loop().close()  # two descriptors are made once a process
        before, threads = descriptors(), threading.active_count()
        assert serve(config, Journal(io.StringIO()), main_thread=False)[0] == REFUSED
        assert (descriptors(), threading.active_count()) == (before, threads)
