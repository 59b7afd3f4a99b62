"""The HTTP port of one node (setting `rayft.metrics.listen`): `/metrics`, `/live` and `/ready`.

This file alone decides what they mean. `/live`: the node's thread takes turns. `/ready`: the node does its work, or the
answer says what it lacks. Each is asked anew for every page, and a page is one moment. A node that does not answer has no
page of metrics either: half of one would look to Prometheus like a node that works.
"""

import gzip
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs

from actors.host.metrics.text import chosen, written
from actors.host.net.http_door import HttpDoor, PageRequest
from actors.host.net.server import PortTaken
from actors.node.metrics.family import Sample
from actors.node.metrics.partitions import Columns
from actors.settings.keys import ConfigError

SETTING = "rayft.metrics.listen"
FORMS_MAX = 8
"""Forms of one page that are kept while it is sent."""
OK, UNAVAILABLE, NOT_FOUND = "200 OK", "503 Service Unavailable", "404 Not Found"
HEALTH = ("/live", "/ready")
TEXT = {"Content-Type": "text/plain; charset=utf-8"}
SILENT: "Answer" = (UNAVAILABLE, TEXT, b"the node does not answer\n")
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]*):(?P<port>[0-9]{1,5})")
_PACKED = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\b)")

Answer = tuple[str, Mapping[str, str], bytes]
"""(status, headers, body)."""


class Node(NamedTuple):
    """How a node is asked, from another thread."""

    metrics: Callable[[], Sequence[Sample | Columns]]
    """All its numbers; empty: it does not answer."""
    lacks: Callable[[], str | None]
    """What it lacks to be ready; empty: nothing; None: it does not answer."""


def address(text: str, name: str = SETTING) -> tuple[str, int]:
    """(host, port) of the setting or option of that name. Raises ConfigError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{name}={text} is no address: write host:port, for example 127.0.0.1:9404.")
    return match["host"].strip("[]"), int(match["port"])


class Endpoint:
    """The HTTP server of one node: one thread, which asks the node."""

    def __init__(self, where: tuple[str, int], node: Node, name: str = SETTING) -> None:
        """`name`: the setting or option that says where. Raises PortTaken if the port is not free."""
        host, port = where
        try:
            self._door = HttpDoor(host or "127.0.0.1", port, lambda: _Page(node), lambda asked: asked.path in HEALTH)
        except OSError as error:
            raise PortTaken(
                f"{name}={host}:{port} cannot be used ({error.strerror}): stop the process that "
                f"uses it, or write another."
            ) from None
        self.port: int = self._door.port
        self.open_to_others = not ipaddress.ip_address(self._door.host.partition("%")[0]).is_loopback
        """Whether other machines may reach it."""

    @property
    def bytes_kept(self) -> int:
        """The bytes that are kept for those that ask for metrics."""
        return self._door.bytes_kept

    def close(self) -> None:
        """Stop serving, and close the connections."""
        self._door.close()


class _Page:
    """What a node says of one moment, in each form that somebody asks for."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._parts: list[Sample | Columns] | None = None
        self._forms: dict[tuple[str, bool, tuple[str, ...]], Answer] = {}
        self._lacks: tuple[str | None] | None = None

    def form(self, asked: PageRequest) -> Answer:
        """(status, headers, body) as a request asks for them. Equal ones are made once."""
        if asked.path in HEALTH:
            return self._health(asked.path == "/ready")
        if asked.path not in ("/metrics", "/"):
            return NOT_FOUND, TEXT, b"here are /metrics, /live and /ready\n"
        kind = chosen(asked.headers.get("accept", ""))
        packed = _PACKED.search(asked.headers.get("accept-encoding", "")) is not None
        names = tuple(parse_qs(asked.query).get("name[]", ()))
        found = self._forms.get((kind, packed, names))
        if found is None:
            if self._parts is None:
                self._parts = list(self._node.metrics())
            if not self._parts:
                return SILENT
            body = written(self._parts, kind, names)
            headers = {"Content-Type": kind}
            if packed:
                headers["Content-Encoding"], body = "gzip", gzip.compress(body, 1)
            found = OK, headers, body
            if len(self._forms) < FORMS_MAX:
                self._forms[kind, packed, names] = found
        return found

    def _health(self, ready: bool) -> Answer:
        if self._lacks is None:
            self._lacks = (self._node.lacks(),)
        lacks = self._lacks[0]
        if lacks is None:
            return SILENT
        if ready and lacks:
            return UNAVAILABLE, TEXT, f"not ready: {lacks}\n".encode()
        return OK, TEXT, b"ready\n" if ready else b"live\n"
