"""What the replicas of the metadata log say to each other, on its way between raft and the channels.

Each direction is a path of its own:

    raft asks another replica:  `send` -> a channel -> `_answered` -> raft
    another replica asks raft:  `ask` -> raft -> `send` -> the request that is parked, which is looked at again

This file alone decides which channel a request takes, what a lost channel or an answer that cannot be read is to raft,
and when a node is in the wrong cluster. How messages look on the wire is in `codec/`; what they mean is raft's.
"""

from typing import Any, Protocol

from actors.node.net.channels import ChannelError, Channels
from actors.node.quorum.codec import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.node.runtime.answers import Answer, Close, Done, Parked
from actors.node.runtime.runtime import Runtime
from actors.raft import Failed
from actors.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Message,
    Request,
    Response,
    VoteRequest,
)
from actors.wire.errors import ErrorCode

ANSWER_MS = 10_000
"""A request that raft has not answered by then never will be; only a mistake leads there."""
FIRST_TOKEN = 1 << 40
"""Return addresses of requests from the wire; ids of replicas are far below."""

CODECS: dict[type, Any] = {
    VoteRequest: vote,
    BeginQuorumEpochRequest: begin_quorum_epoch,
    EndQuorumEpochRequest: end_quorum_epoch,
    FetchRequest: fetch,
    FetchSnapshotRequest: fetch_snapshot,
}
"""Request -> the module that writes it, and reads its answer."""


class Steps(Protocol):
    """Who is given the messages: this node's replica."""

    def step(self, source: int, message: Message) -> None: ...
    def link_lost(self, target: int, refused: bool) -> None:
        """The connection to the replica that is fetched from is gone."""
        ...


class _Asked:
    """A request from the wire; `reply` is raft's answer once there is one."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: Response | None = None


class Transport:
    """Messages of one replica."""

    def __init__(
        self, runtime: Runtime, channels: Channels, identity: Identity, timeout_ms: int, replica: Steps
    ) -> None:
        """`timeout_ms`: for the answer to a request."""
        self._runtime = runtime
        self._channels = channels
        self._identity = identity
        self._timeout_ms = timeout_ms
        self._replica = replica
        self._asked: dict[int, _Asked] = {}
        """Requests from the wire that raft has not answered yet, by their return address."""
        self._next_token = FIRST_TOKEN
        self._fetches_from: int | None = None
        """The replica that was fetched from last."""
        self._strangers: set[int] = set()
        """Controllers that have said that they are of another cluster."""
        self._agreed = False
        """A controller has once answered as one of this cluster."""

    def ask(self, codec: Any, asked: Request | Refusal) -> Answer:
        """Give a request of a peer to raft; its answer, written by `codec`, leaves when raft has it."""
        if isinstance(asked, Refusal):
            return Done(asked.reply)
        self._next_token += 1
        token, waiting = self._next_token, _Asked()
        self._asked[token] = waiting
        self._replica.step(token, asked)

        def again(expired: bool) -> Answer:
            if waiting.reply is None:
                self._asked.pop(token, None)
                return Close("the quorum did not answer")
            return Done(codec.write_reply(self._identity, waiting.reply))

        return Parked((("raft", token),), self._runtime.now.mono_ms + ANSWER_MS, again)

    def send(self, target: int, message: Message) -> None:
        """Raft's answer to a request from the wire, or its request to another replica."""
        asked = self._asked.pop(target, None)
        if asked is not None:
            asked.reply = message  # type: ignore[assignment]
            self._runtime.waiting.signal(("raft", target))
        elif type(message) in CODECS:
            self._request(target, message)

    def _request(self, target: int, request: Any) -> None:
        codec = CODECS[type(request)]
        address = self._identity.addresses.find(target)
        if address is None:
            self._replica.step(target, Failed(request.serial))
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
        )

    def _fetch_from(self, target: int) -> None:
        """One connection for fetches: watch the one to this leader, drop the one to the last."""
        last, self._fetches_from = self._fetches_from, target
        if last is not None:
            self._channels.drop((fetch.PURPOSE, last))
        self._channels.watch((fetch.PURPOSE, target), lambda refused: self._link_lost(target, refused))

    def _link_lost(self, target: int, refused: bool) -> None:
        if target == self._fetches_from:
            self._replica.link_lost(target, refused)

    def _answered(self, target: int, request: Any, codec: Any, reply: Any) -> None:
        response: Message | None = None
        if not isinstance(reply, ChannelError):
            if reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._foreign(target)
            else:
                self._agreed = True
                response = codec.read_reply(self._identity, request, reply)
                if response is None:
                    self._runtime.log.warning(f"{codec.NAME}: the answer of {target} cannot be used: {reply!r:.300}")
        self._replica.step(target, response if response is not None else Failed(request.serial))

    def _foreign(self, target: int) -> None:
        """A controller says that it is of another cluster. Who hears that from most, and never anything else, is in the
        wrong place itself."""
        identity = self._identity
        if target not in self._strangers:
            self._strangers.add(target)
            host, port = identity.addresses.find(target) or ("", 0)
            self._runtime.log.error(f"the controller at {host}:{port} is not of cluster {identity.cluster_id}")
        if not self._agreed and 2 * len(self._strangers) > len(identity.addresses.bootstrap):
            self._runtime.stop(1, f"the controllers of controller.connect are of another cluster than this node, whose "
                                  f"directory belongs to {identity.cluster_id}: name its own controllers, or take another "
                                  f"directory.")  # fmt: skip
