"""The offsets of a log's keys in a stated memory, against a dictionary with a bound, and the hash that stands for a key."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.records.offset_map import SLOT_BYTES, OffsetMap, siphash
from tests.reference import offset_map as slow_map

SEED = bytes(range(16))


def test_the_hash_is_siphash() -> None:
    """The authors' vectors for the long output: messages 00 01 02 ... under the key 00 01 ... 0f."""
    known = ["a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45", "8177228da4a45dc7fca38bdef60affe4"]
    assert [siphash(SEED, bytes(range(size))).hex() for size in range(3)] == known


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=300))
def test_the_hash_is_that_of_its_twin(key: bytes, data: bytes) -> None:
    assert siphash(key, data) == slow_map.siphash(key, data)


@given(
    st.integers(1, 40), st.sampled_from([0.3, 0.9, 1.0]), st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 99)))
)
def test_the_map_is_a_dictionary_with_a_bound(slots: int, load: float, puts: list[tuple[bytes, int]]) -> None:
    try:
        fast = OffsetMap(SLOT_BYTES * slots, load, SEED)
    except ValueError:
        assert min(int(slots * load), slots - 1) < 1
        return
    assert fast.memory_bytes <= SLOT_BYTES * slots
    plain = slow_map.OffsetMap(fast.capacity)
    for key, offset in puts:
        assert fast.add(key, offset) == plain.add(key, offset)
        assert fast.latest_offset == plain.latest_offset
    assert fast.count == len(plain.offsets)
    assert all(fast.offset(key) == plain.offset(key) for key, _ in puts)
    assert fast.offset(b"nobody wrote this") == -1


def test_a_small_log_takes_a_small_map() -> None:
    assert OffsetMap(128 << 20, 0.9, SEED, keys_max=100).memory_bytes < 5_000


@pytest.mark.long
def test_a_million_keys_are_a_million_keys() -> None:
    offsets = OffsetMap(64 << 20, 0.9, SEED)
    for number in range(1_000_000):
        assert offsets.add(hashlib.md5(number.to_bytes(4, "big")).digest()[:6], number)
    assert offsets.count == 1_000_000 and offsets.offset(hashlib.md5(bytes(4)).digest()[:6]) == 0


def test_a_key_that_is_there_is_written_again_in_a_full_map_and_another_is_not() -> None:
    offsets = OffsetMap(SLOT_BYTES * 5, 1.0, SEED)
    keys = [b"%d" % n for n in range(offsets.capacity)]
    assert all(offsets.add(key, 5) for key in keys)
    assert not offsets.add(b"one more", 9) and offsets.latest_offset == 5
    assert offsets.add(keys[0], 7) and offsets.add(keys[0], 6)
    assert (offsets.offset(keys[0]), offsets.latest_offset, offsets.count) == (7, 7, offsets.capacity)


def test_a_seed_has_sixteen_bytes_and_a_map_room_for_a_key() -> None:
    with pytest.raises(ValueError):
        OffsetMap(4096, 0.9, b"short")
    with pytest.raises(ValueError):
        OffsetMap(SLOT_BYTES, 0.9, SEED)
