"""What a broker's heartbeats say of the process before it: at registration, and not again."""

import pytest

from actors.broker.lifecycle.lifecycle import BrokerState, Heartbeat
from actors.wire.messages import encode, message
from tests.unit.node.roles.broker.lab import Lab

NOTHING = message("v28:BrokerHeartbeatRequest")().previous_broker_epoch
"""The default, which is not on the wire."""


@pytest.mark.parametrize("previous", [NOTHING, 0, 9])
def test_a_clean_stop_is_told_by_the_heartbeat_that_registers(previous: int) -> None:
    """KIP-966. Those behind it come every second, from every broker, and are shorter."""
    heartbeats = Lab(1).broker(1).heartbeats
    heartbeats.previous_epoch = previous
    first = heartbeats._request(Heartbeat(BrokerState.ACTIVE, -1, 0, 0))
    assert first.previous_broker_epoch == previous
    for epoch in (0, 7):
        later = heartbeats._request(Heartbeat(BrokerState.ACTIVE, epoch, 0, 0))
        assert later.previous_broker_epoch == NOTHING
        size = len(encode(later, 0))
        later.previous_broker_epoch = 9
        assert size < len(encode(later, 0))
