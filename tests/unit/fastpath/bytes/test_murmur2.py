"""Keys go where Java's producer sends them: the hashes of its own test (UtilsTest.testMurmur2), those that its classes gave
for random keys, and the twin's."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.bytes.murmur2 import hashed, partition_of
from tests.reference import murmur2 as slow

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.3.1" / "partitions" / "keys.json"
HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hash"), HASHES.items())
def test_the_hash_of_a_key_is_javas(key: bytes, hash: int) -> None:
    assert hashed(key) == slow.murmur2(key) == hash & 0xFFFFFFFF
    assert partition_of(key, 7) == (hash & 0x7FFFFFFF) % 7


def test_random_keys_go_where_javas_classes_send_them() -> None:
    cases = json.loads(GOLDEN.read_text())
    assert {len(key) // 2 % 4 for key, *_ in cases} == {0, 1, 2, 3}
    for text, hash, partitions, chosen in cases:
        key = bytes.fromhex(text)
        assert hashed(key) == hash & 0xFFFFFFFF
        assert partition_of(key, partitions) == chosen


@given(st.binary(max_size=40), st.integers(1, 2**31 - 1))
def test_any_key_is_hashed_as_by_the_twin(key: bytes, partitions: int) -> None:
    assert hashed(key) == slow.murmur2(key)
    assert partition_of(key, partitions) == slow.of_key(key, partitions)


@pytest.mark.parametrize("partitions", [0, -1])
def test_without_partitions_there_is_none_to_choose(partitions: int) -> None:
    with pytest.raises(ValueError, match="no"):
        partition_of(b"key", partitions)
