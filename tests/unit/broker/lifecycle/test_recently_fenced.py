"""Clients hear of a broker for a moment after it has left, so that they keep what they know of the new leaders."""

from actors.broker.lifecycle.recently_fenced import LINGER_MS
from actors.metadata import ops
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab


def described(lab: Lab, id: int) -> tuple[list[int], int, list[int]]:
    """Brokers that the metadata names; leader and offline replicas of the only partition."""
    kind = message("MetadataRequest")
    reply = lab.call(id, "Metadata", 12, kind(topics=None)).reply
    part = reply.topics[0].partitions[0]
    return [broker.node_id for broker in reply.brokers], part.leader_id, part.offline_replicas


def test_a_broker_that_left_is_named_for_a_moment_and_is_offline_at_once() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    assert described(lab, 2) == ([1, 2, 3], 1, [])
    lab.dead.add(1)
    lab.change([2, 3], 3)
    lab.commit(ops.BrokerGone(1))
    assert described(lab, 2) == ([1, 2, 3], 3, [1])
    lab.pass_ms(LINGER_MS - 100)
    assert described(lab, 2)[0] == [1, 2, 3]
    lab.pass_ms(200)
    assert described(lab, 2) == ([2, 3], 3, [1])


def test_one_that_comes_back_is_named_once() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.crash(1)
    lab.change([2, 3], 3)
    lab.commit(ops.BrokerGone(1))
    lab.start(1)
    lab.settle()
    assert described(lab, 2) == ([1, 2, 3], 3, [])
    lab.pass_ms(2 * LINGER_MS)
    assert described(lab, 2)[0] == [1, 2, 3]


def test_a_leaderless_partition_names_no_leader_that_lingers() -> None:
    lab = Lab(2)
    lab.topic([1])
    lab.dead.add(1)
    lab.commit(ops.BrokerGone(1))
    assert described(lab, 2) == ([1, 2], -1, [1])
