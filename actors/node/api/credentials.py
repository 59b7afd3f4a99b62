"""The end of credentials: connections of peers that are no longer let in are closed, on every node, within a second.

This file alone decides when a node looks at the connections that it has, and what ends one. Rules:

1. A user whose password is deleted or changed, and a delegation token that is gone, end the connections that have logged in
   with them. What a token of an identity provider or a PLAIN password is good for ends with its time (KIP-368).
2. A node that a rule shuts out (`authorizer.py`) is closed out, whatever its certificate says.
3. A certificate ends the connections on which it was shown when its time is over, also where the peer has logged in
   besides (`net/request_channel.py`), and when its authority is not trusted any more (`host/loop.py`).
4. All other rights are looked at with each request.

A node looks when its metadata says something new about users, tokens or rules, and not more often than every `LOOK_MS`.
"""

from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.security.speakers import named
from actors.node.net.connections import Connection
from actors.node.net.request_channel import RequestChannel
from actors.node.runtime.runtime import Runtime

LOOK_MS = 300


class Credentials:
    """The credentials of the peers of one node."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        broker: BrokerContext | None,
        controller: ControllerContext | None,
    ) -> None:
        self._runtime = runtime
        self._requests = requests
        self._broker = broker
        self._controller = controller
        self._seen = 0
        """What `_version` said when the connections were looked at last."""
        self._looked_ms = -LOOK_MS

    def look(self) -> None:
        """Look at the connections if there is something new to look for. Called once in each turn."""
        version = self._version()
        if version == self._seen:
            return
        now_ms = self._runtime.now.mono_ms
        if now_ms < self._looked_ms + LOOK_MS:
            self._runtime.waiting.timers.at(self._looked_ms + LOOK_MS, lambda: None)  # there is a turn then
            return
        self._seen, self._looked_ms = version, now_ms
        self._requests.end_credentials(self._shut_out)

    def _version(self) -> int:
        """A number that grows with each user, token and rule that is set or gone."""
        found = 0 if self._broker is None else self._broker.cache.image.credentials
        return found if self._controller is None else found + self._controller.role.image.credentials

    def _shut_out(self, connection: Connection) -> str | None:
        if named(connection.principal) is None:
            return None
        for context in (self._broker, self._controller):
            if context is not None and context.authorizer.shuts_out(connection.principal, connection.peer_host):
                return f"a rule shuts {connection.principal} out"
        return None
