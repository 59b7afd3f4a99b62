"""BrokerHeartbeat of the drafts: what an operator is told of a broker that waits for what nobody sends."""

from actors.node.api.handlers.broker_heartbeat import decide
from tests.unit.node.roles.controller.test_role import Host, call, heartbeat


def test_a_broker_that_wants_to_be_told_where_nobody_tells_is_named_once() -> None:
    host = Host()
    host.lead()
    for legacy in (False, True, True):
        decide(host.context, heartbeat(7, legacy=legacy), call(50, 7))
        host.turn()
        told = [
            line for line in host.lines if line.startswith("broker 7 is refused: it has rayft.metadata.source=push")
        ]
        assert len(told) == legacy
