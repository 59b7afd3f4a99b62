"""Message objects: construction, defaults, nesting, buffers in and out, the table of RPCs, the notation of schemas."""

import copy
import gc
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from actors.wire import schema
from actors.wire.errors import WireError
from actors.wire.messages import FOLDERS, decode, encode, encode_parts, head, message, names, requests, rpcs
from fastpath.messages.encoder import REFERENCE_SIZE

# What an unmodified 4.3.1 broker and controller list in ApiVersions (measured), Produce as it is served.
BROKER = """0:3-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 18:0-4 19:2-7
20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1-2 28:0-5 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 34:1-2 35:1-5 36:0-2
37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-2 43:0-2 44:0-1 45:0-1 46:0-0 47:0-0 48:0-1 49:0-1 50:0-0 51:0-0 55:0-2 57:0-2
60:0-2 61:0-0 64:0-0 65:0-0 66:0-2 68:0-1 69:0-1 74:0-1 75:0-0 76:1-1 77:1-1 78:1-2 79:1-2 80:0-1 81:0-0 83:0-0 84:0-0
85:0-1 86:0-0 87:0-1 88:0-0 89:0-0 90:0-1 91:0-0 92:0-0"""
CONTROLLER = """52:0-2 53:0-1 54:0-1 56:2-3 58:0-0 59:0-1 62:0-4 63:0-2 67:0-0 70:0-0 73:0-0 82:0-0"""


OLDER = {56: 0}
"""API key -> an older version than 4.3.1 has: AlterPartition 0 and 1 of brokers in ZooKeeper mode."""


def test_versions_are_those_of_kafka_4_3_1() -> None:
    table = rpcs()
    for pair in (BROKER + " " + CONTROLLER).split():
        key, first, last = map(int, re.split("[:-]", pair))
        first = OLDER.get(key, first)
        assert (table[key].advertised[0], table[key].advertised[-1]) == (first, last), table[key]
    assert 94 not in table
    assert requests("InitProducerId").versions == range(7)


def test_requests_and_responses_are_pairs() -> None:
    for prefix in ("", "v19", "v28"):
        for name in names(prefix):
            if name.endswith("Request"):
                response = head(name.removesuffix("Request") + "Response")
                assert response.kind == "response"
                assert response[1] == head(name)[1]
                assert response.versions == head(name).versions
                assert response.flexible == head(name).flexible


def test_header_versions() -> None:
    assert [requests("ApiVersions").request_header(version) for version in (0, 2, 3, 4)] == [1, 1, 2, 2]
    assert [requests("ApiVersions").response_header(version) for version in (0, 2, 3, 4)] == [0, 0, 0, 0]
    assert [requests("Metadata").response_header(version) for version in (8, 9)] == [0, 1]
    assert requests("SaslHandshake").request_header(1) == 1
    assert requests("v28:BrokerHeartbeat").request_header(0) == 2
    assert rpcs("v28").keys() == {50, 51, 56}


def test_defaults_and_fresh_containers() -> None:
    cls = message("CreateTopicsRequest")
    one, other = cls(), cls()
    assert (one.timeout_ms, one.validate_only, one.topics) == (60000, False, [])
    one.topics.append(cls.CreatableTopic(name="t"))
    assert other.topics == []
    assert one != other
    assert one == cls(topics=[cls.CreatableTopic(name="t")])
    assert message("FetchSnapshotRequest").PartitionSnapshot().snapshot_id.end_offset == 0
    assert message("FetchResponse").PartitionData().diverging_epoch is None
    assert message("FetchRequest")().max_bytes == 2**31 - 1
    assert message("group:OffsetCommitValue")().leader_epoch == -1


def test_unknown_keyword() -> None:
    cls = message("HeartbeatRequest")
    with pytest.raises(TypeError, match="HeartbeatRequest has no field grupp_id"):
        cls(group_id="g", grupp_id="g")
    with pytest.raises(TypeError, match="HeartbeatRequest has no field grupp_id"):
        cls(**{"group_id": "g", "grupp_id": "g"})
    with pytest.raises(TypeError, match="HeartbeatRequest takes no positional arguments"):
        cls("g")
    with pytest.raises(AttributeError):
        message("HeartbeatRequest")().nothing = 1


def test_keywords_in_any_order_and_from_a_dictionary() -> None:
    cls = message("HeartbeatRequest")
    one = cls(member_id="m", generation_id=5, group_id="g")
    for other in (cls(group_id="g", generation_id=5, member_id="m"), cls(**{"member_id": "m"}, group_id="g")):
        assert (other.group_id, other.member_id, other.group_instance_id) == ("g", "m", None)
    name = "".join(["group", "_", "id"])  # not interned
    assert cls(**{name: "g"}, member_id="m", generation_id=5) == one


