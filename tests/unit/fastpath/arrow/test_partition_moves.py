"""Moves of partitions, against the twin that compares whole states."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from actors.metadata.image import Image
from actors.metadata.ops import BrokerGone, BrokerSet, Extra, PartitionsChanged, PartitionsSet, TopicGone, TopicSet
from fastpath.arrow.partition_moves import LARGER, LEADER, REPLICAS, SMALLER, Moves
from tests.reference.image import SlowImage
from tests.reference.partition_moves import moves
from tests.unit.metadata.test_image_twin import changes, made, names, partitions_set, relative, topic_ids

T = bytes(range(16))
ops = st.one_of(
    partitions_set(), changes, changes, relative, relative, made(TopicSet, names, topic_ids), made(TopicGone, topic_ids),
    made(BrokerGone, st.integers(0, 5)),
)  # fmt: skip


@pytest.mark.long
@settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # fmt: skip
@given(st.lists(st.tuples(ops, st.booleans()), max_size=40))
def test_moves_are_what_has_changed_between_two_states(history):
    """Some are asked for after one record, some after many of which the last commit is a while ago."""
    image, slow, reader = Image(), SlowImage(), Moves()
    wanted: dict[int, list[int]] = {}
    for op, ask in history:
        single = hasattr(op, "block") and len(op) > 1
        before = {key: dict(one) for key, one in slow.state["partitions"].items()}
        offset = image.next_offset
        try:
            slow.replay(offset, op)
        except ValueError:
            continue
        image.replay(offset, op)
        if single:  # each row is a record of its own: only what came of all of them is compared
            reader.of(image)
            image.commit(image.next_offset)
            wanted = {}
            continue
        found = moves(before, slow.state["partitions"])
        if found:
            wanted[offset] = found
        if ask:
            offsets, kinds = reader.of(image)
            told: dict[int, list[int]] = {}
            for at, kind in zip(offsets.tolist(), kinds.tolist(), strict=True):
                told.setdefault(at, []).append(kind)
            assert {at: sorted(those) for at, those in told.items()} == wanted
            assert offsets.tolist() == sorted(offsets.tolist())
            image.commit(image.next_offset)
            wanted = {}


def image_of(*given):
    image = Image()
    for op in given:
        image.replay(image.next_offset, op)
    image.commit(image.next_offset)
    return image


def kinds_of(image, *given):
    for op in given:
        image.replay(image.next_offset, op)
    return Moves().of(image)[1].tolist()


def test_each_kind_by_itself():
    def begun():
        return image_of(BrokerSet(1, 1), TopicSet("t", T), PartitionsSet.one(T, 0, [1, 2, 3], [1, 2], 1, 0, 0))

    adding = Extra((), (3,), None, None, None)
    assert kinds_of(begun(), PartitionsChanged.one(T, 0, leader=2)) == [LEADER]
    assert kinds_of(begun(), PartitionsChanged.one(T, 0, [1])) == [SMALLER]
    assert kinds_of(begun(), PartitionsChanged.one(T, 0, [1, 2, 3], -1)) == [LEADER | LARGER]
    assert kinds_of(begun(), PartitionsChanged.one(T, 0, extra=adding)) == [REPLICAS]
    assert kinds_of(begun(), PartitionsChanged.one(T, 0, [1, 4], replicas=[1, 4])) == [REPLICAS]
    assert kinds_of(begun(), PartitionsChanged.one(T, 0, leader=1)) == []
    assert kinds_of(begun(), TopicGone(T)) == [] and kinds_of(begun(), BrokerGone(1)) == [LEADER | SMALLER]


def test_beyond_the_32nd_replica():
    replicas = list(range(40))
    image = image_of(TopicSet("t", T), PartitionsSet.one(T, 0, replicas, replicas, 0, 0, 0))
    assert kinds_of(image, PartitionsChanged.one(T, 0, replicas[:39])) == [SMALLER]
    assert kinds_of(image, PartitionsChanged.one(T, 0, replicas[5:], 5)) == [SMALLER, LEADER | SMALLER]


def test_one_reader_for_images_of_all_sizes():
    reader = Moves()
    for size in (1, 5_000, 3):
        image = image_of(TopicSet("t", T), PartitionsSet(T, range(size), [[1, 2]] * size, [[1, 2]] * size))
        for _ in range(2):
            image.replay(image.next_offset, PartitionsChanged.one(T, size - 1, [1]))
            assert reader.of(image)[1].tolist() == [SMALLER]
            image.replay(image.next_offset, PartitionsChanged.one(T, size - 1, [1, 2]))
            image.commit(image.next_offset)
