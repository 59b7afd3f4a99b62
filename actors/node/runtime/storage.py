"""What formatting decided about a node's directories, read by the host before the node exists."""

from collections.abc import Sequence
from typing import NamedTuple

from actors.ports import Disk


class Storage(NamedTuple):
    """The node's formatted directories.

    Invariant: `disks`, `directory_ids` and `paths` are parallel and not empty; the first holds the metadata log.
    """

    cluster_id: str
    family: str
    """`drafts` or `released`: the record family, fixed for good when the storage is formatted."""
    format_level: int
    """`metadata.format` that the first leader writes into an empty log (1 = v19, 2 = v28)."""
    disks: Sequence[Disk]
    directory_ids: Sequence[bytes]
    """16 bytes each, from meta.properties."""
    paths: Sequence[str]
    """Where each is, for sentences to the operator."""
    transaction_version: int = 0
    """`transaction.version` that the first leader writes into an empty log; 0 writes none."""
    bootstrap: bytes = b""
    """bootstrap.checkpoint: what else it writes there (`metadata/bootstrap.py`). Empty: nothing."""
    group_version: int = 0
    """`group.version`, as `transaction_version`."""
    share_version: int = 0
    """`share.version`, as `transaction_version`."""
    streams_version: int = 0
    """`streams.version`, as `transaction_version`."""
