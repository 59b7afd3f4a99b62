"""Fetch sessions of strangers: who claims to be a replica and is none has a client's rights only."""

from typing import Any

import pytest

from actors.broker.replication import fetch_sessions
from actors.node.roles.broker.replication import delayed_fetch
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab


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
    lab.broker(1).sessions.account.bytes_max = fetch_sessions.ENTRY_BYTES
    lab.topic([1])
    lab.settle()
    kind = message("FetchRequest")
    asked = [kind.FetchPartition(partition=number, partition_max_bytes=1) for number in range(partitions)]
    topic = kind.FetchTopic(topic_id=TOPIC_ID, partitions=asked)
    pending = lab.call(1, "Fetch", 17, kind(max_wait_ms=0, session_epoch=0, topics=[topic]))
    lab.settle()
    assert pending.done and pending.reply.session_id == 0
    assert not lab.partition(1).watchers


def test_a_fetch_looks_at_what_has_changed_since_however_many_partitions_its_session_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KIP-227. What was sent is looked at again until its fetcher names the next position: it may have thrown it away."""
    lab = Lab(1)
    lab.topic([1], partitions=20)
    looked: list[int] = []
    look = delayed_fetch.look

    def noting(replicas: Any, entry: Any, *given: Any, **more: Any) -> Any:
        looked.append(entry.number)
        return look(replicas, entry, *given, **more)

    monkeypatch.setattr(delayed_fetch, "look", noting)
    kind = message("FetchRequest")

    def told(session: int, epoch: int, offsets: dict[int, int]) -> tuple[int, list[int]]:
        asked = [
            kind.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=999)
            for number, offset in offsets.items()
        ]
        topics = [kind.FetchTopic(topic_id=TOPIC_ID, partitions=asked)] if asked else []
        looked.clear()
        pending = lab.call(1, "Fetch", 17, kind(max_wait_ms=0, session_id=session, session_epoch=epoch, topics=topics))
        assert pending.done and pending.reply.error_code == 0
        answered = [one.partition_index for topic in pending.reply.responses for one in topic.partitions]
        return pending.reply.session_id, answered

    id, answered = told(0, 0, dict.fromkeys(range(20), 0))
    assert answered == looked == list(range(20))
    assert told(id, 1, {}) == (id, []) and not looked
    lab.produce(1, b"y", number=3)
    for epoch in (2, 3):
        assert told(id, epoch, {}) == (id, [3]) and looked == [3]
    assert told(id, 4, {3: 1, 5: 0}) == (id, []) and looked == [3, 5]
    assert told(id, 5, {}) == (id, []) and not looked
