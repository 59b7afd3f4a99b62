"""Damaged input and impossible messages: one WireError that says where, never another exception, never much memory."""

import random
import tracemalloc
from typing import Any

import pytest

from actors.wire.errors import WireError
from actors.wire.messages import FOLDERS, decode, decode_exact, encode, head, message, names
from tests.rows import rows
from tests.unit.wire.generator import random_message

ALL = sorted({name for prefix in FOLDERS for name in names(prefix)})


@rows((name,) for name in ALL)
def test_every_cut_is_noticed(name: str) -> None:
    version = head(name).versions.last
    encoded = encode(random_message(message(name), version, random.Random(name)), version)
    for end in range(min(len(encoded), 300)):
        with pytest.raises(WireError):
            decode(name, version, encoded[:end])


@rows((name,) for name in ALL)
def test_any_bytes(name: str) -> None:
    """Flipped, inserted and removed bytes, and noise: a message or a WireError inside the buffer."""
    rng = random.Random(name)
    cls = message(name)
    first, last = head(name).versions
    for _ in range(60):
        version = rng.randint(first, last)
        data = bytearray(encode(random_message(cls, version, rng), version)[:2000])
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data) + 1)
            kind = rng.randrange(3)
            if kind == 0 and at < len(data):
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            elif kind == 1:
                data[at:at] = rng.randbytes(rng.randint(1, 5))
            else:
                del data[at : at + rng.randint(1, 5)]
        try:
            made, end = decode(cls, version, data)
        except WireError as error:
            assert 0 <= error.position <= len(data)
            assert error.path.startswith(cls.__name__)
        else:
            assert 0 <= end <= len(data)
            decode_exact(cls, version, encode(made, version))  # what was understood can be said


def test_a_claimed_count_allocates_nothing() -> None:
    """2^31 - 1 topics in 40 bytes."""
    for version, count in ((8, b"\x7f\xff\xff\xff"), (13, b"\xff\xff\xff\xff\x07")):
        tracemalloc.start()
        with pytest.raises(WireError, match=r"MetadataRequest\.topics: more elements than the bytes left can hold"):
            decode("MetadataRequest", version, count + bytes(40))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000


