"""From a frame to an answer: header, table, handler, slot.

A request that cannot be read, or of an API or version that the listener does not serve, closes its connection with one
log line; ApiVersions alone answers a version that is too new, in the layout of version 0, as every client expects.
"""

from typing import TYPE_CHECKING, Any

from actors.node.connections import Connection, Slot
from actors.node.forwarding import Forwarder
from actors.node.registry import Answer, Api, Call, Close, Done, Forward, Held, Later, Parked, Sliced, Subject
from actors.wire import framing
from actors.wire.errors import WireError

if TYPE_CHECKING:
    from actors.node.node import Node

API_VERSIONS = 18


class Dispatch:
    """Runs requests and keeps their answers until they can leave."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._forwarder = Forwarder(node)

    def run(self, connection: Connection, slot: Slot, frame: memoryview) -> None:
        """Run one request of `connection`; its answer goes to `slot`, now or later."""
        node = self._node
        try:
            header, position = framing.decode_request_header(frame)
        except WireError as error:
            node.close_connection(connection, f"unreadable request header: {error}")
            return
        api = slot.api
        if api is None:
            node.close_connection(
                connection, f"API {header.api_key} is not served on listener {connection.listener_name}"
            )
            return
        if not node.admitted(connection, api.key):
            return
        version = header.api_version
        if version not in api.versions:
            if api.key != API_VERSIONS:
                node.close_connection(
                    connection, f"{api.name} version {version} is not served (served: {_span(api.versions)})"
                )
                return
            version = 0
        call = Call(
            connection.id,
            connection.kind,
            connection.listener_name,
            api.key,
            header.api_version,
            header.client_id,
            connection.peer_host,
            connection.principal,
            frame,
        )
        try:
            if version == header.api_version:
                request = framing.decode_request(api.name, version, frame, position)
            else:
                request = None
        except WireError as error:
            node.close_connection(connection, f"unreadable {api.name} request: {error}")
            return
        _Run(self._node, self._forwarder, slot, api, version, header.correlation_id, request, call).start()


class _Run:
    """One request from its handler to its slot."""

    __slots__ = ("_api", "_call", "_correlation", "_forwarder", "_node", "_request", "_slot", "_version")

    def __init__(
        self,
        node: "Node",
        forwarder: Forwarder,
        slot: Slot,
        api: Api,
        version: int,
        correlation: int,
        request: Any,
        call: Call,
    ) -> None:
        self._node = node
        self._forwarder = forwarder
        self._slot = slot
        self._api = api
        self._version = version
        self._correlation = correlation
        self._request = request
        self._call = call

    def start(self) -> None:
        """Ask the handler. A failure of the handler closes this connection and hurts nobody else."""
        try:
            answer = self._api.handler(self._node, self._request, self._call)
        except Exception as error:
            self._node.failed(self._slot.connection, self._api.name, error)
            return
        if type(answer) not in (Done, Close) and self._api.writes is not Subject.NOTHING:
            self._node.connections.writes(self._slot, self._call.frame)
        self._settle(answer)

    def _again(self, function: Any, *arguments: Any) -> None:
        if self._slot.connection.closed or not self._node.admitted(self._slot.connection, self._api.key):
            return
        try:
            answer = function(*arguments)
        except Exception as error:
            self._node.failed(self._slot.connection, self._api.name, error)
            return
        self._settle(answer)

    def _settle(self, answer: Answer) -> None:
        kind = type(answer)
        if kind is Done:
            self._reply(answer.reply)  # type: ignore[union-attr]
        elif kind is Parked:
            assert isinstance(answer, Parked)
            self._slot.parked = lambda expired: self._again(answer.again, expired)
            self._node.waiting.park(
                answer.keys, answer.deadline_ms, self._slot.again, self._slot.connection, answer.offsets
            )
        elif kind is Held:
            assert isinstance(answer, Held)
            if answer.offset < self._node.quorum.high_watermark:
                self._reply(answer.reply)
            else:
                self._node.waiting.hold(answer.offset, lambda committed: self._released(committed, answer.reply))
        elif kind is Sliced:
            assert isinstance(answer, Sliced)
            self._slot.sliced = lambda: self._again(answer.again)
            self._node.go_on_later(self._slot, self._call.frame)
        elif kind is Forward:
            self._forwarder.forward(self._slot, self._call)
        elif kind is Later:
            assert isinstance(answer, Later)
            self._later(answer)
        else:
            assert isinstance(answer, Close)
            self._node.close_connection(self._slot.connection, answer.why)

    def _later(self, later: Later) -> None:
        connection = self._slot.connection

        def job() -> object:
            return later.job() if not connection.closed else None

        owner = (connection.peer_host, connection.id)
        self._node.work(job, lambda result: self._again(later.then, result), later.kind, owner)

    def _released(self, committed: bool, reply: Any) -> None:
        # After a lost leadership the handler is asked anew: it finds that this node is not active and says so.
        if committed:
            self._reply(reply)
        else:
            self.start()

    def _reply(self, reply: Any) -> None:
        if reply is None:
            self._node.answer(self._slot, [])
            return
        try:
            parts = framing.encode_response(self._api.name, self._version, self._correlation, reply)
        except WireError as error:
            self._node.failed(self._slot.connection, self._api.name, error)
            return
        self._node.answer(self._slot, parts)


def _span(versions: range) -> str:
    return f"{versions.start} to {versions.stop - 1}"
