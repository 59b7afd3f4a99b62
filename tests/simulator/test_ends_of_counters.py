"""Nodes whose counters are all close to the end of their fields: they pass it, and the cluster works on.

`tests/unit/wire/test_counters.py` lists the fields by machine, with what happens at each one's end. Here those that wrap are
set close to their ends in running nodes, all at once, and run over them: correlation ids of what nodes ask of each other,
epochs of fetch sessions, the generation of a group. Those that end a voter or refuse are not among them.
"""

from typing import Any

import pytest

from actors.broker.groups.epochs import EPOCH_MAX
from actors.broker.replication import fetch_sessions
from actors.node.net.channels import CORRELATION_MAX
from fastpath.records import batch as batches
from tests.integration.answers.dialogue import request
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World

BELOW = 5
"""How far below its end each counter is set."""
TOPIC = "t"
REPLICAS = [1, 2, 3]


class Ends:
    """Three controllers, three brokers, a topic on all of them, a group, and a client."""

    def __init__(self) -> None:
        self.world = World(11, keep_log=True)
        self.cluster = Cluster(self.world, controllers=3, brokers=3)
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        self.client = Client(self.world, "client")
        places = [{"partition_index": 0, "broker_ids": REPLICAS}]
        topics = [{"name": TOPIC, "num_partitions": -1, "replication_factor": -1, "assignments": places}]
        reply = self.client.call("b1", "CreateTopics", 7, request("CreateTopics", topics=topics, timeout_ms=20_000))
        assert reply.topics[0].error_code == 0
        self.world.run_for(2_000)
        assert [self.produce() for _ in range(3)] == [0, 1, 2]

    def brokers(self) -> list[Any]:
        """The brokers' nodes."""
        return [process.node for process in self.cluster.brokers.values()]

    def nodes(self) -> list[Any]:
        """All nodes."""
        return [*self.brokers(), *(process.node for process in self.cluster.controllers.values())]

    def produce(self) -> int:
        """The offset of a record that all replicas have."""
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        builder.append(None, b"x")
        part = {"index": 0, "records": builder.build()}
        body = request("Produce", acks=-1, timeout_ms=20_000, topic_data=[{"name": TOPIC, "partition_data": [part]}])
        reply = self.client.call("b1", "Produce", 9, body)
        answer = reply.responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        return int(answer.base_offset)

    def correlations(self) -> list[int]:
        """The next correlation id of each connection between nodes."""
        return [channel.next_correlation for node in self.nodes() for channel in node.channels._by_purpose.values()]

    def sessions(self) -> list[Any]:
        """Followers' fetchers with the session of each at its leader."""
        found = []
        for node in self.brokers():
            for source, fetcher in node.broker.replicas.fetchers.items():
                leader: Any = self.cluster.brokers[source].node
                session = leader.broker.sessions._by_id.get(fetcher._session)
                if session is not None:
                    found.append((fetcher, session))
        return found


@pytest.mark.parametrize("below", [1, BELOW])
def test_counters_of_running_nodes_pass_their_ends(below: int) -> None:
    ends = Ends()
    for node in ends.nodes():
        for channel in node.channels._by_purpose.values():
            channel.next_correlation = CORRELATION_MAX - below
    sessions = ends.sessions()
    assert len(sessions) >= 2, "two followers"
    for fetcher, session in sessions:
        ahead = fetcher._epoch - session.epoch  # what is under way
        session.epoch = fetch_sessions.EPOCH_MAX - below
        fetcher._epoch = session.epoch + ahead
        assert ahead == 0
    numbers = {id(one[0]): one[0]._session for one in sessions}
    offsets = [ends.produce() for _ in range(3 * BELOW)]
    assert offsets == list(range(3, 3 + 3 * BELOW))
    ends.world.run_for(30_000)
    assert offsets[-1] + 1 == ends.produce()
    assert all(0 < fetcher._epoch < 10_000 for fetcher, _ in sessions), "they have begun again"
    assert {id(fetcher): fetcher._session for fetcher, _ in sessions} == numbers, "no session was lost on the way"
    begun, rest = [one for one in ends.correlations() if one < 1 << 20], {*ends.correlations()}
    assert len(begun) >= 10, "so have correlation ids"
    assert rest - {*begun} <= {CORRELATION_MAX - below}, "but where nothing was asked"
    assert not ends.world.errors, ends.world.errors[:1]


def test_the_generation_of_a_group_passes_its_end_in_a_running_node() -> None:
    ends = Ends()
    reply = ends.client.call("b1", "FindCoordinator", 3, request("FindCoordinator", key="g"))
    for _ in range(60):
        if reply.error_code == 0:
            break
        ends.world.run_for(500)
        reply = ends.client.call("b1", "FindCoordinator", 3, request("FindCoordinator", key="g"))
    assert reply.error_code == 0
    name = f"b{reply.node_id}"
    member, found = "", []
    for round in range(4):
        told = [{"name": "range", "metadata": b"%d" % round}]
        body = {
            "group_id": "g",
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
        }
        joined = ends.client.call(name, "JoinGroup", 2, request("JoinGroup", member_id=member, protocols=told, **body))
        for _ in range(20):
            if joined.error_code == 0:
                break
            ends.world.run_for(1_000)
            joined = ends.client.call(
                name, "JoinGroup", 2, request("JoinGroup", member_id=member, protocols=told, **body)
            )
        assert joined.error_code == 0, joined
        member = joined.member_id
        found.append(joined.generation_id)
        assigned = [{"member_id": member, "assignment": b"x"}]
        body = {"group_id": "g", "generation_id": joined.generation_id, "member_id": member}
        assert (
            ends.client.call(name, "SyncGroup", 2, request("SyncGroup", assignments=assigned, **body)).error_code == 0
        )
        if not round:
            coordinator: Any = ends.cluster.brokers[reply.node_id].node
            coordinator.broker.groups.machine.group("g").generation = EPOCH_MAX - 1
            continue
        assert ends.client.call(name, "Heartbeat", 2, request("Heartbeat", **body)).error_code == 0
    assert found[1:] == [EPOCH_MAX, 1, 2]
    assert not ends.world.errors, ends.world.errors[:1]
