"""Two epochs of a partition, and a broker that is fenced or absent: what each family makes of them."""

import pytest

from actors.metadata.dialects import dialect
from actors.metadata.families import DRAFTS, RELEASED, Epochs, Family
from actors.metadata.image import Image
from actors.metadata.ops import (
    BrokerChanged,
    BrokerGone,
    BrokerSet,
    BrokerUnregistered,
    EndPoint,
    PartitionsChanged,
    PartitionsSet,
    TopicSet,
)
from fastpath.image.read_records import expand
from fastpath.image.write_records import Writer

T = bytes(range(16))
LISTENER = (EndPoint("PLAINTEXT", "h", 9092),)


def image_of(*ops):
    image = Image()
    for op in ops:
        image.replay(image.next_offset, op)
    return image


def partition(leader_epoch=3, partition_epoch=7):
    return PartitionsSet.one(T, 0, [1, 2, 3], [1, 2, 3], 1, leader_epoch, partition_epoch)


def epochs(image):
    return Epochs(image.leader_epoch(0), image.partition_epoch(0))


@pytest.mark.parametrize("which", [1, 2, "drafts"])
def test_every_level_of_the_drafts_is_of_their_family(which):
    assert dialect(which).family is DRAFTS and dialect("released").family is RELEASED


@pytest.mark.parametrize(
    ("family", "moves", "now", "then"),
    [
        (DRAFTS, False, Epochs(4, 4), Epochs(5, 5)),  # A33: each change moves LeaderEpoch
        (DRAFTS, True, Epochs(4, 4), Epochs(5, 5)),
        (RELEASED, False, Epochs(3, 7), Epochs(3, 8)),
        (RELEASED, True, Epochs(3, 7), Epochs(4, 8)),
    ],
)
def test_how_the_epochs_move(family: Family, moves: bool, now: Epochs, then: Epochs):
    assert family.next_epochs(now, leadership_moves=moves) == then


@pytest.mark.parametrize(
    ("change", "then"),
    [
        (PartitionsChanged.one(T, 0, [1, 2]), Epochs(3, 8)),  # an ISR
        (PartitionsChanged.one(T, 0, None, replicas=[3, 2, 1]), Epochs(3, 8)),
        (PartitionsChanged.one(T, 0, [2, 3], 2), Epochs(4, 8)),  # another leader
        (PartitionsChanged.one(T, 0, None, 1), Epochs(4, 8)),  # the same leader, named: a new leadership of it
        (PartitionsChanged.one(T, 0, [1], 1, 3, 8), Epochs(3, 8)),
        (PartitionsChanged.one(T, 0, [1], 1, 9, 11), Epochs(9, 11)),
        (PartitionsChanged.one(T, 0, [1], -2, 5), Epochs(5, 8)),  # one that is given leaves the other alone
        (PartitionsChanged.one(T, 0, [1], -2, -1, 9), Epochs(3, 9)),
    ],
)
def test_the_image_moves_each_epoch_for_itself(change, then):
    image = image_of(TopicSet("t", T), partition())
    image.replay(image.next_offset, change)
    assert epochs(image) == then
    image.undo(2)
    assert epochs(image) == (3, 7)


def test_a_partition_that_lacks_one_of_its_epochs_is_not_whole():
    image = image_of(TopicSet("t", T))
    for given in ((3, -1), (-1, 7)):
        with pytest.raises(ValueError, match="not given as a whole"):
            image.replay(1, partition(*given))


def test_the_one_number_of_the_drafts_is_read_into_both_epochs():
    out = Writer(0, 1, 0)
    out.add_partitions(partition(7, 7).block)
    out.add_changes(PartitionsChanged.one(T, 0, [1], 1, 8, 8).block)
    states = [state for *_, block in expand(bytes(memoryview(out))) for state in block]
    assert [(one.leader_epoch, one.partition_epoch) for one in states] == [(7, 7), (8, 8)]


def test_two_epochs_that_differ_are_not_written_as_one():
    out = Writer(0, 1, 0)
    with pytest.raises(ValueError, match="one number for both"):
        out.add_partitions(partition().block)
    for given in ((3, 7), (3, -1)):
        with pytest.raises(ValueError, match="one number for both"):
            out.add_changes(PartitionsChanged.one(T, 0, [1], 1, *given).block)
    with pytest.raises(ValueError, match="one number for both"):
        out.add_topic(image_of(TopicSet("t", T), partition()).view(), b"record", 0)


# ---- fenced, absent


def registered():
    return image_of(BrokerSet(3, 5, endpoints=LISTENER), TopicSet("t", T), partition(7, 7))


def test_what_fencing_makes_of_a_registration():
    fenced, absent = registered(), registered()
    fenced.replay(fenced.next_offset, RELEASED.fenced(3, 5))
    absent.replay(absent.next_offset, DRAFTS.fenced(3, 5))
    assert RELEASED.fenced(3, 5) == BrokerChanged(3, 5, fenced=True) and DRAFTS.fenced(3, 5) == BrokerGone(3, 5)
    assert (fenced.is_registered(3), fenced.is_unfenced(3)) == (True, False)
    assert (absent.is_registered(3), absent.is_unfenced(3)) == (False, False)
    assert [broker.id for broker in fenced.brokers()] == [3] and fenced.unfenced_brokers() == absent.brokers() == []
    alive = registered()
    assert alive.is_registered(3) and alive.is_unfenced(3) and alive.unfenced_brokers() == alive.brokers()


def test_the_end_of_a_registration_changes_partitions_in_the_drafts_only():
    released, drafts = registered(), registered()
    touched = released.replay(released.next_offset, RELEASED.unregistered(3, 5))
    assert RELEASED.unregistered(3, 5) == BrokerUnregistered(3, 5) and list(touched.partitions) == []
    assert not released.is_registered(3) and released.isr(0) == (1, 2, 3) and epochs(released) == (7, 7)
    touched = drafts.replay(drafts.next_offset, DRAFTS.unregistered(3, 5))
    assert not drafts.is_registered(3) and drafts.isr(0) == (1, 2) and epochs(drafts) == (8, 8)  # A32
    assert list(touched.partitions) == [0]
