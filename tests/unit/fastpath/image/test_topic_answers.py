"""Topics of answers out of the columns, byte by byte those of the twin, however the work is cut into slices."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from actors.metadata.image import Image
from actors.metadata.ops import PartitionsSet, TopicSet
from fastpath.image.topic_answers import DESCRIBED, TopicAnswers
from tests.reference import topic_answers as twin
from tests.reference.image import SlowImage
from tests.unit.metadata.test_image_twin import made, names, topic_ids, written_ops

NO_LISTENER = 72
INTERNAL = ("t1", "__consumer_offsets")
IDS = st.sets(st.one_of(st.integers(0, 7), st.sampled_from([35, 40, 75, 2**31 - 1])))
OPS = st.one_of(written_ops, written_ops, written_ops, made(TopicSet, names, topic_ids, st.booleans()))
TWINS = settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # fmt: skip


def images(ops):
    """The image of these ops, and its twin's state."""
    image, slow = Image(), SlowImage()
    for op in ops:
        try:
            slow.replay(slow.next_offset, op)
        except ValueError:
            continue
        image.replay(image.next_offset, op)
        image.commit(image.next_offset)
    image.check()
    return image, slow.state


def along(written, view, order, slice_of, **given):
    """All topics, a slice after the other; the bytes are taken out after each."""
    parts, name = [], ""
    while name is not None or written.left:
        before = written.looked
        if written.left:
            assert written.go_on(slice_of) <= slice_of
        else:
            name = written.along(view, order, name, None, slice_of, given.get("operations", 7))
        assert written.looked - before <= slice_of + 5, "a slice is bounded, whatever a topic has"
        parts.append(written.take())
    assert written.size == 0
    return b"".join(parts)


@pytest.mark.long
@TWINS
@given(st.lists(OPS, max_size=40), st.integers(0, 13), IDS, IDS, st.integers(1, 9))
def test_all_topics_of_a_metadata_answer(ops, version, alive, reachable, slice_of):
    image, state = images(ops)
    written = TopicAnswers(version, alive, reachable, INTERNAL, NO_LISTENER)
    found = along(written, image, image.order, slice_of)
    topics = twin.names(state)
    assert written.count == len(topics)
    assert found == b"".join(
        twin.metadata_topic(
            name, topic_id, twin.partitions(state, topic_id)[0], 7, version, alive, reachable, NO_LISTENER, INTERNAL
        )
        for name, topic_id in topics
    )


@pytest.mark.long
@TWINS
@given(st.lists(OPS, max_size=40), IDS, st.integers(0, 14), st.integers(0, 6), st.integers(1, 9))
def test_a_page_of_a_topic(ops, alive, first, most, slice_of):
    image, state = images(ops)
    for name, topic_id in twin.names(state):
        written = TopicAnswers(DESCRIBED, alive, alive, INTERNAL, 0)
        following = written.begin(image, name, image.topic(name), -5, first, most)
        while written.left:
            written.go_on(slice_of)
        rows, expected = twin.partitions(state, topic_id, first, most)
        assert following == expected
        assert written.take() == twin.described_topic(name, topic_id, rows, -5, alive, INTERNAL)


@pytest.mark.long
@TWINS
@given(st.lists(OPS, max_size=30), st.lists(OPS, max_size=30), st.integers(0, 13), IDS, st.integers(1, 5))
def test_a_pinned_generation_is_written_whatever_is_replayed_between_slices(before, after, version, alive, slice_of):
    image, state = images(before)
    pin = image.pin()
    written = TopicAnswers(version, alive, alive, (), NO_LISTENER)
    parts, name, later = [], "", iter(after)
    while name is not None or written.left:
        if written.left:
            written.go_on(slice_of)
        else:
            name = written.along(pin.columns, pin.order, name, None, slice_of, 0)
        parts.append(written.take())
        for op in later:
            try:
                image.replay(image.next_offset, op)
            except ValueError:
                continue
            image.commit(image.next_offset)
            break
    pin.release()
    assert b"".join(parts) == b"".join(
        twin.metadata_topic(
            name, topic_id, twin.partitions(state, topic_id)[0], 0, version, alive, alive, NO_LISTENER, ()
        )
        for name, topic_id in twin.names(state)
    )


def one_topic(count=3, name="t"):
    image = Image()
    image.replay(0, TopicSet(name, b"i" * 16))
    image.replay(1, PartitionsSet(b"i" * 16, range(count), [[1, 2]] * count, [[1]] * count))
    return image


def test_hidden_topics_those_with_rules_of_their_own_and_the_end_of_a_run():
    image = one_topic(1, "b")
    for number, name in enumerate(("a", "c", "d", "e")):
        image.replay(image.next_offset, TopicSet(name, bytes([number]) * 16))
    judged = []

    def judge(name):
        judged.append(name)
        return 5 if name == "c" else None

    own = {"a": {"bob": 1}, "c": {"alice": 1}, "d": {"alice": 1}, "x": {"alice": 1}}
    for shown, others, until, expected in (
        (1, None, None, "bce"), (None, 3, None, "ac"), (1, 2, "c", "ab"), (None, None, "d", "c"), (1, 2, "", ""),
    ):  # fmt: skip
        written = TopicAnswers(1, [], [], (), 0)
        rest = written.along(image, image.order, "", until, 100, shown, own, ("carol", "alice"), others, judge)
        assert rest is None
        taken = written.take()
        assert written.count == len(expected) and [chr(byte) for byte in taken if chr(byte) in "abcde"] == list(
            expected
        )
    assert judged == ["c", "d", "c", "d", "c"]


def test_partition_numbers_and_epochs_at_their_ends():
    image = Image()
    image.replay(0, TopicSet("t", b"i" * 16))
    last = 2**31 - 1
    image.replay(
        1, PartitionsSet(b"i" * 16, [0, last], [[last], [0]], [[last], [0]], leader=[last, 0], leader_epoch=[last] * 2,
                         partition_epoch=[0, 0], elr=[(), tuple(range(4096))])
    )  # fmt: skip
    for first, most, following in ((0, 1, last), (1, 1, -1), (last, 5, -1), (0, 0, 0)):
        written = TopicAnswers(DESCRIBED, [last], [last], (), 0)
        assert written.begin(image, "t", image.topic("t"), 0, first, most) == following
        written.go_on(9)
        rows = [(n, one) for n, one in (
            (0, dict(replicas=[last], isr={last}, leader=last, leader_epoch=last, elr=(), last_known_elr=())),
            (last, dict(replicas=[0], isr={0}, leader=0, leader_epoch=last, elr=tuple(range(4096)), last_known_elr=())),
        ) if n >= first][:most]  # fmt: skip
        assert written.take() == twin.described_topic("t", b"i" * 16, rows, 0, {last}, ())


def test_a_topic_is_begun_when_the_one_before_it_is_whole():
    image = one_topic()
    written = TopicAnswers(12, [1], [1], (), 0)
    written.begin(image, "t", image.topic("t"), 0)
    with pytest.raises(AssertionError):
        written.begin(image, "t", image.topic("t"), 0)
    with pytest.raises(AssertionError):
        written.put(b"")
    assert (written.left, written.go_on(0), written.go_on(2), written.go_on(2), written.left) == (3, 0, 2, 1, 0)


def test_what_is_encoded_already_stands_in_its_place():
    image = one_topic()
    written = TopicAnswers(12, [1], [1], (), 0)
    written.put(b"before")
    written.begin(image, "t", image.topic("t"), 0)
    written.go_on(3)
    written.put(b"behind")
    taken = written.take()
    assert written.count == 3 and taken.startswith(b"before") and taken.endswith(b"behind")
