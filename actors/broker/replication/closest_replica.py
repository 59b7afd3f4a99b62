"""Which replica a consumer is sent to: one in its own rack, if there is one that has what it asks for (KIP-392).

This file alone decides that, as Apache Kafka's RackAwareReplicaSelector does:

1. A leader in the consumer's rack serves it itself. So does one that knows no replica in that rack.
2. Another replica counts only if it is in sync and its log, as the leader knows it, holds the offset or ends there. One that
   is not in sync may fall behind, and would never be left by a consumer that is sent there again and again.
3. Of several the one with the highest log end is taken, then the one that was caught up last, then the highest id.
"""

from collections.abc import Callable

from actors.broker.replication.partition import Partition

LEADER = -1
"""The answer of `closest` if the leader serves the consumer itself."""

Near = Callable[[int], bool]
"""A function that says whether a broker is in the consumer's rack, and is reached on the listener that was asked."""


def closest(partition: Partition, offset: int, near: Near) -> int:
    """The broker that a consumer should fetch from, if it wants to read a partition that is led here from `offset` on;
    or `LEADER`."""
    if near(partition.cluster.me):
        return LEADER
    members = partition.isr.isr
    found = [
        (follower.log_end, follower.caught_up_ms, follower.id)
        for follower in partition.followers.values()
        if follower.id in members and follower.log_start <= offset <= follower.log_end and near(follower.id)
    ]
    return max(found)[2] if found else LEADER
