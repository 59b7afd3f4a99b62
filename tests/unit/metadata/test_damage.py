"""Damaged records: every mangled batch is either read or refused with CorruptMetadata, never more."""

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import dialect
from actors.metadata.image import Image
from actors.metadata.ops import CorruptMetadata, Extra, PartitionsChanged, PartitionsSet, TopicSet
from actors.ports import Batch
from fastpath.records import batch as batches

U = bytes(range(16))


def sample():
    out = BatchWriter(0, 1, 0)
    dialect(2).encode(
        [
            TopicSet("t", U),
            PartitionsSet(
                U, [0, 1], [[1, 2, 3], [3, 2]], [[1, 2], [3]], [[1], []], [[], [2]], directories=[[U, U, U], [U, U]]
            ),
            PartitionsChanged.one(U, 0, [1], 1, 1, 1, directories=[U, U, U], extra=Extra(None, None, 1, (2,), (3,))),
            PartitionsChanged.one(U, 1, [3], 3, 1, 1),
        ],
        out,
    )
    return out.finish()[0]


GOOD = sample()
VALUES = [record.value for record in batches.records(GOOD.data)]


def read(values, which):
    builder = batches.Builder(0, 1)
    for value in values:
        builder.append(None, value)
    image = Image()
    try:
        for offset, op in dialect(which).decode(Batch(0, len(values) - 1, 1, builder.build())):
            image.replay(offset, op)
    except CorruptMetadata as error:
        assert 0 <= error.offset < len(values) and str(error)
    image.check()
    return image


def test_the_sample_is_good():
    assert read(VALUES, 2).next_offset == len(VALUES)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(VALUES) - 1), st.integers(0, 200), st.integers(1, 255), st.sampled_from([1, 2]))
def test_a_flipped_byte(which, place, bits, level):
    values = [bytearray(value) for value in VALUES]
    values[which][place % len(values[which])] ^= bits
    read([bytes(value) for value in values], level)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(VALUES) - 1), st.integers(0, 200))
def test_a_cut_value(which, length):
    values = list(VALUES)
    values[which] = values[which][: length % len(values[which])]
    image = read(values, 2)
    assert image.next_offset <= which or not values[which]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.sampled_from([1, 2, "released"]))
def test_noise(values, which):
    prefix = {1: b"\x02\x00", 2: b"\x04\x00", "released": b"\x01\x05\x02"}[which]
    read([prefix + value for value in values], which)
