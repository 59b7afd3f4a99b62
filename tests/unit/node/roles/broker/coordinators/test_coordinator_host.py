"""A coordinator in its host: what a turn writes to a partition, and in which batches."""

from typing import Any

import pytest

from actors.broker.coordinators.coordination import Write
from actors.broker.groups.records import CommittedOffset
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.unit.broker.log.logs import content
from tests.unit.node.roles.broker.lab import Lab
from tests.unit.node.roles.broker.transactions.cluster import IDS, SETTINGS, Client, made, offset, states

NONE = ErrorCode.NONE


def lab(**configs: str) -> Lab:
    found = Lab(1, SETTINGS)
    found.topic([1], OFFSETS_TOPIC, IDS[OFFSETS_TOPIC], configs={k.replace("_", "."): v for k, v in configs.items()})
    found.topic([1])
    return found


def groups(found: Lab) -> Any:
    return found.broker(1).groups


def commit(found: Lab, group: str, value: int, told: list[ErrorCode], metadata: str = "") -> None:
    committed = [("t", 0, CommittedOffset(value, -1, metadata, 5))]
    host = groups(found)
    host.machine.commit(group, committed, told.append)
    host.drain()


def counts(found: Lab, topic: str = OFFSETS_TOPIC) -> list[int]:
    """Records of each batch."""
    return [one.count for one in batches.headers(content(found.partition(1, 0, topic).log))]


def test_writes_of_a_turn_share_a_batch_and_each_is_told() -> None:
    found, told = lab(), list[ErrorCode]()
    for number in range(5):
        commit(found, f"g{number}", number, told)
    assert not told and counts(found) == []
    found.settle()
    assert told == [NONE] * 5 and counts(found) == [5]
    commit(found, "g0", 7, told)
    found.settle()
    assert counts(found) == [5, 1], "the next turn has a batch of its own"
    assert {group: groups(found).machine.fetch(group)["t", 0].offset for group in ("g0", "g4")} == {"g0": 7, "g4": 4}


def test_a_write_that_leads_to_another_one_at_the_end_of_a_turn_makes_the_next_turn_due_at_once() -> None:
    found, told = lab(), list[ErrorCode]()
    broker, host = found.broker(1), groups(found)
    assert broker.deadline_ms() > 0

    def then(error: ErrorCode) -> None:
        commit(found, "g", 2, told)

    host.machine.commit("g", [("t", 0, CommittedOffset(1, -1, "", 5))], then)
    host.drain()
    broker.append()
    assert not told and counts(found) == [1] and broker.deadline_ms() == 0
    broker.append()
    assert told == [NONE] and counts(found) == [1, 1] and broker.deadline_ms() > 0


def test_a_shared_batch_is_not_larger_than_a_message_may_be() -> None:
    found, told = lab(max_message_bytes="1000"), list[ErrorCode]()
    for number in range(6):
        commit(found, f"g{number}", number, told, "x" * 300)
    commit(found, "g6", 1, told, "x" * 2_000)
    commit(found, "g7", 1, told)
    found.settle()
    assert told == [NONE] * 8 and counts(found) == [2, 2, 2, 1, 1], "what is larger alone is not refused, and is alone"
    sizes = [one.size for one in batches.headers(content(found.partition(1, 0, OFFSETS_TOPIC).log))]
    assert all(size <= 1000 for size in sizes[:3])


def test_the_last_of_two_writes_to_a_key_in_one_turn_counts_for_the_next_coordinator_too() -> None:
    found, told = lab(), list[ErrorCode]()
    commit(found, "g", 1, told)
    commit(found, "g", 2, told)
    found.settle()
    assert counts(found) == [2] and groups(found).machine.fetch("g")["t", 0].offset == 2
    groups(found).machine.lost(0)
    groups(found).became_leader(OFFSETS_TOPIC, 0, 1)
    found.pass_ms(200)
    assert groups(found).machine.fetch("g")["t", 0].offset == 2


def test_what_belongs_to_a_transaction_is_a_batch_of_its_own_at_once_and_behind_what_came_before() -> None:
    found, told = lab(), list[ErrorCode]()
    commit(found, "g", 1, told)
    commit(found, "h", 1, told)
    groups(found).machine.commit_transactional("g", (9, 0), [("t", 0, CommittedOffset(5, -1, "", 5))], told.append)
    groups(found).drain()
    assert counts(found) == [2, 1], "before the turn ends: it was found to be in an open transaction just now"
    commit(found, "g", 2, told)
    found.settle()
    heads = batches.headers(content(found.partition(1, 0, OFFSETS_TOPIC).log))
    assert [(one.count, one.producer_id) for one in heads] == [(2, -1), (1, 9), (1, -1)]


@pytest.mark.parametrize("again", [False, True], ids=["lost", "led in a new epoch"])
def test_what_was_not_appended_goes_with_the_leadership(again: bool) -> None:
    found, told = lab(), list[ErrorCode]()
    commit(found, "g", 1, told)
    if again:
        groups(found).became_leader(OFFSETS_TOPIC, 0, 1)
    else:
        groups(found).resigned(OFFSETS_TOPIC, 0)
    assert told == [ErrorCode.NOT_COORDINATOR]
    found.settle()
    assert counts(found) == []


def test_writes_that_begin_while_others_are_told_come_behind_them() -> None:
    """The end of a write, refused at once, begins the next one: it must not overtake what was begun before."""
    found = lab()
    host, order = groups(found), list[int]()
    shard = host.machine.shards[0]
    appended = host._append_batch
    host._append_batch = lambda writes: (order.extend(write.token for write in writes), appended(writes))

    def again(error: ErrorCode, now: Any) -> None:
        if len(order) < 4:
            tokens.append(host.machine._write(shard, "again", [(b"k", b"v")], lambda error, now: None))

    producer = (9, 0)
    tokens = [
        host.machine._write(shard, "a", [(b"k", b"v")], again, producer),
        host.machine._write(shard, "b", [(b"k", b"v")], again, producer),
        host.machine._write(shard, "c", [(b"k", b"v")], lambda error, now: None),
    ]
    host.drain()
    found.settle()
    assert order == sorted(order) and set(order) == set(tokens)
    assert all(isinstance(one, Write) for one in host.machine.writes)


def test_transactional_ids_of_a_turn_share_a_batch() -> None:
    found = made(brokers=1)
    clients = [Client(found, f"x{number}") for number in range(3)]
    pending = []
    for client in clients:
        request = message("InitProducerIdRequest")(
            transactional_id=client.transactional_id, transaction_timeout_ms=1000
        )
        pending.append(found.call(1, "InitProducerId", 5, request, connection=10 + len(pending)))
    found.settle()
    assert [one.reply.error_code for one in pending] == [0, 0, 0] and len(states(found)) == 3
    assert counts(found, "__transaction_state")[-1] > 1
    assert offset(found) == (-1, NONE)


def test_ids_that_expire_in_one_turn_are_removed_by_batches_as_large_as_a_message_may_be() -> None:
    found = made(
        brokers=1,
        transactional_id_expiration_ms="1000",
        transaction_remove_expired_transaction_cleanup_interval_ms="2000",
    )
    for number in range(40):
        assert Client(found, f"{number:030000}").init() is NONE
    log = found.partition(1, 0, "__transaction_state").log
    end = log.log_end_offset
    found.pass_ms(4000, 500)
    assert states(found) == {}
    sizes = [head.size for head in batches.headers(log.read(end, 1 << 30).data)]
    assert len(sizes) > 1 and max(sizes) <= log.settings.max_message_bytes
