"""A snapshot that a role loads as a whole, outside of a quorum."""

from typing import Any

from actors.metadata.snapshot import InPieces
from actors.ports import Buffer
from actors.raft import SnapshotId


def load_into(role: Any, data: Buffer | InPieces, snapshot: SnapshotId) -> None:
    """All slices of a snapshot, then the role takes over."""
    for _ in role.loading(data, snapshot):
        pass
    for _ in role.loaded():
        pass
