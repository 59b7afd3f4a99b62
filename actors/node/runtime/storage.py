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
    """The record family, `drafts` or `released`, fixed for good when the storage is formatted."""
    format_level: int
    """The level of `metadata.format` that the first leader writes into an empty log (1 = v19, 2 = v28)."""
    disks: Sequence[Disk]
    directory_ids: Sequence[bytes]
    """The directory ids, 16 bytes each, from meta.properties."""
    paths: Sequence[str]
    """The path of each directory, for sentences to the operator."""
    transaction_version: int = 0
    """The level of `transaction.version` that the first leader writes into an empty log; 0 writes none."""
    bootstrap: bytes = b""
    """The content of bootstrap.checkpoint, which the first leader writes into an empty log too
    (`metadata/bootstrap.py`). Empty: nothing."""
    group_version: int = 0
    """The level of `group.version` that the first leader writes into an empty log; 0 writes none."""
    share_version: int = 0
    """The level of `share.version` that the first leader writes into an empty log; 0 writes none."""
    streams_version: int = 0
    """The level of `streams.version` that the first leader writes into an empty log; 0 writes none."""
