"""What consumers of the classic protocol write into the metadata and the assignments of their group, for each other.

The coordinator of a classic group passes these bytes on. It reads and writes them where the members of a classic group and
those of KIP-848 are in one group. This file alone decides what of them counts. Rules:

1. The first two bytes are a version. Later versions add to the end, so one that is not known is read as the newest that is.
2. An assignment is written in the version of the member's own metadata.
3. An assignment with bytes of the assignor's own cannot be kept: the coordinator would lose them.
4. What is read at once, of one member or of all members of a group, has a limited number of entries, as a request has
   (`wire/limits.py`): it came as bytes, which nobody has counted. A group has a higher limit: each of its members names
   all topics again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.wire.errors import WireError
from actors.wire.limits import PARTITIONS_MAX
from actors.wire.messages import decode_counted, encode, message

CONSUMER = "consumer"
"""The protocol type of the groups whose bytes are read here."""
GROUP_ENTRIES_MAX = 500_000
"""For all members of a group: 450 consumers of a thousand topics. To read that takes 150 ms."""
NEWEST = 3
_SUBSCRIPTION, _ASSIGNMENT = "ConsumerProtocolSubscription", "ConsumerProtocolAssignment"
Partitions = Mapping[str, frozenset[int]]
"""The partitions of each topic."""


class CustomAssignor(Exception):
    """The assignment has bytes that only the assignor of its group knows."""


class Subscribed(NamedTuple):
    """The subscription of a classic member. `owned`: what it has, none where its version does not say."""

    topics: tuple[str, ...]
    owned: Partitions
    rack_id: str | None


class Embedded:
    """Reads what one member says, or all members of one group. All of it has `entries_max` entries at most."""

    def __init__(self, entries_max: int = PARTITIONS_MAX) -> None:
        self._left = entries_max

    def subscription(self, metadata: bytes) -> Subscribed:
        """Read the metadata of a member. Raises WireError, also for too many entries."""
        version = _version(metadata)
        data = self._read(_SUBSCRIPTION, version, metadata)
        owned = _partitions(data.owned_partitions) if version >= 1 else {}
        return Subscribed(tuple(sorted(set(data.topics))), owned, (data.rack_id or None) if version >= NEWEST else None)

    def assignment(self, data: bytes) -> Partitions:
        """Read an assignment; one without a byte is empty. Raises WireError, CustomAssignor."""
        if not data:
            return {}
        read = self._read(_ASSIGNMENT, _version(data), data)
        if read.user_data:
            raise CustomAssignor
        return _partitions(read.assigned_partitions)

    def _read(self, name: str, version: int, data: bytes) -> Any:
        read, entries = decode_counted(message(name), version, memoryview(data), 2, self._left, False)
        self._left -= entries
        return read


def assignment_bytes(metadata: bytes, partitions: Mapping[str, frozenset[int]]) -> bytes:
    """Write an assignment for the member with this metadata. Raises WireError."""
    version = _version(metadata)
    kind = message(_ASSIGNMENT)
    topics = [
        kind.TopicPartition(topic=topic, partitions=sorted(numbers))
        for topic, numbers in sorted(partitions.items())
        if numbers
    ]
    return version.to_bytes(2, "big") + encode(kind(assigned_partitions=topics, user_data=None), version)


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise WireError("embedded consumer protocol", "has no version", 0)
    return min(version, NEWEST)


def _partitions(topics: list[object]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for one in topics:
        found.setdefault(one.topic, set()).update(one.partitions)  # type: ignore[attr-defined]
    return {topic: frozenset(numbers) for topic, numbers in found.items()}
