"""A `Server` on a real socket of this machine, for tests of the drivers."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from actors.wire import framing
from actors.wire.messages import message, rpcs
from tests.unit.client.servers import Server, metadata_topic


class Listening:
    """Serves one broker until it is closed. `topics`: as for `World.metadata`."""

    def __init__(self, answers: dict[str, Any], **topics: Any) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.server = Server("127.0.0.1", self._listener.getsockname()[1], answers)
        self.address = f"127.0.0.1:{self.server.port}"
        self.topics = topics
        self.asked: list[str] = []
        self.accepted: list[socket.socket] = []
        self.open = 0
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # which ends `accept`, as `close` does not
        self._threads[0].join()
        self._listener.close()
        self.cut()
        for one in self._threads:
            one.join()

    def _begin(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def cut(self) -> None:
        """End all connections."""
        while self.accepted:
            one = self.accepted.pop()
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def until_open(self, count: int) -> None:
        """Wait until so many connections are open."""
        for _ in range(200):
            if self.open == count:
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.open} connections are open")

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.open += 1
            self.accepted.append(sock)
            self._begin(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as file:
            try:
                while head := file.read(4):
                    frame = file.read(int.from_bytes(head, "big"))
                    header, position = framing.decode_request_header(frame)
                    name = rpcs("rpc")[header.api_key].name.removeprefix("rpc:")
                    request = framing.decode_request(name, header.api_version, frame, position)
                    self.asked.append(name)
                    answer = self._answer(name, header.api_version, request)
                    if answer is None:
                        continue
                    sock.sendall(b"".join(
                        framing.encode_response(name, header.api_version, header.correlation_id, answer)
                    ))  # fmt: skip
            except OSError:
                pass
            finally:
                self.open -= 1

    def _answer(self, name: str, version: int, request: Any) -> Any:
        own = self.server.answers.get(name)
        if own is not None:
            return own(self.server, version, request) if callable(own) else own
        if name == "ApiVersions":
            return self.server.api_versions(version)
        assert name == "Metadata", name
        kind = message("MetadataResponse")
        return kind(
            brokers=[kind.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port)],
            controller_id=1,
            cluster_id="cluster",
            topics=[metadata_topic(name, value) for name, value in self.topics.items()],
        )
