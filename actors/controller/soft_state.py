"""Soft state: what the active controller knows and never writes into the log (KIP-631, Snapshot Implementation, leases).

All soft state is here. A new active controller starts with an empty one (`ControllerRole.gained`), and losing leadership
throws it away. These files may change it: `heartbeat_leases.py` (leases), `registration.py` and `fencing_passes.py`
(departures, shutdowns), `zookeeper_brokers.py` (znodes, and leases that they stand for), `snapshots.py` (the slot),
`mutation_quota.py` (tokens of clients), `producer_ids.py`.
"""

from collections import deque
from typing import Any, NamedTuple

from actors.controller.mutation_quota import Mutations
from actors.metadata.image import Image
from actors.metadata.ops import EndPoint


class Lease:
    """A broker's live lease. Invariant: the broker is registered in the image under `epoch` and not fenced, or was one op
    ago."""

    __slots__ = (
        "connection",
        "epoch",
        "expires_ms",
        "given_up",
        "incarnation_id",
        "longer_until_ms",
        "offset",
        "record_offset",
        "refused",
    )

    def __init__(self, epoch: int, incarnation_id: bytes, expires_ms: int, record_offset: int, offset: int) -> None:
        self.epoch = epoch
        self.incarnation_id = incarnation_id
        self.expires_ms = expires_ms
        """Monotonic time of the end: receipt of the newest accepted heartbeat + lease period."""
        self.record_offset = record_offset
        """Offset of the newest BrokerRecord. A renewal's answer waits until this is committed, and for nothing else."""
        self.offset = offset
        """CurMetadataOffset of the broker's newest heartbeat."""
        self.longer_until_ms = -1
        """Time until which a longer lease of an earlier active controller may last, of the length that the registration
        names."""
        self.connection = -1
        """The newest connection on which the holder was granted the lease; -1: none yet."""
        self.given_up = False
        """Whether the broker has fenced itself and says so (A23). If it returns in time, it serves again under a new
        epoch only."""
        self.refused = False
        """Whether renewal was refused since the lease was last granted (A17): the broker is fenced as soon as it
        confirms the refusal."""


class Legacy:
    """A process of a broker that does not pull the metadata log: it is told what changes (`pushes.py`)."""

    __slots__ = ("heard_ms", "incarnation_id", "listeners", "told", "zookeeper")

    def __init__(self, incarnation_id: bytes, zookeeper: bool = False) -> None:
        self.incarnation_id = incarnation_id
        self.zookeeper = zookeeper
        """Whether the broker is one of Apache Kafka's in ZooKeeper mode, which sends no heartbeats."""
        self.listeners: tuple[EndPoint, ...] = ()
        """The listeners of the broker, as its newest heartbeat or its znode names them."""
        self.heard_ms = 0
        """Monotonic time of the newest heartbeat; 0 in ZooKeeper mode."""
        self.told = -1
        """Metadata offset below which the broker has confirmed that it was told everything; -1: not yet everything."""


class Departure(NamedTuple):
    """A broker that is being fenced. Invariant: it holds no lease."""

    why: str
    newcomer: bool
    """Whether a new process waits for the id. The old process may not come back meanwhile (R631-175)."""
    give_up: bool = False
    """Whether an operator has given the broker up: it leaves even ISRs of which it is the last member (A32)."""
    from_row: int = -1
    """Partition row where the pass was when this broker joined it; -1: it has not joined yet."""
    around: bool = False
    """Whether the pass has come to the last partition since, and has begun again with the first."""


