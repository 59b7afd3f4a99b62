"""Documents from files and web servers: what is fetched, and what is not."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from actors.host.work import download
from actors.host.work.download import Unfetched, begin, fetch
from actors.ports import Download
from tests.descriptors import opened, settled

ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/keys": (200, {}, b"{}"),
    "/moved": (302, {"Location": "/keys"}, b""),
    "/to-file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/to-ftp": (302, {"Location": "ftp://127.0.0.1/keys"}, b""),
    "/long": (200, {}, b"x" * 101),
    "/missing": (404, {}, b"no"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, headers, body = ANSWERS[self.path]
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{found.server_port}"
    found.shutdown()
    found.server_close()


def wanted(url: str) -> Download:
    return Download(7, url, "", 100)


@pytest.mark.parametrize("path", ["/keys", "/moved"])
def test_a_document_of_a_web_server(server: str, path: str) -> None:
    assert fetch(wanted(server + path)) == b"{}"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/to-file", "the server answers 302"),
        ("/to-ftp", "redirects to something else"),
        ("/long", "more than 100 bytes"),
        ("/missing", "the server answers 404"),
    ],
)
def test_what_a_web_server_may_not_do(server: str, path: str, why: str) -> None:
    with pytest.raises(Unfetched, match=why):
        fetch(wanted(server + path))


def test_a_file_and_a_missing_one(tmp_path: Path) -> None:
    file = tmp_path / "two words"
    file.write_bytes(b"[]")
    assert fetch(wanted(file.as_uri())) == b"[]"
    with pytest.raises(Unfetched, match="No such file"):
        fetch(wanted(f"file://{tmp_path}/none"))
    file.write_bytes(b"x" * 101)
    with pytest.raises(Unfetched, match="more than 100 bytes"):
        fetch(wanted(file.as_uri()))


def test_the_end_of_a_fetch_is_told_with_its_number() -> None:
    told: list[tuple[int, object]] = []
    ended = threading.Event()
    begin(wanted("file:///nowhere/at/all"), lambda *result: (told.append(result), ended.set()))  # type: ignore[func-returns-value]
    assert ended.wait(20)
    assert told[0][0] == 7 and isinstance(told[0][1], Unfetched)


@pytest.mark.parametrize("drip", [b"a: b\r\n", b"x", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_server_that_drips_has_a_time_for_the_whole(drip: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait for the next bytes is short, and the headers never end."""
    monkeypatch.setattr(download, "WHOLE_S", 0.5)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock, contextlib.suppress(OSError):
                sock.recv(1 << 16)
                sock.sendall(b"" if drip.startswith(b"HTTP") else b"HTTP/1.1 200 OK\r\n")
                while not ended.wait(0.02):
                    sock.sendall(drip)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(Unfetched, match=r"took more than"):
                fetch(wanted(f"http://127.0.0.1:{listener.getsockname()[1]}/keys"))
        finally:
            ended.set()
            thread.join(10)


def test_a_download_leaves_no_descriptor(server: str) -> None:
    fetch(wanted(server + "/keys"))
    before = settled()
    for path in ("/keys", "/moved", "/long", "/missing"):
        with contextlib.suppress(Unfetched):
            fetch(wanted(server + path))
    time.sleep(0.1)
    assert opened() <= before
