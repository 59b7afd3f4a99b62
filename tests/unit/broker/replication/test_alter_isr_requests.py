"""When proposals of ISRs leave again (KIP-497): the pauses of `broker/replication/alter_isr_requests.py`."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.replication import alter_isr_requests
from actors.broker.replication.alter_isr_requests import IsrProposals
from actors.broker.replication.isr_transitions import Isr
from actors.wire.limits import entries_max
from actors.wire.messages import decode_exact, encode, message


class Led(SimpleNamespace):
    """A partition that broker 1 leads; a key as it is, as partitions are."""

    __hash__ = object.__hash__


def proposing(topic: int, number: int, replicas: tuple[int, ...]) -> Any:
    """A partition of which broker 1 wants all replicas in the ISR."""
    isr = Isr((1,), 0)
    isr.decide(frozenset(replicas), dict.fromkeys(replicas, 9))
    topic_id = topic.to_bytes(16, "big")
    return Led(topic=f"t{topic}", topic_id=topic_id, number=number, leader_epoch=0, replicas=replicas, isr=isr)


@pytest.mark.parametrize("factor", [2, 3, 5])
@pytest.mark.parametrize("per_topic", [1, 1000])
def test_a_request_is_no_longer_than_a_controller_takes(per_topic: int, factor: int) -> None:
    """However many partitions there are and in whichever topics; it would be refused each time, and nothing be settled."""
    proposals = IsrProposals(1, 0)
    replicas = tuple(range(1, factor + 1))
    for number in range(30_000):
        proposals.queue(proposing(number // per_topic, number % per_topic, replicas))
    request = proposals.flush(7, 0)
    kind = message("AlterIsrRequest")
    taken = decode_exact(kind, 0, encode(request, 0), 0, entries_max("AlterIsr"))
    asked = sum(len(topic.partitions) for topic in taken.topics)
    assert 30_000 > asked > 1_000 and proposals.counts()[0] == ("queued", 30_000 - asked)


@pytest.mark.parametrize("known", [True, False])
def test_without_a_controller_the_pause_is_the_longer_one(known: bool) -> None:
    """One that is known is asked again soon; without one there is nobody to ask before another is elected."""
    proposals = IsrProposals.__new__(IsrProposals)
    proposals._in_flight = []
    assert proposals.lost(known, 1_000) == []
    assert alter_isr_requests.BACKOFF_MS < alter_isr_requests.BACKOFF_UNKNOWN_MS
    pause_ms = alter_isr_requests.BACKOFF_MS if known else alter_isr_requests.BACKOFF_UNKNOWN_MS
    assert proposals.not_before_ms == 1_000 + pause_ms
