"""Fetch from the closest replica (KIP-392): where a leader sends a consumer, and what a follower gives it."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.replication.closest_replica import LEADER, closest
from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder, headers
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, Pending

SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
VERSION = 16


def partition(*followers: tuple[int, int, int, int], isr: tuple[int, ...] = (1, 2, 3, 4)) -> Any:
    """Led by 1. `followers`: (id, log start, log end, caught up)."""
    known = {
        id: SimpleNamespace(id=id, log_start=start, log_end=end, caught_up_ms=caught_up_ms)
        for id, start, end, caught_up_ms in followers
    }
    return SimpleNamespace(cluster=SimpleNamespace(me=1), isr=SimpleNamespace(isr=frozenset(isr)), followers=known)


@pytest.mark.parametrize(
    ("followers", "isr", "near", "chosen"),
    [
        ([(2, 0, 10, 5)], (1, 2), {2}, 2),
        ([(2, 0, 10, 5)], (1, 2), {1, 2}, LEADER),
        ([(2, 0, 10, 5)], (1, 2), set(), LEADER),
        ([(2, 0, 10, 5)], (1,), {2}, LEADER),
        ([(2, 0, 4, 5)], (1, 2), {2}, LEADER),
        ([(2, 0, 5, 5)], (1, 2), {2}, 2),
        ([(2, 6, 10, 5)], (1, 2), {2}, LEADER),
        ([(2, 5, 10, 5)], (1, 2), {2}, 2),
        ([(2, 0, 9, 5), (3, 0, 10, 1)], (1, 2, 3), {2, 3}, 3),
        ([(2, 0, 10, 5), (3, 0, 10, 1)], (1, 2, 3), {2, 3}, 2),
        ([(2, 0, 10, 5), (3, 0, 10, 5)], (1, 2, 3), {2, 3}, 3),
        ([(2, 0, 10, 5), (3, 0, 11, 5)], (1, 2, 3), {2}, 2),
    ],
)
def test_who_is_in_sync_and_has_the_offset_is_chosen_in_the_consumers_rack(
    followers: list[tuple[int, int, int, int]], isr: tuple[int, ...], near: set[int], chosen: int
) -> None:
    assert closest(partition(*followers, isr=isr), 5, near.__contains__) == chosen


class Racks(Lab):
    """Broker n is in rack `rn`."""

    def _answer_BrokerHeartbeat(self, node: Any, request: Any) -> Any:
        request.rack = f"r{node.id}"
        return super()._answer_BrokerHeartbeat(node, request)


def racks(settings: dict[str, str] = SELECTOR) -> Racks:
    lab = Racks(3, settings)
    lab.topic([1, 2, 3])
    for value in (b"a", b"b", b"c"):
        lab.produce(1, value)
        lab.settle()
    return lab


def ask(
    lab: Lab, id: int, offset: int, rack: str = "r2", *, version: int = VERSION, session: tuple[int, int] = (0, -1),
    wait_ms: int = 0, named: bool = True, committed_only: bool = False, epoch: int = -1,
) -> Pending:  # fmt: skip
    kind = message("FetchRequest")
    wanted = kind.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
    )
    topic = kind.FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])
    if version < 13:
        topic = kind.FetchTopic(topic="t", partitions=[wanted])
    request = kind(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=session[0], session_epoch=session[1],
        isolation_level=int(committed_only), topics=[topic] if named else [],
    )  # fmt: skip
    if version >= 11:
        request.rack_id = rack
    return lab.call(id, "Fetch", version, request)


def told(pending: Pending) -> tuple[int, int, int]:
    """(error, preferred replica, number of batches) of the one partition."""
    assert pending.done and pending.closed is None
    [data] = pending.reply.responses[0].partitions
    return data.error_code, getattr(data, "preferred_read_replica", LEADER), len(headers(data.records or b""))


def test_a_leader_sends_a_consumer_to_the_replica_in_its_rack_without_data_and_at_once() -> None:
    lab = racks()
    assert told(ask(lab, 1, 1, wait_ms=10_000)) == (0, 2, 0)
    assert told(ask(lab, 1, 3, wait_ms=10_000)) == (0, 2, 0), "at the log's end too"
    assert told(ask(lab, 1, 1, "r3")) == (0, 3, 0)
    [data] = ask(lab, 1, 1).reply.responses[0].partitions
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
    assert told(ask(lab, 2, 1)) == (0, LEADER, 2), "who serves it and sends it nowhere"


@pytest.mark.parametrize(("rack", "version"), [("r1", VERSION), ("", VERSION), ("elsewhere", VERSION), ("r2", 10)])
def test_a_leader_serves_who_has_no_other_replica_in_its_rack_or_does_not_say(rack: str, version: int) -> None:
    assert told(ask(racks(), 1, 1, rack, version=version)) == (0, LEADER, 2)


def test_without_a_selector_the_leader_serves_everybody() -> None:
    assert told(ask(racks({}), 1, 1)) == (0, LEADER, 2)


def test_a_replica_that_leaves_the_isr_or_is_fenced_is_not_preferred() -> None:
    lab = racks()
    lab.split.add(frozenset((1, 2)))
    lab.produce(1, b"d", acks=1)
    assert told(ask(lab, 1, 1)) == (0, 2, 0)
    lab.pass_ms(50_000)
    assert lab.partition(1).isr.isr == {1, 3}
    assert told(ask(lab, 1, 1)) == (0, LEADER, 3)
    lab.commit(ops.BrokerGone(3))
    assert told(ask(lab, 1, 1, "r3")) == (0, LEADER, 3)


def test_a_leader_refuses_what_is_in_nobodys_log() -> None:
    lab = racks()
    assert told(ask(lab, 1, 4))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert told(ask(lab, 2, 4))[0] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_session_hears_of_the_preferred_replica_and_a_long_poll_too() -> None:
    lab = racks()
    first = ask(lab, 1, 3, "elsewhere", session=(0, 0), wait_ms=0)
    session = first.reply.session_id
    assert session and told(first) == (0, LEADER, 0)
    waits = ask(lab, 1, 3, "r2", session=(session, 1), wait_ms=10_000, named=False)
    assert not waits.done
    lab.produce(1, b"d")
    lab.settle()
    assert told(waits) == (0, 2, 0)


def test_a_follower_gives_what_it_knows_to_be_committed_and_no_more() -> None:
    lab = racks()
    lab.split.add(frozenset((1, 3)))
    lab.produce(1, b"d", timeout_ms=60_000)
    lab.settle()
    assert lab.partition(2).log.log_end_offset == 4 and lab.partition(2).high_watermark == 3
    assert told(ask(lab, 2, 2)) == (0, LEADER, 1)
    waits = ask(lab, 2, 3, wait_ms=10_000)
    assert not waits.done, "in its log, and not committed"
    assert told(ask(lab, 2, 4)) == (0, LEADER, 0), "nor out of range"
    lab.split.clear()
    lab.pass_ms(1_000)
    assert told(waits) == (0, LEADER, 1)


def test_a_follower_fences_by_the_leader_epoch() -> None:
    lab = racks()
    lab.change([1, 2, 3], 1)
    lab.settle()
    known = lab.partition(2).leader_epoch
    assert told(ask(lab, 2, 1, epoch=known)) == (0, LEADER, 2)
    assert told(ask(lab, 2, 1, epoch=known + 1))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert told(ask(lab, 2, 1, epoch=known - 1))[0] == ErrorCode.FENCED_LEADER_EPOCH


def test_readers_of_committed_records_get_them_from_a_follower() -> None:
    lab = racks()
    producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "attributes": 0x10}
    builder = Builder(timestamp_ms=lab.now.wall_ms, **producer)
    builder.append(None, b"open")
    leader = lab.broker(1)
    leader.appends.append(lab.partition(1), builder.build(), client=True)
    leader.appends.grown(lab.partition(1))
    leader.appends.signal()
    lab.settle()
    lab.pass_ms(600)
    assert lab.partition(2).high_watermark == 4
    assert told(ask(lab, 2, 2)) == (0, LEADER, 2)
    assert told(ask(lab, 2, 2, committed_only=True)) == (0, LEADER, 1), "up to the last stable offset"
    leader.appends.end_transaction(lab.partition(1), 9, 0, False, 0, 0)
    leader.appends.grown(lab.partition(1))
    leader.appends.signal()
    lab.settle()
    lab.pass_ms(600)
    done = ask(lab, 2, 2, committed_only=True)
    assert told(done) == (0, LEADER, 3)
    [data] = done.reply.responses[0].partitions
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(9, 3)]
    assert data.last_stable_offset == 5


@pytest.mark.parametrize(("settings", "known"), [(SELECTOR, 4), ({}, 3)])
def test_followers_hear_at_once_of_a_new_high_watermark_where_consumers_read_from_them(
    settings: dict[str, str], known: int
) -> None:
    lab = racks(settings)
    lab.pass_ms(600)
    lab.produce(1, b"d")
    lab.settle()
    assert [lab.partition(id).high_watermark for id in (2, 3)] == [known, known]
    fetches = lab.fetches
    lab.pass_ms(5_000)
    assert lab.fetches - fetches < 30, "an idle cluster costs what it did"
    assert lab.partition(2).high_watermark == 4
