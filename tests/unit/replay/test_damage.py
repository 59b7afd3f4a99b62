"""Bytes that changed on their way: whatever they are, what is read is what was written, and what is lost is told."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors import replay
from fastpath.arrow import metadata_columns
from fastpath.records.batch import Builder
from fastpath.records.scan import resync, scan
from tests.unit.replay import metadata_logs
from tests.unit.replay.columns.test_record_columns import sealed
from tests.unit.replay.test_source import write

WOUNDS = st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=40)), min_size=1, max_size=4)


def read(path: Path, bytes_max: int) -> tuple[list[dict[str, object]], list[replay.Damage]]:
    told: list[replay.Damage] = []
    rows = [
        row
        for split in replay.open(path).splits(bytes_max)
        for batch in replay.read(split, on_damage=told.append)
        for row in batch.to_pylist()
    ]
    return rows, told


@pytest.mark.long
@pytest.mark.parametrize("kind", ["topic", "metadata", "compressed"])
@settings(max_examples=80, deadline=None)
@given(wounds=WOUNDS, bytes_max=st.sampled_from((1, 300, 1 << 30)))
@example(wounds=[(0, bytes(12))], bytes_max=300)  # a split that begins with damage and goes on with a batch
@example(wounds=[(55, b"\x00\x00\x01")], bytes_max=300)
def test_what_is_left_is_true_and_what_is_lost_is_told(
    tmp_path_factory: pytest.TempPathFactory, kind: str, wounds: list[tuple[int, bytes]], bytes_max: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    folder = (
        metadata_logs.write(folder, metadata_logs.batches(metadata_logs.ops(), 2))
        if kind == "metadata"
        else write(folder, 8)
    )
    path = min(folder.glob("*.log"))
    whole = path.read_bytes()
    if kind == "compressed":
        parts = [whole[split.begin : split.end] for split in replay.open(path).splits(1)]
        whole = b"".join(sealed(part, None, 4) for part in parts)
        path.write_bytes(whole)
    before, _ = read(folder, 1 << 30)
    starts = [split.begin for split in replay.open(path).splits(1)]
    hurt = bytearray(whole)
    for at, piece in wounds:
        at %= len(hurt)
        hurt[at : at + len(piece)] = piece[: len(hurt) - at]
    for start in starts:  # base offset and epoch: a leader writes them, no CRC covers them
        hurt[start : start + 8], hurt[start + 12 : start + 16] = (
            whole[start : start + 8],
            whole[start + 12 : start + 16],
        )
    path.write_bytes(hurt)
    after, told = read(folder, bytes_max)
    assert all(row in before for row in after)
    assert [row["offset"] for row in after] == sorted({row["offset"] for row in after})  # type: ignore[type-var]
    assert all(0 <= one.position < one.end <= len(hurt) and one.path == str(path) for one in told)
    if len(after) < len(before) and not told:  # only the end of the file is no damage: it may be being written
        (ends,) = replay.open(path).ends().values()
        lost = {row["offset"] for row in before} - {row["offset"] for row in after}
        assert min(lost) >= ends  # type: ignore[type-var]


def test_the_work_grows_with_the_records_that_cannot_be_read_and_not_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []
    for offset in range(2000):
        builder = Builder(offset, 1)
        builder.append(None, b"\xfe\x01\x00" if offset % 2 else b"\x0c\x00\x02a\x00\x01\x00", 1_000)
        parts.append(bytes(builder.build()))
    folder = tmp_path / metadata_logs.DRAFTS
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    decode, decoded = metadata_columns.decode, 0

    def counting(program: Any, data: Any, headers: Any, *rest: Any) -> Any:
        nonlocal decoded
        try:
            decoded += len(headers)
            return decode(program, data, headers, *rest)
        except metadata_columns.BadRecord as error:
            decoded -= len(headers) - error.batch - 1
            raise

    monkeypatch.setattr(metadata_columns, "decode", counting)
    rows, told = read(folder, 1 << 30)
    assert [row["offset"] for row in rows] == list(range(0, 2000, 2)) and len(told) == 1000
    assert {one.reason.partition(": ")[2] for one in told} == {"no record has type 254"}
    assert decoded <= 3 * 2000


def first_sound(data: bytes, position: int) -> int:
    """The slow twin of resync: each position is tried by itself."""
    for at in range(position, len(data)):
        found, _, _ = scan(data, at, len(data), True, records_max=1)
        if len(found) and found[0]["base_offset"] >= 0 and data[at + 16] == 2:
            return at
    return len(data)


@given(st.data())
def test_the_next_sound_batch_is_found_behind_any_bytes(data: st.DataObject) -> None:
    builder = Builder(7, 1)
    for size in data.draw(st.lists(st.integers(0, 5000), min_size=1, max_size=4)):
        builder.append(None, bytes(size), 5)
    whole = bytes(builder.build())
    torn = whole[: data.draw(st.integers(0, len(whole)))]
    broken = bytearray(whole)
    broken[data.draw(st.integers(17, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    pieces = data.draw(st.lists(st.sampled_from([whole, torn, bytes(broken), bytes(50), b"\2" * 100]), max_size=5))
    made = b"".join(pieces)
    start = data.draw(st.integers(0, len(made)))
    assert resync(made, start, len(made)) == first_sound(made, start)


@pytest.mark.timeout(120)
def test_a_torn_tail_of_bytes_that_all_look_like_headers() -> None:
    """Every twelfth byte begins a header that claims a quarter of the tail: trying each by itself reads 40 GB."""
    size = 4 << 20
    unit = b"\0\0\0\0\2\0\0\0" + ((size // 4) & 0x00FFFF00 | 0x70).to_bytes(4, "big")
    tail = unit * (size // len(unit))
    assert resync(tail, 0, len(tail)) == len(tail)