def test_repr_shows_what_is_not_default() -> None:
    cls = message("MetadataRequest")
    assert (
        repr(cls(topics=[cls.MetadataRequestTopic(name="t")]))
        == "MetadataRequest(topics=[MetadataRequestTopic(name='t')])"
    )


def test_copies() -> None:
    cls = message("MetadataRequest")
    made = cls(topics=[cls.MetadataRequestTopic(name="t")])
    deep = copy.deepcopy(made)
    deep.topics[0].name = "other"
    assert made.topics[0].name == "t"
    assert copy.copy(made) == made


def test_not_hashable_and_no_dictionary() -> None:
    made = message("HeartbeatRequest")()
    with pytest.raises(TypeError):
        hash(made)
    assert not hasattr(made, "__dict__")
    assert sys.getsizeof(made) < 100


def test_absent_in_the_version() -> None:
    """Left out on the way out, default on the way in."""
    cls = message("FindCoordinatorRequest")
    made, _ = decode(cls, 0, encode(cls(key="g", key_type=1, coordinator_keys=["x"]), 0))
    assert made == cls(key="g")


def test_tagged_struct_at_its_defaults_is_absent() -> None:
    cls = message("FetchResponse")
    partition = cls.PartitionData(diverging_epoch=cls.EpochEndOffset(epoch=-1, end_offset=-1))
    bare = cls.PartitionData()
    assert encode(partition, 12) == encode(bare, 12)
    assert decode(cls.PartitionData, 12, encode(partition, 12))[0].diverging_epoch is None
    partition.diverging_epoch.epoch = 3
    assert decode(cls.PartitionData, 12, encode(partition, 12))[0].diverging_epoch.epoch == 3


def test_a_tag_of_more_than_127_bytes() -> None:
    cls = message("v28:BrokerHeartbeatRequest")
    for count in (7, 8, 9, 2000):
        made = cls(rack="r" * 126, log_dirs=[bytes([7]) * 16] * count, previous_broker_epoch=9)
        assert decode(cls, 0, encode(made, 0))[0] == made


def test_numpy_values_and_sequences() -> None:
    cls = message("v28:PartitionRecord")
    columns = np.array([1, 2, 3], dtype=np.int32)
    made = cls(partition_id=columns[0], replicas=columns, isr=(1, 2), leader=np.int64(2))
    assert encode(made, 0) == encode(cls(partition_id=1, replicas=[1, 2, 3], isr=[1, 2], leader=2), 0)


