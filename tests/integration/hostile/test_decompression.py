"""Batches that grow when they are decompressed."""

import threading
import time

import pytest

from tests.integration.hostile.produced import (
    CODECS,
    LIST_OFFSETS,
    MEBIBYTE,
    PRODUCE,
    answer_of,
    asked,
    bomb,
    create,
    offsets_request,
    produce_request,
)
from tests.integration.hostile.scene import Address, Peer, Scene, attackers, encoded

PARTITIONS = 10
MEMORY_MAX = 400 * MEBIBYTE
LATER_MS = 3_600_000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _planted(address: Address, topic: str, data: bytes, partitions: int = PARTITIONS) -> int:
    """Send the same batch to every partition. Returns how many accepted it."""
    create(address, topic, partitions, **{"max.message.bytes": str(16 * MEBIBYTE)})
    taken = 0
    with Peer(address, 120) as peer:
        for index in range(partitions):
            answer = asked(peer, "Produce", PRODUCE, produce_request(topic, [(index, data)]))
            taken += answer.responses[0].partition_responses[0].error_code == 0
    return taken


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("mebibytes", [64, 128])
def test_searches_by_time_hold_no_more_than_a_piece_of_a_batch(small: Scene, codec: str, mebibytes: int) -> None:
    """10 partitions, each with a batch that grows to 64 or 128 MiB. Before, 30 of them held 2.6 GB, part of it in
    exceptions."""
    address, topic, now_ms = small.brokers()[0], f"bombs-{codec}-{mebibytes}", _now_ms()
    planted = bomb(CODECS[codec], mebibytes * MEBIBYTE, now_ms - LATER_MS, later_ms=LATER_MS)

    def attack() -> None:
        taken = _planted(address, topic, planted)
        print(f"{codec} {mebibytes} MiB in {len(planted)} bytes: {taken} of {PARTITIONS} taken")
        with Peer(address, 120) as peer:
            for _ in range(2):
                body = offsets_request(topic, range(PARTITIONS), now_ms - 1)
                answer = asked(peer, "ListOffsets", LIST_OFFSETS, body)
                found = {(one.error_code, one.offset) for one in answer.topics[0].partitions}
                assert found == {(0, 1 if taken else -1)}, "the second record, or nothing"

    cost = small.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken, cost
    assert max(cost.resident_bytes.values()) < MEMORY_MAX, cost


def _search(address: Address, topic: str, at_ms: int, partitions: int = PARTITIONS) -> None:
    with Peer(address, 60) as peer:
        peer.send(encoded("ListOffsets", LIST_OFFSETS, offsets_request(topic, range(partitions), at_ms)))
        peer.read()


def _produced(address: Address, topic: str, data: bytes, index: int) -> None:
    with Peer(address, 60) as peer:
        peer.send(encoded("Produce", PRODUCE, produce_request(topic, [(index, data)])))
        peer.read()


def test_checks_of_what_is_produced_do_not_starve_searches(small: Scene) -> None:
    """10 connections produce gzip batches that grow to 90 MiB. Before: nothing was checked."""
    address, now_ms = small.brokers()[0], _now_ms()
    planted = bomb(CODECS["gzip"], 90 * MEBIBYTE, now_ms)
    for topic, partitions in (("checked", PARTITIONS), ("beside", 1)):
        create(address, topic, partitions)
    with Peer(address) as peer:
        asked(peer, "Produce", PRODUCE, produce_request("beside", [(0, bomb(CODECS["gzip"], 10, now_ms))]))
    took_s: list[float] = []

    def attack() -> None:
        with attackers(_produced, [(address, "checked", planted, index) for index in range(PARTITIONS)]):
            for _ in range(20):
                began = time.monotonic()
                _search(address, "beside", now_ms, 1)
                took_s.append(time.monotonic() - began)
                time.sleep(0.05)

    cost = small.measured(attack)
    print(cost, f"\ngood searches: longest {max(took_s):.2f} s")
    assert not cost.lost and not cost.broken, cost
    assert max(cost.resident_bytes.values()) < MEMORY_MAX, cost
    assert max(took_s) < 15


def test_searches_of_one_client_do_not_starve_those_of_another(small: Scene) -> None:
    """32 connections search a gzip batch that grows to 90 MiB. Before, 30 batches held 7.3 GB, and other clients waited
    29 s."""
    address, now_ms = small.brokers()[0], _now_ms()
    planted = bomb(CODECS["gzip"], 90 * MEBIBYTE, now_ms - LATER_MS, later_ms=LATER_MS)
    assert _planted(address, "slow", planted, 1) == 1
    create(address, "good", 1)
    with Peer(address) as peer:
        asked(peer, "Produce", PRODUCE, produce_request("good", [(0, bomb(CODECS["gzip"], 10, now_ms))]))
    took_s: list[float] = []
    ended = threading.Event()

    def good() -> None:
        with Peer(address, 120) as peer:
            while not ended.wait(0.05):
                began = time.monotonic()
                peer.send(encoded("ListOffsets", LIST_OFFSETS, offsets_request("good", [0], now_ms)))
                answer = answer_of(peer, "ListOffsets", LIST_OFFSETS)
                assert answer.topics[0].partitions[0].offset == 0
                took_s.append(time.monotonic() - began)

    def attack() -> None:
        client = threading.Thread(target=good)
        client.start()
        try:
            with attackers(_search, [(address, "slow", now_ms - LATER_MS // 2, 1)] * 32):
                pass
        finally:
            ended.set()
            client.join()

    cost = small.measured(attack)
    print(cost, f"\ngood searches: {len(took_s)}, longest {max(took_s):.2f} s")
    assert not cost.lost and not cost.broken, cost
    assert max(cost.resident_bytes.values()) < MEMORY_MAX, cost
    assert max(took_s) < cost.seconds / 2, "it does not wait behind them all"
