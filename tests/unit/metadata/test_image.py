"""One story an op: what replay does to an image, and what undo and pins leave alone."""

import gc

import pytest

from actors.metadata.image import SCRAM, TOKEN, Image
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    CorruptMetadata,
    ElrCleared,
    EndPoint,
    EntityGone,
    EntitySet,
    Extra,
    FeatureSet,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicGone,
    TopicSet,
)
from actors.replay.columns.moment import Moment, QuorumRecords

T = bytes(range(16))
U = bytes(range(1, 17))
LISTENER = (EndPoint("PLAINTEXT", "h", 9092),)


def image_of(*ops):
    image = Image()
    for op in ops:
        image.replay(image.next_offset, op)
    return image


def topic(name="t", topic_id=T, count=3):
    replicas = [[(i + j) % 3 + 1 for j in range(3)] for i in range(count)]
    return TopicSet(name, topic_id), PartitionsSet(topic_id, list(range(count)), replicas, replicas)


def states(image, name="t"):
    rows = image.topic_partitions(image.topic(name))
    return [(image.number(r), image.isr(r), image.leader(r), image.leader_epoch(r)) for r in rows]


def test_a_topic_and_its_partitions():
    image = image_of(*topic())
    row = image.partition(image.topic("t"), 1)
    assert image.next_offset == 4
    assert (image.replicas(row), image.isr(row), image.leader(row)) == ((2, 3, 1), (2, 3, 1), 2)
    assert (image.leader_epoch(row), image.partition_epoch(row)) == (0, 0)
    assert (image.number(row), image.topic_of(row), image.directories(row)) == (1, image.topic("t"), ())
    assert image.counts(1) == (3, 1, 3)
    assert image.partition(image.topic("t"), 3) == -1 and image.topic("u") == -1 and image.topic_by_id(U) == -1


def test_what_changes_topics_partitions_or_brokers_is_counted_and_nothing_else():
    image = image_of(*topic())
    before = image.changes
    image.replay(image.next_offset, PartitionsChanged.one(T, 1, {1, 2}, 2, 1))
    assert image.changes == before + 1
    image.replay(image.next_offset, ProducerIdsSet(1, 1, 1000))
    assert image.changes == before + 1


def test_isr_is_a_set_kept_in_replica_order():
    image = image_of(*topic(), PartitionsChanged.one(T, 1, {1, 2}, 2, 1))
    assert states(image)[1] == (1, (2, 1), 2, 1)
    assert image.counts(3) == (3, 1, 2)


def test_partitions_added_in_any_order_are_found():
    image = image_of(*topic(), *topic("u", U))
    for number in (7, 3, 5, 4, 6):
        image.replay(image.next_offset, PartitionsSet.one(T, number, [1], [1], 1, 0, 0))
    rows = image.topic_partitions(image.topic("t"))
    assert [image.number(r) for r in rows] == list(range(8))
    assert [image.partition(image.topic("t"), n) for n in range(8)] == rows
    assert image.partition_count(image.topic("t")) == 8


