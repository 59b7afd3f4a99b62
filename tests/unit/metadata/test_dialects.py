"""Records: the golden bytes of KIP-631's reading, round trips, and what is refused."""

import pytest

from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import dialect
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    CorruptMetadata,
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
from actors.ports import Batch
from fastpath.records import batch as batches

U = bytes.fromhex("101112131415161718191a1b1c1d1e1f")
ACL = (2, None, 3, "User:a", "*", 3, 3)
ACL_FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")

GOLDEN = [
    (BrokerSet(1, 5, endpoints=(EndPoint("PLAINTEXT", "h", 9092),)),
     "0000000000010000000000000005020a504c41494e54455854026823840000000000"),
    (BrokerSet(1, 5, endpoints=(EndPoint("PLAINTEXT", "h", 50000),), rack="r1"),
     "0000000000010000000000000005020a504c41494e544558540268c35000000003723100"),
    (TopicSet("t", U), "01000274101112131415161718191a1b1c1d1e1f0000"),
    (PartitionsSet(U, [0], [[1, 2, 3]], [[1, 2, 3]], leader=[1], leader_epoch=[0]),
     "020000000000101112131415161718191a1b1c1d1e1f04000000010000000200000003040000000100000002000000030101000000010000"
     "000000"),
    (ConfigSet(2, "t", "retention.ms", "1000"), "03000202740d726574656e74696f6e2e6d73053130303000"),
    (PartitionsChanged.one(U, 0, [2, 3], 2, 1, 1),
     "040000000000101112131415161718191a1b1c1d1e1f030000000200000003000000020000000100"),
    (EntitySet("acl", ACL, tuple(zip(ACL_FIELDS, ACL, strict=True))), "050002000307557365723a61022a030300"),
]  # fmt: skip

LEVEL_2 = [
    (BrokerGone(1), "06000000000100"),
    (TopicGone(U), "0700101112131415161718191a1b1c1d1e1f00"),
]


def values(batch):
    return [record.value.hex() for record in batches.records(batch.data)]


def written(level, *ops):
    out = BatchWriter(7, 3, 1000)
    count = dialect(level).encode(ops, out)
    (batch,) = out.finish()
    assert batch.last_offset - batch.base_offset + 1 == count and batches.verify(batch.data).count == count
    return batch


def plain(*records):
    builder = batches.Builder(7, 3)
    for record in records:
        builder.append(None, bytes.fromhex(record) if isinstance(record, str) else record)
    return Batch(7, 6 + len(records), 3, builder.build())


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("op, golden", GOLDEN)
def test_golden_records_of_both_levels(level, op, golden):
    batch = written(level, op)
    assert values(batch) == [golden]
    assert list(dialect(level).decode(batch)) == [(7, op)]


@pytest.mark.parametrize("op, golden", LEVEL_2)
def test_golden_records_of_level_2(op, golden):
    assert values(written(2, op)) == [golden]
    assert list(dialect(2).decode(plain(golden))) == [(7, op)]
    with pytest.raises(CorruptMetadata, match=r"offset 7: record type [67] version 0 is not known"):
        list(dialect(1).decode(plain(golden)))


def test_level_1_says_gone_with_the_records_it_has():
    ops = [BrokerGone(1, 5), TopicGone(U, "t")]
    batch = written(1, *ops)
    assert [value[:2] for value in values(batch)] == ["00", "01"]
    assert [op for _, op in dialect(1).decode(batch)] == ops
    assert [op for _, op in dialect(2).decode(batch)] == [BrokerSet(1, 5), TopicSet("t", U, deleting=True)]


ROUND_TRIPS = [
    [FeatureSet("metadata.format", 2), FeatureSet("group.version", 1)],
    [ProducerIdsSet(1, 5, 3000)],
    [BrokerSet(1, 5, U, (EndPoint("A", "h", 1, 1), EndPoint("B", "i", 65535, 3)), "r", (("f", 1, 2),), (U, bytes(16)))],
    [ConfigSet(4, "", "log.retention.ms", None), ConfigSet(4, "1", "x", "")],
    [PartitionsSet(U, [5, 3], [[1, 2], [2, 1]], [[2], []], [[1], []], [[], [2]], [2, -1], [4, 9], [4, 9], [[U, U], [U, U]],
                   [1, 0], [[1], []], [[2, 1], []])],
    [PartitionsChanged.many([U, U, bytes(16)], [1, 2, 3], [[1], [2, 3], []], [1, -1, -1], [1, 2, 3], [1, 2, 3])],
    [PartitionsChanged.one(U, 1, [1], 1, 2, 2, directories=[U], extra=Extra(None, None, 1, (), (1,)))],
    [EntitySet("scram", ("u", 1), (("name", "u"), ("mechanism", 1), ("salt", b"s"), ("stored_key", b"k"),
                                   ("server_key", b"v"), ("iterations", 4096))), EntityGone("scram", ("u", 1))],
    [EntitySet("quota", ((("user", None),), "k"), (("entity", (("user", None),)), ("key", "k"), ("value", 1.5),
                                                   ("remove", False))), EntityGone("quota", ((("user", "u"),), "k"))],
    [EntityGone("acl", ACL)],
]  # fmt: skip


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("ops", ROUND_TRIPS)
def test_round_trip(level, ops):
    read = [op for _, op in dialect(level).decode(written(level, *ops))]
    for op in read:
        if isinstance(op, PartitionsSet | PartitionsChanged):
            assert len(op) == len(ops[0]) and [normal(state) for state in op] == [normal(state) for state in ops[0]]
            return
    assert read == ops


