"""From a frame to an answer: header, table, handler, slot.

A request that cannot be read, or of an API or version that the listener does not serve, closes its connection with one
log line; ApiVersions alone answers a version that is too new, in the layout of version 0, as every client expects.
"""

import traceback
from functools import partial
from typing import Any

from actors.node.api.contexts import BrokerContext, Context, ControllerContext
from actors.node.api.credentials import Credentials
from actors.node.api.forwarding import ALL_BYTES_MAX, Forwarder
from actors.node.api.perform import perform
from actors.node.api.security.authorizer import from_broker
from actors.node.api.table import CLIENTS_OWN
from actors.node.api.throttling import charge, charge_forwarded, mute
from actors.node.net.channels import Channels
from actors.node.net.connections import DATA_KINDS, FETCH, GONE, LET_GO_FROM, Connection, Slot
from actors.node.net.farewell import LEAVE_GROUP, PRODUCE
from actors.node.net.long_requests import COUNTED_FROM
from actors.node.net.request_channel import LOGIN, RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.quotas.client_quotas import ClientQuotas
from actors.node.runtime.answers import (
    MORE_MEMORY,
    Answer,
    Asked,
    Close,
    Done,
    Forward,
    Held,
    Last,
    Later,
    Parked,
    Sliced,
)
from actors.node.runtime.calls import Api, Call, Listener, Refusals, Subject
from actors.node.runtime.runtime import Runtime
from actors.ports import Buffer
from actors.wire import framing
from actors.wire.errors import WireError

API_VERSIONS = 18
CLIENT, INTER_BROKER = Listener.CLIENT, Listener.INTER_BROKER
CONTROLLERS_OWN = (Listener.CONTROLLER, Listener.BRIDGE)
BROKERS_OWN = (CLIENT, INTER_BROKER, Listener.CONTROL_PLANE)
WRITES_NOTHING = Subject.NOTHING
FEW_KEYS = 8
"""Requests that wait for no more are not counted: sixteen of them on a connection are little, and nearly all are such."""
PARKED_KEY_BYTES = 700
"""What a request keeps for each key that it waits for: what it wants there, what it has found, its place in the queue."""
PARKED_BYTES_MAX = 128 << 20
"""Module names, because every request uses them and the look-up of an enum member costs more."""


