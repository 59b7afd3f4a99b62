"""Whether a produced batch is accepted, in Apache Kafka's order of faults, and the form in which a topic wants it."""

from typing import Any

import pytest

from actors.broker.replication import admission
from actors.broker.replication.admission import (
    RequestRefused,
    accept,
    believe,
    check,
    compressed,
    judge,
    outgrown,
    target,
)
from actors.settings.topics import TopicSettings, topic_settings
from actors.wire.errors import ErrorCode
from fastpath.records import batch
from fastpath.records.batch import Builder
from fastpath.records.compression import GZIP, LZ4, ZSTD
from fastpath.records.recompression import Target

NOW = 1_700_000_000_000
LATEST = 12
"""A version of Produce that has everything."""


def settings(**overrides: str) -> TopicSettings:
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return topic_settings(named, lambda name: (False, None))


def produced(*values: bytes, key: bytes | None = b"k", time_ms: int = NOW, **more: Any) -> bytearray:
    builder = Builder(timestamp_ms=time_ms, **more)
    for value in values:
        builder.append(key, value)
    return bytearray(builder.build())


def patched(data: bytearray, at: int, value: int, size: int) -> bytearray:
    """A batch with another number at a place of its header."""
    return data[:at] + value.to_bytes(size, "big", signed=True) + data[at + size :]


ONE = produced(b"a")
ATTRIBUTES, PRODUCER = 21, 43
"""Places in a batch's header."""


