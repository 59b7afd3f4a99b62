"""A page as a process of its own, and a browser's part of HTTP."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tests.integration.conftest import ROOT

START_S = 60


class Page:
    """A page that answers."""

    def __init__(self, process: "subprocess.Popen[str]", address: str, printed: list[str]) -> None:
        self.process = process
        self.address = address
        self.printed = printed
        """Everything that the process has printed."""
        split = urlsplit(address)
        self.host, self.port = str(split.hostname), int(split.port or 0)
        self.token = split.query.partition("=")[2]

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        **query: Any,
    ) -> tuple[int, Any, dict[str, str]]:
        """(status, body, headers) of a request with the token. A body of JSON is read."""
        conn = http.client.HTTPConnection(self.host, self.port, timeout=60)
        given = {"Authorization": f"Bearer {self.token}", **headers}
        target = f"/api/v1{path}{'?' + urlencode(query) if query else ''}"
        try:
            conn.request(method, target, body, {name: value for name, value in given.items() if value})
            answer = conn.getresponse()
            data = answer.read()
        finally:
            conn.close()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, json.loads(data) if told.get("content-type") == "application/json" else data, told

    def get(self, path: str, **query: Any) -> Any:
        """The body of an answer, which must be 200."""
        status, body, _ = self.ask(path, **query)
        assert status == 200, body
        return body

    def rows(self, table: str, **query: Any) -> list[dict[str, Any]]:
        """The rows of a table."""
        body = self.get(f"/tables/{quote(table)}", **query)
        return [dict(zip(body["columns"], row, strict=True)) for row in body["rows"]]

    @contextmanager
    def events(self) -> Iterator[Iterator[dict[str, Any]]]:
        """What is new, as it comes."""
        conn = http.client.HTTPConnection(self.host, self.port, timeout=60)
        conn.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {self.token}"})
        answer = conn.getresponse()
        assert answer.status == 200, answer.read()

        def told() -> Iterator[dict[str, Any]]:
            while line := answer.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

        try:
            yield told()
        finally:
            conn.close()


@contextmanager
def page(*words: str, patience_s: float = START_S) -> Iterator[Page]:
    """`rayft ui` with these words, at a free port. `patience_s`: how long it may take until it is open."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("RAYFT_BOOTSTRAP", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "ui", "--port", "0", *words],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    printed: list[str] = []
    assert process.stdout is not None
    reading = threading.Thread(target=lambda: printed.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reading.start()
    try:
        yield Page(process, _address(process, printed, patience_s), printed)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reading.join()
        process.stdout.close()


def _address(process: "subprocess.Popen[str]", printed: list[str], patience_s: float) -> str:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        found = re.search(r"https?://\S+", "".join(printed))
        if found:
            return found[0]
        assert process.poll() is None, "".join(printed)
        time.sleep(0.02)
    raise AssertionError(f"no address within {patience_s} s: {printed}")


def until(what: Callable[[], Any], seconds: float = 30) -> Any:
    """What a function returns once that is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"{what} was not true within {seconds} s"
        time.sleep(0.05)
    return found
