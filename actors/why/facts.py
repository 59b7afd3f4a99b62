"""What is known of a cluster at a moment, as far as it may be in trouble.

Facts are plain values, so that they may come from a metadata log, from a running cluster, or from both. What is not known
is left out: None, or an empty collection. Of many partitions in the same trouble there are their number and a few of them.
"""

from collections.abc import Mapping
from typing import NamedTuple

EXAMPLES_MAX = 3
"""How many partitions of one trouble are named."""


class TroubledPartition(NamedTuple):
    """A partition that is not as it should be."""

    topic: str
    number: int
    replicas: tuple[int, ...]
    """The brokers that have a replica, in the order of preference."""
    isr: tuple[int, ...]
    leader: int
    """The broker that leads; -1: none."""

    @property
    def name(self) -> str:
        """The name of the partition, as Kafka's tools and logs write it."""
        return f"{self.topic}-{self.number}"


class Trouble(NamedTuple):
    """Partitions in the same trouble."""

    number: int = 0
    examples: tuple[TroubledPartition, ...] = ()
    """The first of them by topic and number, EXAMPLES_MAX at most."""


class VoterFacts(NamedTuple):
    """A controller with a vote."""

    id: int
    lag: int = -1
    """How many records it is behind the leader; -1: not known."""
    behind_ms: int = -1
    """Since when it has not caught up with the leader, ms; -1: not known, or never."""


class QuorumFacts(NamedTuple):
    """The quorum of controllers."""

    leader: int
    """The controller that leads; -1: none."""
    epoch: int
    voters: tuple[VoterFacts, ...] = ()
    down: tuple[int, ...] = ()
    """Controllers of which it is known that they do not run."""


class LogDirFacts(NamedTuple):
    """A log directory that cannot be used."""

    broker: int
    path: str
    """Empty: only its id is known."""
    reason: str
    since_ms: int = -1


class GroupFacts(NamedTuple):
    """A group that is behind and has not committed for a while."""

    group: str
    members: int
    """-1: not known."""
    lag: int
    """Records, over all its partitions."""
    partitions: tuple[str, ...]
    """Some that stand still."""
    stands_ms: int = -1
    """How long it is known to stand, ms; -1: only one look was taken."""


NO_TIMEOUT_MS = (1 << 31) - 1


class TransactionFacts(NamedTuple):
    """A transaction that is open for longer than its timeout, or for long without one."""

    id: str
    """The transactional id; empty: not known to a coordinator any more."""
    producer_id: int
    started_ms: int
    timeout_ms: int
    """-1: not known. NO_TIMEOUT_MS: it takes part in a two-phase commit, and has none."""
    partitions: tuple[str, ...]


class ClusterFacts(NamedTuple):
    """A cluster at a moment."""

    now_ms: int
    """The moment, ms since 1970."""
    brokers: Mapping[int, str]
    """id -> `active`, `fenced` or `leaving`, of those that are registered or have replicas; `away`: has replicas and is not
    registered; `down`: its process does not run."""
    replicas: Mapping[int, int]
    """id -> how many partitions a broker that is not active has replicas of."""
    leaderless: Trouble = Trouble()
    lacking: Mapping[int, Trouble] = {}
    """broker -> partitions that have a replica there which their ISRs lack."""
    led_elsewhere: Mapping[int, Trouble] = {}
    """broker -> partitions that it should lead, could lead and does not."""
    quorum: QuorumFacts | None = None
    log_dirs: tuple[LogDirFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    transactions: tuple[TransactionFacts, ...] = ()
    settings: Mapping[int, Mapping[str, str | None]] = {}
    """broker -> its settings that should be the same everywhere, as far as they were asked."""
