"""The compaction of a log's bytes against its slow twin, and what damaged bytes come to."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.records import batch, compression
from fastpath.records.cleaner import Aborted, Cleaner, LastBatch, Transactions, fill
from fastpath.records.offset_map import SLOT_BYTES, OffsetMap
from tests.reference import batch as slow
from tests.reference import cleaner as twin
from tests.reference import offset_map as slow_map

pytestmark = pytest.mark.long

SEED = bytes(range(16))
LIMIT = 1 << 20
NOW = 1_700_000_000_000

keys = st.none() | st.integers(0, 6).map(lambda n: b"k%d" % n)
values = st.none() | st.binary(max_size=12)
rows = st.lists(st.builds(slow.Row, keys, values, st.integers(NOW - 5_000, NOW)), min_size=1, max_size=5)


class Written(dict[str, Any]):
    """A batch as hypothesis draws it."""


@st.composite
def logs(draw: Any) -> tuple[bytes, list[Aborted], list[LastBatch]]:
    """Batches with gaps, codecs, horizons and transactions of two producers; their aborted transactions and last batches."""
    out, offset = b"", 0
    opened: dict[int, int] = {}
    aborted, last = [], {}
    for _ in range(draw(st.integers(1, 8))):
        offset += draw(st.sampled_from([0, 0, 0, 3]))
        kind = draw(st.sampled_from(["plain", "plain", "producer", "data", "data", "marker"]))
        producer = draw(st.integers(1, 2))
        codec = draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4]))
        if kind == "marker":
            commit = draw(st.booleans())
            marker = slow.Row(b"\0\0\0" + bytes([commit]), b"\0\0\0\0\0\1", NOW - 100)
            data = slow.build([marker], offset, 1, twin.TRANSACTIONAL | twin.CONTROL, (producer, 0, -1))
            begun = opened.pop(producer, -1)
            if begun >= 0 and not commit:
                aborted.append(Aborted(producer, begun, offset))
            last.setdefault(producer, LastBatch(producer, 0, -1))
            size = 1
        else:
            content = draw(rows) * draw(st.sampled_from([1, 1, 1, 20]))
            size = len(content)
            if kind == "plain":
                data = slow.build(content, offset, 1, 0)
            else:
                attributes = twin.TRANSACTIONAL if kind == "data" else 0
                data = slow.build(content, offset, 1, attributes, (producer, 0, offset))
                last[producer] = LastBatch(producer, 0, offset + size - 1)
                if kind == "data":
                    opened.setdefault(producer, offset)
            if codec:
                fields, body = slow.fields(data), data[61:]
                data = slow.sealed(
                    fields._replace(attributes=fields.attributes | codec), compression.compress(codec, body)
                )
        if draw(st.integers(0, 3)) == 0 and codec == 0:
            data = _with_horizon(data, draw(st.sampled_from([NOW - 1, NOW, NOW + 1])))
        out += data
        offset += size
    dropped = draw(st.integers(0, 2))
    return out, aborted, list(last.values())[dropped:]


def _with_horizon(data: bytes, horizon_ms: int) -> bytes:
    fields = slow.fields(data)
    shift = horizon_ms - fields.base_timestamp
    found = list(batch.records(data))
    body = b"".join(
        slow.record(
            slow.Row(one.key, one.value, one.timestamp, one.headers),
            one.timestamp - fields.base_timestamp - shift,
            one.offset - fields.base_offset,
        )
        for one in found
    )
    return slow.sealed(fields._replace(attributes=fields.attributes | twin.HORIZON, base_timestamp=horizon_ms), body)


def _cleaned(
    data: bytes, aborted: list[Aborted], last: list[LastBatch], start: int, capacity: int, end: int
) -> tuple[bytes, bytes, list[Aborted], list[Aborted]]:
    """By the module and by its twin."""
    fast, plain = OffsetMap(SLOT_BYTES * (capacity + 1), 1.0, SEED), slow_map.OffsetMap(capacity)
    position, full = fill(fast, data, 0, len(data), start, Transactions(aborted), output_bytes_max=LIMIT)
    assert full == twin.fill(plain, data, start, twin.Transactions(aborted))
    assert full or position == len(data)
    assert fast.latest_offset == plain.latest_offset
    transactions, known = Transactions(aborted), twin.Transactions(aborted)
    cleaner = Cleaner(fast, transactions, last, now_ms=NOW, delete_retention_ms=1_000, output_bytes_max=LIMIT)
    left, position = cleaner.clean(data, 0, len(data), end)
    assert position == len(data) and cleaner.bytes_written == len(left)
    expected = twin.clean(plain, known, last, data, now_ms=NOW, delete_retention_ms=1_000, last_offset=end)
    kept = transactions.take_kept()
    assert transactions.take_kept() == [], "nothing is told twice"
    return bytes(left), expected, kept, known.kept


@settings(max_examples=200, deadline=None)
@given(logs(), st.integers(0, 6), st.integers(1, 8), st.integers(0, 12))
def test_it_leaves_what_its_twin_leaves(log: Any, start: int, capacity: int, end: int) -> None:
    data, aborted, last = log
    left, expected, kept, known = _cleaned(data, aborted, last, start, capacity, end)
    assert left == expected
    assert sorted(kept) == sorted(known)


@settings(max_examples=200, deadline=None)
@given(logs())
def test_the_last_value_of_every_key_stays_and_order_and_offsets_too(log: Any) -> None:
    data, _, last = log
    left, _, _, _ = _cleaned(data, [], last, 0, 10, -1)
    before = [one for head in batch.headers(data) if not head.attributes & 0x20 for one in twin.items(data, head)]
    after = [one for head in batch.headers(left) if not head.attributes & 0x20 for one in twin.items(left, head)]
    assert [one.offset for one in after] == sorted({one.offset for one in after})
    assert set(map(repr, after)) <= set(map(repr, before))
    wanted = {one.key: one for one in before if one.key is not None}
    found = {one.key: one for one in after}
    assert len(found) == len(after)
    assert all(found[key] == one for key, one in wanted.items() if one.value is not None)


@settings(max_examples=100, deadline=None)
@given(logs())
def test_a_second_pass_changes_nothing_before_a_horizon_is_over(log: Any) -> None:
    data, aborted, last = log
    first, _, _, _ = _cleaned(data, aborted, last, 0, 10, -1)
    plain = [head for head in batch.headers(first) if not head.attributes & 0x30]
    if len(plain) == len(batch.headers(first)):
        assert _cleaned(first, aborted, last, 0, 10, -1)[0] == first


@settings(max_examples=150, deadline=None)
@given(logs(), st.data())
def test_damage_is_told_with_the_batch_it_is_in(log: Any, data: Any) -> None:
    whole, aborted, last = log
    found = batch.headers(whole)
    place = data.draw(st.integers(0, len(whole) - 1))
    head = next(one for one in found if one.position <= place < one.position + one.size)
    damaged = bytearray(whole)
    damaged[place] ^= data.draw(st.integers(1, 255))
    offsets = OffsetMap(4096, 0.9, SEED)
    cleaner = Cleaner(
        offsets, Transactions(aborted), last, now_ms=NOW, delete_retention_ms=1_000, output_bytes_max=LIMIT
    )
    covered = place - head.position >= 17
    for work in (
        lambda: fill(offsets, damaged, 0, len(damaged), 0, Transactions(aborted), output_bytes_max=LIMIT),
        lambda: cleaner.clean(damaged, 0, len(damaged), -1),
    ):
        try:
            work()
        except batch.CorruptBatch as error:
            assert not covered or error.position == head.position
        else:
            assert not covered


def test_a_cut_batch_is_left() -> None:
    data = slow.build([slow.Row(b"a", b"1", NOW)], 0) + slow.build([slow.Row(b"a", b"2", NOW)], 1)
    offsets = OffsetMap(4096, 0.9, SEED)
    position, full = fill(offsets, data, 0, len(data) - 1, 0, Transactions(), output_bytes_max=LIMIT)
    assert (position, full, offsets.latest_offset) == (len(data) // 2, False, 0)
    cleaner = Cleaner(offsets, Transactions(), now_ms=NOW, delete_retention_ms=0, output_bytes_max=LIMIT)
    left, position = cleaner.clean(data, 0, len(data) - 1, -1)
    assert (bytes(left), position) == (data[: len(data) // 2], len(data) // 2)


def test_offsets_that_do_not_rise_are_damage() -> None:
    one, two = (slow.build([slow.Row(b"a", b"1", NOW)], offset) for offset in (4, 3))
    offsets = OffsetMap(4096, 0.9, SEED)
    cleaner = Cleaner(offsets, Transactions(), now_ms=NOW, delete_retention_ms=0, output_bytes_max=LIMIT)
    with pytest.raises(batch.CorruptBatch, match="above those before it") as damage:
        cleaner.clean(one + two, 0, 2 * len(one), -1)
    assert damage.value.position == len(one)


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("place", [1, 31, 32, 33, 63, 64, 79])
def test_offsets_that_do_not_rise_inside_a_long_batch_are_damage(place: int, codec: int) -> None:
    """Records are read some dozens ahead: the offset of the last one before counts, too."""
    deltas = list(range(80))
    deltas[place] = deltas[place - 1]
    content = [slow.Row(b"k%d" % number, b"v", NOW) for number in range(80)]
    body = b"".join(slow.record(row, 0, delta) for row, delta in zip(content, deltas, strict=True))
    fields = slow.fields(slow.build(content, 0, attributes=codec))
    data = slow.sealed(fields, compression.compress(codec, body) if codec else body)
    offsets = OffsetMap(65536, 0.9, SEED)
    with pytest.raises(batch.CorruptBatch, match="out of order"):
        fill(offsets, data, 0, len(data), 0, Transactions(), output_bytes_max=LIMIT)
    assert offsets.count == place
    cleaner = Cleaner(offsets, Transactions(), now_ms=NOW, delete_retention_ms=0, output_bytes_max=LIMIT)
    with pytest.raises(batch.CorruptBatch, match="out of order"):
        cleaner.clean(data, 0, len(data), -1)


def test_what_a_batch_claims_to_hold_is_bounded() -> None:
    body = slow.record(slow.Row(b"a", bytes(100_000), NOW), 0, 0)
    fields = slow.fields(slow.build([slow.Row(b"a", b"", NOW)], 0, attributes=4))
    data = slow.sealed(fields, compression.compress(4, body))
    offsets = OffsetMap(4096, 0.9, SEED)
    with pytest.raises(batch.CorruptBatch, match="not within"):
        fill(offsets, data, 0, len(data), 0, Transactions(), output_bytes_max=1_000)
