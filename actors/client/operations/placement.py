"""Where partitions are: electing leaders, and moving replicas to other brokers. KIP-183, KIP-460, KIP-455.

Electing and moving twice changes nothing, so both are asked again when an answer was lost. Giving a move up is not: the
second request would be told that there is none.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from actors.client.asks import Ask, Controller, Steps
from actors.client.errors import ClientError, refused
from actors.client.operations.each import decided, each
from actors.client.operations.leaders import Part
from actors.wire.messages import message

WAIT_MS = 30_000
"""How long the server may take, ms."""
PREFERRED, UNCLEAN = 0, 1


class Reassignment(NamedTuple):
    """A partition whose replicas are on the way to other brokers."""

    replicas: tuple[int, ...]
    """The replicas that it has now, those of before and those that come."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def _by_topic(parts: Iterable[Part]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in parts:
        found.setdefault(topic, []).append(partition)
    return found


def elect(parts: Iterable[Part] | None = None, *, unclean: bool = False) -> Steps[dict[Part, ClientError | None]]:
    """Make the first replica of each partition its leader, of all partitions or of these; `unclean`: one that lives, also
    if it lacks records, where there is no leader. Returns the error of each or None; of all partitions, of those only that
    needed it. Raises ClientError."""
    kind = message("ElectLeadersRequest")
    wanted = None if parts is None else list(dict.fromkeys(parts))

    def build(version: int) -> Any:
        if version < 1 and unclean:
            raise ClientError("this Kafka is older than 2.4 and elects preferred leaders only")
        topics = None
        if wanted is not None:
            topics = [kind.TopicPartitions(topic=name, partitions=some) for name, some in _by_topic(wanted).items()]
        return kind(election_type=UNCLEAN if unclean else PREFERRED, topic_partitions=topics, timeout_ms=WAIT_MS)

    told = yield from decided(
        Ask(Controller(), "ElectLeaders", build, timeout_ms=2 * WAIT_MS), lambda one: one.error_code
    )
    if told.error_code:
        raise refused("elections", told.error_code)
    found: dict[Part, ClientError | None] = {}
    for topic in told.replica_election_results:
        for one in topic.partition_result:
            error = refused(f"partition {topic.topic}/{one.partition_id}", one.error_code, one.error_message)
            found[topic.topic, one.partition_id] = error if one.error_code else None
    if wanted is None:
        return found
    return {part: found[part] if part in found else _unmentioned(part) for part in wanted}


def _unmentioned(part: Part) -> ClientError:
    return ClientError(f"partition {part[0]}/{part[1]}: the answer does not mention it")


def move(targets: Mapping[Part, list[int] | None]) -> Steps[dict[Part, ClientError | None]]:
    """Move each partition to brokers, the preferred leader first; None: give up the move that is under way. Returns each
    one's error or None: the copying goes on behind that. Raises ClientError."""
    kind = message("AlterPartitionReassignmentsRequest")
    gives_up = any(brokers is None for brokers in targets.values())

    def ask(some: list[Part]) -> Ask:
        topics = [
            kind.ReassignableTopic(
                name=name,
                partitions=[
                    kind.ReassignablePartition(partition_index=one, replicas=targets[name, one]) for one in numbers
                ],
            )
            for name, numbers in _by_topic(some).items()
        ]
        request = kind(timeout_ms=WAIT_MS, topics=topics)
        return Ask(
            Controller(),
            "AlterPartitionReassignments",
            lambda version: request,
            timeout_ms=2 * WAIT_MS,
            again=not gives_up,
        )

    def outcomes(reply: Any) -> Any:
        if reply.message.error_code:
            whole = reply.message
            return ((part, whole.error_code, whole.error_message) for part in targets)
        return (
            ((topic.name, one.partition_index), one.error_code, one.error_message)
            for topic in reply.message.responses
            for one in topic.partitions
        )

    return (yield from each("partition", targets, ask, outcomes))


def moves() -> Steps[dict[Part, Reassignment]]:
    """The moves that are under way. Raises ClientError."""
    request = message("ListPartitionReassignmentsRequest")(timeout_ms=WAIT_MS, topics=None)
    told = yield from decided(
        Ask(Controller(), "ListPartitionReassignments", lambda version: request), lambda one: one.error_code
    )
    if told.error_code:
        raise refused("moves of partitions", told.error_code, told.error_message)
    return {
        (topic.name, one.partition_index): Reassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in told.topics
        for one in topic.partitions
    }
