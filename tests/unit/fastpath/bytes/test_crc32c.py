"""CRC-32C: every way that this machine has, against a bitwise twin, a foreign library and published values."""

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.bytes import crc32c
from tests.reference import crc32c as slow

# Published check values: "123456789", and RFC 3720 appendix B.4.
KNOWN = {
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
    b"": 0,
}


@pytest.mark.parametrize("way", crc32c.ways())
@pytest.mark.parametrize("data", KNOWN)
def test_published_values(way: str, data: bytes) -> None:
    assert crc32c.crc32c_by(way, data) == KNOWN[data] == slow.crc32c(data)


def test_every_length_around_the_block_sizes_of_every_way() -> None:
    data = bytes(i * i * 31 + i * 7 & 0xFF for i in range(14_000))
    lengths = [*range(1100), *range(6100, 6700), *range(12200, 12800)]
    for length in lengths:
        expected = google_crc32c.value(data[:length])
        assert {crc32c.crc32c_by(way, data[:length]) for way in crc32c.ways()} == {expected}, length


@given(st.binary(max_size=600), st.integers(0, 600), st.integers(0, 2**32 - 1))
def test_pieces_and_starting_values_agree_with_the_twin(data: bytes, cut: int, value: int) -> None:
    expected = slow.crc32c(data, value)
    view = memoryview(data)
    for way in crc32c.ways():
        assert crc32c.crc32c_by(way, view[cut:], crc32c.crc32c_by(way, view[:cut], value)) == expected


def test_large_data_without_the_gil_at_odd_addresses() -> None:
    data = bytearray(b"rayft" * 60_001)
    for start in range(9):
        view = memoryview(data)[start:]
        assert crc32c.crc32c(view) == google_crc32c.value(bytes(view))


def test_a_wrong_argument_is_an_error() -> None:
    with pytest.raises(ValueError, match="no way 'abacus'"):
        crc32c.crc32c_by("abacus", b"")
    with pytest.raises(OverflowError):
        crc32c.crc32c(b"", 2**32)
    with pytest.raises((BufferError, ValueError)):
        crc32c.crc32c(memoryview(b"abcdef")[::2])


@given(st.binary(max_size=300), st.binary(max_size=600))
def test_the_crc_of_a_second_part(first: bytes, second: bytes) -> None:
    both = crc32c.crc32c(first + second)
    assert crc32c.second_part(both, crc32c.crc32c(first), len(second)) == crc32c.crc32c(second)
