"""A schema registry for tests, as far as Confluent's serializers and readers ask one: subjects, versions, ids."""

import http.server
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit


def guid(id: int) -> str:
    """The name that a schema has in all registries."""
    return str(uuid.UUID(int=0xA << 124 | id))


class Registry:
    """What the registry has, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.schemas: list[dict[str, Any]] = []
        """The id of a schema is its place and one."""
        self.subjects: dict[str, list[int]] = {}
        """subject -> the ids of its versions."""
        self.asked: list[str] = []
        self.wait_s = 0.0
        self.status = 0
        """What it answers to everything; 0: what it has."""

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The id of a schema, which is a version of a subject from now on."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        id = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if id not in versions:
            versions.append(id)
        return id

    def answer(self, path: str) -> Any:
        """What there is at a path; None: nothing."""
        parts = [unquote(one) for one in path.strip("/").split("/")]
        if parts[:2] == ["schemas", "guids"]:
            return next((one for n, one in enumerate(self.schemas, 1) if guid(n) == parts[2]), None)
        if parts[:2] == ["schemas", "ids"] and parts[2].isdecimal() and 0 < int(parts[2]) <= len(self.schemas):
            return self.schemas[int(parts[2]) - 1]
        if len(parts) == 4 and parts[0] == "subjects" and parts[2] == "versions" and parts[1] in self.subjects:
            versions = self.subjects[parts[1]]
            number = len(versions) if parts[3] == "latest" else int(parts[3])
            if 0 < number <= len(versions):
                id = versions[number - 1]
                return {"subject": parts[1], "version": number, "id": id, **self.schemas[id - 1]}
        return None


@contextmanager
def registry() -> Iterator[Registry]:
    """A registry on this machine."""
    found = Registry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            time.sleep(found.wait_s)
            told = found.answer(urlsplit(self.path).path)
            self.reply(found.status or (404 if told is None else 200), told)

        def do_POST(self) -> None:
            subject = unquote(urlsplit(self.path).path.strip("/").split("/")[1])
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            schema = {one: sent[one] for one in ("schema", "schemaType") if one in sent}
            id = found.register(subject, schema)
            self.reply(200, {"id": id, "guid": guid(id), **schema})

        def reply(self, status: int, told: Any) -> None:
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