class Dispatch:
    """Runs requests and keeps their answers until they can leave."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        channels: Channels,
        quorum: QuorumReplica,
        broker: BrokerContext | None,
        controller: ControllerContext | None,
    ) -> None:
        self.runtime = runtime
        self.requests = requests
        self.quorum = quorum
        self.broker = broker
        self.controller = controller
        self._quotas = None if broker is None else broker.quotas
        self._judges = any(one is not None and one.authorizer.enabled for one in (broker, controller))
        """Whether there is an authorizer."""
        self.credentials = Credentials(runtime, requests, broker, controller)
        self.parked = runtime.ledger.account("ParkedRequests", PARKED_BYTES_MAX)
        self.forwarder = Forwarder(runtime, requests, channels, self.admitted)

    def start(self) -> None:
        """The node starts: logins prepare what they need."""
        self.runtime.ledger.owner("ForwardedRequests", lambda: self.forwarder.bytes_held, f"{ALL_BYTES_MAX >> 20} MiB")
        for context, kinds in ((self.broker, BROKERS_OWN), (self.controller, CONTROLLERS_OWN)):
            if context is not None:
                names = [one.name for one in self.runtime.config.listeners if Listener(one.kind) in kinds]
                context.logins.start(names)

    def admitted(self, connection: Connection, api_key: int) -> bool:
        """Whether a request may be looked at, or be answered later on; if not, its connection is closed."""
        broker, kind = self.broker, connection.kind
        clients = kind is CLIENT or (kind is INTER_BROKER and api_key in CLIENTS_OWN)
        if clients and broker is not None:
            availability = broker.availability
            if not (availability.serving or availability.admits(connection.id, api_key)):
                self.requests.close(connection, "this broker is fenced")
                return False
        return True

    def _follows(self, call: Call) -> bool:
        """Whether a broker fetches, by its rights: its connection is known for a follower's behind its first Fetch alone,
        which is the longest one that it sends. Without an authorizer everybody has these rights, and nobody is spared."""
        broker = self.broker
        return (
            call.api_key == FETCH
            and broker is not None
            and broker.authorizer.enabled
            and from_broker(broker.authorizer, self.runtime.config, call)
        )

    def failed(self, connection: Connection, api: str, error: Exception) -> None:
        """A handler broke: a mistake in the source. The peer sees a closed connection, the log the whole story."""
        self.report(api, error)
        self.requests.close(connection, f"{api} failed inside the node")

    def report(self, api: str, error: Exception) -> None:
        """Log the whole story of a handler that broke."""
        trace = "".join(traceback.format_exception(error))
        self.runtime.log.error(f"{api} failed: {error!r}\n{trace}")

    def run(self, connection: Connection, slot: Slot, frame: memoryview) -> None:
        """Run one request of `connection`; its answer goes to `slot`, now or later."""
        requests = self.requests
        try:
            header, position = framing.decode_request_header(frame)
        except WireError as error:
            requests.close(connection, f"unreadable request header: {error}")
            return
        if connection.expires_ms and header.api_key not in LOGIN and self.runtime.now.mono_ms >= connection.expires_ms:
            requests.expire(connection)
            return
        api = slot.api
        if api is None:
            why = f"API {header.api_key} is not served on listener {connection.listener_name}"
            stranger = requests.is_stranger(connection)
            requests.close(connection, f"{why} to a peer that has not logged in" if stranger else why)
            return
        if not self.admitted(connection, api.key):
            return
        version = header.api_version
        if version not in api.versions:
            if api.key != API_VERSIONS:
                requests.close(
                    connection, f"{api.name} version {version} is not served (served: {_span(api.versions)})"
                )
                return
            version = 0
        counted = len(frame) >= COUNTED_FROM and version == header.api_version
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
            by_token=connection.by_token,
            refusals=Refusals() if self._judges else None,
        )
        try:
            if counted:
                is_longer = partial(framing.is_longer, api.name, version, frame, position)
                if api.carries_longer is not None:
                    is_longer = partial(_carries_longer, api, version, frame, position)
                    call = call._replace(read=partial(requests.connections.long_requests.read, slot))
                if not self._follows(call) and not requests.may_read(slot, frame, is_longer):
                    return
                request, entries = framing.decode_counted_request(api.name, version, frame, position)
                requests.connections.long_requests.read(slot, entries)
            elif version == header.api_version:
                request = framing.decode_request(api.name, version, frame, position)
            else:
                request = None
        except WireError as error:
            requests.close(connection, f"unreadable {api.name} request: {error}")
            return
        except MemoryError:
            requests.close(connection, f"no memory is left to read a {api.name} of {len(frame)} bytes; {MORE_MEMORY}")
            return
        quotas = self._quotas
        if quotas is not None and quotas.active and connection.kind in DATA_KINDS:
            _ChargedRun(self, slot, api, version, header.correlation_id, request, call, quotas).start()
        else:
            RequestRun(self, slot, api, version, header.correlation_id, request, call).start()


class RequestRun:
    """One request from its handler to its slot."""

    __slots__ = ("_api", "_call", "_correlation", "_dispatch", "_request", "_slot", "_version")

    def __init__(
        self,
        dispatch: Dispatch,
        slot: Slot,
        api: Api,
        version: int,
        correlation: int,
        request: Any,
        call: Call,
    ) -> None:
        self._dispatch = dispatch
        self._slot = slot
        self._api = api
        self._version = version
        self._correlation = correlation
        self._request = request
        self._call = call

    def start(self) -> None:
        """Ask the handler. A failure of the handler closes this connection and hurts nobody else."""
        try:
            answer = self._perform()
        except Exception as error:
            self._broke(error)
            return
        if type(answer) not in (Done, Close) and self._api.writes is not WRITES_NOTHING:
            self._writes()
        self._settle(answer)

    def _perform(self) -> Answer:
        return perform(self._context(), self._api, self._request, self._call)

    def _context(self) -> Context:
        dispatch = self._dispatch
        context: Context | None = dispatch.controller if self._call.listener in CONTROLLERS_OWN else dispatch.broker
        assert context is not None, "a listener is that of a role which is there"
        return context

    def _let_go(self) -> None:
        """The request waits for what its peer may put off: what it came in is given back."""
        if self._call.listener in DATA_KINDS and self._call.frame is not GONE and not self._outlives():
            frame = self._call.frame
            self._call, self._request = self._call._replace(frame=GONE), None
            self._dispatch.requests.connections.let_go(self._slot, frame)

    def _not_read(self) -> None:
        """What was read of the request is dropped, or is counted with what waits."""
        self._dispatch.requests.connections.long_requests.over(self._slot)

    def _outlives(self) -> bool:
        """Whether the request is looked at again when its connection is closed."""
        return self._api.key == LEAVE_GROUP or (self._api.key == PRODUCE and self._request.acks == 0)

    def _writes(self) -> None:
        """The request is under way, and writes what others read."""
        self._dispatch.requests.connections.writes(self._slot, self._call.frame)

    def _broke(self, error: Exception) -> None:
        broken = self._api.broken
        if broken is None and isinstance(error, MemoryError):  # what was built for it is gone with this step
            self._close(f"no memory is left for {self._api.name}; {MORE_MEMORY}")
        elif broken is None:
            self._dispatch.failed(self._slot.connection, self._api.name, error)
        else:
            self._dispatch.report(self._api.name, error)
            self._reply(broken())

    def _close(self, why: str) -> None:
        self._dispatch.requests.close(self._slot.connection, why)

    def _again(self, function: Any, *arguments: Any) -> None:
        if self._slot.connection.closed or not self._dispatch.admitted(self._slot.connection, self._api.key):
            return
        try:
            answer = function(*arguments)
        except Exception as error:
            self._broke(error)
            return
        self._settle(answer)

    def _settle(self, answer: Answer) -> None:
        kind = type(answer)
        refusals = self._call.refusals
        if refusals is not None and refusals.count:
            self._context().authorizer.tell(refusals, more=kind is Sliced)
        if kind is Done:
            self._reply(answer.reply)  # type: ignore[union-attr]
        elif kind is Parked:
            assert isinstance(answer, Parked)
            if len(answer.keys) > FEW_KEYS and not self._charge(len(answer.keys)):
                if answer.early:
                    self._again(answer.again, True)
                    return
            elif self._slot.bytes_held >= LET_GO_FROM:
                self._let_go()
            self._not_read()
            self._slot.waits(lambda expired: self._again(answer.again, expired))
            self._slot.forget = self._dispatch.runtime.waiting.park(
                answer.keys, answer.deadline_ms, self._slot.go_on, self._slot.connection, answer.offsets, answer.idle
            )
        elif kind is Asked:
            assert isinstance(answer, Asked)
            self._slot.waits(lambda reply: self._again(answer.then, reply))
            self._dispatch.runtime.waiting.ask(answer.call, answer.deadline_ms, self._slot.go_on, self._slot.connection)
        elif kind is Held:
            assert isinstance(answer, Held)
            if answer.offset < self._dispatch.quorum.raft.high_watermark:
                self._reply(answer.reply)
            else:
                self._dispatch.runtime.waiting.hold(
                    answer.offset, lambda committed: self._released(committed, answer.reply)
                )
        elif kind is Sliced:
            assert isinstance(answer, Sliced)
            self._slot.sliced = lambda: self._again(answer.again)
            self._dispatch.requests.go_on_later(self._slot, self._call.frame)
        elif kind is Forward:
            assert self._call.frame is not GONE, "what is passed on has not waited for its peer"
            self._request = (
                None  # what is read of it would be kept beside its frame for as long as the controller takes
            )
            self._not_read()
            self._dispatch.forwarder.forward(self._slot, self._call, self._forwarded)
        elif kind is Later:
            assert isinstance(answer, Later)
            self._later(answer)
        elif kind is Last:
            assert isinstance(answer, Last)
            self._reply(answer.reply)
            self._close(answer.why)
        else:
            assert isinstance(answer, Close)
            broken = self._api.broken
            if broken is None:
                self._close(answer.why)
            else:
                self._reply(broken())

    def _charge(self, keys: int) -> bool:
        """A request waits for many keys: what it keeps meanwhile is charged to its principal, until it is called again or
        its connection is gone. False: there is no room. Then one that may be answered early is answered at once, and of any
        other the frame stays where it is counted, so that others are read later."""
        account, principal, size = self._dispatch.parked, self._call.principal, PARKED_KEY_BYTES * keys
        if not account.charge(principal, size):
            return False
        self._slot.kept = lambda: account.give_back(principal, size)
        return True

    def _later(self, later: Later) -> None:
        connection = self._slot.connection

        def job() -> object:
            return later.job() if not connection.closed else None

        def done(result: object) -> None:
            if later.seen is not None:
                later.seen(result)
            self._again(later.then, result)

        owner = (connection.peer_host, connection.id)
        self._dispatch.runtime.work(job, done, later.kind, owner)

    def _released(self, committed: bool, reply: Any) -> None:
        # After a lost leadership the handler is asked anew: it finds that this node is not active and says so.
        if committed:
            self._reply(reply)
        else:
            self.start()

    def _forwarded(self, data: Buffer) -> Buffer:
        """The answer to the client, made of the controller's."""
        return data

    def _reply(self, reply: Any) -> None:
        if reply is None:
            self._dispatch.requests.answer(self._slot, [])
            return
        if self._slot.meter is not None:
            self._slot.meter.answered(reply)
        try:
            parts = framing.encode_response(self._api.name, self._version, self._correlation, reply)
        except (WireError, MemoryError) as error:
            self._broke(error)
            return
        self._dispatch.requests.answer(self._slot, parts)


