"""Names and small files of the metadata log's directory, all but three of them Apache Kafka's own.

This file alone decides how they are called and what text they hold:

    %020d.log                           a segment, named by its first offset
    %020d.log.ahead                     a segment whose predecessor is not known to be durable yet (ours, and brief)
    %020d-%010d.checkpoint              a snapshot (KIP-630): end offset, epoch; `.part` while it is being received
    quorum-state                        JSON, data_version 1 (KIP-853)
    leader-epoch-checkpoint             version 0, number of lines, then "epoch first-offset" a line
    partition.metadata                  the topic id, the same in every family (reading A09)
    durable-offset                      "0", then an offset: the log was durable up to there (ours, see durable_mark)
    joined                              "0", then a directory id: this disk has been a voter's that joined by itself (ours)
    *.deleted                           waits to be unlinked
    *.tmp                               a small file, or a checkpoint, that the host had not written whole
"""

import base64
import json
import re
from collections.abc import Sequence

from actors.raft import EPOCH_MAX, HardState, ReplicaKey, SnapshotId

DIRECTORIES = {"drafts": "__kafka_metadata-0", "released": "__cluster_metadata-0"}
TOPICS = {"drafts": "__kafka_metadata", "released": "__cluster_metadata"}
TOPIC_ID = bytes(15) + b"\x01"

QUORUM_STATE = "quorum-state"
EPOCHS = "leader-epoch-checkpoint"
PARTITION = "partition.metadata"
DURABLE = "durable-offset"
JOINED = "joined"
DELETED = ".deleted"
PART = ".part"
TEMPORARY = ".tmp"
AHEAD = ".ahead"

_SEGMENT = re.compile(r"(\d{20})\.log")
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class DamagedFile(ValueError):
    """A file that cannot be what its name says. The sentence names it, and where in it."""


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def segment_of(name: str) -> int | None:
    """The first offset of a segment by its file name; None: the name is no segment's."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def checkpoint_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def checkpoint_of(name: str) -> SnapshotId | None:
    """The snapshot of a checkpoint file by its name; None: the name is no checkpoint's."""
    match = _CHECKPOINT.fullmatch(name)
    return SnapshotId(int(match[1]), int(match[2])) if match else None


def uuid_text(uuid: bytes) -> str:
    """The text of a uuid: 22 characters, base64url without padding."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a uuid in text. Raises ValueError."""
    uuid = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(uuid) != 16:
        raise ValueError(f"{text} is no uuid")
    return uuid


def quorum_state(hard: HardState) -> bytes:
    """The content of quorum-state."""
    voted = hard.voted
    fields = {
        "leaderId": hard.leader_id,
        "leaderEpoch": hard.epoch,
        "votedId": -1 if voted is None else voted.id,
        "votedDirectoryId": uuid_text(bytes(16) if voted is None else voted.directory_id),
        "data_version": 1,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def read_quorum_state(content: bytes, path: str) -> HardState:
    """The state in a quorum-state file; version 0 (ids only) is read too. Raises DamagedFile."""
    try:
        fields = json.loads(content)
        voted = None
        if int(fields.get("votedId", -1)) >= 0:
            directory = fields.get("votedDirectoryId")
            voted = ReplicaKey(int(fields["votedId"]), uuid_bytes(directory) if directory else bytes(16))
        hard = HardState(int(fields["leaderEpoch"]), voted, int(fields.get("leaderId", -1)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{path} is not a quorum-state: {error}") from None
    if not (0 <= hard.epoch <= EPOCH_MAX and -1 <= hard.leader_id < 1 << 31):
        raise DamagedFile(last_epoch(path, hard.epoch))
    return hard


def last_epoch(path: str, epoch: int) -> str:
    """What an operator can do about an epoch that no election can count up."""
    return (
        f"{path} holds epoch {epoch}, and an election needs a higher one that is at most {EPOCH_MAX}: stop all controllers, "
        f"write into this file of each of them the same leaderEpoch, above every epoch in their {EPOCHS} files, with "
        f"leaderId -1 and votedId -1, and start them again"
    )


def epochs(entries: Sequence[tuple[int, int]]) -> bytes:
    """The content of leader-epoch-checkpoint from (epoch, first offset)."""
    lines = ["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries)]
    return ("\n".join(lines) + "\n").encode()


def partition() -> bytes:
    """The content of partition.metadata."""
    return f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}".encode()


def durable(offset: int) -> bytes:
    """The content of durable-offset."""
    return f"0\n{offset}\n".encode()


def read_durable(content: bytes) -> int:
    """The offset in a durable-offset file. Raises ValueError."""
    lines = content.decode("ascii").split("\n")
    if len(lines) != 3 or lines[0] != "0" or not lines[1].isdecimal() or lines[2]:
        raise ValueError("it is not a version and an offset")
    return int(lines[1])


def joined(directory_id: bytes) -> bytes:
    """The content of joined."""
    return f"0\n{uuid_text(directory_id)}\n".encode()
