"""The quorum of the metadata log, without IO: KIP-595 pull replication with KIP-630 snapshots, KIP-853 voters and
KIP-996 pre-votes.

Read in this order: `messages`, `voters`, `state`, `belief`, `roles`, `twins`, `election`, `following`, `leading`, `change`,
`entry`, `download`, `ready`, `raft`.
"""

from actors.raft.describe import Description, ReplicaState
from actors.raft.following import LogDiverged
from actors.raft.limits import RaftLimits
from actors.raft.log import EpochTable, LogReader, SnapshotSlice
from actors.raft.messages import NO_LEADER, Error, Failed, Message, OffsetAndEpoch, ReplicaKey, SnapshotId, Voter
from actors.raft.raft import NotLeader, Raft
from actors.raft.ready import HardState, Leadership, Ready, SnapshotPart
from actors.raft.state import EPOCH_MAX, Control, LeaderChange, Role, VotersChange
from actors.raft.twins import RunsTwice
from actors.raft.voters import VoterHistory, Voters

__all__ = [
    "EPOCH_MAX",
    "NO_LEADER",
    "Control",
    "Description",
    "EpochTable",
    "Error",
    "Failed",
    "HardState",
    "LeaderChange",
    "Leadership",
    "LogDiverged",
    "LogReader",
    "Message",
    "NotLeader",
    "OffsetAndEpoch",
    "Raft",
    "RaftLimits",
    "Ready",
    "ReplicaKey",
    "ReplicaState",
    "Role",
    "RunsTwice",
    "SnapshotId",
    "SnapshotPart",
    "SnapshotSlice",
    "Voter",
    "VoterHistory",
    "Voters",
    "VotersChange",
]
