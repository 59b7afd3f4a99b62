"""What the tests of transactions share: batches and markers of producers, and what readers of a log are told."""

from typing import Any

from actors.broker.log.aborted_search import AbortedFound, AbortedSearch
from actors.broker.log.aborted_transactions import aborted_transactions, take_rebuilt
from actors.broker.log.log import Appended, PartitionLog
from actors.broker.log.producers.markers import Marker
from actors.broker.log.producers.markers import build as build_marker
from fastpath.records import batch
from tests.unit.broker.log.logs import build, put

TRANSACTIONAL = 0x10


def write(log: PartitionLog, producer: int, sequence: int, count: int = 1, epoch: int = 0, **more: Any) -> Appended:
    """A transactional batch, as a leader takes it."""
    header = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence, "attributes": TRANSACTIONAL}
    return put(log, build(count, **{**header, **more}))


def end(log: PartitionLog, producer: int, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    """A marker, as a leader appends it; its offset."""
    data = build_marker(producer, epoch, Marker(commit, coordinator_epoch), 1_000)
    accepted = batch.accept(data, 0, len(data), log.log_end_offset, 0, now_ms=1_000, client=False)
    return log.append(data, accepted.headers, 1_000, client=False).base_offset


def aborted(log: PartitionLog, offset: int, upper_offset: int) -> list[tuple[int, int]]:
    """What a reader of this range is told, by a job if need be."""
    found = aborted_transactions(log, offset, upper_offset)
    if isinstance(found, AbortedSearch):
        result = found()
        assert isinstance(result, AbortedFound) and take_rebuilt(log, result)
        return result.found
    return found


def last_stable(log: PartitionLog, high_watermark: int) -> int:
    """As a partition gives it."""
    log.producers.transactions.replicated(high_watermark)
    return min(max(log.producers.transactions.first_unstable, log.log_start_offset), high_watermark)
