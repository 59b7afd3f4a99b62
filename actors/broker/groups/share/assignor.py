"""Which member of a share group reads which partition: the assignor `simple` (KIP-932).

This file alone decides it. Members may share a partition. Rules, in this order:

1. Every partition has a member, and every member has a partition, if there are any: with more members than partitions a
   partition has as many members as it takes.
2. Balance: of partitions to which all members subscribe, two members differ by one at most; where they subscribe to
   different topics, that holds of each topic.
3. What a member has stays, as far as that allows. Equal orders give equal targets.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.broker.groups.share.state import NOTHING, Target

Place = tuple[bytes, int]
"""The name of a partition: (topic id, partition)."""


class ShareGroupSpec(NamedTuple):
    """What an assignor is given. `subscribed`: member -> ids of topics; `partitions`: topic id -> those that may be
    assigned; `present`: the targets until now."""

    subscribed: Mapping[str, frozenset[bytes]]
    partitions: Mapping[bytes, frozenset[int]]
    present: Mapping[str, Target]


def simple(spec: ShareGroupSpec) -> dict[str, Target]:
    """The targets of all members."""
    members = sorted(spec.subscribed)
    given: dict[str, list[Place]] = {member: [] for member in members}
    for topics, subscribers in _rounds(spec, members):
        places = [(topic, number) for topic in topics for number in sorted(spec.partitions.get(topic, ()))]
        for member, found in _spread(places, subscribers, spec.present).items():
            given[member] += found
    return {member: _target(places) for member, places in given.items()}


def _rounds(spec: ShareGroupSpec, members: Sequence[str]) -> list[tuple[Sequence[bytes], Sequence[str]]]:
    """The topics and members that are spread together: all topics if all members subscribe to the same, else each topic
    among its subscribers."""
    if len(set(spec.subscribed.values())) <= 1:
        topics = sorted(next(iter(spec.subscribed.values()), frozenset()))
        return [(topics, members)] if members else []
    topics = sorted(frozenset().union(*spec.subscribed.values()))
    return [([topic], [one for one in members if topic in spec.subscribed[one]]) for topic in topics]


def _spread(places: Sequence[Place], members: Sequence[str], present: Mapping[str, Target]) -> dict[str, list[Place]]:
    if not places:
        return {}
    sharing = -(-len(members) // len(places))
    wanted = _counts(sharing * len(places), len(members))
    holders: dict[Place, int] = dict.fromkeys(places, 0)
    held: dict[str, dict[Place, None]] = {}
    for member, most in zip(members, wanted, strict=True):
        kept = held[member] = {}
        for place in _places(present.get(member, NOTHING)):
            if len(kept) < most and holders.get(place, sharing) < sharing:
                kept[place] = None
                holders[place] += 1
    unfilled = deque((member, most) for member, most in zip(members, wanted, strict=True) if len(held[member]) < most)
    for place in sorted(places, key=lambda one: holders[one]):
        _fill(place, sharing - holders[place], unfilled, held)
    return {member: list(found) for member, found in held.items()}


def _fill(place: Place, missing: int, unfilled: "deque[tuple[str, int]]", held: dict[str, dict[Place, None]]) -> None:
    """Give a partition to members that have too few, one after the other. None of them may have it already."""
    for _ in range(len(unfilled)):
        if not missing:
            return
        member, most = unfilled.popleft()
        if place not in held[member]:
            held[member][place] = None
            missing -= 1
        if len(held[member]) < most:
            unfilled.append((member, most))


def _counts(total: int, members: int) -> list[int]:
    """The number of partitions that each member gets: as even as whole numbers can be."""
    return [-(-total * (place + 1) // members) - -(-total * place // members) for place in range(members)]


def _places(target: Target) -> list[Place]:
    return [(topic, number) for topic, numbers in sorted(target.items()) for number in sorted(numbers)]


def _target(places: Sequence[Place]) -> Target:
    found: dict[bytes, set[int]] = {}
    for topic, number in places:
        found.setdefault(topic, set()).add(number)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}
