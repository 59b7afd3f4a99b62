"""Replicas that a broker in ZooKeeper mode cannot read: it says so in its answers to LeaderAndIsr, with 56
KAFKA_STORAGE_ERROR, where a broker of rayft says it in a heartbeat.

This file alone decides what an answer adds and what it takes back. What follows from it is the same for both kinds
(`fencing.unreadable`): the broker leaves ISRs and leaderships.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from actors.controller.brokers.fencing_passes import unreadable
from actors.controller.state import Result, State
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import LeaderAndIsrResponse

OFFLINE = int(ErrorCode.KAFKA_STORAGE_ERROR)


class AnsweredReplicas(NamedTuple):
    """What a broker has answered about its replicas."""

    broker: int
    codes: Mapping[tuple[bytes, int], int]
    """(topic id, number) -> error code"""


class _Topic(NamedTuple):
    topic_id: bytes
    partitions: list[int]


def answered_replicas(broker: int, reply: "LeaderAndIsrResponse") -> AnsweredReplicas:
    """What a LeaderAndIsrResponse says, from version 5 on; older ones name no ids, and nothing is learned from them."""
    codes = {
        (topic.topic_id, one.partition_index): one.error_code
        for topic in reply.topics
        for one in topic.partition_errors
    }
    return AnsweredReplicas(broker, codes)


def offline_replicas(state: State, said: AnsweredReplicas, now: Now, random: Random) -> Result:
    """Note which replicas are offline, and which are not any more."""
    before = state.soft.unreadable.get(said.broker, frozenset())
    offline = {replica for replica, code in said.codes.items() if code == OFFLINE}
    found = offline | {replica for replica in before if said.codes.get(replica, OFFLINE) != ErrorCode.NONE}
    if found == before:
        return Result((), None)
    return Result(unreadable(state, said.broker, list(_topics(found))), None, atomic=False)


def _topics(replicas: set[tuple[bytes, int]]) -> Iterator[_Topic]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(replicas):
        topics.setdefault(topic_id, []).append(number)
    for topic_id, numbers in topics.items():
        yield _Topic(topic_id, numbers)
