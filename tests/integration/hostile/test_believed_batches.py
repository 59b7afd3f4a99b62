"""Batches whose header does not match their records."""

import time
from pathlib import Path

from actors.wire.errors import ErrorCode
from tests.integration.hostile.produced import (
    LIST_OFFSETS,
    PRODUCE,
    asked,
    create,
    offsets_request,
    produce_request,
    with_body,
)
from tests.integration.hostile.scene import Peer, Scene

COUNT_MAX = (1 << 31) - 1


def test_bytes_that_are_not_of_their_codec_are_refused(small: Scene) -> None:
    """Before, such a batch was accepted, and each search by time answered KAFKA_STORAGE_ERROR from then on."""
    address, now_ms = small.brokers()[0], time.time_ns() // 1_000_000
    create(address, "garbage", 4)
    with Peer(address) as peer:
        for codec in range(1, 5):
            batch = with_body(codec, b"not of that codec", 1, now_ms)
            one = asked(peer, "Produce", PRODUCE, produce_request("garbage", [(codec - 1, batch)]))
            assert one.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD
        answer = asked(peer, "ListOffsets", LIST_OFFSETS, offsets_request("garbage", range(4), 1))
        assert {one.error_code for one in answer.topics[0].partitions} == {0}


def test_a_header_without_records_does_not_begin_a_segment(small: Scene) -> None:
    """1,000 batches of 61 bytes claim 2^31 - 1 records each. Before, each of them began a segment, which has three
    files."""
    address, now_ms = small.brokers()[0], time.time_ns() // 1_000_000
    create(address, "claims", 1)
    batch = with_body(1, b"", COUNT_MAX, now_ms)
    assert len(batch) == 61

    def attack() -> None:
        with Peer(address) as peer:
            for _ in range(1000):
                asked(peer, "Produce", PRODUCE, produce_request("claims", [(0, batch)]))

    cost = small.measured(attack)
    files = [file for file in Path(small.cluster.dir).rglob("claims-0/*") if file.is_file()]
    print(cost, f"\n{len(files)} files")
    assert len(files) <= 6
    assert not cost.lost and not cost.broken, cost
