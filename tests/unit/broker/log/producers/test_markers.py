"""Control batches that end transactions: Apache Kafka's bytes, and what is no marker."""

import struct

import pytest

from actors.broker.log.producers.markers import Marker, build, read
from fastpath.records import batch

ABORT = bytes.fromhex(
    "0000000000000011 00000042 00000005 02 7fa6ac28 0030 00000000 0000018bcfe5687b 0000018bcfe5687b 0000000000000fa0 0003"
    "ffffffff 00000001 20 00 00 00 08 00000000 0c 000000000009 00"
)
"""Written by Apache Kafka 4.3.1: MemoryRecords.withEndTransactionMarker(17, 1700000000123, 5, 4000, 3, abort of epoch 9)."""
COMMIT = bytes.fromhex(
    "0000000000000012 00000042 00000005 02 2b88019c 0030 00000000 0000018bcfe569c8 0000018bcfe569c8 0000000000000fa1 0000"
    "ffffffff 00000001 20 00 00 00 08 00000001 0c 00000000000a 00"
)
"""The same: (18, 1700000000456, 5, 4001, 0, commit of epoch 10)."""


@pytest.mark.parametrize(
    "golden, arguments",
    [
        (ABORT, (4000, 3, Marker(False, 9), 1_700_000_000_123)),
        (COMMIT, (4001, 0, Marker(True, 10), 1_700_000_000_456)),
    ],
    ids=["abort", "commit"],
)
def test_a_marker_is_kafkas_bytes(golden: bytes, arguments: tuple[int, int, Marker, int]) -> None:
    made = build(*arguments)
    batch.patch(made, 0, int.from_bytes(golden[:8], "big"), 5)
    assert bytes(made) == golden
    assert read(golden, 0) == arguments[2]
    assert read(bytes(10) + golden, 10) == arguments[2]


def control(key: bytes | None, value: bytes | None, codec: int = 0) -> bytearray:
    builder = batch.Builder(attributes=0x30 | codec, producer_id=9, producer_epoch=0)
    builder.append(key, value)
    return builder.build()


KEY, VALUE = struct.Struct(">hh"), struct.Struct(">hi")


@pytest.mark.parametrize(
    "key, value",
    [
        (None, VALUE.pack(0, 1)),
        (KEY.pack(0, 1), None),
        (KEY.pack(0, 1)[:3], VALUE.pack(0, 1)),
        (KEY.pack(0, 1), VALUE.pack(0, 1)[:5]),
        (KEY.pack(0, 2), VALUE.pack(0, 1)),
        (KEY.pack(0, -1), VALUE.pack(0, 1)),
        (KEY.pack(-1, 1), VALUE.pack(0, 1)),
        (KEY.pack(0, 1), VALUE.pack(-1, 1)),
        (b"", b""),
    ],
)
def test_what_says_something_else_is_no_marker(key: bytes | None, value: bytes | None) -> None:
    """A leader change in a metadata log, or damage that the CRC covers."""
    assert read(control(key, value), 0) is None


def test_a_later_version_may_say_more() -> None:
    assert read(control(KEY.pack(1, 1) + b"more", VALUE.pack(3, 7) + b"more"), 0) == Marker(True, 7)


def test_a_marker_may_be_compressed_and_records_may_be_damaged() -> None:
    assert read(control(KEY.pack(0, 0), VALUE.pack(0, 7), codec=1), 0) == Marker(False, 7)
    large = batch.Builder(attributes=0x31, producer_id=9, producer_epoch=0)
    large.append(KEY.pack(0, 0), VALUE.pack(0, 7) + bytes(1 << 20))
    assert read(large.build(), 0) is None
    damaged = control(KEY.pack(0, 0), VALUE.pack(0, 7))
    damaged[61] = 0x7E
    assert read(damaged, 0) is None
