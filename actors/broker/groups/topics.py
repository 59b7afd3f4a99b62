"""What the coordinator must know of topics, and a number that says whether it has changed for a group (KIP-848).

This file alone decides which change of the metadata gives a group another assignment: a topic of its subscriptions comes,
goes, is replaced by one of the same name, or gets partitions.
"""

import hashlib
from collections.abc import Iterable
from typing import Protocol


class Topics(Protocol):
    """The topics of the cluster, as this broker knows them."""

    version: int
    """A number that grows whenever a topic came, went or got partitions."""

    def named(self, name: str) -> tuple[bytes, int] | None:
        """(topic id, number of partitions) of a topic; None: there is no such topic."""
        ...

    def name(self, topic_id: bytes) -> str | None:
        """The name of a topic; None: there is no such topic."""
        ...

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        ...


def metadata_hash(topics: Topics, subscribed: Iterable[str]) -> int:
    """A signed number of 64 bits that is another one when something of these topics has changed; 0: none of them
    exists."""
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(subscribed):
        topic = topics.named(name)
        if topic is not None:
            found = True
            digest.update(topic[0] + topic[1].to_bytes(4, "big") + len(name).to_bytes(2, "big") + name.encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
