"""What replicas of the quorum say to each other, as plain values.

This file alone decides the vocabulary of KIP-595, KIP-630, KIP-853 and KIP-996 as the machine sees it; `node/quorum/codec/`
translates to and from the wire. The field names are Kafka's. Topic and cluster id are absent: there is one partition,
and both are checked where the frame is decoded.

Rules:

1. A request names its sender in itself (`replica`). The `source` given to `Raft.step` serves only to send the answer
   back, whatever that number means to the caller.
2. `serial` never travels. The node that sent a request puts its serial back into the answer. From an answer whose
   serial is not awaited only the epoch and the leader are read.
3. `epoch` and `leader_id` of an answer are what the answering replica believes. Leader -1 means that it knows none.
"""

import enum
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import NamedTuple

from actors.ports import Batch, Buffer

NO_DIRECTORY = bytes(16)
NO_LEADER = -1


class Error(enum.IntEnum):
    """The codes that the quorum's own answers use, with Kafka's numbers."""

    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    DUPLICATE_BROKER_REGISTRATION = 101
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127


class ReplicaKey(NamedTuple):
    """The key of a replica, its id and its disk: the same id with another directory id is another replica (KIP-853)."""

    id: int
    directory_id: bytes = NO_DIRECTORY

    def __str__(self) -> str:
        """The key as Apache Kafka prints it in its error messages."""
        directory = urlsafe_b64encode(self.directory_id).decode().rstrip("=")
        directory = "<undefined>" if self.directory_id == NO_DIRECTORY else directory
        return f"ReplicaKey(id={self.id}, directoryId={directory})"


class Voter(NamedTuple):
    """A voter as a Voters record has it (KIP-853). The machine copies what is beside the key, and reads only whether the
    voter supports kraft.version 1."""

    key: ReplicaKey
    endpoints: tuple[tuple[str, str, int], ...] = ()
    """One (listener name, host, port) for each endpoint."""
    kraft_versions: tuple[int, int] = (0, 1)
    """The lowest and the highest kraft.version that the voter supports."""


class SnapshotId(NamedTuple):
    """A snapshot holds everything below `end_offset`; `epoch` is the leader epoch of the last record in it."""

    end_offset: int
    epoch: int


class OffsetAndEpoch(NamedTuple):
    """An epoch, and the offset at which a log's records of that epoch end."""

    offset: int
    epoch: int


class VoteRequest(NamedTuple):
    """A request for a vote (KIP-595 Vote). A pre-vote (KIP-996) carries the sender's present epoch, a vote the epoch
    that it wants to lead."""

    serial: int
    replica: ReplicaKey
    voter: ReplicaKey
    epoch: int
    last_epoch: int
    end_offset: int
    pre_vote: bool
    named: bool = True
    """Whether the request came with the voter's key: earlier versions of the RPC do not have it."""


class VoteResponse(NamedTuple):
    serial: int
    error: Error
    leader_id: int
    epoch: int
    granted: bool


class BeginQuorumEpochRequest(NamedTuple):
    """A new leader announces itself to a voter that has not fetched from it yet."""

    serial: int
    voter: ReplicaKey
    leader_id: int
    epoch: int
    named: bool = True
    """Whether the request came with the voter's key, as in a VoteRequest."""


class BeginQuorumEpochResponse(NamedTuple):
    serial: int
    error: Error
    leader_id: int
    epoch: int


class EndQuorumEpochRequest(NamedTuple):
    """A leader gives up its epoch; `preferred` are the voters that should stand next, the most caught up first."""

    serial: int
    leader_id: int
    epoch: int
    preferred: Sequence[ReplicaKey]


class EndQuorumEpochResponse(NamedTuple):
    serial: int
    error: Error
    leader_id: int
    epoch: int


class FetchRequest(NamedTuple):
    """The request of KIP-595 Fetch. `offset` is the log end of the sender; if the sender is a voter, everything below
    is durable there.

    `high_watermark` is the one that the sender knows (-1: none; KIP-1166): a leader that knows a higher one answers at
    once. `connection`: on which it came, a number of the node that was asked (-1: on none).
    """

    serial: int
    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    max_wait_ms: int
    bytes_max: int
    connection: int = -1


class FetchResponse(NamedTuple):
    """The answer to a fetch: either `diverging`, or `snapshot`, or `batches` from the requested offset (possibly none)."""

    serial: int
    error: Error
    leader_id: int
    epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: SnapshotId | None = None
    batches: Sequence[Batch] = ()


class FetchSnapshotRequest(NamedTuple):
    """KIP-630: bytes of a snapshot file from `position`."""

    serial: int
    replica: ReplicaKey
    epoch: int
    snapshot: SnapshotId
    position: int
    bytes_max: int


class FetchSnapshotResponse(NamedTuple):
    """A slice of the file. It may begin and end inside a batch. `size` is that of the whole file."""

    serial: int
    error: Error
    leader_id: int
    epoch: int
    snapshot: SnapshotId
    size: int = 0
    position: int = 0
    data: Buffer = b""


class AddVoterRequest(NamedTuple):
    """A request to add a voter (KIP-853 AddRaftVoter). `wait`: answer when the change is committed, not when it is
    written."""

    serial: int
    voter: Voter
    wait: bool


class RemoveVoterRequest(NamedTuple):
    """A request to remove a voter (KIP-853 RemoveRaftVoter). The answer comes when the change is committed."""

    serial: int
    voter: ReplicaKey


class UpdateVoterRequest(NamedTuple):
    """A request to note that a voter has other endpoints, or other versions, than the log says (KIP-853
    UpdateRaftVoter). `epoch` is that of the leader which the voter follows."""

    serial: int
    epoch: int
    voter: Voter


class ChangeResponse(NamedTuple):
    """The answer to a request to add, remove or update a voter. `reason` is a sentence for the client that asked; None:
    the code says all."""

    serial: int
    error: Error
    leader_id: int
    epoch: int
    reason: str | None = None


class ProbeRequest(NamedTuple):
    """The question to the first endpoint of a voter: what the replica there supports, and whether it is that voter.
    `epoch` is the one that the sender led when it asked; it may lead another one, or none, by the time of the answer."""

    serial: int
    voter: Voter
    epoch: int


class ProbeResponse(NamedTuple):
    """What a replica that was probed supports. `kraft_versions` None: it does not name the feature. `failed`: why there
    is no such answer. `other`: which replica answers there instead of that voter."""

    serial: int
    kraft_versions: tuple[int, int] | None
    failed: str | None = None
    other: str | None = None


class Failed(NamedTuple):
    """No answer will come to the request of this serial, since the connection broke or the time for it ran out."""

    serial: int


VoterRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
Request = (
    VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest | VoterRequest
    | ProbeRequest
)  # fmt: skip
Response = (
    VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse
    | ChangeResponse | ProbeResponse
)  # fmt: skip
Message = Request | Response | Failed

CHANGES = (AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest)
REQUESTS = (
    VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest, FetchSnapshotRequest, *CHANGES, ProbeRequest,
)  # fmt: skip
RESPONSES = (
    VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse, FetchResponse, FetchSnapshotResponse, ChangeResponse,
    ProbeResponse,
)  # fmt: skip
