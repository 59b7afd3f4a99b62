"""The messages between replicas of the metadata log, on their way between raft and the network.

There are four ways, and each has one direction:

    `send`        raft's request    -> the channel to another replica
    `_answered`   its answer        -> raft
    `ask`         a peer's request  -> raft; the handler's answer is `Asked`, with the number of the call
    `answer`      raft's answer     -> the call of that number, which waits in `runtime/waiting.py` alone

This file alone decides the numbers of calls, which channel a request takes, what a lost channel or an answer that cannot be
read is to raft, whose address is learned from an announcement, and when a node is in the wrong cluster. How messages look on
the wire is in `codec/`; what they mean is raft's. Calls are answered in the order in which raft answers them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.node.net.channels import ChannelError, Channels
from actors.node.quorum.addresses import Address
from actors.node.quorum.codec import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.node.runtime.answers import Answer, Asked, Close, Done
from actors.node.runtime.runtime import Runtime
from actors.raft import Failed, LogDiverged, Raft, RunsTwice
from actors.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    ChangeResponse,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    Message,
    ProbeRequest,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoteRequest,
)
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import BeginQuorumEpochRequest as BeginQuorumEpochRequestData
    from actors.wire.schemas.rpc import BeginQuorumEpochResponse

FINAL = (Error.INVALID_REQUEST, Error.UNSUPPORTED_VERSION, Error.DUPLICATE_VOTER, Error.VOTER_NOT_FOUND)
"""The errors that refuse a change of this controller's own entry and do not pass with time."""
PROBE = "probe"
"""The purpose of the connection to the endpoint of a voter that is to be written down. It is closed when the answer is
known."""
ANSWER_MS = 10_000
"""The time in ms after which a request that raft has not answered never will be; it is longer if twice the time for a
request in the quorum is longer. Only a mistake leads there."""

CODECS: dict[type, Any] = {
    VoteRequest: vote,
    BeginQuorumEpochRequest: begin_quorum_epoch,
    EndQuorumEpochRequest: end_quorum_epoch,
    FetchRequest: fetch,
    FetchSnapshotRequest: fetch_snapshot,
    AddVoterRequest: add_raft_voter,
    RemoveVoterRequest: remove_raft_voter,
    UpdateVoterRequest: update_raft_voter,
    ProbeRequest: api_versions,
}
"""The module that writes a request and reads its answer, by the class of the request."""


