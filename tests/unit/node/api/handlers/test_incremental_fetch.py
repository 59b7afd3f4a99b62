"""Fetch sessions of strangers: who claims to be a replica and is none has a client's rights only."""

from typing import Any

import pytest

from actors.broker.replication import fetch_sessions
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
