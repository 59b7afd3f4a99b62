"""The topics to which a consumer group subscribes, read from the metadata of its members.

This file alone decides when they are known. The metadata is the clients' own (the embedded consumer protocol): a
version, then the topics, then the user's bytes. Later versions add to the end, so all are read alike. A member whose
metadata cannot be read may subscribe to anything, so then the group's topics are not known.
"""

from actors.broker.groups.classic.state import Group

CONSUMER = "consumer"


def subscribed(group: Group) -> frozenset[str] | None:
    """The topics to which some member subscribes; None: not known. A group without members subscribes to nothing."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        named = _topics(member.metadata(group.protocol))
        if named is None:
            return None
        topics |= named
    return frozenset(topics)


def _topics(data: bytes) -> set[str] | None:
    """Topics that a member names; None: its metadata cannot be read."""
    count = _number(data, 2, 4)
    if count is None or not 0 <= count <= len(data):
        return None
    topics, position = set(), 6
    for _ in range(count):
        size = _number(data, position, 2)
        if size is None or size < 0 or position + 2 + size > len(data):
            return None
        topics.add(data[position + 2 : position + 2 + size].decode("utf-8", "replace"))
        position += 2 + size
    user_bytes = _number(data, position, 4)
    if user_bytes is None or position + 4 + user_bytes > len(data):
        return None
    return topics


def _number(data: bytes, position: int, size: int) -> int | None:
    """A signed integer of `size` bytes; None: the data ends before."""
    part = data[position : position + size]
    return int.from_bytes(part, "big", signed=True) if len(part) == size else None