@pytest.mark.parametrize(
    "op, sentence",
    [
        (PartitionsChanged.one(T, 9, [1], 1, 1), "does not exist"),
        (PartitionsChanged.one(U, 0, [1], 1, 1), "does not exist"),
        (PartitionsChanged.one(T, 0, [1, 4], 1, 1), "no replica"),
        (PartitionsChanged.one(T, 0, [1, 2], 3, 1), "not in its ISR"),
        (PartitionsSet(T, [-1], [[1]], [[1]]), "not a partition number"),
        (PartitionsSet(T, [8, 9], [[1], [1]], [[1], [2]]), "no replica"),
        (PartitionsSet(T, [8, 9], [[1], [1, -1]], [[1], [1]]), "-1 is not a broker id"),
        (PartitionsSet(T, [0], [[1, 2, 1]], [[1]]), "broker 1 is a replica twice"),
        (TopicSet("t", U), "another topic id"),
        (TopicGone(U), "does not exist"),
        (BrokerSet(1, 1, endpoints=LISTENER * 2), "twice"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(op, sentence):
    image = image_of(*topic())
    before = states(image), image.counts(1), image.next_offset
    with pytest.raises(CorruptMetadata, match=f"offset 4: .*{sentence}"):
        image.replay(4, op)
    assert (states(image), image.counts(1), image.next_offset) == before
    image.check()


def test_a_broker_that_leaves_is_taken_out_of_every_isr_but_its_own_last():
    image = image_of(BrokerSet(3, 0, endpoints=LISTENER), *topic(), PartitionsChanged.one(T, 2, [3], 3, 1))
    touched = image.replay(image.next_offset, BrokerGone(3))
    assert states(image) == [(0, (1, 2), 1, 1), (1, (2, 1), 2, 1), (2, (3,), -1, 2)]
    assert list(touched.partitions) == [0, 1, 2] and touched.brokers == (3,) and image.broker(3) is None
    again = image.replay(image.next_offset, BrokerGone(3))
    assert len(again.partitions) == 0


def test_undo_goes_back_exactly_and_pins_stay():
    image = image_of(FeatureSet("metadata.format", 2), BrokerSet(1, 1, endpoints=LISTENER), *topic())
    image.replay(image.next_offset, ConfigSet(2, "t", "retention.ms", "1"))
    here, before, counts = image.next_offset, states(image), image.counters.all()
    pin = image.pin()
    for op in (
        PartitionsChanged.one(T, 0, [1], 1, 1),
        ConfigSet(2, "t", "retention.ms", None),
        BrokerGone(1),
        FeatureSet("metadata.format", 1),
        TopicGone(T),
        *topic("t", U, 9),
        ProducerIdsSet(1, 1, 1000),
    ):
        image.replay(image.next_offset, op)
    image.undo(here)
    assert (image.next_offset, states(image), image.counters.all()) == (here, before, counts)
    assert image.config(2, "t") == {"retention.ms": "1"} and image.feature("metadata.format") == 2
    assert image.broker(1) is not None and image.next_producer_id == 0 and image.topic_by_id(U) == -1
    assert [pin.columns.isr(r) for r in pin.columns.topic_partitions(0)] == [s[1] for s in before]
    pin.release()


def test_rows_of_a_deleted_topic_are_used_again_only_after_commit():
    image = image_of(*topic(), TopicGone(T))
    image.replay(image.next_offset, topic("u", U)[0])
    image.replay(image.next_offset, topic("u", U)[1])
    assert image.topic_partitions(image.topic("u")) == [3, 4, 5]
    image.commit(image.next_offset)
    image.replay(image.next_offset, topic()[0])
    image.replay(image.next_offset, topic()[1])
    assert image.topic_partitions(image.topic("t")) == [0, 1, 2]


def test_r631_070_a_later_registration_replaces_the_earlier():
    first, second = BrokerSet(1, 1, endpoints=LISTENER, rack="a"), BrokerSet(1, 7, U, (EndPoint("PLAINTEXT", "i", 1),))
    assert image_of(first, second).brokers() == [second]


def test_r631_079_the_last_value_of_a_setting_wins():
    image = image_of(ConfigSet(2, "t", "a", "1"), ConfigSet(2, "t", "b", "2"), ConfigSet(2, "t", "a", "3"))
    assert image.config(2, "t") == {"a": "3", "b": "2"}
    image.replay(image.next_offset, ConfigSet(2, "t", "a", None))
    assert image.config(2, "t") == {"b": "2"}


def test_r631_082_a_deleted_topic_leaves_nothing_for_the_next_of_its_name():
    image = image_of(*topic(), ConfigSet(2, "t", "a", "1"), ConfigSet(2, "u", "a", "2"), TopicGone(T))
    assert (image.topic_by_id(T), image.config(2, "t"), image.counts(1)) == (-1, {}, (0, 0, 0))
    image.replay(image.next_offset, TopicSet("t", U))
    assert (states(image), image.config(2, "t"), image.config(2, "u")) == ([], {}, {"a": "2"})


def test_a_hidden_topic_keeps_its_name():
    image = image_of(*topic(), TopicSet("t", T, deleting=True))
    assert (image.topic("t"), image.topic_by_id(T), list(image.topics())) == (-1, -1, [])
    assert image.name_taken("t") and image.topic_count == 0
    image.replay(image.next_offset, TopicGone(T))
    assert not image.name_taken("t")


def test_a_row_that_is_not_in_use_has_no_name():
    """It had one, 'None', which a topic may have."""
    image = image_of(*topic(), *topic("u", U))
    row = image.topic("t")
    image.replay(image.next_offset, TopicGone(T))
    for named in (image, Moment.of(image, QuorumRecords())):
        assert named.topic_name(image.topic("u")) == "u"
        with pytest.raises(AssertionError, match=f"topic row {row} is not in use"):
            named.topic_name(row)


def test_more_replicas_than_bits():
    replicas = list(range(40))
    image = image_of(TopicSet("t", T), PartitionsSet(T, [0], [replicas], [replicas]))
    assert image.isr(0) == tuple(replicas) and image.isr_size(0) == 40
    image.replay(image.next_offset, PartitionsChanged.one(T, 0, [1, 35, 39], 35, 1))
    assert image.isr(0) == (1, 35, 39) and image.counts(38) == (1, 0, 0)
    assert list(image.rows_in_isr(35)) == [0] and list(image.rows_in_isr(36)) == [] and list(image.rows_of(36)) == [0]
    image.replay(image.next_offset, BrokerGone(35))
    assert image.isr(0) == (1, 39) and image.leader(0) == -1
    image.undo(2)
    assert image.isr(0) == tuple(replicas) and image.leader(0) == 0


def test_more_replicas_than_bits_of_two_words():
    replicas = list(range(100))
    image = image_of(TopicSet("t", T), PartitionsSet(T, [0, 1], [replicas, replicas], [[64], replicas[:96]]))
    assert image.isr(0) == (64,) and image.isr(1) == tuple(range(96))
    image.replay(image.next_offset, PartitionsChanged.one(T, 0, [95, 99], 99, 1))
    assert image.isr(0) == (95, 99) and image.leader(0) == 99
    image.check()


def test_the_largest_partition_number():
    """2^31 - 1, as a sound record may have it: the number behind it does not fit an int32."""
    last = 2**31 - 1
    added = PartitionsSet(T, [last - 1, last], [[1]] * 2, [[1]] * 2)
    image = image_of(TopicSet("t", T), added, PartitionsChanged.one(T, last, {1}, 1, 7))
    assert states(image) == [(last - 1, (1,), 1, 0), (last, (1,), 1, 7)]
    assert image.partition(image.topic("t"), 0) == -1


def test_who_is_asked_for_and_never_was_takes_no_place():
    image = Image()
    for broker in range(1, 1_000):
        assert image.counts(broker) == (0, 0, 0)
    assert image.counters.used == 0


def test_eligible_leaders_are_forgotten_by_one_record():
    """The change of many partitions by one record is undone and committed with that record, not with those behind it."""
    elr = Extra(None, None, None, (3,), ())
    image = image_of(*topic(), *(PartitionsChanged.one(T, n, extra=elr) for n in range(3)))
    image.replay(7, ElrCleared(""))
    image.replay(8, ConfigSet(2, "t", "x", "1"))
    image.undo(8)
    assert [image.elr(row) for row in image.topic_partitions(image.topic("t"))] == [(), (), ()]
    image.undo(7)
    assert [image.elr(row) for row in image.topic_partitions(image.topic("t"))] == [(3,), (3,), (3,)]
    image.check()


def thawed(image):
    """A copy of an image to replay on, and the pin that it began with."""
    pin = image.pin()
    return Image.thawed(pin, image.counters.copy()), pin


def test_a_thawed_image_goes_on_as_its_own_and_leaves_the_pin_alone():
    image = image_of(FeatureSet("f", 2), BrokerSet(1, 1, endpoints=LISTENER), *topic("a.b"), *topic("u", U, 5000))
    image.replay(image.next_offset, ConfigSet(2, "u", "retention.ms", "1"))
    image.commit(image.next_offset)
    copy, pin = thawed(image)
    copy.check()
    before = states(image, "u"), image.counters.all(), image.next_offset
    for op in (
        PartitionsChanged.one(U, 4999, [1], 1, 1),
        PartitionsSet.one(U, 7000, [9, 8, 7], [9], 9, 0, 0),
        ConfigSet(2, "u", "retention.ms", None),
        TopicGone(T),
        *topic("a_b", bytes(16), 3),
        BrokerGone(1),
    ):
        copy.replay(copy.next_offset, op)
    copy.check()
    assert (states(image, "u"), image.counters.all(), image.next_offset) == before
    assert image.topic("a.b") >= 0 and copy.topic("a.b") == -1 and copy.dotted("a_b") == ()
    assert copy.counts(9) == (1, 1, 1) and image.counts(9) == (0, 0, 0) and copy.broker(1) is None
    assert pin.columns.partition(image.topic("u"), 7000) == -1 and dict(pin.configs.items()) != dict(
        copy.configs.items()
    )
    image.replay(image.next_offset, PartitionsSet.one(U, 7000, [3, 2, 1], [3], 3, 0, 0))
    row = copy.partition(copy.topic("u"), 7000)
    assert copy.replicas(row) == (9, 8, 7), "lists that both have added since are not the same memory"
    copy.undo(before[2])
    assert (states(copy, "u"), copy.counters.all(), copy.next_offset) == before
    image.check()
    copy.check()


def test_an_image_that_nobody_uses_goes_at_once():
    """A node's garbage collector sets aside what lives long: an image in a cycle would stay, and a snapshot brings one."""

    gone = []

    class Mark:
        def __del__(self):
            gone.append(self)

    gc.disable()
    try:
        image = image_of(*topic(), *topic("a.b", U), TopicGone(T, "t"))
        image.pin().release()
        image.commit(3)
        image.undo(4)
        image.configs.put(("mark", ""), Mark())
        del image
        assert gone
    finally:
        gc.enable()


def test_a_token_is_found_by_its_id_until_it_is_removed_itself():
    """What else is named as it is has nothing to do with it."""
    token, scram = EntitySet(TOKEN, ("one",), ()), EntitySet(SCRAM, ("one", 1), ())
    image = image_of(token, scram, EntityGone(SCRAM, ("one", 1)))
    assert image.tokens == {"one": token} and len(image.entities) == 1
    image.replay(image.next_offset, EntityGone(TOKEN, ("one",)))
    assert image.tokens == {} and len(image.entities) == 0
