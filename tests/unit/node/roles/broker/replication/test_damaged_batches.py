"""Which error a produced batch gets that is damaged, or that no producer writes: as from Apache Kafka 4.3.1, to which the
same bytes were sent. Damage is CORRUPT_MESSAGE, and the client sends the batch again; what was sent so on purpose is
INVALID_RECORD."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.reference import batch as slow
from tests.unit.node.roles.broker.lab import Lab, code

NONE, CORRUPT, INVALID = ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
Damage = Callable[[bytes], bytes]


def put(place: int, new: bytes) -> Damage:
    return lambda data: data[:place] + new + data[place + len(new) :]


def length(value: int) -> Damage:
    return put(8, value.to_bytes(4, "big", signed=True))


def shorter(by: int) -> Damage:
    return lambda data: length(len(data) - 12 - by)(data)


def sealed(body: Damage = bytes, **changed: int) -> Damage:
    """Other fields or records under a CRC that fits."""
    return lambda data: bytes(slow.sealed(slow.fields(data)._replace(**changed), body(data[61:])))


CASES: dict[str, tuple[Damage, ErrorCode]] = {
    "sound": (bytes, NONE),
    "nothing": (lambda data: b"", INVALID),
    "one byte": (lambda data: b"x", INVALID),
    "the last byte is missing": (lambda data: data[:-1], INVALID),
    "only a header": (lambda data: data[:61], INVALID),
    "a part of the header": (lambda data: data[:20], INVALID),
    "two batches": (lambda data: data * 2, INVALID),
    "zeros behind it": (lambda data: data + bytes(100), CORRUPT),
    "another CRC": (put(17, bytes(4)), CORRUPT),
    "another byte in a record": (put(70, b"\xff"), CORRUPT),
    "a longer length": (shorter(-1), INVALID),
    "a shorter length": (shorter(1), CORRUPT),
    "length 0": (length(0), CORRUPT),
    "length 13": (length(13), CORRUPT),
    "length 48": (length(48), CORRUPT),
    "length 49": (length(49), CORRUPT),
    "a negative length": (length(-5), CORRUPT),
    "magic 0": (put(16, b"\0"), INVALID),
    "magic 1": (put(16, b"\1"), INVALID),
    "magic 3": (put(16, b"\3"), CORRUPT),
    "magic -1": (put(16, b"\xff"), CORRUPT),
    "another base offset": (sealed(base_offset=5), INVALID),
    "a control batch": (sealed(attributes=32), INVALID),
    "no records, no offsets": (sealed(lambda body: b"", count=0, last_offset_delta=-1), INVALID),
    "no records": (sealed(lambda body: b"", count=0, last_offset_delta=0), INVALID),
    "fewer records than there are": (sealed(count=2, last_offset_delta=1), INVALID),
    "more records than there are": (sealed(count=4, last_offset_delta=3), INVALID),
    "more records than offsets": (sealed(count=4), INVALID),
    "a negative count": (sealed(count=-1, last_offset_delta=-2), INVALID),
    "a negative count under a wrong CRC": (lambda data: put(17, bytes(4))(sealed(count=-1)(data)), CORRUPT),
    "more offsets than records": (sealed(last_offset_delta=5), INVALID),
    "no sequence": (sealed(producer_id=5, producer_epoch=0), INVALID),
    "a record of no bytes": (sealed(put(0, b"\0")), INVALID),
    "a record of -1 bytes": (sealed(put(0, b"\1")), INVALID),
    "a record behind the end": (sealed(put(0, b"\xfe\xff\xff\xff\x0f")), INVALID),
    "records that end before": (sealed(lambda body: body[:-3]), INVALID),
    "bytes behind the records": (sealed(lambda body: body + b"xyz"), INVALID),
    "a key behind its record": (sealed(put(4, b"\x7e")), INVALID),
    "headers that are not there": (sealed(lambda body: body[:-1] + b"\x02"), INVALID),
    "-1 headers": (sealed(lambda body: body[:-1] + b"\x01"), INVALID),
}


@pytest.mark.parametrize("title", CASES)
def test_the_error_of_a_damaged_batch(title: str) -> None:
    damage, told = CASES[title]
    lab = Lab(1)
    lab.topic([1])
    builder = Builder(timestamp_ms=lab.now.wall_ms)
    for number in range(3):
        builder.append(b"k%d" % number, bytes(20))
    kind: Any = message("ProduceRequest")
    one = kind.PartitionProduceData(index=0, records=damage(bytes(builder.build())))
    topics = [kind.TopicProduceData(name="t", partition_data=[one])]
    sent = lab.call(1, "Produce", 9, kind(acks=-1, timeout_ms=1000, topic_data=topics))
    assert code(sent) is told
    assert lab.partition(1).log.log_end_offset == (0 if told else 3)