def normal(state):
    """What is not given and what is given as nothing are the same in a whole partition."""
    if state.replicas is None:
        return state
    return [value or () for value in state]


def test_neighbours_become_one_op_and_topics_do_not_mix():
    ops = [
        TopicSet("t", U),
        PartitionsSet(U, [0, 1], [[1], [2]], [[1], [2]]),
        PartitionsSet(bytes(16), [0], [[1]], [[1]]),
    ]
    read = list(dialect(2).decode(written(2, *ops)))
    assert read == [(7, ops[0]), (8, ops[1]), (10, ops[2])]


@pytest.mark.parametrize(
    "record, sentence",
    [
        ("6300", "record type 99 version 0 is not known"),
        ("ac0200", "record type 300 version 0 is not known"),
        ("0101", "record type 1 version 1 is not known"),
        ("0201", "record type 2 has no version 1"),
        (GOLDEN[2][1] + "00", "1 bytes left over"),
        (GOLDEN[3][1] + "0000", "2 bytes left over"),
        (GOLDEN[5][1][:-2], "cut or too long"),
        (GOLDEN[5][1][:-6], "cut"),
        ("8080808080808001", "cut or too long"),
        ("", "cut or too long"),
        ("0c0010" + b"metadata.format".hex() + "000900", "no metadata dialect 9"),
    ],
)
def test_what_is_no_record_names_its_offset(record, sentence):
    with pytest.raises(CorruptMetadata, match=f"offset 8: .*{sentence}"):
        list(dialect(2).decode(plain(GOLDEN[2][1], record)))


@pytest.mark.parametrize("level", [1, 2])
def test_r631_050_every_record_has_a_null_key_and_not_an_empty_one(level):
    """Those that are written one by one, and those that are written in bulk."""
    ops = [TopicSet("t", U), PartitionsSet(U, [0, 1, 2], [[1]] * 3, [[1]] * 3), FeatureSet("x", 1)]
    ops.append(PartitionsChanged.many([U, U], [0, 1], [[1], [1]], [1, 1], [1, 1], [1, 1]))
    found = list(batches.records(written(level, *ops).data))
    assert len(found) == 7 and all(record.key is None and not record.headers for record in found)


def test_a_key_is_no_metadata():
    builder = batches.Builder(7, 3)
    builder.append(b"", bytes.fromhex(GOLDEN[2][1]))
    with pytest.raises(CorruptMetadata, match="null key"):
        list(dialect(2).decode(Batch(7, 7, 3, builder.build())))


@pytest.mark.parametrize("op, golden", [GOLDEN[0], GOLDEN[2], GOLDEN[3], GOLDEN[5]])
def test_unknown_tags_are_passed_over(op, golden):
    assert list(dialect(2).decode(plain(golden[:-2] + "013f02abcd"))) == [(7, op)]


def test_a_batch_may_raise_the_level_it_is_read_at():
    raise_level = written(1, FeatureSet("metadata.format", 2))
    batch = plain(GOLDEN[2][1], *values(raise_level), LEVEL_2[1][1])
    assert [op for _, op in dialect(1).decode(batch)] == [GOLDEN[2][0], FeatureSet("metadata.format", 2), TopicGone(U)]


@pytest.mark.parametrize(
    "level, op",
    [
        (1, TopicGone(U)),
        (1, TopicSet("t", U, deleting=True)),
        (1, BrokerSet(1, 1)),
        (2, BrokerSet(1, 1, fenced=True)),
        (2, PartitionsChanged.one(U, 0, [1])),
        (2, PartitionsChanged.one(U, 0, [1], 1, 1, 1, replicas=[1])),
        (2, EntityGone("controller", (1,))),
        ("released", TopicSet("t", U)),
    ],
)
def test_what_a_dialect_cannot_say_is_refused_and_nothing_is_written(level, op):
    out = BatchWriter(0, 1, 0)
    with pytest.raises(ValueError):
        dialect(level).encode([TopicSet("a", U), op], out)
    assert out.next_offset == 0 and out.finish() == []
