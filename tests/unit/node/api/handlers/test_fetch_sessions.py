"""Fetch sessions of strangers: who claims to be a replica and is none has a client's rights only."""

import random
from typing import Any

import pytest

from actors.broker.replication import sessions
from actors.broker.replication.sessions import EPOCH_MAX, IDLE_MS, Sessions, Wanted
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab


def made(slots: int = 3) -> Sessions:
    return Sessions(random.Random(1).randrange, slots)


def wanted(count: int) -> list[Wanted]:
    return [Wanted("t", number, 0, -1, -1, -1, 1 << 20) for number in range(count)]


def test_whoever_only_claims_to_be_a_replica_finds_no_more_room_than_clients() -> None:
    held = made(slots=3)
    for claimed in range(10):
        held.open(0, 0, claimed, True, 0)
    assert len(held) == 3
    assert len(held.evict(IDLE_MS + 1)) == 3, "and expires like a client's"
    for registered in range(10):
        opened = held.open(0, 0, registered, True, 0, registered=True).session
        assert opened is not None and opened.id
    assert not held.evict(IDLE_MS + 1)


def test_all_clients_together_have_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ENTRIES_MAX", 10)
    held = made()
    first, second, broker = (held.open(0, 0, -1, True, 0, registered=one == 2).session for one in range(3))
    assert first and second and broker
    assert held.grew(broker, len(broker.want(wanted(50))))
    assert held.grew(first, len(first.want(wanted(6))))
    assert not held.grew(second, len(second.want(wanted(6)))), "it cannot be found again"
    assert second.id == 0 and len(held) == 2
    held.close(first)
    third = held.open(0, 0, -1, True, 0).session
    assert third and held.grew(third, len(third.want(wanted(10))))


def test_a_session_that_turns_out_to_be_a_brokers_gives_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ENTRIES_MAX", 10)
    held = made()
    early = held.open(0, 0, 2, True, 0).session
    assert early and held.grew(early, len(early.want(wanted(8))))
    assert held.open(early.id, 1, 2, True, 0, registered=True).session is early
    client = held.open(0, 0, -1, True, 0).session
    assert client and held.grew(client, len(client.want(wanted(10))))


@pytest.mark.parametrize(("epoch_off", "known"), [(0, True), (1, False)])
def test_a_follower_is_who_is_registered_in_its_present_life(epoch_off: int, known: bool) -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.settle()
    node: Any = lab.nodes[1]
    broker = node.broker.cache.image.broker(2)
    kind = message("FetchRequest")
    state = kind.ReplicaState(replica_id=2, replica_epoch=broker.epoch + epoch_off)
    before = [one.id for one in node.broker.sessions.replica_sessions(2)]
    seen: list[int] = []
    node.requests.connections.replicates = seen.append
    lab.call(1, "Fetch", 17, kind(max_wait_ms=0, session_epoch=0, replica_state=state, topics=[]))
    after = [one.id for one in node.broker.sessions.replica_sessions(2)]
    assert bool(seen) is known
    assert (after == before) is not known, "a stranger does not end the session of the broker that it claims to be"


@pytest.mark.parametrize("partitions", [2, 400])
def test_a_session_for_which_there_is_no_room_hears_of_no_change(partitions: int) -> None:
    """Shorter than a slice, and longer."""
    lab = Lab(1)
    lab.broker(1).sessions.account.bytes_max = sessions.ENTRY_BYTES
    lab.topic([1])
    lab.settle()
    kind = message("FetchRequest")
    asked = [kind.FetchPartition(partition=number, partition_max_bytes=1) for number in range(partitions)]
    topic = kind.FetchTopic(topic_id=TOPIC_ID, partitions=asked)
    pending = lab.call(1, "Fetch", 17, kind(max_wait_ms=0, session_epoch=0, topics=[topic]))
    lab.settle()
    assert pending.done and pending.reply.session_id == 0
    assert not lab.partition(1).watchers


def test_the_epoch_of_a_session_behind_the_last_one_is_the_first() -> None:
    """Never 0, which would ask for a new session."""
    found = made()
    session = found.open(0, 0, -1, True, 0).session
    assert session is not None
    session.epoch = EPOCH_MAX - 1
    for epoch, wrong in ((EPOCH_MAX - 1, EPOCH_MAX), (EPOCH_MAX, 1), (1, 0x7FFFFFFE), (2, EPOCH_MAX)):
        assert found.open(session.id, wrong, -1, True, 0).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert found.open(session.id, epoch, -1, True, 0).session is session
    assert session.epoch == 3