class Transport:
    """The messages of one replica."""

    def __init__(self, runtime: Runtime, channels: Channels, identity: Identity, timeout_ms: int, raft: Raft) -> None:
        """`timeout_ms` is the time for the answer to a request."""
        self._runtime = runtime
        self._channels = channels
        self._identity = identity
        self._timeout_ms = timeout_ms
        self._answer_ms = max(ANSWER_MS, 2 * timeout_ms)
        self._raft = raft
        self._calls = 0
        """The number of the last request from the wire. Raft sends its answer there, as it sends a request to a
        replica's id; the kind of a message says which of the two its number is."""
        self._fetches_from: int | None = None
        """The replica that was fetched from last."""
        self._strangers: set[int] = set()
        """Controllers that have said that they are of another cluster."""
        self._agreed = False
        """Whether a controller has once answered as one of this cluster."""

    # -- a peer asks

    def ask(self, codec: Any, asked: Request | Refusal) -> Answer:
        """Give a request of a peer to raft. Its answer leaves, written by `codec`, when raft has it; if raft has none
        in time, the connection is closed."""
        if isinstance(asked, Refusal):
            return Done(asked.reply)
        self._calls += 1
        self._raft.step(self._calls, asked, self._runtime.now)

        def then(response: Response | None) -> Answer:
            if response is None:
                return Close("the quorum did not answer")
            return Done(codec.write_reply(self._identity, response))

        return Asked(self._calls, self._runtime.now.mono_ms + self._answer_ms, then)

    def answer(self, call: int, response: Response) -> None:
        """Send raft's answer to a request of a peer."""
        self._runtime.waiting.answer(call, response)

    def hear_of_leader(
        self, told: BeginQuorumEpochRequest, endpoints: Sequence["BeginQuorumEpochRequestData.LeaderEndpoint"]
    ) -> None:
        """Believe the address in the announcement of a leader that this replica would follow."""
        if self._raft.follows(told):
            for endpoint in endpoints[:1]:
                self._identity.addresses.learn(told.leader_id, endpoint.host, endpoint.port)

    # -- raft asks

    def tell(self, messages: Sequence[tuple[int, Message]]) -> None:
        """Send what raft says, in its order: requests to replicas, and answers to calls."""
        for number, message in messages:
            if type(message) in CODECS:
                self.send(number, message)
            else:
                self.answer(number, message)  # type: ignore[arg-type]

    def send(self, target: int, request: Message) -> None:
        """Send raft's request to another replica."""
        if isinstance(request, ProbeRequest):
            self._probe(target, request)
            return
        codec = CODECS[type(request)]
        address: Address | None = self._identity.addresses.find(target)
        if address is None:
            self._step(target, Failed(request.serial))
            return
        if codec.PURPOSE == fetch.PURPOSE and self._fetches_from != target:
            self._fetch_from(target)
        self._channels.peer(
            (codec.PURPOSE, target),
            address,
            codec.NAME,
            codec.write_request(self._identity, request),
            lambda reply: self._answered(target, request, codec, reply),
            self._timeout_ms,
            to_controller=True,
        )

    def _probe(self, target: int, request: ProbeRequest) -> None:
        """Ask at a voter's endpoint what the controller there supports, then, as its leader, whether it is that voter.
        By then this replica may no longer lead, or lead another epoch: it names the one that it led when it began."""
        address: Address = request.voter.endpoints[0][1:]
        place = (PROBE, request.serial)

        def ended(response: Message) -> None:
            self._channels.drop(place)
            self._step(target, response)

        def supported(reply: Any) -> None:
            if isinstance(reply, ChannelError):
                ended(Failed(request.serial))
                return
            response = api_versions.read_reply(self._identity, request, reply)
            if response.failed is not None:
                ended(response)
                return
            told = BeginQuorumEpochRequest(request.serial, request.voter.key, self._identity.me.id, request.epoch)
            body = begin_quorum_epoch.write_request(self._identity, told)

            def said(reply: "BeginQuorumEpochResponse | ChannelError") -> None:
                if isinstance(reply, ChannelError):
                    ended(Failed(request.serial))
                else:
                    ended(response._replace(other=begin_quorum_epoch.read_other(told, reply)))

            self._channels.peer(
                place, address, begin_quorum_epoch.NAME, body, said, self._timeout_ms, to_controller=True
            )

        body = api_versions.write_request(self._identity, request)
        self._channels.peer(place, address, api_versions.NAME, body, supported, self._timeout_ms, to_controller=True)

    def _fetch_from(self, target: int) -> None:
        """Watch the connection for fetches to this leader, and drop the one to the last leader."""
        last, self._fetches_from = self._fetches_from, target
        if last is not None:
            self._channels.drop((fetch.PURPOSE, last))
        self._channels.watch((fetch.PURPOSE, target), lambda refused: self._link_lost(target, refused))

    def _link_lost(self, target: int, refused: bool) -> None:
        if target == self._fetches_from:
            self._raft.link_lost(target, refused, self._runtime.now)

    def _answered(self, target: int, request: Message, codec: Any, reply: Any) -> None:
        response: Message | None = None
        if not isinstance(reply, ChannelError):
            if reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._foreign(target)
            else:
                self._agreed = True
                response = codec.read_reply(self._identity, request, reply)
                if isinstance(response, ChangeResponse) and response.error in FINAL:
                    why = response.reason or f"error {response.error.name}"
                    self._runtime.log.warning(f"the leader {target} refuses {codec.NAME} of this controller: {why}")
                if response is None:
                    self._runtime.log.warning(f"{codec.NAME}: the answer of {target} cannot be used: {reply!r:.300}")
        self._step(target, response if response is not None else Failed(request.serial))

    def _step(self, source: int, answer: Message) -> None:
        try:
            self._raft.step(source, answer, self._runtime.now)
        except (LogDiverged, RunsTwice) as sentence:
            self._runtime.stop(1, str(sentence))

    def _foreign(self, target: int) -> None:
        """Note that a controller says that it is of another cluster. If most controllers say so, and none ever says
        otherwise, this node is in the wrong cluster, and stops."""
        identity = self._identity
        if target not in self._strangers:
            self._strangers.add(target)
            host, port = identity.addresses.find(target) or ("", 0)
            self._runtime.log.error(f"the controller at {host}:{port} is not of cluster {identity.cluster_id}")
        if not self._agreed and 2 * len(self._strangers) > len(identity.addresses.bootstrap):
            self._runtime.stop(1, f"the controllers of controller.connect are of another cluster than this node, whose "
                                  f"directory belongs to {identity.cluster_id}: name its own controllers, or take another "
                                  f"directory.")  # fmt: skip