class _ChargedRun(RequestRun):
    """A request while clients have quotas: the time that the handler takes is counted, and the answer may mute its
    connection."""

    __slots__ = ("_began_ns", "_enforced", "_quotas", "_size", "_spent_ns")

    def __init__(
        self,
        dispatch: Dispatch,
        slot: Slot,
        api: Api,
        version: int,
        correlation: int,
        request: Any,
        call: Call,
        quotas: ClientQuotas,
    ) -> None:
        super().__init__(dispatch, slot, api, version, correlation, request, call)
        self._quotas = quotas
        self._size = len(call.frame)
        self._enforced = api.key != PRODUCE or request.acks != 0
        self._spent_ns = 0
        """In its earlier turns."""
        self._began_ns = 0

    def start(self) -> None:
        self._begin()
        super().start()
        self._end()

    def _again(self, function: Any, *arguments: Any) -> None:
        self._begin()
        super()._again(function, *arguments)
        self._end()

    def _begin(self) -> None:
        self._began_ns = self._dispatch.runtime.stopwatch()
        self._quotas.spent_ns = self._spent

    def _end(self) -> None:
        self._spent_ns = self._spent()

    def _spent(self) -> int:
        return self._spent_ns + self._dispatch.runtime.stopwatch() - self._began_ns

    def _reply(self, reply: Any) -> None:
        connection = self._slot.connection
        context = self._dispatch.broker
        assert context is not None, "clients have quotas at brokers"
        throttle_ms = charge(context, connection, self._api, self._call, self._size, reply, enforced=self._enforced)
        super()._reply(reply)
        mute(self._dispatch.requests, connection, throttle_ms)

    def _forwarded(self, data: Buffer) -> Buffer:
        self._quotas.spent_ns = lambda: self._spent_ns
        throttle_ms, data = charge_forwarded(self._quotas, self._api, self._call, data)
        mute(self._dispatch.requests, self._slot.connection, throttle_ms)
        return data


def _carries_longer(api: Api, version: int, frame: memoryview, position: int, entries: int) -> bool:
    """Whether the request that one carries has more than so many entries; one that cannot be read carries none."""
    assert api.carries_longer is not None, "asked of an API whose requests carry others"
    try:
        return api.carries_longer(framing.decode_request(api.name, version, frame, position), entries)
    except WireError:
        return False


def _span(versions: range) -> str:
    return f"{versions.start} to {versions.stop - 1}"
