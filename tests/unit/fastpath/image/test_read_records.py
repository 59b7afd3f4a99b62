"""Several batches of metadata read as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wire.messages import decode_exact, encode, message
from fastpath.image.blocks import Block
from fastpath.image.read_records import CorruptRecord, expand, topic_fields
from fastpath.image.write_records import Writer
from fastpath.records.batch import Builder

TOPIC, OTHER = bytes(16), bytes([1]) * 16


def changes(base: int, topics: list[bytes]) -> bytes:
    out = Writer(base, 1, 1000)
    block = Block()
    for number, topic in enumerate(topics):
        block.append(topic, number, None, [1, 2], 1, base + number, base + number)
    out.add_changes(block)
    return bytes(memoryview(out))


def test_change_records_of_neighbours_become_one_block() -> None:
    pieces = [changes(10, [TOPIC, OTHER]), changes(12, [OTHER]), changes(13, [TOPIC])]
    ((offset, type_, version, block),) = expand(b"".join(pieces))
    assert (offset, type_, version) == (10, 4, 0)
    assert isinstance(block, Block)
    assert [(state.topic_id, state.leader_epoch) for state in block] == [
        (TOPIC, 10),
        (OTHER, 11),
        (OTHER, 12),
        (TOPIC, 13),
    ]
    assert [one[3] for one in expand(pieces[0])] + [one[3] for one in expand(pieces[1])] != [block]


def test_other_records_stay_where_they_are() -> None:
    builder = Builder(12, 1)
    builder.append(None, b"\x0c\0body")
    found = expand(changes(10, [TOPIC, OTHER]) + builder.build() + changes(13, [OTHER]))
    assert [one[0] for one in found] == [10, 12, 13] and found[1] == (12, 12, 0, b"body")


@pytest.mark.parametrize("base", [11, 13])
def test_batches_that_do_not_follow_each_other(base: int) -> None:
    with pytest.raises(CorruptRecord, match="does not begin at offset 12"):
        expand(changes(10, [TOPIC, OTHER]) + changes(base, [OTHER]))


def test_a_second_batch_that_is_cut() -> None:
    with pytest.raises(CorruptRecord, match="no whole batch"):
        expand(changes(10, [TOPIC]) + changes(11, [OTHER])[:-1])
    with pytest.raises(CorruptRecord, match="no whole batch"):
        expand(b"")


@given(
    st.text(max_size=40), st.binary(min_size=16, max_size=16), st.booleans(), st.integers(0, 60), st.integers(0, 255)
)
def test_a_topic_is_read_as_the_general_decoder_reads_it_or_left_to_it(
    name: str, topic_id: bytes, deleting: bool, place: int, byte: int
) -> None:
    kind = message("v28:TopicRecord")
    body = encode(kind(name=name, topic_id=topic_id, deleting=deleting), 0)
    assert topic_fields(body) == (name, topic_id, deleting)
    for damaged in (
        body[:place],
        body + b"\0",
        body[:-1] + b"\1\x63\0",
        body[:place] + bytes([byte]) + body[place + 1 :],
    ):
        found = topic_fields(damaged)
        if found is not None:
            read = decode_exact(kind, 0, damaged)
            assert found == (read.name, read.topic_id, read.deleting)