class Shutdown:
    """A controlled shutdown under way (A50)."""

    __slots__ = ("moved_ms", "moved_offset", "next_row", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.next_row = 0
        """Partition row where the next slice of moves begins."""
        self.moved_offset = -1
        """End offset of the moves in the log; -1 while some are left to do."""
        self.moved_ms = -1


class Report(NamedTuple):
    """The content of a controller's newest heartbeat."""

    snapshot_offset: int
    heard_ms: int
    features: tuple[tuple[str, int, int], ...]


class SnapshotSlot(NamedTuple):
    """The one snapshot under way in the quorum (R631-114, A43)."""

    controller_id: int
    since_ms: int
    offset_before: int


class Commits:
    """The times at which high watermarks were reached, at a coarse grain. They decide whether a broker's metadata is
    stale (A17)."""

    GRAIN_MS = 100

    def __init__(self) -> None:
        self._past: deque[tuple[int, int]] = deque()
        self.since_ms = 0
        """When this controller took over. Invariant: no earlier time is recorded."""
        self.at_takeover = 0

    def begin(self, mono_ms: int, high_watermark: int) -> None:
        """Begin to record at the takeover, which is now."""
        self._past.clear()
        self._past.append((mono_ms, high_watermark))
        self.since_ms, self.at_takeover = mono_ms, high_watermark

    def note(self, mono_ms: int, high_watermark: int, keep_ms: int) -> None:
        """Note that the high watermark is `high_watermark` from now on. Entries older than `keep_ms` are dropped."""
        past = self._past
        if past and mono_ms - past[-1][0] < self.GRAIN_MS:
            return
        past.append((mono_ms, high_watermark))
        while len(past) > 1 and past[1][0] <= mono_ms - keep_ms:
            past.popleft()

    def before(self, mono_ms: int) -> int | None:
        """The high watermark at that time or a grain earlier; None: before the takeover."""
        if not self._past or self._past[0][0] > mono_ms:
            return None
        found = self._past[0][1]
        for at_ms, high_watermark in self._past:
            if at_ms > mono_ms:
                break
            found = high_watermark
        return found


class Usable(NamedTuple):
    """Brokers that may lead, join an ISR, and be given new replicas: unfenced, leased, neither leaving nor stopping,
    and not fenced by themselves. `Soft.may_stay` says which broker may only stay in an ISR. A fenced broker keeps its
    replicas, and may be named in an assignment while it is registered; none is given to it (A31)."""

    ids: frozenset[int]
    racks: tuple[tuple[int, str | None], ...]
    """(id, rack) by id."""


class Search:
    """A search, in slices, for partitions that may get a leader or the end of their reassignment. `rows`: what is left of
    it, as (first row, row behind the last)."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[tuple[int, int]]) -> None:
        self.rows = rows


class Soft:
    """The whole soft state."""

    def __init__(self) -> None:
        self.leases: dict[int, Lease] = {}
        self.leaving: dict[int, Departure] = {}
        """Brokers whose fencing runs in slices, oldest first."""
        self.leaving_row = 0
        """Partition row where the next slice of these fencings begins."""
        self.unreadable: dict[int, frozenset[tuple[bytes, int]]] = {}
        """Broker -> (topic id, number) of the replicas that its newest heartbeat calls unreadable. No set is empty."""
        self.stopping: dict[int, Shutdown] = {}
        self.electing: dict[int, None] = {}
        """Brokers whose return may give partitions without a leader one, until the next search begins."""
        self.allowing: dict[bytes, None] = {}
        """Topics whose unclean.leader.election.enable has changed, until their search begins: their ids, oldest first."""
        self.search: Search | None = None
        """The search for such partitions that is under way; None: none is."""
        self.rebalance_row = -1
        """Partition row where the next slice of a rebalance begins; -1: none runs."""
        self.rebalance_due_ms = 1 << 62
        self.commits = Commits()
        self.controllers: dict[int, Report] = {}
        self.snapshot: SnapshotSlot | None = None
        self.snapshot_times: dict[int, int] = {}
        """The monotonic time when each controller was last told to take a snapshot."""
        self.unregistered: set[int] = set()
        """Brokers that an UnregisterBroker waits for, until the end of the turn in which they are gone."""
        self.isr_connections: dict[int, int] = {}
        """Broker -> the newest connection on which it has sent AlterIsr (R497-52)."""
        self.mutations = Mutations()
        """The tokens that clients have left of their quotas of changes."""
        self.topic_configs: list[Any] | None = None
        """What CreateTopics answers for a topic without settings of its own (configs.py)."""
        self.token_ids: dict[bytes, str] = {}
        """Secret of a delegation token -> its id, as far as they were computed (delegation_tokens.py)."""
        self.legacy: dict[int, Legacy] = {}
        """Brokers that do not pull the metadata log, by id: the newest process of each."""
        self.producer_ids = range(0)
        """The producer ids that are left of a block from which this controller gives single ids (producer_ids.py)."""
        self.producer_ids_offset = -1
        """The offset of the record of that block: no id of it is given before the record is committed."""
        self.zookeeper_epoch: int | None = None
        """The epoch that this controller has written into /controller_epoch when it took /controller; None: ZooKeeper
        does not have it as the controller, and brokers in ZooKeeper mode are told nothing."""
        self.znodes: frozenset[int] = frozenset()
        """Ids that brokers in ZooKeeper mode have in /brokers/ids, as far as it is known; controllers' left out."""
        self._usable: Usable | None = None

    def changed(self) -> None:
        """Let `usable` be computed anew, since a lease, a departure, a shutdown or a registration has changed."""
        self._usable = None

    def usable(self, image: Image) -> Usable:
        """The brokers that may lead, join an ISR and get replicas."""
        if self._usable is None:
            racks = tuple(
                (broker.id, broker.rack)
                for broker in image.unfenced_brokers()
                if broker.id in self.leases
                and not self.leases[broker.id].given_up
                and broker.id not in self.leaving
                and broker.id not in self.stopping
            )
            self._usable = Usable(frozenset(id for id, _ in racks), racks)
        return self._usable

    def may_stay(self, broker: int) -> bool:
        """Whether a member of an ISR that is not usable may stay one for now: it is stopping, or has fenced itself and may
        be back in time."""
        lease = self.leases.get(broker)
        return broker in self.stopping or (lease is not None and lease.given_up)

    def check(self, image: Image) -> None:
        """Assert the invariants, for tests and the simulator."""
        for broker_id, lease in self.leases.items():
            broker: Any = image.broker(broker_id)
            assert image.is_unfenced(broker_id) and broker.epoch == lease.epoch, (broker_id, broker, lease.epoch)
            assert broker_id not in self.leaving
        for broker_id in self.stopping:
            assert broker_id in self.leases
