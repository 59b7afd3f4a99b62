"""Fetch sessions of peers that claim to be replicas are bounded like those of clients.

Before, each claimed id had a session of its own without a bound: 1,000 of 2,000 partitions held 697 MB.
"""

import struct

import pytest

from actors.wire.messages import message
from tests.integration.hostile.scene import Peer, Scene, encoded

SESSIONS, PARTITIONS = 300, 2000
CLAIMED = 0x7A7B7C7D
"""The place in the frame where each id is written."""


@pytest.mark.timeout(180)
def test_sessions_of_strangers_are_bounded(small: Scene) -> None:
    kind = message("FetchRequest")
    partitions = [
        kind.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(PARTITIONS)
    ]

    body = kind(
        replica_id=CLAIMED,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        session_epoch=0,
        topics=[kind.FetchTopic(topic="nothing", partitions=partitions)],
    )
    before, after = encoded("Fetch", 11, body).split(struct.pack(">i", CLAIMED))

    def attack() -> None:
        with Peer(small.brokers()[0]) as peer:
            for claimed in range(10, 10 + SESSIONS):
                peer.send(before + struct.pack(">i", claimed) + after)
                peer.read()

    cost = small.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken
    assert max(cost.resident_bytes.values()) < 160 << 20
