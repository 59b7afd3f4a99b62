"""Outbound connections: who hears what when a connection, or the active controller, is another."""

from typing import Any

from actors.node.channels import ChannelError, Channels
from actors.node.waiting import Timers
from actors.wire.messages import message

FIRST, SECOND = ("c1", 1), ("c2", 1)


class Net:
    """Channels with a controller that can be moved."""

    def __init__(self) -> None:
        self.leader: tuple[str, int] | None = FIRST
        self.answers: list[Any] = []
        self.channels = Channels(Timers(), lambda: 0, "n", lambda: self.leader)

    def ask(self, purpose: str) -> None:
        self.channels.controller("AlterIsr", message("AlterIsrRequest")(), self.answers.append, purpose=purpose)


def test_r497_48_a_request_to_a_frozen_controller_is_lost_as_soon_as_another_one_leads() -> None:
    net = Net()
    net.ask("isr")
    net.channels.connected(net.channels.dials[0].conn)
    net.leader = None
    net.channels.controller_moved()
    assert not net.answers  # nobody to turn to yet
    net.leader = SECOND
    net.channels.controller_moved()
    (lost,) = net.answers
    assert isinstance(lost, ChannelError) and lost.reason == "lost"
    assert net.channels.closes == [net.channels.dials[0].conn]
    net.ask("isr")
    assert (net.channels.dials[1].host, net.channels.dials[1].port) == SECOND


def test_a_request_to_the_controller_that_leads_stays() -> None:
    net = Net()
    net.ask("isr")
    net.ask("heartbeat")
    net.channels.peer(("fetch", 2), ("b2", 1), "Fetch", message("FetchRequest")(), net.answers.append)
    net.channels.controller_moved()
    net.leader = SECOND
    net.ask("heartbeat")
    assert [answer.reason for answer in net.answers] == ["lost"]
    net.channels.controller_moved()
    assert len(net.answers) == 2  # the fetch from a broker is none of it
