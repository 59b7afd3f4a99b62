"""The connection to ZooKeeper, for one node or one command: requests of `actors/ports/zookeeper.py` in, results and events
out.

This file alone knows the client library, kazoo, and that it answers on threads of its own. Rules:

1. Requests are sent in their order on one session, and ZooKeeper answers a session in order.
2. Results and events go out in the order in which they came, through `told`, which any thread may call.
3. When the connection is back, `Began` is told whether or not the session is the old one: its watches are not relied
   on.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from actors.ports.zookeeper import (
    Away,
    Began,
    Change,
    Changed,
    Check,
    Children,
    Close,
    Create,
    Delete,
    Event,
    Get,
    Lost,
    Multi,
    Open,
    Read,
    Reads,
    Rejected,
    Request,
    Unsendable,
    Write,
    Znode,
)

if TYPE_CHECKING:
    from kazoo.client import KazooClient

MISSING = "this needs kazoo: pip install 'rayft[bridge]'."


class Door:
    """One session with ZooKeeper at a time. `told(token, result)` is called with what a request's class says, with
    `Rejected` or `Away`; `happened(event)` with what happens by itself. Both are called from another thread."""

    def __init__(self, told: Callable[[int, object], None], happened: Callable[[Event], None]) -> None:
        self._told = told
        self._happened = happened
        self._client: Any = None
        """The KazooClient of the session; None: no session is wanted."""

    def perform(self, request: Request) -> None:
        """Do what the node asks. Raises ValueError for a connect string that cannot be used."""
        if isinstance(request, Open):
            self._open(request)
        elif isinstance(request, Close):
            self.close()
        elif self._client is None:
            self._told(request.token, Away("no session is open"))
        else:
            try:
                if isinstance(request, Reads):
                    _Gathered(request, self._client, self._told, self._watch if request.watch else None)
                else:
                    self._multi(self._client, request)
            except (ValueError, TypeError) as error:  # kazoo's word on a path or a value: no request is sent
                self._told(request.token, Unsendable(str(error)))

    def close(self) -> None:
        """End the session. A second call does nothing."""
        client, self._client = self._client, None
        if client is not None:
            # It waits for ZooKeeper's answer, and a node's turn waits for nothing.
            with contextlib.suppress(RuntimeError):  # no thread is left: ZooKeeper ends the session when it is silent
                threading.Thread(target=_ended, args=(client,), name="zookeeper-close", daemon=True).start()

    def _open(self, wanted: Open) -> None:
        self.close()
        try:
            from kazoo.client import KazooClient
            from kazoo.retry import KazooRetry
        except ImportError:
            raise ValueError(MISSING) from None
        self._client = client = KazooClient(
            hosts=wanted.connect,
            timeout=wanted.session_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0),
        )
        client.add_listener(lambda state: self._state(client, state))
        client.start_async()

    def _state(self, client: "KazooClient", state: str) -> None:
        """Take a new state of the connection. It is called on the thread of kazoo's connection, in the order of the
        session's life."""
        if self._client is not client:
            return
        if state == "CONNECTED":
            self._happened(Began((client.client_id or (0, b""))[0]))
        else:
            self._happened(Lost())

    def _watch(self, event: Any) -> None:
        if event.path is not None and event.type != "NONE":
            self._happened(Changed(event.path))

    def _multi(self, client: "KazooClient", request: Multi) -> None:
        transaction = client.transaction()
        for change in request.changes:
            _ADD[type(change)](transaction, change)

        def ended(answer: Any) -> None:
            try:
                results = answer.get(block=False)
            except Exception as error:
                self._told(request.token, _failed(error))
                return
            self._told(request.token, _results(request.changes, results))

        transaction.commit_async().rawlink(ended)


def _ended(client: "KazooClient") -> None:
    client.stop()
    client.close()


class _Gathered:
    """The results of several reads, told when all are there."""

    def __init__(
        self,
        request: Reads,
        client: "KazooClient",
        told: Callable[[int, object], None],
        watch: Callable[[Any], None] | None,
    ) -> None:
        self._results: list[Any] = [None] * len(request.reads)
        self._left = len(request.reads)
        self._failed: Exception | None = None
        self._token, self._told = request.token, told
        if not request.reads:
            told(request.token, ())
        for place, read in enumerate(request.reads):
            self._ask(client, place, read, watch)

    def _ask(self, client: "KazooClient", place: int, read: Read, watch: Callable[[Any], None] | None) -> None:
        if isinstance(read, Children):
            client.get_children_async(read.path, watch).rawlink(lambda answer: self._answered(place, answer))
            return

        def looked(answer: Any) -> None:
            # A watch on a znode that is not there is left by `exists` alone.
            if watch is not None and _is_missing(answer):
                client.exists_async(read.path, watch).rawlink(
                    lambda again: self._exists(client, place, read, watch, again)
                )
            else:
                self._answered(place, answer)

        client.get_async(read.path, watch).rawlink(looked)

    def _exists(self, client: "KazooClient", place: int, read: Get, watch: Callable[[Any], None], answer: Any) -> None:
        if answer.exception is None and answer.value is not None:
            self._ask(client, place, read, watch)  # it was made in between
        else:
            self._answered(place, answer)

    def _answered(self, place: int, answer: Any) -> None:
        try:
            found = answer.get(block=False)
        except Exception as error:
            if not _is_missing(answer):
                self._failed = _failed(error)
            found = None
        if isinstance(found, list):
            self._results[place] = tuple(sorted(found))
        elif found is not None:
            data, stat = found
            self._results[place] = Znode(data or b"", stat.version, stat.czxid, bool(stat.ephemeralOwner), stat.mzxid)
        self._left -= 1
        if self._left == 0:
            self._told(self._token, self._failed or tuple(self._results))


def _is_missing(answer: Any) -> bool:
    from kazoo.exceptions import NoNodeError

    return isinstance(answer.exception, NoNodeError)


_ADD: dict[type, Callable[[Any, Any], None]] = {
    Create: lambda to, one: to.create(one.path, one.data, ephemeral=one.ephemeral, sequence=one.sequential),
    Write: lambda to, one: to.set_data(one.path, one.data, one.version),
    Delete: lambda to, one: to.delete(one.path, one.version),
    Check: lambda to, one: to.check(one.path, one.version),
}


def _results(changes: Sequence[Change], results: Sequence[Any]) -> object:
    """The answer to a Multi: a tuple, or Rejected."""
    from kazoo.exceptions import RolledBackError, RuntimeInconsistency

    for place, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return Rejected(_reason(result), place)
    if any(isinstance(result, Exception) for result in results):
        return Rejected("rolled back")
    return tuple(
        result if isinstance(change, Create) else result.version if isinstance(change, Write) else None
        for change, result in zip(changes, results, strict=True)
    )


def _failed(error: Exception) -> Exception:
    from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError
    from kazoo.handlers.threading import KazooTimeoutError

    away = (ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError, KazooTimeoutError)
    return Away(type(error).__name__) if isinstance(error, away) else Rejected(_reason(error))


def _reason(error: Exception) -> str:
    from kazoo import exceptions

    words = {
        exceptions.NodeExistsError: "exists",
        exceptions.NoNodeError: "missing",
        exceptions.BadVersionError: "version",
        exceptions.NotEmptyError: "not empty",
        exceptions.NoAuthError: "not allowed: give rayft the rights of a broker in ZooKeeper",
    }
    return words.get(type(error), type(error).__name__)
