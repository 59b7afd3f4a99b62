"""The versions of the pushed requests that a broker understands (KIP-291; docs/readings.md G-40).

Brokers of rayft understand one of each. Only its own ApiVersions shows what a broker of Apache Kafka in ZooKeeper mode
understands: znodes name no release. This file alone decides which versions are sent to a broker, by the versions that
it serves.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Speech(NamedTuple):
    """The version of each pushed request."""

    update_metadata: int = 8
    leader_and_isr: int = 7
    stop_replica: int = 4
    of_quorum: bool = True
    """Whether the controller is one of a quorum (KIP-866); Apache Kafka's brokers want to be in migration mode then."""


RAYFT = Speech()
LOWEST = Speech(6, 4, 3, of_quorum=False)
"""The versions that a broker in ZooKeeper mode must serve at least; Apache Kafka 2.6 does."""
KEYS = (6, 4, 5)
"""API keys, in the order of the versions in `Speech`."""


def speech(served: Mapping[int, int]) -> Speech | None:
    """The newest versions that both sides know. `served`: API key -> the newest version that the broker serves; None: the
    broker is too old."""
    update_metadata, leader_and_isr, stop_replica = (
        min(served.get(key, -1), ours) for key, ours in zip(KEYS, RAYFT[:3], strict=True)
    )
    found = Speech(update_metadata, leader_and_isr, stop_replica, of_quorum=False)
    return found if all(one >= least for one, least in zip(found[:3], LOWEST[:3], strict=True)) else None
