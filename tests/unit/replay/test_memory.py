"""What files may make a reader keep in memory: a bounded part of them, whatever they hold or claim."""

from pathlib import Path
from typing import Any

import pytest

from actors.replay.logs import chunks, copies
from actors.replay.logs.chunks import ChunkReading
from actors.replay.logs.copies import CopyEnd, end_of
from actors.replay.logs.files import CorruptLog, Damage, partitions
from tests.unit.replay.written import append, batches


def test_bytes_that_claim_to_be_a_batch_of_many_megabytes_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may have holes, so such a claim costs nobody anything."""
    path = append(tmp_path, "orders", 0, 0, 20)
    claimed = bytearray(batches(20, 30, 10))
    claimed[8:12] = (40 << 20).to_bytes(4, "big")
    with path.open("ab") as file:
        file.write(claimed)
        file.truncate(64 << 20)
    taken: list[int] = []

    class Counted:
        def take(self, size: int) -> memoryview:
            taken.append(size)
            return memoryview(bytearray(size))

    monkeypatch.setattr(chunks, "BLOCKS", Counted())
    with pytest.raises(CorruptLog, match="CRC does not match"):
        list(chunks.batches(path, ChunkReading(chunk_bytes=1 << 20)))
    found: list[Damage] = []
    runs = list(chunks.batches(path, ChunkReading.of(True, found.append, 1 << 20)))
    assert sum(len(run.headers) for run in runs) == 2 and len(found) == 1
    assert max(taken) <= 1 << 20


def test_a_sound_batch_that_is_larger_than_a_chunk_has_room(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 4000, 2000)
    (size,) = {int(one["size"]) for run in chunks.batches(path, ChunkReading()) for one in run.headers[:1]}
    for crc in (True, False):
        runs = list(chunks.batches(path, ChunkReading(crc=crc, chunk_bytes=size // 3)))
        assert [len(run.headers) for run in runs] == [1, 1]


@pytest.mark.parametrize("damaged", [0, 1, 250, 300])
def test_the_end_of_a_log_without_an_index_is_found_with_few_headers(
    damaged: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 batches, of which the last ones have wrong CRCs."""
    path = append(tmp_path, "orders", 0, 0, 3000)
    data = bytearray(path.read_bytes())
    ends = [int(one["position"] + one["size"]) for run in chunks.batches(path, ChunkReading()) for one in run.headers]
    for end in ends[len(ends) - damaged :]:
        data[end - 1] ^= 1
    path.write_bytes(data)
    block = (ends[9] + 1) * 2
    monkeypatch.setattr(copies, "LOOK_BYTES", block)
    held: list[int] = []
    found = copies._from_behind

    def counted(segment: Any, end: int) -> Any:
        for headers, view in found(segment, end):
            held.append(len(headers))
            yield headers, view

    monkeypatch.setattr(copies, "_from_behind", counted)
    (one,) = partitions(tmp_path)
    assert end_of(one) == (CopyEnd(3, 3000 - 10 * damaged) if damaged < 300 else CopyEnd(-1, 0))
    assert max(held) <= 45, "two blocks at most"
    assert sum(held) >= damaged
