"""Requests to the leaders of partitions: one for each broker, at once, and again for partitions whose leader has moved."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from actors.client.asks import Ask, Know, Node, Pause, Reply, Steps
from actors.client.connection import Lost
from actors.client.errors import Action, ClientError, action, refused
from actors.client.metadata import Metadata
from actors.client.operations.topics import missing
from actors.wire.errors import ErrorCode

Part = tuple[str, int]
"""The name of a partition: (topic, partition)."""


def of_leaders(
    name: str,
    parts: Iterable[Part],
    build: Callable[[int, list[Part], Metadata], Any],
    outcomes: Callable[[Reply], Iterable[tuple[Part, int, Any]]],
    versions: tuple[int, int] = (0, 1 << 15),
    tries: int = 0,
) -> Steps[dict[Part, Any]]:
    """The answers of the leaders of partitions: part -> value, or a ClientError. `build`: (version, partitions of one
    leader, metadata) -> request. `outcomes`: reply -> (partition, error code, value). `tries`: how often partitions are
    asked for whose leader is away or has moved; those that are left have an error then. 0: until there is no more time,
    and then nothing is told of any."""
    left = list(dict.fromkeys(parts))
    found: dict[Part, Any] = {}
    attempt, fresh = 0, False
    while left:
        metadata: Metadata = yield Know(tuple(dict.fromkeys(topic for topic, _ in left)), fresh=fresh)
        for part in list(left):
            try:
                existing(metadata, part)
            except ClientError as error:
                found[part] = error
                left.remove(part)
        groups = [(node, some) for node, some in metadata.by_leader(left).items() if node >= 0]
        asks = [
            Ask(Node(node), name, partial(_built, build, some, metadata), versions=versions) for node, some in groups
        ]
        replies: list[Reply | ClientError] = yield asks
        told: dict[Part, tuple[int, Any]] = {}
        away: dict[Part, ClientError] = {}
        for (_, some), reply in zip(groups, replies, strict=True):
            if isinstance(reply, Reply):
                told |= {part: (code, value) for part, code, value in outcomes(reply)}
            elif not _passes(reply):
                raise reply
            else:
                told |= {part: (int(ErrorCode.NETWORK_EXCEPTION), None) for part in some}
                away |= dict.fromkeys(some, reply)
        for part in list(left):
            code, value = told.get(part, (int(ErrorCode.LEADER_NOT_AVAILABLE), None))
            what = action(code)
            if what is Action.NOTHING:
                found[part] = value
            elif what is Action.FINAL or attempt + 1 == tries:
                found[part] = away.get(part) or refused(f"partition {part[0]}/{part[1]}", code)
            else:
                continue
            left.remove(part)
        if left:
            fresh = True
            yield Pause(attempt=attempt)
            attempt += 1
    return found


def _built(
    build: Callable[[int, list[Part], Metadata], Any], some: list[Part], metadata: Metadata, version: int
) -> Any:
    return build(version, some, metadata)


def _passes(error: ClientError) -> bool:
    """Whether another try may help."""
    return isinstance(error, Lost)


def existing(metadata: Metadata, part: Part) -> None:
    """Check that there is such a partition. Raises ClientError if there is none."""
    topic, partition = part
    missing(metadata, topic)
    if partition not in metadata.topics[topic].partitions:
        count = len(metadata.topics[topic].partitions)
        has = f"{count} {'partition' if count == 1 else 'partitions'}"
        raise ClientError(f"topic {topic} has {has} and no partition {partition}")


def by_topic(parts: Iterable[Part]) -> Mapping[str, list[int]]:
    """The partitions of each topic, out of `parts`."""
    found: dict[str, list[int]] = {}
    for topic, partition in parts:
        found.setdefault(topic, []).append(partition)
    return found
