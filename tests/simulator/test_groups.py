"""Members of groups in a whole cluster: a coordinator keeps nothing of clients that are gone."""

from actors.wire.messages import message
from tests.simulator.cluster import Client
from tests.simulator.coordinated import Coordinated


def test_a_member_that_hangs_up_while_it_waits_leaves_nothing_behind():
    c = Coordinated(**{"group.initial.rebalance.delay.ms": "3000"})
    coordinator = c.coordinator("g")
    node = c.cluster.brokers[coordinator].node
    kind = message("JoinGroupRequest")
    protocol = kind.JoinGroupRequestProtocol(name="range", metadata=b"x")
    request = kind(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    for number in range(5):
        client = Client(c.world, f"member{number}")
        client.ask(f"b{coordinator}", "JoinGroup", 3, request, lambda reply: None)
        c.world.run_for(200)
        for link in list(client.peers.values()):
            link.close(client)
        c.world.run_for(200)
        waiting = [entry.connection for waiters in node.runtime.waiting._parked.values() for entry in waiters]
        assert all(connection is not None and connection.replica for connection in waiting), "followers alone wait"
    assert len(node.broker.groups.machine.group("g").members) == 5
    c.world.run_for(60_000)
    groups = node.broker.groups
    assert not groups._asked and not groups._waiting and not groups._verdicts
    assert not groups.machine.group("g").members
    assert c.world.errors == []
