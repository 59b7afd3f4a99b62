"""New topics that are read together make the image that they make one by one, whatever is among them."""

import random

import pytest

from actors.metadata import snapshot
from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.image import Image
from actors.metadata.ops import (
    BrokerSet,
    ConfigSet,
    CorruptMetadata,
    EndPoint,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    TopicGone,
    TopicSet,
    TopicsSet,
)
from actors.ports import Batch

DIALECT = dialect(2)
DIRECTORIES = [bytes([number]) * 16 for number in range(1, 5)]


def partitions(choose: random.Random, topic_id: bytes, *, odd: bool) -> PartitionsSet:
    """The first partitions of a topic. `odd`: as hardly any are."""
    first = choose.randrange(3) if odd else 0
    numbers = list(range(first, first + choose.randrange(1, 6)))
    if odd and choose.randrange(3) == 0:
        choose.shuffle(numbers)
    brokers = range(80) if odd and choose.randrange(4) == 0 else range(6)
    replicas = [choose.sample(brokers, choose.choice((1, 3, 33) if len(brokers) > 33 else (1, 2, 3))) for _ in numbers]
    isr = [choose.sample(one, choose.randrange(len(one) + 1)) for one in replicas]
    moving = odd and choose.randrange(3) == 0
    epochs = [choose.randrange(4) for _ in numbers]
    return PartitionsSet(
        topic_id,
        numbers,
        replicas,
        isr,
        [one[:1] for one in replicas] if moving else (),
        (),
        [choose.choice((-1, *one)) for one in isr],
        epochs,
        epochs,
        directories=[[choose.choice(DIRECTORIES) for _ in one] for one in replicas] if choose.randrange(2) else (),
    )


def history(seed: int, odd: float) -> list[list[Op]]:
    """Ops by batch: nearly only new topics, `odd` of which are unusual, and now and then something else."""
    choose = random.Random(seed)
    topics: list[tuple[str, bytes]] = []
    count = 0
    found: list[list[Op]] = [[FeatureSet(FORMAT, 2), BrokerSet(1, 1, endpoints=(EndPoint("L", "h", 1),))]]
    for _ in range(choose.randrange(1, 5)):
        batch: list[Op] = []
        for _ in range(choose.randrange(1, 30)):
            strange = choose.random() < odd
            name, topic_id = f"t{choose.choice(('.', '_', '-'))}{count}", choose.randbytes(16)
            topics.append((name, topic_id))
            count += 1
            batch.append(TopicSet(name, topic_id, strange and choose.randrange(4) == 0))
            if choose.randrange(8):
                batch.append(partitions(choose, topic_id, odd=strange))
            if strange and choose.randrange(3) == 0:
                batch.append(ConfigSet(2, name, "a", "b"))
            if strange and choose.randrange(3) == 0:
                name, topic_id = topics.pop(choose.randrange(len(topics)))
                batch.append(TopicGone(topic_id, name))
            if strange and choose.randrange(3) == 0 and topics:
                batch.append(partitions(choose, choose.choice(topics)[1], odd=False))
        found.append(batch)
    return found


def batches(history: list[list[Op]]) -> list[Batch]:
    offset, found = 0, []
    for ops in history:
        writer = BatchWriter(offset, 1, 5)
        DIALECT.encode(ops, writer)
        found += writer.finish()
        offset = found[-1].last_offset + 1
    return found


def replayed(log: list[Batch], *, together: bool, load: bool = False) -> Image:
    image = Image()
    if load:
        image.begin_load()
    for batch in log:
        for offset, op in DIALECT.decode(batch, together=together):
            image.replay(offset, op)
        assert image.next_offset == batch.last_offset + 1
        image.commit(image.next_offset)
    if load:
        assert sum(1 for _ in image.end_load()) == 0, "so few are put in order at once"
    image.check()
    return image


def shown(image: Image) -> tuple[bytes, list[str], list[tuple[str, ...]], object]:
    """All of an image by values: a snapshot, the names in order, the names that may collide, the counts of brokers."""
    made = b"".join(map(bytes, snapshot.encode(image.pin(), 1, 2, 5, None)))
    names = [name for name, _ in image.order.following("", 10_000)]
    return made, names, [image.dotted(name.replace(".", "_")) for name in names], image.counters.all()


@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize("odd", [0.0, 0.05, 0.5])
def test_topics_together_are_those_one_by_one(odd: float, load: bool) -> None:
    taken = 0
    for seed in range(60):
        log = batches(history(seed, odd))
        one_by_one, together = replayed(log, together=False, load=load), replayed(log, together=True, load=load)
        assert shown(together) == shown(one_by_one), seed
        assert together.next_offset == one_by_one.next_offset
        assert together.open_transaction == one_by_one.open_transaction
        taken += sum(type(op) is TopicsSet for batch in log for _, op in DIALECT.decode(batch, together=True))
    assert taken > 60


def test_what_comes_behind_them_is_undone_and_they_stay() -> None:
    for seed in range(30):
        log = batches(history(seed, 0.05))
        image, other = replayed(log, together=True), replayed(log, together=False)
        before, end = shown(image), image.next_offset
        name = next(image.topic_name(row) for row in image.topics())
        topic_id = image.topic_id(image.topic(name)) or b""
        rows = image.topic_partitions(image.topic(name))
        image.replay(end, TopicSet("new", b"n" * 16))
        image.replay(end + 1, PartitionsSet(b"n" * 16, range(3), [[1]] * 3, [[1]] * 3))
        if rows:
            changed = PartitionsChanged.one(topic_id, image.number(rows[0]), leader=-1)
            image.replay(image.next_offset, changed)
        image.replay(image.next_offset, TopicGone(topic_id, name))
        image.undo(end)
        image.check()
        assert shown(image) == before == shown(other)


def test_a_topic_that_cannot_be_is_refused_with_its_offset_and_changes_nothing() -> None:
    """Those before it in the same run are taken back too: the node does not go on."""
    good = [(f"t{number}", bytes([number]) * 16) for number in range(1, 4)]
    ops: list[Op] = []
    for name, topic_id in [*good, ("t1", b"z" * 16)]:
        ops += [TopicSet(name, topic_id), PartitionsSet(topic_id, range(2), [[1]] * 2, [[1]] * 2)]
    (batch,) = batches([ops])
    image = Image()
    before = shown(image)
    ((offset, op),) = DIALECT.decode(batch, together=True)
    assert isinstance(op, TopicsSet) and len(op) == 12
    with pytest.raises(CorruptMetadata, match="belongs to another topic id"):
        image.replay(offset, op)
    image.check()
    assert shown(image) == before


def test_a_hundred_thousand_partitions_are_a_few_values_and_no_object_for_a_topic() -> None:
    """Counted, as their time is the machine's: one op a batch, and nothing that would be undone."""
    choose = random.Random(0)
    ops: list[Op] = []
    for number in range(2_000):
        topic_id = choose.randbytes(16)
        ops += [
            TopicSet(f"t{number:05}", topic_id),
            PartitionsSet(topic_id, range(10), [[1, 2, 3]] * 10, [[1, 2]] * 10),
        ]
    log = batches([[FeatureSet(FORMAT, 2)], ops])
    image, found = Image(), []
    for batch in log:
        for offset, op in DIALECT.decode(batch, together=True):
            image.replay(offset, op)
            found.append(type(op))
    assert found == [FeatureSet, *[TopicsSet] * (len(log) - 1)] and len(image._journal) == 1
    assert (image.topic_count, image.counters.partitions) == (2_000, 20_000)
    assert image.counts(2) == (20_000, 0, 20_000)
