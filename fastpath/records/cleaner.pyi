from collections.abc import Iterable
from typing import NamedTuple

from typing_extensions import Buffer

from fastpath.records.offset_map import OffsetMap

class Aborted(NamedTuple):
    """A transaction that was aborted: an entry of the partition's index of such transactions."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the transaction's marker."""

class LastBatch(NamedTuple):
    """What a log remembers of a producer that is active: its last batch must not go without a trace."""

    producer_id: int
    producer_epoch: int
    last_offset: int
    """The offset of the producer's last data; -1: it has written none in this epoch, only a marker."""

class Transactions:
    """What one pass over a log knows of its transactions. A pass begins at the log's start, and goes to the end of what is
    cleaned."""

    def __init__(self, aborted: Iterable[Aborted] = ()) -> None: ...
    def take_kept(self) -> list[Aborted]:
        """The aborted transactions of which a batch was met, up to the last marker that was met: an index of the
        cleaned log needs these and no others. Each is returned once."""

def fill(
    offsets: OffsetMap,
    data: Buffer,
    pos: int,
    end: int,
    start_offset: int,
    transactions: Transactions,
    *,
    output_bytes_max: int,
) -> tuple[int, bool]:
    """Enter the keys of the whole batches in `[pos, end)`, from `start_offset` on. Returns (position behind them,
    whether the map is full). A batch that is cut by `end` is left. When the map is full its `latest_offset` says how
    far it knows the log. Records of control batches and of aborted transactions do not count. Raises CorruptBatch with
    the position of the batch."""

class Cleaner:
    """One pass that keeps the last record of each key. Compressed batches are decompressed whole."""

    records_read: int
    records_kept: int
    keyless: int
    """How many records without a key were met, which are left out."""
    bytes_read: int
    bytes_written: int
    tombstones: int
    """How many tombstones were left out because their time was over."""
    max_timestamp: int
    def __init__(
        self,
        offsets: OffsetMap,
        transactions: Transactions,
        last_batches: Iterable[LastBatch] = (),
        *,
        now_ms: int,
        delete_retention_ms: int,
        output_bytes_max: int,
    ) -> None:
        """`now_ms` is the wall clock."""
    def clean(self, data: Buffer, pos: int, end: int, last_offset: int) -> tuple[memoryview, int]:
        """(what is left of the whole batches in `[pos, end)`, the position behind them). A batch that ends at
        `last_offset` leaves at least its header. Raises CorruptBatch with the position of the batch."""
