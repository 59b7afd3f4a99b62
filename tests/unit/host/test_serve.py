"""What surrounds a node in its process: the log it writes, and what is given back where it does not start."""

import io
import socket
import threading
from pathlib import Path

import uvloop

from actors.host import storage
from actors.host.serve import REFUSED, serve
from actors.host.work import locks
from actors.host.work.journal import Journal
from actors.settings.node_config import NodeConfig, node_config
from tests.descriptors import opened, settled


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


def test_a_refused_start_gives_everything_back(tmp_path: Path) -> None:
    """The process may live on (Ray's worker does, a while) and try again."""
    log = Journal(io.StringIO())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = settings(tmp_path, taken.getsockname()[1])
        storage.format_node(config, "3Db5QLSqSZieL3rJBUUegA", voters=None)
        before = settled()
        assert serve(config, log, main_thread=False)[0] == REFUSED
        assert opened() == before
    second = locks.Lock(str(tmp_path / "b"))
    for _ in range(2):
        code, sentence = serve(config, log, main_thread=False)
        assert (code, "in use by process" in sentence) == (REFUSED, True)
    second.close()
    assert opened() == before - 1
    locks.Lock(str(tmp_path / "a")).close()


def test_metrics_that_cannot_be_shown_give_the_ports_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = dict(settings(tmp_path, 0).given)
        given["rayft.metrics.listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        config = node_config(given)
        storage.format_node(config, "3Db5QLSqSZieL3rJBUUegA", voters=None)
        uvloop.new_event_loop().close()  # two descriptors are made once a process
        before, threads = settled(), threading.active_count()
        assert serve(config, Journal(io.StringIO()), main_thread=False)[0] == REFUSED
        assert (opened(), threading.active_count()) == (before, threads)
