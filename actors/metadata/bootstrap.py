"""`bootstrap.checkpoint`: what formatting leaves for the first leader to write into an empty metadata log (KIP-900).

This file alone decides what it holds: a header, the level of `metadata.format`, SCRAM credentials, a footer. It is Apache
Kafka's file of this name in the records of the drafts, so the tools that read checkpoints read it.
"""

from collections.abc import Sequence

from actors.metadata.batches import BatchWriter, SnapshotFooter, SnapshotHeader, control_batch, controls, is_control
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.ops import CorruptMetadata, EntitySet, FeatureSet, Op
from actors.metadata.snapshot import NO_LIMIT, RECORDS_MAX, verified_batches
from actors.ports import Buffer

BOOTSTRAP = "bootstrap.checkpoint"
"""The name of the file, which lies beside meta.properties in the directory of the metadata log."""


def encode(level: int, credentials: Sequence[EntitySet]) -> bytes:
    """The bytes of the file. `level`: the value of metadata.format."""
    head = control_batch(0, 0, 0, [SnapshotHeader(0)])
    out = BatchWriter(head.last_offset + 1, 0, 0, NO_LIMIT, RECORDS_MAX)
    ops: list[Op] = [FeatureSet(FORMAT, level), *credentials]
    dialect(level).encode(ops, out, atomic=False)
    body = memoryview(out)
    foot = control_batch(out.next_offset, 0, 0, [SnapshotFooter()])
    return bytes(head.data) + bytes(body) + bytes(foot.data)


def decode(data: Buffer) -> list[Op]:
    """The ops that the first leader writes beside the levels, which it knows. Raises CorruptMetadata."""
    found: list[Op] = []
    whole = False
    for batch in verified_batches(data):
        if is_control(batch.data):
            whole = any(isinstance(control, SnapshotFooter) for _, control in controls(batch.data))
        else:
            found += (op for _, op in dialect("drafts").decode(batch))
    if data and not whole:
        raise CorruptMetadata(-1, "the file ends without its footer")
    return [op for op in found if isinstance(op, EntitySet)]
