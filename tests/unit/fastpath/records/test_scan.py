"""Batches in the bytes of a file: where they lie, where they are unsound, and where the next sound one begins."""

from collections.abc import Sequence

import pytest

from fastpath.records.batch import Builder
from fastpath.records.scan import resync, scan


def batches(*counts: int) -> list[bytes]:
    """Batches with so many records each, one behind the other."""
    made, offset = [], 0
    for count in counts:
        builder = Builder(base_offset=offset, timestamp_ms=1)
        for _ in range(count):
            builder.append(None, b"value")
        made.append(bytes(builder.build()))
        offset += count
    return made


def found(data: bytes, **more: int) -> tuple[list[tuple[int, int]], int, str | None]:
    """((base offset, position) of the batches, the next position, what is wrong there)."""
    headers, position, fault = scan(data, 0, len(data), **more)  # type: ignore[arg-type]
    return [(int(one["base_offset"]), int(one["position"])) for one in headers], position, fault


def begins(parts: Sequence[bytes]) -> list[int]:
    return [sum(map(len, parts[:at])) for at in range(len(parts))]


def test_every_batch_of_sound_bytes_is_found() -> None:
    parts = batches(1, 3, 2)
    data = b"".join(parts)
    assert found(data) == (list(zip([0, 1, 4], begins(parts), strict=True)), len(data), None)


def test_a_scan_ends_behind_the_batch_that_reaches_a_bound() -> None:
    parts = batches(1, 3, 2)
    data = b"".join(parts)
    assert found(data, records_max=2)[:2] == ([(0, 0), (1, len(parts[0]))], len(parts[0] + parts[1]))
    assert found(data, bytes_max=1)[1] == len(parts[0])
    assert found(data, bytes_max=len(parts[0]) + 1)[1] == len(parts[0] + parts[1])


@pytest.mark.parametrize(("at", "said"), [(70, "CRC"), (16, "no batch header"), (17, "CRC"), (0, "no batch header")])
def test_damage_is_told_at_its_batch_and_what_was_before_it_is_kept(at: int, said: str) -> None:
    parts = batches(1, 1, 1)
    data = bytearray(b"".join(parts))
    data[len(parts[0]) + at] ^= 0xFF
    rows, position, fault = found(bytes(data))
    assert rows == [(0, 0)] and position == len(parts[0]) and fault is not None and said in fault


def test_damage_in_records_is_passed_over_where_no_sum_is_asked_for() -> None:
    (data,) = batches(1)
    damaged = bytearray(data)
    damaged[-1] ^= 1
    assert found(bytes(damaged))[2] is not None and found(bytes(damaged), crc=False)[2] is None


def test_a_batch_that_is_cut_is_told() -> None:
    data = b"".join(batches(1, 1))
    rows, _, fault = found(data[:-1])
    assert rows == [(0, 0)] and fault == "the bytes end inside the batch"


def test_what_is_copied_is_what_was_checked_and_ends_where_there_is_no_room() -> None:
    parts = batches(1, 1)
    data = b"".join(parts)
    room = bytearray(len(parts[0]) + 5)
    headers, position, fault = scan(data, 0, len(data), into=room)
    assert (len(headers), position, fault) == (1, len(parts[0]), None) and room[: len(parts[0])] == parts[0]


def test_the_next_sound_batch_is_found_behind_any_bytes() -> None:
    first, second = batches(1, 1)
    damaged = bytearray(first)
    damaged[30] ^= 1
    for junk in (b"", b"\0" * 9, bytes(damaged), first[:-3], second[:60] * 3):
        data = junk + second + b"tail"
        assert resync(data, 0, len(data)) == len(junk)
    assert resync(b"nothing" * 50, 0, 350) == 350
    data = first + second
    assert resync(data, 1, len(data)) == len(first)


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (0, 6), (4, 3)])
def test_a_range_outside_the_bytes_is_refused(begin: int, end: int) -> None:
    for search in (scan, resync):
        with pytest.raises(ValueError):
            search(b"12345", begin, end)
