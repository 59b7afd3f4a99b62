"""Keys go where Java's producer sends them: the hashes of its own test (UtilsTest.testMurmur2)."""

import pytest

from actors.client.partitioner import murmur2, of_key

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
    assert murmur2(key) == hash & 0xFFFFFFFF
    assert of_key(key, 7) == (hash & 0x7FFFFFFF) % 7