CASES: list[tuple[str, int, str, str, str, int]] = [
    ("MetadataRequest", 4, "ffffffff", "allow_auto_topic_creation", "cut short", 4),
    ("MetadataRequest", 4, "fffffffe00", "topics", "negative length", 0),
    ("MetadataRequest", 4, "00000001fffe00", "topics[0].name", "negative length", 4),
    ("MetadataRequest", 4, "00000001ffff00", "topics[0].name", "null where a value is needed", 4),
    ("MetadataRequest", 4, "000000010009c328", "topics[0].name", "cut short", 6),
    ("MetadataRequest", 9, "808080808001", "topics", "variable-length number longer than 32 bits", 0),
    ("MetadataRequest", 9, "ffffffff10", "topics", "variable-length number longer than 32 bits", 0),
    ("MetadataRequest", 9, "80", "topics", "cut short", 0),
    ("MetadataRequest", 9, "0000000001", "", "cut short", 5),
    ("MetadataRequest", 9, "000000000163", "", "cut short", 6),
    ("MetadataRequest", 9, "00000000016305aa", "", "cut short", 7),
    ("SaslHandshakeRequest", 0, "7fff", "mechanism", "cut short", 2),
    ("CreateTopicsRequest", 5, "02027400000001000102000000010280", "topics[0].assignments[0].broker_ids",
     "more elements than the bytes left can hold", 14),
    ("FetchRequest", 12, "00000000" * 4 + "00" + "00000000" * 2 + "01" + "01" + "01" + "01" + "0005020161aabb",
     "cluster_id", "tagged field shorter than its size", 33),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version", "data", "field", "reason", "position"), CASES)
def test_says_where(name: str, version: int, data: str, field: str, reason: str, position: int) -> None:
    with pytest.raises(WireError) as caught:
        decode(name, version, bytes.fromhex(data))
    path = f"{name}.{field}" if field else name
    assert (caught.value.path, caught.value.reason, caught.value.position) == (path, reason, position)


def test_a_text_that_is_not_utf_8_becomes_what_java_makes_of_it() -> None:
    cls = message("MetadataRequest")
    for name, text in ((b"caf\xe9", "caf\ufffd"), (b"\xc3(t", "\ufffd(t"), (b"\xff" * 100, "\ufffd" * 100)):
        data = (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name + b"\0"
        assert decode(cls, 4, data) == (
            cls(topics=[cls.MetadataRequestTopic(name=text)], allow_auto_topic_creation=False),
            len(data),
        )
    assert decode("SaslHandshakeRequest", 0, b"\x2a\xaa" + b"\xff" * 10922)[0].mechanism == "\ufffd" * 10922
    with pytest.raises(WireError, match="string longer than 32767 bytes"):
        decode("SaslHandshakeRequest", 0, b"\x2a\xab" + b"\xff" * 10923)


def test_long_strings_are_refused_in_both_directions() -> None:
    cls = message("SaslHandshakeRequest")
    assert len(encode(cls(mechanism="x" * 32767), 0)) == 32769
    with pytest.raises(WireError, match="string longer than 32767 bytes"):
        encode(cls(mechanism="x" * 32768), 0)
    with pytest.raises(WireError, match="string longer than 32767 bytes"):
        decode("VoteRequest", 1, b"\x82\x80\x02" + b"x" * 40000)


def test_position_and_version_outside() -> None:
    for pos in (-1, 1):
        with pytest.raises(WireError, match="position outside the buffer"):
            decode("ListGroupsRequest", 0, b"", pos)
    with pytest.raises(WireError, match="has no version 1, only 2 to 7"):
        decode("CreateTopicsRequest", 1, b"")
    with pytest.raises(WireError, match="has no version 19, only 4 to 18"):
        encode(message("FetchRequest")(), 19)


def test_bytes_left_over() -> None:
    with pytest.raises(WireError, match=r"HeartbeatResponse: 2 bytes left over \(at byte 6\)"):
        decode_exact("HeartbeatResponse", 1, bytes(8))


Create = message("CreateTopicsRequest")
BAD: list[tuple[Any, str, str]] = [
    (Create(topics=None), "topics", "null where a value is needed"),
    (Create(topics=[None]), "topics[0]", "null where a value is needed"),
    (Create(topics="t"), "topics", "not a list"),
    (Create(topics=5), "topics", "not a list"),
    (Create(topics=[Create()]), "topics[0]", "an object of another class"),
    (Create(topics=[Create.CreatableTopic(name=None)]), "topics[0].name", "null where a value is needed"),
    (Create(topics=[Create.CreatableTopic(name=b"t")]), "topics[0].name", "not a str"),
    (Create(topics=[Create.CreatableTopic(name="\udc80")]), "topics[0].name", "a str that UTF-8 cannot hold"),
    (Create(topics=[Create.CreatableTopic(), Create.CreatableTopic(num_partitions=2**31)]),
     "topics[1].num_partitions", "out of range for int32"),
    (Create(topics=[Create.CreatableTopic(replication_factor=-32769)]), "topics[0].replication_factor",
     "out of range for int16"),
    (Create(timeout_ms=2**80), "timeout_ms", "not an integer that fits"),
    (Create(timeout_ms="5"), "timeout_ms", "not an integer that fits"),
    (Create(timeout_ms=None), "timeout_ms", "null where a value is needed"),
    (message("v28:BrokerRecord")(end_points=[message("v28:BrokerRecord").BrokerEndpoint(port=-1)]),
     "end_points[0].port", "out of range for uint16"),
    (message("v28:TopicRecord")(topic_id=b"short"), "topic_id", "not a uuid of 16 bytes"),
    (message("SaslAuthenticateRequest")(auth_bytes="text"), "auth_bytes", "not a contiguous buffer"),
    (message("v28:BrokerHeartbeatRequest")(rack=7), "rack", "not a str"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "field", "reason"), BAD)
def test_what_cannot_be_said(made: Any, field: str, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        encode(made, head(made.__message__).versions.first)
    assert (caught.value.path, caught.value.reason) == (f"{type(made).__name__}.{field}", reason)


def test_an_attribute_that_was_deleted() -> None:
    made = Create()
    del made.timeout_ms
    with pytest.raises(WireError, match="timeout_ms: not set"):
        encode(made, 2)


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "among others"])
def test_a_buffer_that_is_closed(inside: bool) -> None:
    """It is refused like any other object that is no buffer, by its place."""
    closed = memoryview(bytearray(10))
    closed.release()
    produce = message("ProduceRequest")
    partition = produce.PartitionProduceData(index=0, records=[b"sound", closed] if inside else closed)
    made = produce(topic_data=[produce.TopicProduceData(name="t", partition_data=[partition])])
    with pytest.raises(WireError, match="not a contiguous buffer") as caught:
        encode(made, 9)
    place = "[1]" if inside else ""
    assert caught.value.path == f"ProduceRequest.topic_data[0].partition_data[0].records{place}"