def refusal(function: Any, *arguments: Any, **more: Any) -> ErrorCode:
    with pytest.raises(RequestRefused) as refused:
        function(*arguments, **more)
    assert isinstance(refused.value.code, ErrorCode)
    return refused.value.code


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (ONE[:40], ErrorCode.INVALID_RECORD),
        (ONE[:-1], ErrorCode.INVALID_RECORD),
        (ONE + produced(b"b"), ErrorCode.INVALID_RECORD),
        (ONE + b"junk", ErrorCode.CORRUPT_MESSAGE),
        (patched(ONE, 8, 3, 4), ErrorCode.CORRUPT_MESSAGE),
        (patched(ONE, 16, 1, 1), ErrorCode.INVALID_RECORD),
        (patched(ONE, 16, 0, 1), ErrorCode.INVALID_RECORD),
        (patched(ONE, 16, 3, 1), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_request_holds_one_whole_batch_of_the_present_format(records: Any, code: ErrorCode) -> None:
    assert refusal(check, records, settings(), LATEST, None) is code


def test_a_batch_of_the_largest_size_is_taken_and_one_byte_more_is_not() -> None:
    size = len(ONE)
    assert check(ONE, settings(max_message_bytes=str(size)), LATEST, None).magic == 2
    assert refusal(check, ONE, settings(max_message_bytes=str(size - 1)), LATEST, None) is ErrorCode.MESSAGE_TOO_LARGE
    small = settings(internal_segment_bytes=str(size - 1))
    assert refusal(check, ONE, small, LATEST, None) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_codec_has_its_first_version_and_a_transaction_its_id() -> None:
    zstd = patched(ONE, ATTRIBUTES, ZSTD, 2)
    assert compressed(zstd) and not compressed(ONE) and not compressed(b"short") and not compressed(None)
    assert refusal(check, zstd, settings(), 6, None) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check(zstd, settings(), 7, None)
    transactional = patched(ONE, ATTRIBUTES, 0x10, 2)
    for id in (None, ""):
        code = refusal(check, transactional, settings(), LATEST, id)
        assert code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    check(transactional, settings(), LATEST, "t")


@pytest.mark.parametrize(
    ("claims", "sound"),
    [
        ({}, True),
        ({"base_offset": 1}, False),
        ({"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}, True),
        ({"producer_id": 5, "producer_epoch": -1, "base_sequence": 0}, False),
        ({"producer_id": 5, "producer_epoch": 0, "base_sequence": -1}, False),
        ({"attributes": 0x10}, False),
        ({"attributes": 0x10, "producer_id": 0, "producer_epoch": 0, "base_sequence": 0}, True),
    ],
)
def test_a_header_is_one_that_a_producer_writes(claims: dict[str, int], sound: bool) -> None:
    header = check(ONE, settings(), LATEST, None)._replace(**claims)
    if sound:
        judge(header)
    else:
        assert refusal(judge, header) is ErrorCode.INVALID_RECORD


def test_a_topic_wants_its_own_codec_and_what_has_it_stays_as_it_came() -> None:
    assert target(settings(), GZIP) is None, "compression.type=producer"
    lz4 = settings(compression_type="lz4", max_message_bytes="5000")
    assert target(lz4, LZ4) is None
    wanted = target(lz4, GZIP)
    assert wanted == Target(LZ4, lz4.compression_lz4_level, 5000)
    plain = target(settings(compression_type="uncompressed"), GZIP)
    assert plain is not None and plain.codec == 0 and target(settings(compression_type="uncompressed"), 0) is None


def test_who_outgrows_which_limit_is_told_which() -> None:
    first = outgrown(settings(compression_type="uncompressed", max_message_bytes="5000"))
    second = outgrown(
        settings(compression_type="uncompressed", max_message_bytes="5000", internal_segment_bytes="4000")
    )
    assert (first.code, second.code) == (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
    assert "max.message.bytes=5000" in str(first) and "a segment" in str(second)


def test_a_verdict_is_a_time_a_batch_or_a_refusal() -> None:
    data = produced(b"a")
    assert believe(data, NOW + 5) is data
    (header,) = batch.headers(data)
    assert header.max_timestamp == NOW + 5
    other = bytearray(b"another form")
    assert believe(data, other) is other
    assert refusal(believe, data, RequestRefused(ErrorCode.INVALID_TIMESTAMP)) is ErrorCode.INVALID_TIMESTAMP
    assert refusal(believe, data, None) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_accepted_batches_get_their_offsets_and_epoch_in_place() -> None:
    data = produced(b"a", b"b") + produced(b"c")
    headers = accept(data, settings(), 40, 7, NOW, client=True)
    assert [one.base_offset for one in headers] == [40, 42]
    found = batch.headers(data)
    assert [one.base_offset for one in found] == [40, 42]
    assert [data[one.position + 12 : one.position + 16] for one in found] == [(7).to_bytes(4, "big")] * 2


def test_the_brokers_time_takes_the_place_of_the_producers() -> None:
    data = produced(b"a", time_ms=5)
    accept(data, settings(message_timestamp_type="LogAppendTime"), 0, 0, NOW, client=True)
    (header,) = batch.headers(data)
    assert header.max_timestamp == NOW and header.attributes & 8


def test_what_is_wrong_with_records_is_told_record_by_record() -> None:
    with pytest.raises(RequestRefused) as refused:
        accept(produced(b"a", b"b", key=None), settings(cleanup_policy="compact"), 0, 0, NOW, client=True)
    assert refused.value.code is ErrorCode.INVALID_RECORD and [index for index, _ in refused.value.records] == [0, 1]
    late = settings(message_timestamp_after_max_ms="1000")
    assert (
        refusal(accept, produced(b"a", time_ms=NOW + 1001), late, 0, 0, NOW, client=True) is ErrorCode.INVALID_TIMESTAMP
    )
    accept(produced(b"a", time_ms=NOW + 1000), late, 0, 0, NOW, client=True)
    early = settings(message_timestamp_before_max_ms="1000")
    assert (
        refusal(accept, produced(b"a", time_ms=NOW - 1001), early, 0, 0, NOW, client=True)
        is ErrorCode.INVALID_TIMESTAMP
    )
    accept(produced(b"a", time_ms=NOW - 1000), early, 0, 0, NOW, client=True)


def test_damage_is_no_invalid_record() -> None:
    data = produced(b"a")
    data[-1] ^= 1
    assert refusal(accept, data, settings(), 0, 0, NOW, client=True) is ErrorCode.CORRUPT_MESSAGE


def test_the_forms_are_those_that_a_topic_may_ask_for() -> None:
    for name in admission.FORMS:
        assert settings(compression_type=name).compression_type == name
