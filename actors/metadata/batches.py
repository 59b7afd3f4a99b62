"""Batches of the metadata log and of its snapshots: data batches that hold metadata records, and control batches.

This file alone decides how a `Batch` is filled and what the quorum's control records look like (KIP-595, KIP-630,
KIP-853; Apache Kafka's own keys and bodies, the same in every dialect):

    key     version int16 = 0, type int16: 2 LeaderChange, 3 SnapshotHeader, 4 SnapshotFooter, 5 KRaftVersion, 6 Voters
    value   the message body, which starts with its version as int16

Timestamps are the same for all records of a batch. Producer id, epoch and sequence are -1; attributes 0, control 0x20.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.metadata.ops import CorruptMetadata
from actors.ports import Batch, Buffer
from actors.wire.messages import decode_exact, encode, message
from fastpath.image.write_records import Writer
from fastpath.records import batch as records

if TYPE_CHECKING:
    from actors.wire.schemas.storage import LeaderChangeMessage, VotersRecord

BATCH_BYTES_MAX = 1 << 20
"""The size in bytes at which the batch of a turn is cut, unless one atomic operation is larger."""

CONTROL = 0x20
"""Attribute bit of control batches."""

LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, VOTERS = 2, 3, 4, 5, 6


class LeaderChange(NamedTuple):
    """The first record of an epoch. It is written as version 0, as Apache Kafka does."""

    leader_id: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


class SnapshotHeader(NamedTuple):
    """First record of a snapshot."""

    last_contained_timestamp_ms: int


class SnapshotFooter(NamedTuple):
    """Last record of a snapshot."""


class KRaftVersion(NamedTuple):
    """The control record of kraft.version: 1 if the voters are in the log, 0 if not."""

    version: int


class Voter(NamedTuple):
    """One voter of a Voters record. `endpoints`: (listener name, host, port)."""

    id: int
    directory_id: bytes
    endpoints: tuple[tuple[str, str, int], ...] = ()
    kraft_versions: tuple[int, int] = (0, 1)
    """The lowest and the highest kraft.version that the voter supports."""


class Voters(NamedTuple):
    """The voters of the quorum, by id."""

    voters: tuple[Voter, ...]


Control = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | Voters


class BatchWriter(Writer):
    """Fills batches with metadata records, from an offset on. `finish` returns the batches.

    `begin()` and `end()` keep the records of an atomic operation in one batch. `abandon()` drops the records since
    `begin()`.
    """

    def __init__(
        self,
        base_offset: int,
        epoch: int,
        timestamp_ms: int,
        bytes_max: int = BATCH_BYTES_MAX,
        records_max: int = 2**31 - 1,
    ) -> None:
        super().__init__(base_offset, epoch, timestamp_ms, bytes_max, records_max)
        self.epoch_written = epoch

    def finish(self) -> list[Batch]:
        """The batches, in order; an empty list if nothing was added. Nothing may be added afterwards."""
        return [Batch(base, last, self.epoch_written, data) for base, last, data in self.batches()]


def control_batch(base_offset: int, epoch: int, timestamp_ms: int, controls: Sequence[Control]) -> Batch:
    """One batch with these control records."""
    builder = records.Builder(base_offset, epoch, CONTROL, timestamp_ms=timestamp_ms)
    for control in controls:
        kind, body = _body(control)
        builder.append(kind.to_bytes(4, "big"), body)
    return Batch(base_offset, base_offset + len(controls) - 1, epoch, builder.build())


def _body(control: Control) -> tuple[int, bytes]:
    """(record type, value) of a control record."""
    if isinstance(control, LeaderChange):
        change = message("LeaderChangeMessage")
        voters = [change.Voter(voter_id=voter) for voter in control.voters]
        granting = [change.Voter(voter_id=voter) for voter in control.granting]
        return LEADER_CHANGE, encode(change(leader_id=control.leader_id, voters=voters, granting_voters=granting), 0)
    if isinstance(control, SnapshotHeader):
        header = message("SnapshotHeaderRecord")(last_contained_log_timestamp=control.last_contained_timestamp_ms)
        return SNAPSHOT_HEADER, encode(header, 0)
    if isinstance(control, SnapshotFooter):
        return SNAPSHOT_FOOTER, encode(message("SnapshotFooterRecord")(), 0)
    if isinstance(control, KRaftVersion):
        return KRAFT_VERSION, encode(message("KRaftVersionRecord")(k_raft_version=control.version), 0)
    cls = message("VotersRecord")
    return VOTERS, encode(cls(voters=[_voter(cls, voter) for voter in control.voters]), 0)


def _voter(cls: "type[VotersRecord]", voter: Voter) -> "VotersRecord.Voter":
    endpoints = [cls.Endpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints]
    lowest, highest = voter.kraft_versions
    feature = cls.KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest)
    return cls.Voter(
        voter_id=voter.id, voter_directory_id=voter.directory_id, endpoints=endpoints, k_raft_version_feature=feature
    )


def is_control(data: Buffer, position: int = 0) -> bool:
    """Whether the batch at `position` holds control records."""
    return bool(records.header(data, position).attributes & CONTROL)


def controls(data: Buffer, position: int = 0) -> list[tuple[int, Control]]:
    """(offset, control record) of a control batch. Raises CorruptMetadata for an unknown type or bytes that do not
    decode."""
    found = []
    for record in records.records(data, position):
        if record.key is None or len(record.key) != 4 or record.value is None:
            raise CorruptMetadata(record.offset, "a control record has a key of 4 bytes and a value")
        kind = int.from_bytes(record.key[2:], "big")
        if kind not in _READ:
            raise CorruptMetadata(record.offset, f"control record of type {kind} is not known")
        name, read = _READ[kind]
        version = int.from_bytes(record.value[:2], "big")
        try:
            found.append((record.offset, read(decode_exact(name, version, record.value))))
        except ValueError as error:
            raise CorruptMetadata(record.offset, f"{name} version {version}: {error}") from error
    return found


def _read_voters(body: "VotersRecord") -> Voters:
    def read(voter: "VotersRecord.Voter") -> Voter:
        feature = voter.k_raft_version_feature
        return Voter(
            voter.voter_id,
            voter.voter_directory_id,
            tuple((one.name, one.host, one.port) for one in voter.endpoints),
            (feature.min_supported_version, feature.max_supported_version),
        )

    return Voters(tuple(read(voter) for voter in body.voters))


def _read_leader_change(body: "LeaderChangeMessage") -> LeaderChange:
    return LeaderChange(
        body.leader_id,
        tuple(voter.voter_id for voter in body.voters),
        tuple(voter.voter_id for voter in body.granting_voters),
    )


_READ: dict[int, tuple[str, Callable[[Any], Control]]] = {
    LEADER_CHANGE: ("LeaderChangeMessage", _read_leader_change),
    SNAPSHOT_HEADER: ("SnapshotHeaderRecord", lambda body: SnapshotHeader(body.last_contained_log_timestamp)),
    SNAPSHOT_FOOTER: ("SnapshotFooterRecord", lambda body: SnapshotFooter()),
    KRAFT_VERSION: ("KRaftVersionRecord", lambda body: KRaftVersion(body.k_raft_version)),
    VOTERS: ("VotersRecord", _read_voters),
}
