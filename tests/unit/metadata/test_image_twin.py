"""Random histories (replay, commit, undo, pin, encode and decode on the way) against the slow image."""

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from actors.metadata import snapshot
from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import dialect
from actors.metadata.image import HiddenName, Image
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    CorruptMetadata,
    EndPoint,
    Extra,
    FeatureSet,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicGone,
    TopicSet,
)
from tests.reference.image import SlowImage

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""No shrinking: a history is short, and shrinking one takes minutes."""

BROKERS = st.integers(0, 5)
IDS = [bytes([i]) * 16 for i in range(4)]
topic_ids = st.sampled_from(IDS)
replica_lists = st.one_of(
    st.lists(BROKERS, min_size=1, max_size=4, unique=True), st.just(list(range(36))), st.just([7, *range(40, 76)])
)
epochs = st.integers(0, 9)
uuids = st.sampled_from(IDS)


@st.composite
def partition(draw):
    replicas = draw(replica_lists)
    isr = draw(st.lists(st.sampled_from(replicas), unique=True, max_size=40))
    leader = draw(st.sampled_from([-1, *isr]))
    homes = draw(st.booleans())
    return dict(
        replicas=replicas,
        isr=isr,
        leader=leader,
        epoch=draw(epochs),
        directories=[draw(uuids) for _ in replicas] if homes else (),
        extra=draw(st.one_of(st.just(Extra()), st.builds(Extra, ids, ids, st.integers(0, 1), ids, ids))),
    )


ids = st.lists(BROKERS, max_size=3, unique=True).map(tuple)


@st.composite
def partitions_set(draw):
    numbers = draw(st.lists(st.integers(0, 12), min_size=1, max_size=6))
    rows = [draw(partition()) for _ in numbers]
    column = lambda name: [row[name] for row in rows]  # noqa: E731
    rare = [row["extra"] for row in rows]
    homes = draw(st.booleans())
    return PartitionsSet(
        draw(topic_ids),
        numbers,
        column("replicas"),
        column("isr"),
        [one.removing for one in rare],
        [one.adding for one in rare],
        column("leader"),
        column("epoch"),
        column("epoch"),
        directories=column("directories") if homes else (),
        recovery=[one.recovery for one in rare],
        elr=[one.elr for one in rare],
        last_known_elr=[one.last_known_elr for one in rare],
    )


maybe_ids = st.one_of(st.none(), ids)


def one_epoch(topic_id, number, isr, leader, epoch, extra):
    """A change as the drafts can say it: one number is both epochs."""
    return PartitionsChanged.one(topic_id, number, isr, leader, epoch, epoch, extra=extra)


changes = st.builds(
    one_epoch,
    topic_ids,
    st.integers(0, 12),
    st.lists(BROKERS, max_size=3, unique=True),
    st.integers(-1, 5),
    epochs,
    extra=st.one_of(
        st.none(), st.builds(Extra, st.none(), st.none(), st.one_of(st.none(), st.integers(0, 1)), maybe_ids, maybe_ids)
    ),
)
relative = st.builds(
    PartitionsChanged.one,
    topic_ids,
    st.integers(0, 12),
    st.one_of(st.none(), st.lists(BROKERS, max_size=3, unique=True)),
    st.integers(-2, 5),
    st.sampled_from([-1, -1, 3]),
    st.sampled_from([-1, -1, 7]),
    replicas=st.one_of(st.none(), replica_lists),
    extra=st.one_of(st.none(), st.builds(Extra, maybe_ids, maybe_ids, st.none(), maybe_ids, maybe_ids)),
)


def made(cls, *fields):
    """Values of a named tuple from strategies for its first fields; the others have their defaults."""
    return st.tuples(*fields).map(lambda given: cls(*given))


names = st.sampled_from("abc")
written_ops = st.one_of(
    partitions_set(),
    partitions_set(),
    changes,
    changes,
    made(TopicSet, names, topic_ids),
    made(TopicSet, names, topic_ids),
    made(TopicGone, topic_ids),
    made(BrokerGone, BROKERS),
    made(BrokerSet, BROKERS, epochs, st.just(bytes(16)), st.just((EndPoint("A", "h", 1),))),
    made(ConfigSet, st.just(2), names, st.sampled_from("xy"), st.one_of(st.none(), st.text(max_size=2))),
    made(FeatureSet, st.sampled_from("fg"), st.integers(0, 2)),
    made(ProducerIdsSet, BROKERS, epochs, st.integers(1, 5)),
)
ONE_OF_EACH = [
    BrokerSet(1, 3, bytes(16), (EndPoint("A", "h", 1),)),
    BrokerSet(2, 4, bytes(16), (EndPoint("A", "h", 2),)),
    TopicSet("a", IDS[1]),
    TopicSet("b", IDS[2]),
    PartitionsSet.one(IDS[1], 0, [1, 2], [1, 2], 1, 5, 5),
    PartitionsSet.one(IDS[2], 0, [2], [2], 2, 5, 5),
    PartitionsChanged.one(IDS[1], 0, [2], 2, 6, 6),
    ConfigSet(2, "a", "x", "1"),
    ConfigSet(2, "a", "y", "1"),
    ConfigSet(2, "a", "y", None),
    FeatureSet("f", 2),
    ProducerIdsSet(1, 3, 4),
    TopicGone(IDS[2]),
    BrokerGone(2),
]
"""What the drafts can say, each value once."""
steps = st.lists(
    st.one_of(
        written_ops,
        written_ops,
        written_ops,
        relative,
        made(TopicSet, names, topic_ids, st.booleans()),
        st.tuples(st.sampled_from(["commit", "undo", "pin", "release", "check"]), st.floats(0, 1)),
    ),
    max_size=40,
)


def contents(image, names, columns):
    """What an image, or a pin, says, in the form of the slow state."""
    topics, partitions = {}, {}
    for row in range(len(names)):
        if names.get(row) is None:
            continue
        topic_id = columns.topic_id(row)
        topics[topic_id] = str(names.get(row)), type(names.get(row)) is HiddenName
        for at in columns.topic_partitions(row):
            assert columns.partition(row, columns.number(at)) == at and columns.topic_of(at) == row
            partitions[topic_id, columns.number(at)] = {
                "replicas": columns.replicas(at),
                "isr": set(columns.isr(at)),
                "leader": columns.leader(at),
                "leader_epoch": columns.leader_epoch(at),
                "partition_epoch": columns.partition_epoch(at),
                "directories": columns.directories(at),
                "removing": columns.removing(at),
                "adding": columns.adding(at),
                "recovery": columns.recovery(at),
                "elr": columns.elr(at),
                "last_known_elr": columns.last_known_elr(at),
            }
    return topics, partitions


def same(image, slow):
    image.check()
    hidden = sum(deleting for _, deleting in slow["topics"].values())
    assert image.topic_count == len(slow["topics"]) - hidden == len(list(image.topics()))
    topics, partitions = contents(image, image.names, image)
    assert topics == slow["topics"] and partitions == slow["partitions"]
    assert {one.id: one for one in image.brokers()} == slow["brokers"] and image.features() == slow["features"]
    assert dict(image.configs.items()) == slow["configs"] and image.next_producer_id == slow["producer"]
    for broker in [*range(6), 7, 35, 50, 75]:
        having = {key for key, one in slow["partitions"].items() if broker in one["replicas"]}
        leading = {key for key, one in slow["partitions"].items() if one["leader"] == broker}
        within = {key for key, one in slow["partitions"].items() if broker in one["isr"]}
        assert image.counts(broker) == (len(having), len(leading), len(within))
        named = lambda rows: {(image.topic_id(image.topic_of(row)), image.number(row)) for row in rows.tolist()}  # noqa: E731
        assert named(image.rows_of(broker)) == having and named(image.rows_led_by(broker)) == leading
        assert named(image.rows_in_isr(broker)) == within
    moved = {
        key
        for key, one in slow["partitions"].items()
        if (one["adding"] or one["removing"]) and set(one["adding"]) <= one["isr"]
    }
    assert {(image.topic_id(image.topic_of(row)), image.number(row)) for row in image.rows_moved()} == moved
    for topic_id, (name, deleting) in slow["topics"].items():
        row = image.topic(name)
        assert row == image.topic_by_id(topic_id) and image.name_taken(name)
        assert row == -1 if deleting else image.topic_name(row) == name


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(steps)
def test_any_history(history):
    image, slow, pins, committed = Image(), SlowImage(), [], 0
    for step in history:
        if isinstance(step, tuple) and isinstance(step[0], str) and len(step) == 2 and isinstance(step[1], float):
            what, where = step
            offset = committed + round(where * (image.next_offset - committed))
            if what == "commit":
                committed = offset
                image.commit(offset)
                slow.commit(offset)
            elif what == "undo":
                offset = next((at for at, _ in slow.history if at >= offset), image.next_offset)
                image.undo(offset)
                slow.undo(offset)
            elif what == "pin":
                pins.append((image.pin(), slow.pin()))
            elif what == "release" and pins:
                pins.pop(int(where * (len(pins) - 1)))[0].release()
            same(image, slow.state)
            for pin, kept in pins:
                assert contents(pin, pin.names, pin.columns) == (kept["topics"], kept["partitions"])
                assert pin.brokers == kept["brokers"] and dict(pin.configs.items()) == kept["configs"]
            continue
        before = slow.next_offset
        try:
            slow.replay(before, step)
        except ValueError:
            try:
                image.replay(image.next_offset, step)
            except CorruptMetadata:
                assert image.next_offset == before
                continue
            raise AssertionError(f"{step} should have been refused") from None
        image.replay(image.next_offset, step)
    same(image, slow.state)
    apart = [key for key, one in slow.state["partitions"].items() if one["partition_epoch"] != one["leader_epoch"]]
    if apart:  # the drafts have one number for both, and refuse rather than lose one
        pin = image.pin()
        with pytest.raises(ValueError, match="one number for both"):
            snapshot.encode(pin, 1, 2, 5, None)
        pin.release()
    for topic_id, number in apart:
        op = PartitionsChanged.one(topic_id, number, None, -2, 9, 9)
        slow.replay(slow.next_offset, op)
        image.replay(image.next_offset, op)
    pin = image.pin()
    data = b"".join(snapshot.encode(pin, 1, 2, 5, None))
    again = Image()
    snapshot.load(data, again, image.next_offset)
    same(again, slow.state)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(st.lists(written_ops, max_size=25), st.sampled_from([1, 2]), st.integers(100, 2000))
@example(ONE_OF_EACH, 1, 200)
@example(ONE_OF_EACH, 2, 200)
def test_records_rebuild_the_image(ops, level, bytes_max):
    direct, slow = Image(), SlowImage()
    out = BatchWriter(0, 1, 0, bytes_max)
    for op in ops:
        if isinstance(op, TopicGone) and op.id in slow.state["topics"]:
            op = op._replace(name=slow.state["topics"][op.id][0])
        try:
            slow.replay(slow.next_offset, op)
        except ValueError:
            continue
        assert out.next_offset == direct.next_offset
        assert dialect(level).encode([op], out) == (len(op) if hasattr(op, "block") else 1)
        direct.replay(direct.next_offset, op)
    read = Image()
    for batch in out.finish():
        assert batch.base_offset == read.next_offset
        for offset, op in dialect(level).decode(batch):
            read.replay(offset, op)
    assert read.next_offset == direct.next_offset
    same(read, slow.state)


def test_an_atomic_operation_never_splits_and_a_bulk_one_does():
    ops = [ConfigSet(2, "t", f"key-{i}", "value") for i in range(100)]
    for first in range(4):
        out = BatchWriter(10, 1, 0, bytes_max=400)
        dialect(2).encode(ops[:first], out)
        dialect(2).encode(ops, out)
        sizes = [batch.last_offset - batch.base_offset + 1 for batch in out.finish()]
        assert sizes == ([first] if first else []) + [100]
    out = BatchWriter(10, 1, 0, bytes_max=400)
    dialect(2).encode(ops, out, atomic=False)
    batches = out.finish()
    assert len(batches) > 5 and all(len(batch.data) <= 400 for batch in batches)
    assert [op for batch in batches for _, op in dialect(2).decode(batch)] == ops
