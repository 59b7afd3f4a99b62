"""What leaders ask coordinators about transactions: in how many requests, about whom, and what is kept of it."""

import itertools
from typing import Any

import pytest

from actors.node.roles.broker.replication import transaction_verification
from actors.node.roles.broker.replication.transaction_verification import (
    BatchToVerify,
    ClientAbilities,
    TransactionVerification,
    Verification,
)
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch
from tests.unit.node.roles.broker.lab import Lab, Pending
from tests.unit.node.roles.broker.transactions.cluster import COORDINATOR, LEADER, Client, codes, made

NONE = ErrorCode.NONE


def asked(lab: Lab, broker: int = LEADER) -> tuple[TransactionVerification, list[list[tuple[str, int]]]]:
    """Of each request to the coordinator: (transactional id, producer epoch) in it."""
    verification = lab.broker(broker).verification
    seen: list[list[tuple[str, int]]] = []
    take = verification._take

    def taking(to: int) -> Any:
        taken = take(to)
        seen.append([(id, asks[0].question.producer_epoch) for id, asks in taken.items()])
        return taken

    verification._take = taking  # type: ignore[method-assign]
    return verification, seen


CONNECTIONS = itertools.count(100)


def sending(lab: Lab, id: str, producers: list[tuple[int, int]], number: int = 0, version: int = 12) -> Pending:
    """One batch of each producer (id, epoch) to a partition, in one request of a connection of its own."""
    kind, parts = message("ProduceRequest"), []
    for producer, epoch in producers:
        builder = batch.Builder(
            timestamp_ms=lab.now.wall_ms,
            attributes=0x10,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=0,
        )
        builder.append(None, b"v")
        parts.append(kind.PartitionProduceData(index=number, records=builder.build()))
    topic = kind.TopicProduceData(name="t", partition_data=parts)
    request = kind(transactional_id=id, acks=-1, timeout_ms=1000, topic_data=[topic])
    return lab.call(LEADER, "Produce", version, request, connection=next(CONNECTIONS))


@pytest.mark.parametrize("version", [11, 12])
def test_many_producers_under_one_id_are_one_question(version: int) -> None:
    lab = made()
    client, other = Client(lab), Client(lab, "other")
    assert client.init() is NONE and other.init() is NONE
    verification, seen = asked(lab)
    bad = sending(lab, "x", [(5000 + n, 0) for n in range(400)], version=version)
    good = other.sending(0)
    lab.settle()
    assert codes(good) == [NONE]
    assert NONE not in codes(bad)
    assert len(seen) <= 3 and all(len(one) <= 2 for one in seen)
    assert not verification._permissions and not verification._queues


@pytest.mark.parametrize("number", [0, 1])
def test_an_older_epoch_is_answered_and_not_asked_about(number: int) -> None:
    lab = made()
    first = Client(lab, "first")
    assert first.init() is NONE
    old = Client(lab)
    assert old.init() is NONE
    new = Client(lab)
    assert new.init() is NONE
    assert (new.id, new.epoch) == (old.id, old.epoch + 1)
    _, seen = asked(lab)
    in_flight = first.sending(1)
    lab.nodes[LEADER].turn()
    newer = sending(lab, "x", [(new.id, new.epoch)])
    older = sending(lab, "x", [(old.id, old.epoch)], number)
    lab.settle()
    assert codes(in_flight) == codes(newer) == [NONE]
    assert codes(older) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert {one for request in seen for one in request} == {("first", first.epoch), ("x", new.epoch)}


def test_a_newer_epoch_takes_the_place_of_an_older_one() -> None:
    lab = made()
    first, old, new = Client(lab, "first"), Client(lab), Client(lab)
    assert first.init() is NONE and old.init() is NONE and new.init() is NONE
    verification, seen = asked(lab)
    first.sending(1)
    older = sending(lab, "x", [(old.id, old.epoch)])
    newer = sending(lab, "x", [(new.id, new.epoch)])
    lab.settle()
    assert codes(older) == [ErrorCode.INVALID_PRODUCER_EPOCH] and codes(newer) == [NONE]
    assert {one for request in seen for one in request} == {("first", first.epoch), ("x", new.epoch)}
    assert not verification._permissions


def test_many_ids_share_a_request_and_long_ones_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_verification, "QUESTIONS_A_REQUEST", 4)
    lab = made(partitions=12)
    clients = [Client(lab, f"id-{n}") for n in range(6)]
    for client in clients:
        assert client.init() is NONE
    _, seen = asked(lab)
    pending = [client.sending(0, 1, 2) for client in clients]
    long = Client(lab, "long")
    assert long.init() is NONE
    pending.append(long.sending(*range(12)))
    lab.settle()
    assert all(set(codes(one)) == {NONE} for one in pending)
    assert sum(len(one) for one in seen) >= 7
    assert len(seen) <= 1 + (6 * 3 + 12 + 3) // 4


def test_what_this_broker_coordinates_is_added_in_one_write() -> None:
    lab = made(partitions=60)
    leads = [number for number in range(60) if lab.partition(COORDINATOR, number).leads]
    if not leads:
        for number in range(60):
            lab.change([1, 2, 3], COORDINATOR, number)
        lab.settle()
        leads = list(range(60))
    client = Client(lab)
    assert client.init() is NONE
    log = lab.partition(COORDINATOR, 0, "__transaction_state").log
    before = log.log_end_offset
    assert set(client.send(*leads, broker=COORDINATOR)) == {NONE}
    assert log.log_end_offset == before + 1
    assert client.end(True) is NONE


def test_permissions_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_verification, "PERMISSIONS_MAX", 10)
    lab = made()
    verification, _ = asked(lab)
    lab.lost.add("AddPartitionsToTxn")
    for n in range(30):
        sending(lab, f"id-{n}", [(7000 + n, 0)])
    assert len(verification._permissions) <= 11


@pytest.mark.parametrize(("left_ms", "tried"), [(3, True), (2, True), (1, False)])
def test_a_try_may_begin_at_the_very_end_of_the_time_for_them(left_ms: int, tried: bool) -> None:
    lab = made()
    verification = lab.broker(LEADER).verification
    partition = lab.broker(LEADER).replicas.get("t", 0)
    assert partition is not None
    check = Verification("key")
    check.left = 1
    ask = transaction_verification._VerificationRequest(
        check, BatchToVerify(7, partition, 5, 0), ClientAbilities(True, True), "x", lab.now.mono_ms + left_ms, 2
    )
    verification._answered(ask, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert (check.left, list(check.refused)) == ((1, []) if tried else (0, [7]))
