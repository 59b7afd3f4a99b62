"""The checker of rival proposals, tested with requests and answers made by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.wire import framing
from actors.wire.messages import message
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.one_winner import OneWinner

BROKERS = [SimpleNamespace(name=f"b{number}", life=1) for number in (1, 2)]
CONTROLLER = SimpleNamespace(name="c1001", life=1)


def link(broker: Any) -> Any:
    """A broker's connection to the controller."""
    return SimpleNamespace(conns={broker.name: -4, CONTROLLER.name: 9}, other=lambda _: broker)


def proposal(checker: OneWinner, broker: Any, isr: list[int], version: int, correlation: int, error: int = 0) -> None:
    """Send a proposal and its answer."""
    kind, reply = message("v28:AlterIsrRequest"), message("v28:AlterIsrResponse")
    entry = kind.PartitionData(partition_id=0, leader=1, leader_epoch=version, isr=isr, current_zk_version=version)
    request = kind(
        broker_id=1, broker_epoch=5, topics=[kind.TopicData(topic="t", topic_id=b"t" * 16, partitions=[entry])]
    )
    answer = reply.PartitionData(partition_id=0, error_code=error)
    response = reply(error_code=0, topics=[reply.TopicData(topic="t", partitions=[answer])])
    asked = b"".join(framing.encode_request("AlterIsr", 0, correlation, "b", request))
    told = b"".join(framing.encode_response("AlterIsr", 0, correlation, response))
    checker.sent(link(broker), broker, memoryview(asked)[4:])
    checker.sent(link(broker), CONTROLLER, memoryview(told)[4:])


def test_two_proposals_on_one_version_do_not_both_win() -> None:
    checker = OneWinner()
    proposal(checker, BROKERS[0], [1, 2], version=7, correlation=1)
    proposal(checker, BROKERS[0], [1, 2], version=7, correlation=2)
    proposal(checker, BROKERS[0], [1], version=8, correlation=3)
    proposal(checker, BROKERS[1], [2], version=7, correlation=1, error=95)
    with pytest.raises(Violation, match=r"one_proposal_wins: t-0: on version 7 both \[1, 2\] and \[1\] were granted"):
        proposal(checker, BROKERS[1], [1], version=7, correlation=2)
