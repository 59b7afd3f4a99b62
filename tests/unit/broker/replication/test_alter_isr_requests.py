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


class Looked(Led):
    """A partition that counts how often anybody looks at its ISR."""

    looks = 0

    @property
    def isr(self) -> Isr:
        Looked.looks += 1
        return self.its_isr


def test_requests_cost_by_what_they_have_and_not_by_what_waits() -> None:
    """30,000 proposals leave in the order in which they came up, each once, and each is looked at a few times."""
    proposals = IsrProposals(1, 0)
    for number in range(30_000):
        one = proposing(number // 1000, number % 1000, (1, 2, 3))
        fields = vars(one)
        proposals.queue(Looked(its_isr=fields.pop("isr"), **fields))
    Looked.looks, asked, requests = 0, 0, 0
    while (request := proposals.flush(7, 0)) is not None:
        numbers = [
            int(topic.topic[1:]) * 1000 + one.partition_id for topic in request.topics for one in topic.partitions
        ]
        assert sorted(numbers) == list(range(asked, asked + len(numbers)))
        asked, requests = asked + len(numbers), requests + 1
        kind = message("AlterIsrResponse")
        topics = [
            kind.TopicData(
                topic=topic.topic,
                partitions=[kind.PartitionData(partition_id=one.partition_id) for one in topic.partitions],
            )
            for topic in request.topics
        ]
        proposals.answered(kind(topics=topics), 0)
    assert asked == 30_000 and requests >= 5 and Looked.looks <= 5 * 30_000


@pytest.mark.parametrize("known", [True, False])
def test_without_a_controller_the_pause_is_the_longer_one(known: bool) -> None:
    """One that is known is asked again soon; without one there is nobody to ask before another is elected."""
    proposals = IsrProposals.__new__(IsrProposals)
    proposals._in_flight = []
    assert proposals.lost(known, 1_000) == []
    assert alter_isr_requests.BACKOFF_MS < alter_isr_requests.BACKOFF_UNKNOWN_MS
    pause_ms = alter_isr_requests.BACKOFF_MS if known else alter_isr_requests.BACKOFF_UNKNOWN_MS
    assert proposals.not_before_ms == 1_000 + pause_ms
