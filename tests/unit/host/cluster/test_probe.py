"""Questions from outside to nodes that end while they answer, or are none."""

import io
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from actors.command import up
from actors.command.output import screen
from actors.host.cluster import probe


@pytest.fixture
def says() -> Iterator[list[bytes]]:
    """A server that takes one question at a time, says the first of these, and breaks off."""
    words: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                with sock:
                    sock.recv(1 << 16)
                    sock.sendall(words[0])

        threading.Thread(target=serve, daemon=True).start()
        words.append(str(server.getsockname()[1]).encode())
        yield words
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nx 1\n",
        b"\0\0\0\7garbage",
        b"",
        b"HTTP/1.0 200 OK\r\n\r\n\xff\xfe 1\n",
        b"HTTP/1.0 200 OK\r\n\r\nno number\n",
        b"HTTP/1.0 500 No\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n" + b"a: b\r\n" * 200,
    ],
)
def test_metrics_that_are_none_are_no_answer(says: list[bytes], answer: bytes) -> None:
    port = int(says.pop())
    says.append(answer)
    with pytest.raises(probe.NoAnswer):
        probe.metrics(("127.0.0.1", port))


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_a_client_writes_no_line_of_the_page(says: list[bytes], end: str) -> None:
    """Only a line feed ends a line of Prometheus' format; a label may hold everything else that Python takes for an end."""
    port = int(says.pop())
    page = f'a{{client_id="x{end}b 7{end}no number"}} 1.0\nb 2.0\n'
    says.append(b"HTTP/1.0 200 OK\r\n\r\n" + page.encode())
    assert probe.metrics(("127.0.0.1", port)) == {page.partition(" 1.0")[0]: 1.0, "b": 2.0}


def test_no_text_of_others_is_cut_at_what_python_takes_for_line_ends() -> None:
    for path in Path(probe.__file__).parents[2].rglob("*.py"):
        assert ".splitlines(" not in path.read_text(), path


def test_metrics_are_asked_of_the_node_and_not_of_a_proxy(says: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(says.pop())
    says.append(b"HTTP/1.0 200 OK\r\n\r\nx 1\n")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr(urllib.request, "_opener", None)  # which knows the environment of its first use
    assert probe.metrics(("127.0.0.1", port)) == {"x": 1.0}


def test_a_state_that_cannot_be_told_does_not_end_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rayft up` shows it each second, and the cluster ends with `rayft up`."""
    asked: list[Path] = []

    def state(directory: Path) -> dict[str, object]:
        asked.append(directory)
        raise OSError(24, "Too many open files")

    class Running:
        @property
        def running(self) -> bool:
            return not asked

    monkeypatch.setattr(screen, "state", state)
    monkeypatch.setattr(up.time, "sleep", lambda seconds: None)
    out = io.StringIO()
    up._stay(Running(), tmp_path, Console(file=out, force_terminal=True))
    assert asked == [tmp_path]
