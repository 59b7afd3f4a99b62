"""The cost of the log beside that of the kernel: appends, reads at the tail, reads further back in the file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.truncation import truncate_to
from actors.host.work.disk import LocalDisk
from fastpath.records import batch
from tests.unit.broker.log.logs import build, settings


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    log = PartitionLog(LocalDisk(str(tmp_path)), "topic-0", settings(segment_bytes=1 << 30))
    yield log
    for segment in log.segments:
        segment.log.truncate(0)
    log.release()


@pytest.mark.parametrize("size", [100, 16_000, 1_000_000])
@pytest.mark.parametrize("producer", [-1, 7])
def test_append(benchmark: Any, log: PartitionLog, size: int, producer: int) -> None:
    """Append one accepted batch to the log, with the write to the page cache."""
    sequence = 0

    def prepared() -> tuple[tuple[bytearray, Any], dict[str, Any]]:
        nonlocal sequence
        if log.active is not None and log.active.size > 600_000_000:
            truncate_to(log, 0)
        data = build(1, size, producer_id=producer, producer_epoch=0, base_sequence=sequence if producer >= 0 else -1)
        sequence += 1
        return (data, batch.accept(data, 0, len(data), log.log_end_offset, 0).headers), {}

    benchmark.pedantic(lambda data, headers: log.append(data, headers, 0), setup=prepared, rounds=500)


@pytest.mark.parametrize("size", [100, 16_000])
def test_read_of_the_newest_batch(benchmark: Any, log: PartitionLog, size: int) -> None:
    """The read of a follower at the end of the log."""
    for _ in range(1000):
        data = build(1, size)
        log.append(data, batch.accept(data, 0, len(data), log.log_end_offset, 0).headers, 0)
    offset = log.log_end_offset - 1
    benchmark(lambda: log.read(offset, 1 << 20))


def test_read_of_a_megabyte(benchmark: Any, log: PartitionLog) -> None:
    """The read of a consumer that is behind: batches of 16 KB, from anywhere in the file."""
    for _ in range(4000):
        data = build(1, 16_000)
        log.append(data, batch.accept(data, 0, len(data), log.log_end_offset, 0).headers, 0)
    offset = 0

    def read() -> None:
        nonlocal offset
        offset = (offset + 1237) % 3900
        assert log.read(offset, 1 << 20) is not None

    benchmark(read)
