"""Every number of the quorum, with Kafka's defaults.

This file alone decides how long a replica waits for anything. Names follow Kafka's `controller.quorum.*`
configurations.
"""

from typing import NamedTuple


class RaftLimits(NamedTuple):
    election_timeout_ms: int = 1000
    """controller.quorum.election.timeout.ms: a voter without a leader stands after this plus a random time up to as
    long."""
    election_backoff_max_ms: int = 1000
    """controller.quorum.election.backoff.max.ms: longest random wait after a lost vote."""
    fetch_timeout_ms: int = 2000
    """controller.quorum.fetch.timeout.ms: a follower that hears nothing for this long doubts its leader."""
    retry_backoff_ms: int = 20
    """controller.quorum.retry.backoff.ms: the pause before a failed request is repeated."""
    request_timeout_ms: int = 2000
    """controller.quorum.request.timeout.ms: the node reports `Failed` after this."""
    fetch_max_wait_ms: int = 500
    """How long an idle leader may keep a fetch."""
    fetch_bytes_max: int = 1 << 20
    """controller.quorum.fetch.max.bytes: the most bytes of records that one fetch asks for."""
    snapshot_bytes_max: int = 1 << 20
    """controller.quorum.fetch.snapshot.max.bytes: the most bytes of a snapshot that one request asks for."""
    hint_stagger_ms: int = 10
    """Dead-leader hint: a voter waits its rank times this before it asks for pre-votes."""
    hint_retry_ms: int = 10
    """Dead-leader hint: a refused pre-vote is repeated after this plus up to twice as much again."""

    @property
    def check_quorum_ms(self) -> int:
        """After how long a leader that no majority has fetched from resigns."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def announce_ms(self) -> int:
        """How often a leader repeats BeginQuorumEpoch to voters that do not fetch."""
        return self.fetch_timeout_ms // 2
