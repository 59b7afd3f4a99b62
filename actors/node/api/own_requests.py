"""What a broker asks of itself: a coordinator's markers for partitions that it leads, the state of share partitions.

This file alone decides how such a request is handled. Rules:

1. It waits in the request queue, in the lane of its API, with those of its kind: no peer stands before it with more than a
   peer's part of the time (`net/request_queue.py`).
2. It needs no connection, no bytes and no right: only APIs whose right is one to the whole request are asked this way, and
   between brokers the node has it.
3. Its answer is told as soon as it is known, which is never while it is asked. Where a peer's connection would be closed,
   the answer is a ChannelError.
"""

from collections.abc import Callable
from typing import Any

from actors.authorization.rights import Checked
from actors.node.api.dispatch import Dispatch, RequestRun
from actors.node.net.channels import ChannelError
from actors.node.net.connections import ANONYMOUS, Connection, Slot
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Api, Call, Listener, Served
from actors.wire.messages import Message

CONNECTION = 0
"""No number of a connection: the host counts from 1, and this node's own dials are below zero."""
NO_BYTES = memoryview(b"")


class OwnRequests:
    """Requests of a broker to itself."""

    def __init__(self, dispatch: Dispatch, served: Served) -> None:
        self._dispatch = dispatch
        rows = served[Listener.INTER_BROKER].values()
        listener = dispatch.runtime.config.inter_broker_listener
        self._connection = Connection(CONNECTION, Listener.INTER_BROKER, listener, "this broker")
        self._apis = {api.name: (api, self._call(api)) for api in rows if api.right.checked is Checked.WHOLE}
        """What may be asked, by name, and how it is: in the newest version."""

    def ask(
        self,
        name: str,
        request: Message | None,
        then: Callable[[Any], None],
    ) -> None:
        """`then` is told the reply, or a ChannelError. Raises KeyError: brokers do not ask one another for that."""
        api, call = self._apis[name]
        slot = Slot(self._connection, 0, api)
        slot.sliced = _OwnRun(self._dispatch, slot, api, request, call, then).start
        self._dispatch.requests.queue.put(api.lane, CONNECTION, NO_BYTES, slot)

    def _call(self, api: Api) -> Call:
        asker = self._connection
        place = asker.id, asker.kind, asker.listener_name
        return Call(*place, api.key, api.versions[-1], None, asker.peer_host, ANONYMOUS, NO_BYTES)


class _OwnRun(RequestRun):
    """One request of a broker to itself."""

    __slots__ = ("_then",)

    def __init__(
        self,
        dispatch: Dispatch,
        slot: Slot,
        api: Api,
        request: Message | None,
        call: Call,
        then: Callable[[Any], None],
    ) -> None:
        super().__init__(dispatch, slot, api, call.api_version, 0, request, call)
        self._then = then

    def _perform(self) -> Answer:
        return self._api.handler(self._dispatch.broker, self._request, self._call)

    def _writes(self) -> None:
        """No other request waits for one of a broker to itself."""

    def _broke(self, error: Exception) -> None:
        self._dispatch.report(self._api.name, error)
        self._close(f"{self._api.name} failed inside the node")

    def _close(self, why: str) -> None:
        self._then(ChannelError("lost", why))

    def _reply(self, reply: Any) -> None:
        self._then(reply)
