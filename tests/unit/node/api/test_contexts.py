"""What a handler may reach of a broker."""

from typing import Any

from actors.node.api.contexts import BrokerContext
from actors.node.roles.broker.parts import BrokerParts
from tests.unit.node.roles.broker.lab import Lab


def context(node: Any) -> BrokerContext:
    """Of requests to a broker."""
    return BrokerContext(node.runtime, node.requests, node.quorum, node.storage, node.broker)


def test_a_handler_has_each_part_of_its_broker_by_its_name() -> None:
    node = Lab(1).nodes[1].node
    seen, role = context(node), node.broker
    assert len(role.reachable) >= 28 and all(getattr(seen, name) is getattr(role, name) for name in role.reachable)


def test_a_handler_has_nothing_that_only_the_turn_needs() -> None:
    node = Lab(1).nodes[1].node
    own = {name for name in vars(node.broker) if name not in node.broker.reachable}
    assert {"applier", "heartbeats", "reachable"} <= own and not own & set(vars(context(node)))
    assert issubclass(BrokerContext, BrokerParts), "mypy knows the parts by this"
