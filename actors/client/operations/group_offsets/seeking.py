"""Moving where a group reads on: which partitions, from where to where, and who stands in the way.

This file alone decides that a group with members is not moved, as they would commit over it, and that a group that does
not exist yet is made by its first commit, if somebody says what it is to read. KIP-122, KIP-932.
"""

from collections.abc import Iterable
from typing import NamedTuple

from actors.client.asks import Know, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.operations import leaders, topics
from actors.client.operations.group_offsets import share_offsets
from actors.client.operations.group_offsets.places import PlaceInPartitions, offsets, spans, whole
from actors.client.operations.group_offsets.positions import Position, positions
from actors.client.operations.groups import SHARE, Group, commit, describe
from actors.client.operations.leaders import Part
from actors.wire.errors import ErrorCode

Named = tuple[str, int | None]
"""A topic, and a partition of it; None: all."""


class Unnamed(ClientError):
    """A group has no offsets, and it was not said which partitions are meant."""


class Sought(NamedTuple):
    """A group that was moved, or that would be."""

    before: dict[Part, Position]
    after: dict[Part, int]
    refused: dict[Part, ClientError]
    """The partitions that were not moved."""


def seek(group: str, place: PlaceInPartitions, named: Iterable[Named] = (), *, dry_run: bool = False) -> Steps[Sought]:
    """Let a group without members read on at a place. `named`: what it reads; empty: the partitions for which it has
    offsets. `dry_run`: only find out where that is. Raises ClientError."""
    named = list(named)
    found = yield from _found(group, bool(named))
    if found is not None and found.members:
        members = f"{len(found.members)} {'member' if len(found.members) == 1 else 'members'}"
        sentence = f"group {group} has {members}, which would commit over it: stop them first"
        raise ClientError(sentence, ErrorCode.NON_EMPTY_GROUP)
    before = whole((yield from positions(group, found.type))) if found is not None else {}
    wanted = (yield from existing(named)) if named else sorted(before)
    if not wanted:
        raise Unnamed(f"group {group} has no committed offsets: name what it is to read", ErrorCode.INVALID_REQUEST)
    after = yield from offsets(place, (yield from spans(wanted)))
    refused: dict[Part, ClientError] = {}
    if not dry_run:
        is_share = found is not None and found.type == SHARE
        outcomes = yield from share_offsets.alter(group, after) if is_share else commit(group, after)
        refused = {part: error for part, error in outcomes.items() if error is not None}
    return Sought(before, after, refused)


def _found(group: str, may_be_new: bool) -> Steps[Group | None]:
    """The group; None: it does not exist yet, and may be made."""
    try:
        return (yield from describe(group))
    except ClientError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    if not may_be_new:
        raise Unnamed(f"group {group} does not exist: name what it is to read", ErrorCode.GROUP_ID_NOT_FOUND)
    return None


def existing(named: Iterable[Named]) -> Steps[list[Part]]:
    """The partitions by topic and number. Raises ClientError if one does not exist."""
    named = list(named)
    found = yield from topics.describe({topic for topic, _ in named})
    metadata: Metadata = yield Know(tuple(found))
    parts: set[Part] = set()
    for topic, number in named:
        if number is None:
            parts |= {(topic, one) for one in found[topic].partitions}
        else:
            leaders.existing(metadata, (topic, number))
            parts.add((topic, number))
    return sorted(parts)
