"""What the metadata log of a controller says, as operations in their order."""

from collections.abc import Iterator
from pathlib import Path

from actors.metadata.batches import is_control
from actors.metadata.dialects import dialect
from actors.metadata.ops import Op
from actors.ports import Batch
from fastpath.records import batch as batches


def operations(directory: Path, offset: int = 0) -> Iterator[Op]:
    """Those of the batches that begin at `offset` or later, of a log with metadata.format 2. `directory`: the log's."""
    for log in sorted(directory.glob("*.log")):
        data = memoryview(log.read_bytes())
        for header in batches.headers(data):
            part = data[header.position : header.position + header.size]
            if header.base_offset >= offset and not is_control(part):
                found = Batch(header.base_offset, header.base_offset + header.count - 1, 0, part)
                yield from (op for _, op in dialect(2).decode(found))