def produce(records: object) -> object:
    cls = message("ProduceRequest")
    partition = cls.PartitionProduceData(index=1, records=records)
    return cls(acks=-1, topic_data=[cls.TopicProduceData(name="t", partition_data=[partition, partition])])


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("size", [0, 1, REFERENCE_SIZE - 1, REFERENCE_SIZE, 3 * REFERENCE_SIZE])
def test_records_by_reference(version: int, size: int) -> None:
    data = bytearray(b"r" * size)
    whole = encode(produce(bytes(data)), version)
    for records in (data, memoryview(data), [data], [data[: size // 2], b"", memoryview(data)[size // 2 :]]):
        made = produce(records)
        assert encode(made, version) == whole
        parts = encode_parts(made, version, b"head", framed=True)
        joined = b"".join(parts)
        assert joined == len(whole + b"head").to_bytes(4, "big") + b"head" + whole
        if records is data:
            assert sum(part is data for part in parts) == (2 if size >= REFERENCE_SIZE else 0)


def test_records_are_views_of_what_was_given() -> None:
    data = bytearray(encode(produce(b"abcdef"), 9))
    made, end = decode("ProduceRequest", 9, data)
    first, second = made.topic_data[0].partition_data
    assert end == len(data)
    assert isinstance(first.records, memoryview)
    assert not first.records.readonly
    first.records[0:1] = b"X"
    assert bytes(first.records) == b"Xbcdef"
    assert b"Xbcdef" in data
    assert bytes(second.records) == b"abcdef"
    inner, _ = decode("ProduceRequest", 9, memoryview(b"##" + data)[2:])
    assert inner == made


def test_short_names_are_shared() -> None:
    cls = message("MetadataRequest")
    encoded = encode(cls(topics=[cls.MetadataRequestTopic(name="orders")] * 2), 9)
    one, other = decode(cls, 9, encoded)[0].topics
    assert one.name is other.name
    assert decode(cls, 9, encoded)[0].topics[0].name is one.name


def test_of_a_long_message_a_few_names_stay_to_be_shared() -> None:
    """The others are freed with it: each would keep a megabyte of Python's memory from being given back."""
    cls = message("MetadataRequest")
    made = cls(topics=[cls.MetadataRequestTopic(name=f"one-of-many-{number}") for number in range(1000)])
    encoded = encode(made, 9)
    first, again = (decode(cls, 9, encoded)[0].topics for _ in range(2))
    shared = [one.name is other.name for one, other in zip(first, again, strict=True)]
    assert 20 < sum(shared[:300]) <= 150
    assert not any(shared[300:])


def test_decoded_messages_cost_the_collector_nothing() -> None:
    cls = message("MetadataRequest")
    encoded = encode(cls(topics=[cls.MetadataRequestTopic(name="t")] * 100), 9)
    kept = decode(cls, 9, encoded)[0]
    assert not gc.is_tracked(kept)
    assert not gc.is_tracked(kept.topics)
    assert not gc.is_tracked(kept.topics[0])


def test_no_reference_is_lost_or_kept() -> None:
    """Reference counts of what goes in and out are where they were, after success and after failure."""
    cls = message("ProduceRequest")
    data = b"r" * 10_000
    before = sys.getrefcount(data)
    for _ in range(100):
        encode_parts(produce([data]), 9)
        cut = encode(produce(data), 9)
        decode(cls, 9, cut)
        with pytest.raises(ValueError, match="cut short"):
            decode(cls, 9, cut[:-1])
        with pytest.raises(ValueError, match="not a contiguous buffer"):
            encode_parts(produce([data, 5]), 9)
    del cut
    assert sys.getrefcount(data) == before


def test_schema_files_are_the_only_ones() -> None:
    """Every file of the folder can be reached under a name, and is called as the message in it."""
    reached = {(prefix, name.rpartition(":")[2]) for prefix in FOLDERS for name in names(prefix)}
    for path in schema.FOLDER.rglob("*"):
        if path.is_file() and path.suffix != ".pyi":  # the stubs: test_stubs.py
            assert path.suffix == ".schema"
            assert path.stem in {name for _, name in reached}
            assert (
                schema.parse(path.read_text(), str(path)).head.name == path.stem
                or path.stem == "ZkMigrationStateRecord"
            )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("request 1 X", 1),
        ("request 1 X 0\n  A int32 0+\n      B int32 0+", 3),
        ("request 1 X 0\n  A int32 0+ strange", 2),
        ("request 1 X 0\n  A int32", 2),
        ("request 1 X 0\n  A int32 0+\n  A int32 0+", 3),
        ("request 1 X 0\n  A S 0+\n    B S 0+", 3),
    ],
)
def test_schema_errors_say_where(text: str, line: int) -> None:
    with pytest.raises(schema.SchemaError, match=f"file.schema, line {line}:"):
        schema.parse(text, "file.schema")


def test_snake_case() -> None:
    pairs = {"TopicData": "topic_data", "ISRNodes": "isr_nodes", "ErrorCode": "error_code", "Isr": "isr",
             "V3AndBelowTopics": "v3_and_below_topics", "KRaftVersion": "k_raft_version"}  # fmt: skip
    assert {name: schema.snake_case(name) for name in pairs} == pairs


def test_no_sentences_in_schemas() -> None:
    """Schemas hold facts: no comment, no description."""
    for path in Path(schema.FOLDER).rglob("*.schema"):
        assert "#" not in path.read_text()


@pytest.mark.parametrize("number", [0, 1, -1, 2**30 - 1, 2**30, -(2**30), 1 - 2**30, 2**31 - 1, -(2**31)])
def test_numbers_of_one_digit_and_of_more(number: int) -> None:
    """CPython keeps 30 bits in a digit; numbers of one digit are read without a call."""

    class Odd(int):
        """Not the type itself, as members of enumerations are not."""

    kind = message("MetadataResponse")
    part = kind.MetadataResponsePartition
    for given in (number, Odd(number)):
        made = part(leader_id=given, replica_nodes=[given, 7, given], isr_nodes=[], offline_replicas=(given,))
        body = kind(topics=[kind.MetadataResponseTopic(name="t", partitions=[made])])
        found = decode("MetadataResponse", 12, encode(body, 12))[0].topics[0].partitions[0]
        assert (found.leader_id, found.replica_nodes, found.offline_replicas) == (number, [number, 7, number], [number])


@pytest.mark.parametrize("wrong", [None, 2**31, -(2**31) - 1, 2**70, "1", 1.0])
def test_what_is_no_number_in_an_array_of_numbers(wrong: object) -> None:
    kind = message("MetadataResponse")
    part = kind.MetadataResponsePartition(replica_nodes=[1, wrong])
    body = kind(topics=[kind.MetadataResponseTopic(name="t", partitions=[part])])
    with pytest.raises(WireError, match=r"topics\[0\]\.partitions\[0\]\.replica_nodes\[1\]"):
        encode(body, 12)
