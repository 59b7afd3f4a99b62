"""Variable-length integers against their slow twin, and at the edges of their types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.bytes import varint
from tests.reference import varint as slow

U32, I32, I64 = st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


@given(U32, st.binary(max_size=3))
def test_uvarint_round_trips_as_the_twin_does(value: int, behind: bytes) -> None:
    data = varint.encode_uvarint(value)
    assert data == slow.encode_uvarint(value)
    assert varint.decode_uvarint(b"x" + data + behind, 1) == (value, 1 + len(data))


@given(I32)
def test_varint_round_trips_as_the_twin_does(value: int) -> None:
    data = varint.encode_varint(value)
    assert data == slow.encode_varint(value)
    assert varint.decode_varint(data) == (value, len(data))


@given(I64)
def test_varlong_round_trips_as_the_twin_does(value: int) -> None:
    data = varint.encode_varlong(value)
    assert data == slow.encode_varint(value)
    assert varint.decode_varlong(data, 0) == (value, len(data))


MOSTLY_LONG = st.lists(st.one_of(st.integers(128, 255), st.integers(0, 255)), max_size=12).map(bytes)


@given(MOSTLY_LONG)
def test_any_bytes_are_read_or_refused_as_by_the_twin(data: bytes) -> None:
    for decode, twin in (
        (varint.decode_uvarint, lambda: slow.decode_uvarint(data, 0, 32)),
        (varint.decode_varint, lambda: slow.decode_varint(data, 0, 32)),
        (varint.decode_varlong, lambda: slow.decode_varint(data, 0, 64)),
    ):
        try:
            expected = twin()
        except slow.Bad:
            with pytest.raises(varint.VarintError) as caught:
                decode(data, 0)
            assert caught.value.position == 0
        else:
            assert decode(data, 0) == expected


@pytest.mark.parametrize(
    ("encode", "low", "high"),
    [
        (varint.encode_uvarint, 0, 2**32 - 1),
        (varint.encode_varint, -(2**31), 2**31 - 1),
        (varint.encode_varlong, -(2**63), 2**63 - 1),
    ],
)
def test_values_outside_the_type_are_refused(encode, low: int, high: int) -> None:
    encode(low), encode(high)
    for value in (low - 1, high + 1):
        with pytest.raises(OverflowError):
            encode(value)


@pytest.mark.parametrize("pos", [-1, 4, 2**40])
def test_a_position_outside_the_buffer_is_an_error(pos: int) -> None:
    with pytest.raises(varint.VarintError):
        varint.decode_uvarint(b"abc", pos)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_read(kind) -> None:
    assert varint.decode_varint(kind(b"\x03"), 0) == (-2, 1)
    with pytest.raises(varint.VarintError):
        varint.decode_varint(kind(b""), 0)
