"""One world of the simulator: what a seed decides, how it runs, and its result.

A run has four parts. The cluster comes up. Clients work while faults come and go. The faults end, and the cluster must
become healthy within a bounded time (liveness). Everything committed is read back, and late clients are served. Every
choice comes from the seed through a generator of its own part, so that a change in one part of a world does not change
the choices of the others.
"""

import random
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any, NamedTuple

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.transactions.state import AT_REST
from actors.metadata.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from actors.wire.errors import ErrorCode
from tests.simulator.checkers.acknowledged_metadata import AcknowledgedMetadata
from tests.simulator.checkers.acknowledged_records import AcknowledgedRecords
from tests.simulator.checkers.believed_leaders import BelievedLeaders
from tests.simulator.checkers.changed_replicas import ChangedReplicas
from tests.simulator.checkers.committed_data import CommittedData
from tests.simulator.checkers.committed_transactions import CommittedTransactions, Told
from tests.simulator.checkers.compacted_records import CompactedRecords
from tests.simulator.checkers.consumed_records import ConsumedRecords
from tests.simulator.checkers.coordinators import Coordinators
from tests.simulator.checkers.denied import NobodyDoesWhatIsDenied
from tests.simulator.checkers.failed_syncs import FailedSyncs
from tests.simulator.checkers.fenced_brokers import FencedBrokers
from tests.simulator.checkers.group_offsets import GroupOffsets
from tests.simulator.checkers.hooks import Hooks, Violation
from tests.simulator.checkers.idle_nodes import IdleNodes
from tests.simulator.checkers.isr_invariants import IsrInvariants
from tests.simulator.checkers.isr_members import IsrMembers
from tests.simulator.checkers.isr_proposals import IsrProposals
from tests.simulator.checkers.known_epochs import KnownEpochs
from tests.simulator.checkers.log_epochs import LogEpochs
from tests.simulator.checkers.log_starts import LogStarts
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.checkers.offline_directories import OfflineDirectories
from tests.simulator.checkers.one_directory import OneDirectory
from tests.simulator.checkers.one_owner import OneOwner
from tests.simulator.checkers.one_winner import OneWinner
from tests.simulator.checkers.partition_leaders import PartitionLeaders
from tests.simulator.checkers.phantom_records import PhantomRecords
from tests.simulator.checkers.pushed_metadata import PushedMetadata
from tests.simulator.checkers.quiet_cluster import QuietCluster
from tests.simulator.checkers.quorum_leaders import QuorumLeaders
from tests.simulator.checkers.record_order import RecordOrder
from tests.simulator.checkers.served_offsets import ServedOffsets
from tests.simulator.checkers.share_members import ShareMembers
from tests.simulator.checkers.shared_records import SharedRecords
from tests.simulator.checkers.stable_offsets import StableOffsets
from tests.simulator.checkers.stated_invariants import StatedInvariants
from tests.simulator.checkers.stopped_nodes import StoppedNodes
from tests.simulator.checkers.transaction_logs import TransactionLogs
from tests.simulator.checkers.true_deadlines import TrueDeadlines
from tests.simulator.clients.classic_member import ClassicMember
from tests.simulator.clients.consumer import consume, earliest, fetch
from tests.simulator.clients.consumer_member import CONFIG as CONSUMER_GROUPS
from tests.simulator.clients.consumer_member import GROUP, ConsumerMember
from tests.simulator.clients.keyed import KeyedProducer, read_again
from tests.simulator.clients.member import Member
from tests.simulator.clients.moves import move
from tests.simulator.clients.pipeline import Pipeline
from tests.simulator.clients.process import Client
from tests.simulator.clients.producer import Producer
from tests.simulator.clients.purge import purge
from tests.simulator.clients.relocations import relocate
from tests.simulator.clients.rules import PAUSE_MS as RULES_MS
from tests.simulator.clients.rules import RulesOperator, host, needs, user
from tests.simulator.clients.session import SessionConsumer
from tests.simulator.clients.share_consumer import DELIVERY_LIMIT, ShareConsumer
from tests.simulator.clients.share_consumer import GROUP as SHARERS
from tests.simulator.clients.share_member import ShareMember, begin_at_the_start
from tests.simulator.clients.streams_member import CONFIG as STREAMS_GROUPS
from tests.simulator.clients.streams_member import GROUP as STREAMS_GROUP
from tests.simulator.clients.streams_member import StreamsMember
from tests.simulator.clients.topics import alter, churn, create
from tests.simulator.clients.transactions.committed_reader import read_committed
from tests.simulator.clients.transactions.copier import Copier
from tests.simulator.clients.transactions.preparer import Preparer, Store
from tests.simulator.clients.transactions.transactional import TIMEOUT_MS, Plan, Writer
from tests.simulator.cluster import Cluster
from tests.simulator.faults import Faults
from tests.simulator.history import History
from tests.simulator.impostors import Impostors
from tests.simulator.patience import turns_end
from tests.simulator.strangers import Nobody, Strangers
from tests.simulator.world import World

FAULTY_MS = 110_000
HEALTHY_MS = 90_000
"""Virtual time within which a cluster without faults must be healthy again."""
WRITABLE_MS = 30_000
COVERED_MS = 60_000
"""Within that time of health every share partition has a member. A new coordinator does not ask again for half a minute what
has begun, since an answer may still come; and a member may be silent for twelve seconds."""
PURGE_MS = 4_000
"""Between two deletions of records, on the average."""
SEGMENTS = ("1000", "4000", "100000")
COPIER = "copier"
"""Transactional id and group of all clients that copy."""
DAY_MS = 86_400_000
KEYED_PAUSE_MS = 800
"""Between two batches of a producer of a compacted topic, at most twice as long."""
RELOCATION_MS = 2_000
"""Between two requests to move a replica, on the average."""
REASSIGNMENT_MS = 250
"""Between two reassignments of topics that stay, on the average."""
DELETE_RETENTION_MS = 300_000
"""delete.retention.ms of compacted topics. A replica that is away for longer misses tombstones, as in Apache Kafka."""
RACKS = {
    "broker.rack": "r{id}", "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}  # fmt: skip
"""Each broker has a rack of its own, so a consumer reads from one broker as long as it can."""
RATES = {"leader.replication.throttled.rate": "40000", "follower.replication.throttled.rate": "40000"}
THROTTLED = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
CLEANER = {
    "log.cleaner.backoff.ms": "150", "log.cleaner.io.buffer.size": "4096",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}  # fmt: skip
TRANSACTIONS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
WRITER_PAUSE_MS = 3_500
"""Between two transactions of a writer, on the average."""
ENDED_MS = 6 * TIMEOUT_MS
"""Within that time of health no transaction is open: its timeout, the check for it, and the markers."""
Patch = Callable[[], Callable[[], None]]
"""Changes one function of the product. Returns the function that takes the change back."""


class Result(NamedTuple):
    """The result of a run."""

    seed: int
    ok: bool
    checker: str
    """The property that did not hold; empty if all did."""
    text: str
    virtual_ms: int
    cpu_s: float
    deliveries: int
    digest: int
    faults: Counter[str]
    counts: Counter[str]
    lines: Sequence[str]


class Topic(NamedTuple):
    """A topic that stays for the whole run."""

    name: str
    partitions: int
    factor: int
    configs: dict[str, str]


class Shape(NamedTuple):
    """What a seed decides about a cluster and its work."""

    level: int
    controllers: int
    brokers: int
    config: dict[str, str]
    topics: list[Topic]
    producers: int
    consumers: int
    churn: bool
    members: int
    purge: bool = False
    """Whether a client deletes records."""
    directories: int = 1
    """Log directories of a broker; where there are two, the second one fails."""
    compacted: tuple[Topic, ...] = ()
    """Topics that are compacted, and have clients of their own."""
    racks: bool = False
    """Whether consumers have racks, and are served by followers in them."""
    relocated: bool = False
    """Whether replicas are moved between directories."""
    cleaned: tuple[str, ...] = ()
    """Topics of coordinators that are compacted because an operator of this kind of world makes their segments short."""
    coordinator_segment_bytes: int = 0
    """Segment size of the topics of coordinators, so that all of them are compacted; 0: as it is."""
    transactions: Plan | None = None
    """What transactional clients do; their topics are made for them."""
    consumer_members: int = 0
    """Members of a group of KIP-848; with any, group.version is 1."""
    classic_members: int = 0
    """Classic members of the same group: whenever the last of the others has left, it is a classic group."""
    share_consumers: int = 0
    """How many clients take records of a share group without being its members; with any, share.version is 1."""
    share_members: int = 0
    """Members of the share group, with all that a membership is; with any, share.version is 1."""
    streams_members: int = 0
    """Members of a group of KIP-1071; with any, streams.version is 1."""
    guarded: bool = False
    """Whether access rules, which change, decide what each client may do."""
    pushed: tuple[int, ...] = ()
    """Brokers that do not pull the metadata log: controllers push it."""
    stating: bool = False
    """Whether consumers state the leader epochs that they know, and compare their positions (KIP-320)."""
    reassigned: bool = False
    """Whether partitions get other replicas, of topics that stay."""
    timeless: int = 0
    """One batch in so many has no time; 0: each has one."""
    statics: bool = False
    """Whether half of the members have instance ids, and their processes begin again in place of leaving (KIP-345)."""


def shape(seed: int) -> Shape:
    """The cluster of a seed. Half of the worlds compact all the time, half have transactions, a third has access rules; in
    some brokers are told of metadata."""
    found = with_racks(with_moves(with_transactions(with_compaction(plain(seed), seed), seed), seed), seed)
    found = with_consumer_groups(with_push(with_access_rules(found, seed), seed), seed)
    return with_streams_groups(found, seed)._replace(stating=True)


def plain(seed: int) -> Shape:
    """The cluster of a seed without what the others add."""
    choose = random.Random(f"shape {seed}")
    brokers = choose.choice((3, 3, 3, 4))
    config = {
        "replica.lag.time.max.ms": str(choose.choice((2_000, 5_000, 10_000))),
        "registration.heartbeat.interval.ms": "1000",
        "registration.lease.timeout.ms": str(choose.choice((6_000, 9_000, 18_000))),
        "metadata.log.max.record.bytes.between.snapshots": str(choose.choice((3_000, 10_000, 100_000))),
        "internal.metadata.log.segment.bytes": str(choose.choice((2_048, 8_192, 1 << 20))),
        "log.segment.delete.delay.ms": "1000",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "3",
        "group.min.session.timeout.ms": "1000",
    }
    flushed = not choose.randrange(6)
    if flushed:
        config["log.flush.interval.messages"] = "1"
    topics = []
    for number in range(choose.choice((1, 2, 2))):
        configs = {
            "min.insync.replicas": str(choose.choice((1, 1, 2))),
            "internal.segment.bytes": str(choose.choice((1_000, 4_000, 100_000))),
        }
        if flushed or not choose.randrange(4):
            configs["flush.messages"] = "1"
        topics.append(Topic(f"t{number}", choose.choice((1, 2, 3)), choose.choice((2, 3, 3)), configs))
    return Shape(
        choose.choice((1, 2)), choose.choice((1, 3, 3, 3, 3)), brokers, config, topics, choose.choice((1, 2, 2)),
        choose.choice((1, 1, 2)), bool(choose.randrange(2)), choose.choice((0, 2, 2, 3)), not choose.randrange(3),
        random.Random(f"{seed}-directories").choice((1, 1, 2)),
    )  # fmt: skip


def with_moves(found: Shape, seed: int) -> Shape:
    """Replicas are moved between the directories of a broker, where it has two, in half of the worlds."""
    choose = random.Random(f"{seed}-relocated")
    if found.directories == 1 or choose.randrange(2):
        return found
    speed = {"replica.alter.log.dirs.io.max.bytes.per.second": str(choose.choice((2_000, 20_000, 1 << 40)))}
    return found._replace(config={**found.config, **speed}, relocated=True)


def with_racks(found: Shape, seed: int) -> Shape:
    """In a third of the worlds consumers in racks, topics that are stored in codecs, and throttled replicas."""
    choose = random.Random(f"{seed}-racks")
    if choose.randrange(3):
        return found
    codecs = ("gzip", "snappy", "lz4", "zstd", "uncompressed", "producer")
    topics = []
    for topic in found.topics:
        configs = {
            **topic.configs,
            "compression.type": choose.choice(codecs),
            **(THROTTLED if choose.randrange(2) else {}),
        }
        if not choose.randrange(3):
            configs["compression.zstd.level"] = "15"  # never in the turn
        topics.append(topic._replace(configs=configs))
    return found._replace(config={**found.config, **RACKS, **RATES}, topics=topics, racks=True)


def with_access_rules(found: Shape, seed: int) -> Shape:
    """An authorizer in a third of the worlds."""
    return found._replace(guarded=not random.Random(f"{seed}-access rules").randrange(3))


def with_push(found: Shape, seed: int) -> Shape:
    """Brokers that do not pull the metadata log, some or all, in a fifth of the worlds without access rules, which are not
    pushed."""
    choose = random.Random(f"{seed}-legacy")
    if found.guarded or choose.randrange(5):
        return found
    count = choose.choice((1, 2, found.brokers))
    return found._replace(pushed=tuple(sorted(choose.sample(range(1, found.brokers + 1), count))))


def with_consumer_groups(found: Shape, seed: int) -> Shape:
    """Members of KIP-848 in a third of the worlds without access rules."""
    choose = random.Random(f"{seed}-consumer groups")
    if found.guarded or choose.randrange(3):
        return found
    return found._replace(config={**found.config, **CONSUMER_GROUPS}, consumer_members=choose.choice((2, 3, 4)))


def with_streams_groups(found: Shape, seed: int) -> Shape:
    """Members of KIP-1071 in a quarter of the worlds without access rules."""
    choose = random.Random(f"{seed}-streams groups")
    if found.guarded or choose.randrange(4):
        return found
    return found._replace(config={**found.config, **STREAMS_GROUPS}, streams_members=choose.choice((2, 3, 4)))


def compacted_topic(
    name: str,
    partitions: int,
    factor: int,
    segment_bytes: int,
    min_insync: int = 1,
    retention_ms: int = DELETE_RETENTION_MS,
    **more: str,
) -> Topic:
    """A topic that is compacted all the time."""
    configs = {
        "cleanup.policy": "compact", "internal.segment.bytes": str(segment_bytes), "min.insync.replicas": str(min_insync),
        "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": str(retention_ms),
        **more,
    }  # fmt: skip
    return Topic(name, partitions, factor, configs)


def with_compaction(found: Shape, seed: int) -> Shape:
    """In half of the worlds a compacted topic in the place of another one, and short segments of the coordinators' topics,
    so that they are compacted too."""
    choose = random.Random(f"{seed}-compaction")
    if choose.randrange(2):
        return found
    more = {
        # Cleaned when it is worth it, or a world of two minutes would do little else.
        "min.cleanable.dirty.ratio": choose.choice(("0.3", "0.5")),
        "min.compaction.lag.ms": choose.choice(("0", "0", "4000")),
        "max.compaction.lag.ms": choose.choice((str((1 << 63) - 1), "6000")),
    }
    if not choose.randrange(4):
        more |= {"cleanup.policy": "compact,delete", "retention.bytes": "8000"}
    topic = compacted_topic("k0", choose.choice((1, 1, 2)), 3, choose.choice((600, 1_500, 6_000)), **more)
    config = CLEANER | {
        "log.cleaner.dedupe.buffer.size": choose.choice(("5000", "100000")),
        "log.retention.check.interval.ms": "2000",
    }
    return found._replace(
        topics=found.topics[:1], config={**found.config, **config}, compacted=(topic,),
        coordinator_segment_bytes=choose.choice((1_500, 8_000)),
    )  # fmt: skip


def with_transactions(found: Shape, seed: int) -> Shape:
    """In half of the worlds transactional clients in the place of some others, at transaction.version 0 or 2."""
    choose = random.Random(f"{seed}-transactions")
    if choose.randrange(2):
        return found
    plan = Plan(
        choose.choice((0, 2, 2)), {"x0": choose.choice((1, 2)), "x1": 1}, "x1", choose.choice((1, 1, 2)),
        choose.choice((1, 2)), WRITER_PAUSE_MS, {topic.name: topic.partitions for topic in found.compacted},
    )  # fmt: skip
    return found._replace(
        topics=found.topics[:1], config={**found.config, **TRANSACTIONS}, producers=1, consumers=1, transactions=plan
    )


class Simulation:
    """One run of one seed."""

    def __init__(self, seed: int, *, keep_log: bool = False) -> None:
        self.seed = seed
        self.shape = shape(seed)
        self.world = World(seed, keep_log=keep_log)
        self.cluster = self._cluster()
        self.hooks = Hooks()
        self.history = History(self.hooks)
        self.metadata = MetadataLog(self.hooks)
        self.history.leads = self._leads
        self.data = CommittedData(self.hooks)
        topics = {topic.name: topic.configs for topic in self.shape.compacted}
        keyed = {name: int(configs["delete.retention.ms"]) for name, configs in topics.items()}
        lags = {name: int(configs.get("min.compaction.lag.ms", 0)) for name, configs in topics.items()}
        if self.shape.coordinator_segment_bytes:
            keyed |= dict.fromkeys((OFFSETS_TOPIC, TRANSACTIONS_TOPIC), DAY_MS)
        keyed |= dict.fromkeys(self.shape.cleaned, DAY_MS)
        self.compacted = CompactedRecords(self.world, self.history, self.hooks, keyed, lags)
        self.data.elsewhere = self.compacted.topics
        retained = frozenset(name for name, configs in topics.items() if "delete" in configs["cleanup.policy"])
        retained |= {SHARE_STATE_TOPIC}  # share coordinators delete what is not needed any more
        self.told = Told()
        self.transactions = CommittedTransactions(self.told)
        self.leaders = QuorumLeaders()
        self.stops = StoppedNodes()
        self.hooks.add([
            IdleNodes(), TrueDeadlines(), FailedSyncs(), self.leaders, self.metadata, ChangedReplicas(self.hooks),
            PartitionLeaders(), self.data, IsrMembers(self.metadata, self.cluster), FencedBrokers(self.metadata),
            AcknowledgedMetadata(), AcknowledgedRecords(self.data, self.history), PhantomRecords(self.history),
            RecordOrder(self.history),
            ConsumedRecords(self.data, self.history), KnownEpochs(self.history), GroupOffsets(self.history),
            IsrInvariants(), OneWinner(),
            IsrProposals(self.cluster), LogEpochs(), LogStarts(self.history, retained),
            QuietCluster(self.metadata, self.cluster), self.stops,
            ServedOffsets(self.metadata, self.cluster, self.history), BelievedLeaders(), StatedInvariants(),
            StableOffsets(),
        ])  # fmt: skip
        coordinators = Coordinators(self.world, int(self.shape.config["offsets.topic.num.partitions"]))
        self.hooks.add([coordinators])
        if self.shape.consumer_members or self.shape.streams_members:
            self.hooks.add([OneOwner(coordinators)])
        if keyed:
            self.hooks.add([self.compacted])
        self.hooks.add([TransactionLogs(self.world)])
        if self.shape.directories > 1:
            self.hooks.add([OfflineDirectories(self.metadata, self.cluster), OneDirectory(self.data)])
        self.pushed = PushedMetadata(self.metadata, self.cluster)
        if self.shape.pushed:
            self.hooks.add([self.pushed])
        self.denied: NobodyDoesWhatIsDenied | None = None
        self.rules: RulesOperator | None = None
        if self.shape.guarded:
            self.denied = NobodyDoesWhatIsDenied(self.cluster, self.history.counts)
            self.hooks.add([self.denied])
        self.world.turned.extend(self.hooks.turned)
        self.world.turned.append(self._no_handler_failed)
        self.world.ended.extend(self.hooks.ended)
        self.world.sent.extend(self.hooks.sent)
        self.world.asked.extend(self.hooks.asked)
        self.world.answered.extend(self.hooks.answered)
        self.faults = Faults(self.world, self.cluster, self.metadata, self.hooks, random.Random(f"faults {seed}"))
        self.data.without_rot = self.faults.without_rot
        self.stops.was_rotten = self.faults.was_rotten
        self.faults.all_flushed = "log.flush.interval.messages" in self.shape.config
        ordinary = self.shape.guarded and Strangers is not Nobody and not issubclass(Strangers, Impostors)
        strangers = Impostors if ordinary else Strangers
        self.strangers = strangers(self.world, self.cluster, random.Random(f"strangers {seed}"))
        self.clients: list[Client] = []
        self.shared = SharedRecords(self.world, self.cluster, SHARERS, DELIVERY_LIMIT)
        self.sharing = ShareMembers(self.world, coordinators, SHARERS)

    def run(self) -> Result:
        """Run the whole world. Never raises what a checker or a node raises."""
        began, checker, text = process_time(), "", ""
        try:
            with turns_end(lambda: self.world.turns):
                self._run()
        except Violation as violation:
            checker, text = violation.checker, str(violation)
        except Exception as error:
            checker, text = "no_node_crashes", f"{error!r}\n{traceback.format_exc()}"
        world = self.world
        return Result(
            self.seed, not checker, checker, text, world.time_us // 1000, process_time() - began, world.deliveries,
            world.digest, self.faults.counts, self.history.counts, world.lines,
        )  # fmt: skip

    # ---- the parts

    def _cluster(self) -> Cluster:
        shape = self.shape
        version = shape.transactions.version if shape.transactions is not None else 2
        return Cluster(
            self.world, shape.controllers, shape.brokers, shape.level, shape.config, shape.directories, version,
            guarded=shape.guarded, pushed=shape.pushed, group_version=1 if shape.consumer_members else 0,
            share_version=1 if shape.share_consumers or shape.share_members else 0,
            streams_version=1 if shape.streams_members else 0,
        )  # fmt: skip

    def _run(self) -> None:
        self.cluster.start()
        if not self._until(self.cluster.ready, 30_000):
            raise Violation("liveness", "a fresh cluster is not ready after 30 s")
        self._create()
        self._work()
        self.faults.begin()
        self.strangers.begin()
        self.world.run_for(FAULTY_MS)
        self.faults.end()
        self.strangers.end()
        if not self._until(self._healthy, HEALTHY_MS):
            raise Violation("liveness", f"no faults for {HEALTHY_MS} ms, but {self._illness()}")
        self._give_rights()
        self._finish()

    def _create(self) -> None:
        client = self._client("creator")
        made = [*self.shape.topics, *self.shape.compacted]
        if self.shape.transactions is not None:
            choose = random.Random(f"transactional topics {self.seed}")
            for name, partitions in self.shape.transactions.topics.items():
                configs = {
                    "min.insync.replicas": choose.choice("12"),
                    "internal.segment.bytes": choose.choice(SEGMENTS),
                }
                made.append(Topic(name, partitions, 3, configs))
        for topic in made:
            client.spawn(self._wanted(client, topic))
        if not self._until(lambda: client.running == 0, 30_000):
            raise Violation("liveness", "topics of a fresh cluster are not created after 30 s")
        if self.shape.share_consumers:
            topics = {topic.name: topic.partitions for topic in self.shape.topics}
            client.spawn(ShareConsumer(client, topics, self.shared).initialize())
            if not self._until(lambda: client.running == 0, 30_000):
                raise Violation("liveness", "a share group of a fresh cluster does not begin within 30 s")
        if self.shape.share_members:
            client.spawn(begin_at_the_start(client))
            if not self._until(lambda: client.running == 0, 30_000):
                raise Violation("liveness", "settings of a share group are not taken within 30 s")

    async def _wanted(self, client: Client, topic: Topic) -> None:
        await create(client, topic.name, topic.partitions, topic.factor, topic.configs)

    def _work(self) -> None:
        choose, line = random.Random(f"work {self.seed}"), random.Random(f"line {self.seed}")
        topics = {topic.name: topic.partitions for topic in self.shape.topics}
        for number in range(self.shape.producers):
            idempotent = number == 0 or bool(choose.randrange(2))
            # A log that begins again after deleted records does not know the producer, and accepts any first sequence.
            kind = Pipeline if line.randrange(2) and idempotent and not self.shape.purge else Producer
            producer = kind(self._client(f"p{number}"), acks=-1 if idempotent else 1, idempotent=idempotent,
                            pause_ms=choose.choice((300, 800, 2_000)))  # fmt: skip
            producer.client.spawn(producer.run(topics))
        for number in range(self.shape.consumers):
            client = self._client(f"r{number}")
            client.states_epochs = self.shape.stating
            self._place(client)
            for topic, partitions in topics.items():
                for partition in range(partitions):
                    client.spawn(consume(client, topic, partition))
        for number in range(self.shape.members):
            topic = self.shape.topics[0]
            instance = f"m{number}" if self.shape.statics and number % 2 else None
            member = Member(self._client(f"m{number}"), "group", topic.name, topic.partitions, instance)
            member.client.spawn(member.run())
        for number in range(self.shape.consumer_members):
            topic = self.shape.topics[0]
            consumer = ConsumerMember(self._client(f"c{number}"), GROUP, topic.name, topic.partitions)
            consumer.client.spawn(consumer.run())
        for number in range(self.shape.classic_members):
            topic = self.shape.topics[0]
            classic = ClassicMember(self._client(f"o{number}"), GROUP, topic.name, topic.partitions)
            classic.client.spawn(classic.run())
        for number in range(self.shape.share_consumers):
            ShareConsumer(self._client(f"q{number}"), topics, self.shared).begin()
        for number in range(self.shape.share_members):
            self._share_member(f"g{number}", topics)
        for number in range(self.shape.streams_members):
            streams = self._streams_member(self._client(f"s{number}"), f"process{number % 3}")
            streams.client.spawn(streams.run())
        for topic in self.shape.compacted:
            self._work_keyed(topic)
        if self.shape.churn:
            client = self._client("churn")
            client.spawn(churn(client, 4_000, 3))
        if self.shape.purge:
            client = self._client("purge")
            client.spawn(purge(client, topics, PURGE_MS))
        if self.shape.relocated:
            client = self._client("relocations")
            names = [*topics, *(topic.name for topic in self.shape.compacted), "__consumer_offsets"]
            client.spawn(relocate(client, names, RELOCATION_MS))
        if self.shape.reassigned:
            client = self._client("moves")
            names = [*topics, *(topic.name for topic in self.shape.compacted)]
            client.spawn(move(client, names, REASSIGNMENT_MS))
        if self.shape.coordinator_segment_bytes:
            client = self._client("segments")
            configs = {"internal.segment.bytes": str(self.shape.coordinator_segment_bytes)}
            if (
                self.shape.members
                or self.shape.transactions
                or self.shape.consumer_members
                or self.shape.streams_members
                or self.shape.share_members
            ):
                client.spawn(alter(client, OFFSETS_TOPIC, configs))
            if self.shape.transactions:
                client.spawn(alter(client, TRANSACTIONS_TOPIC, configs))
        if self.shape.transactions is not None:
            self._work_in_transactions(self.shape.transactions)
        if self.shape.guarded:
            session = SessionConsumer(
                self._client("s0"), topics, choose.choice([process.name for process in self.cluster.brokers.values()])
            )
            session.client.spawn(session.run())
            self.rules = RulesOperator(self._client("rules"), needs(self.shape), RULES_MS)
            self.rules.client.spawn(self.rules.run())

    def _give_rights(self) -> None:
        """Everybody gets the rights that are needed, and every node knows of them."""
        rules, denied = self.rules, self.denied
        if rules is None or denied is None:
            return
        rules.changing = False
        if not self._until(lambda: rules.client.running == 0, HEALTHY_MS):
            raise Violation("liveness", f"access rules are not as they should be after {HEALTHY_MS} ms without faults")
        processes = (*self.cluster.controllers.values(), *self.cluster.brokers.values())
        end = self.metadata.image.next_offset
        if not self._until(lambda: all(one.alive and one.image.next_offset >= end for one in processes), HEALTHY_MS):
            raise Violation("liveness", f"not every node has replayed {end} after {HEALTHY_MS} ms without faults")
        denied.resting = True

    def _work_in_transactions(self, plan: Plan) -> None:
        for number in range(plan.writers):
            client = self._client(f"tx{number}")
            client.spawn(Writer(client, self.told, plan, client.name, f"{client.name}-group").run())
        for number in range(plan.preparers):
            store = Store()
            for letter in "ab"[: 1 + number % 2]:
                client = self._client(f"two{number}{letter}")
                client.spawn(Preparer(client, self.told, plan, f"two{number}", store).run())
        topic = next(iter(plan.topics))
        for number in range(plan.copiers if plan.output else 0):
            client = self._client(f"copier{number}")
            client.spawn(Copier(client, self.told, plan, COPIER, COPIER).run(topic))
        client = self._client("committed")
        for topic, partitions in plan.topics.items():
            for partition in range(partitions):
                client.spawn(read_committed(client, self.transactions, topic, partition))

    def _work_keyed(self, topic: Topic) -> None:
        for number in range(2):
            client = self._client(f"{topic.name}-p{number}")
            keyed = KeyedProducer(client, acks=-1, idempotent=True, pause_ms=KEYED_PAUSE_MS)
            client.spawn(keyed.run({topic.name: topic.partitions}))
        client = self._client(f"{topic.name}-r")
        for partition in range(topic.partitions):
            client.spawn(read_again(client, self.compacted, topic.name, partition))

    def _finish(self) -> None:
        """Check that the cluster is writable and quiet, and that everything committed can be read."""
        last = Producer(self._client("last"), acks=-1, idempotent=True, pause_ms=1)
        topics = {topic.name: topic.partitions for topic in self.shape.topics}
        count = self.history.counts["last"]
        for topic, partitions in topics.items():
            for partition in range(partitions):
                last.client.spawn(self._write(last, topic, partition))
        wanted = count + sum(topics.values())
        if not self._until(lambda: self.history.counts["last"] >= wanted, WRITABLE_MS):
            raise Violation("liveness", f"not every partition takes a record within {WRITABLE_MS} ms of health")
        if self.shape.share_members:
            wanted_by_all = self._partitions_of(topics)
            if not self._until(lambda: not self.sharing.uncovered(wanted_by_all), COVERED_MS):
                raise Violation("liveness", f"no member of a share group has {self.sharing.uncovered(wanted_by_all)}")
        for client in self.clients:
            client.stopping = True
        if not self._until(lambda: all(client.running == 0 for client in self.clients), WRITABLE_MS):
            busy = [client.name for client in self.clients if client.running]
            raise Violation("liveness", f"{busy} have no answer after {WRITABLE_MS} ms without faults")
        self._end_transactions()
        if self.shape.share_consumers or self.shape.share_members:
            self._share_the_rest(topics)
        self._read_back(topics)
        if self.shape.transactions is not None:
            self._judge_transactions(self.shape.transactions)
        # Reading finds rot, which is then repaired.
        if not self._until(self._healthy, HEALTHY_MS):
            raise Violation("liveness", f"after everything was read {self._illness()}")
        self.world.run_for(3_000 + max(0, self.world.late_us - self.world.time_us) // 1_000)
        # Who is told late may have been fenced meanwhile, because it was behind.
        if not self._until(lambda: not self._untold() and self._healthy(), HEALTHY_MS):
            raise Violation(
                "liveness",
                f"after {HEALTHY_MS} ms of health {self._untold()} have not been told everything, or {self._illness()}",
            )
        for function in self.hooks.finish:
            function()
        self._serve_the_late()

    def _serve_the_late(self) -> None:
        """Check that a topic can be created, and that a group which has kept its offsets can be joined and accepts new
        ones."""
        late = self._client("late")
        late.spawn(self._wanted(late, Topic("late", 1, 1, {})))
        if self.shape.members:
            topic = self.shape.topics[0]
            late.spawn(self._join_late(Member(late, "group", topic.name, topic.partitions)))
        if self.shape.consumer_members:
            topic = self.shape.topics[0]
            late.spawn(self._join_late_consumers(ConsumerMember(late, GROUP, topic.name, topic.partitions)))
        if self.shape.streams_members:
            late.spawn(self._join_late_consumers(self._streams_member(late, "late process")))
        if not self._until(lambda: late.running == 0, WRITABLE_MS):
            raise Violation("liveness", f"no topic is created, or no group joined, within {WRITABLE_MS} ms of health")

    async def _join_late(self, member: Member) -> None:
        everything, counts = list(range(member.partitions)), self.history.counts
        while True:
            if await member._join() is not None:
                offsets, before = await member._offsets(everything), counts["offsets committed"]
                if offsets is not None and await member._commit(offsets) and counts["offsets committed"] > before:
                    return
            await member.client.sleep(100)

    async def _join_late_consumers(self, member: ConsumerMember) -> None:
        """All others are gone: it gets every partition."""
        while not await member._heartbeat() or len(member.offsets) < member.partitions:
            await member.client.sleep(500)

    def _streams_member(self, client: Client, process: str) -> StreamsMember:
        topic = self.shape.topics[0]
        return StreamsMember(client, STREAMS_GROUP, topic.name, topic.partitions, process)

    def _share_the_rest(self, topics: dict[str, int]) -> None:
        """One member more accepts whatever is left; then every record was given to somebody. Where there are members it is
        given every partition, since the others are silent."""
        if self.shape.share_members:
            last = self._share_member("g-last", topics)
            last.only_accepts = True
            if not self._until(lambda: last.mine == self._partitions_of(topics), WRITABLE_MS):
                raise Violation("liveness", f"the last member of a share group is given {last.mine}")
        else:
            last = ShareConsumer(self._client("q-last"), topics, self.shared)
            last.only_accepts = True
            last.begin()
        if not self._until(lambda: not self._unshared(), WRITABLE_MS):
            raise Violation("liveness", f"{self._unshared()} is left to a share group after {WRITABLE_MS} ms")
        for client in self.clients:
            client.stopping = True
        if not self._until(lambda: all(client.running == 0 for client in self.clients), WRITABLE_MS):
            raise Violation("liveness", "the last member of a share group has no answer")
        for process in self.cluster.brokers.values():
            for partition in process.node.broker.replicas if process.node is not None else ():
                if partition.leads and partition.topic in topics:
                    self.shared.judge((partition.topic_id, partition.number), partition.high_watermark)

    def _share_member(self, name: str, topics: dict[str, int]) -> ShareConsumer:
        """A member with its two clients, which have begun."""
        consumer = ShareConsumer(self._client(name), topics, self.shared)
        member = ShareMember(self._client(f"{name}-group"), topics, consumer, self.sharing)
        member.client.spawn(member.run())
        consumer.begin()
        return consumer

    def _partitions_of(self, topics: dict[str, int]) -> frozenset[tuple[bytes, int]]:
        image = self.metadata.image
        return frozenset((image.topic_id(image.topic(name)), n) for name, count in topics.items() for n in range(count))

    def _unshared(self) -> str:
        """A partition of which something is left; empty: none."""
        for process in self.cluster.brokers.values():
            if process.node is None:
                return f"{process.name} does not run"
            for partition in process.node.broker.replicas:
                if not partition.leads or partition.topic not in {topic.name for topic in self.shape.topics}:
                    continue
                key = SharePartitionKey(SHARERS, partition.topic_id, partition.number)
                held = process.node.broker.shares.find(key)
                window = held.share.window if held is not None else None
                if window is None or window.start < partition.high_watermark:
                    return f"{partition!r} from {window.start if window else None} on at {process.name}"
        return ""

    def _read_back(self, topics: dict[str, int]) -> None:
        reader = self._client("reader")
        self._place(reader)
        for topic, partitions in topics.items():
            for partition in range(partitions):
                reader.spawn(self._read_all(reader, topic, partition))
        if not self._until(lambda: reader.running == 0, WRITABLE_MS):
            raise Violation("liveness", f"not everything committed could be read within {WRITABLE_MS} ms")

    def _end_transactions(self) -> None:
        """All clients have stopped. What they have left open is aborted when it is over its time, which coordinators take
        from their wall clocks: all of them are set to the one that is most ahead."""
        latest_ms = max(process.wall_ms for process in self.cluster.brokers.values())
        for process in self.cluster.brokers.values():
            process.wall_ms = latest_ms
        if not self._until(lambda: not self._open_transactions(), ENDED_MS):
            raise Violation("no_open_transaction", f"{self._open_transactions()} after {ENDED_MS} ms without faults")

    def _open_transactions(self) -> str:
        """A transaction that a leader or a coordinator has open, as text; empty: there is none."""
        for process in self.cluster.brokers.values():
            if process.node is None:
                return f"{process.name} does not run"
            for partition in process.node.broker.replicas:
                if partition.leads and partition.last_stable_offset < partition.log.log_end_offset:
                    return f"{process.name} has {partition!r} undecided from {partition.last_stable_offset} on"
            for id, transaction in process.node.broker.transactions.machine.listed():
                if transaction.state not in AT_REST:
                    return f"{process.name} has {id} as {transaction.state.shown}"
        return ""

    def _judge_transactions(self, plan: Plan) -> None:
        """Every partition is read to its end by a reader of committed records, and every offset of a group is fetched."""
        reader = self._client("last reader")
        for topic, partitions in plan.topics.items():
            for partition in range(partitions):
                reader.spawn(read_committed(reader, self.transactions, topic, partition, whole=True))
        if not self._until(lambda: reader.running == 0, ENDED_MS):
            raise Violation("liveness", f"not all that is committed could be read within {ENDED_MS} ms")
        seen = self.transactions.judge(reader.name)
        self.history.counts["transactions seen"] += len(seen)
        first = next(iter(plan.topics))
        offsets: dict[str, dict[int, int]] = {}
        groups = [*self.told.offsets, *([COPIER] if plan.output else [])]
        for group in groups:
            reader.spawn(self._fetch_offsets(reader, plan, group, first, offsets))
        if not self._until(lambda: reader.running == 0, ENDED_MS):
            raise Violation("no_open_transaction", f"offsets are unstable after {ENDED_MS} ms without faults")
        for group in self.told.offsets:
            self.transactions.judge_offset(group, offsets[group][0], seen)
        if plan.output:
            copied = self.transactions.judge_copies(reader.name, first, plan.output, offsets[COPIER])
            self.history.counts["records copied"] += copied
        self.compacted.judge(self.told)

    async def _fetch_offsets(
        self, client: Client, plan: Plan, group: str, topic: str, found: dict[str, dict[int, int]]
    ) -> None:
        found[group] = await Copier(client, self.told, plan, COPIER, group).offsets(topic)

    async def _write(self, producer: Producer, topic: str, partition: int) -> None:
        producer.idempotent = False
        if await producer._send(topic, partition, producer._values(topic, partition, 1), 0):
            self.history.counts["last"] += 1

    async def _read_all(self, client: Client, topic: str, partition: int) -> None:
        offset = 0
        while True:
            if not await client.learn(topic) or (topic, partition) not in client.leaders:
                await client.sleep(100)
                continue
            topic_id = client.topic_ids[topic]
            if offset >= self.data.partitions[topic_id, partition].end:
                return
            error, records = await fetch(client, topic, topic_id, partition, offset)
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                offset = max(offset, await earliest(client, topic, partition))
            for record in records:
                assert record.value is not None
                self.history.consumed(client.name, topic_id, partition, record.offset, record.value, offset)
                offset = record.offset + 1
            if not records:
                await client.sleep(100)

    # ---- inside

    def _leads(self, broker: str, topic: str, partition: int) -> bool:
        image = self.metadata.image
        row = image.topic(topic)
        place = image.partition(row, partition) if row >= 0 else -1
        return place >= 0 and broker == f"b{image.leader(place)}"

    def _client(self, name: str) -> Client:
        brokers = [process.name for process in self.cluster.brokers.values()]
        client = Client(self.world, name, brokers, self.history, random.Random(f"{name} {self.seed}"))
        client.timeless = self.shape.timeless
        if self.shape.guarded:
            client.principal, client.host = user(name), host(name)
        self.clients.append(client)
        return client

    def _place(self, consumer: Client) -> None:
        """Put a consumer into a rack, if there are any."""
        if self.shape.racks:
            consumer.rack = f"r{random.Random(f'{consumer.name} {self.seed} rack').choice(list(self.cluster.brokers))}"

    def _until(self, condition: Callable[[], bool], milliseconds_max: int) -> bool:
        end_us = self.world.time_us + milliseconds_max * 1000
        while not condition():
            if self.world.time_us >= end_us:
                return False
            self.world.run(self.world.time_us + 100_000)
        return True

    def _no_handler_failed(self, process: Any) -> None:
        for text in self.world.errors:
            if "Traceback" in text:
                raise Violation("no_handler_fails", text)
        self.world.errors.clear()

    def _untold(self) -> list[str]:
        """Brokers that the active controller still tells of metadata: what it sent while a link was slow may be under way
        for seconds after that."""
        active = self.cluster.active()
        pusher = None if active is None else active.node.controller.pusher
        return [] if pusher is None else [f"b{id}" for id, one in pusher._outboxes.items() if not one.idle]

    def _healthy(self) -> bool:
        return not self._illness()

    def _illness(self) -> str:
        """Why the cluster is not healthy; empty: it is."""
        if self.cluster.active() is None:
            return "no controller is active"
        for process in self.cluster.brokers.values():
            if process.node is None or not process.node.broker.availability.serving:
                return f"{process.name} does not serve"
            if process.node.broker.lifecycle.stopping:
                return f"{process.name} was asked to stop and has not yet"
        image = self.metadata.image
        for topic in image.topics():
            for row in image.topic_partitions(topic):
                if image.leader(row) < 0 or set(image.isr(row)) != set(image.replicas(row)):
                    return (
                        f"{image.topic_name(topic)}-{image.number(row)} has leader {image.leader(row)} and ISR "
                        f"{image.isr(row)} of {image.replicas(row)}"
                    )
        return ""


def simulate(seed: int, patches: Sequence[Patch] = (), *, keep_log: bool = False) -> Result:
    """Run one world, with the product changed by `patches` (planted bugs) for the duration."""
    undo = [patch() for patch in patches]
    try:
        return Simulation(seed, keep_log=keep_log).run()
    finally:
        for function in reversed(undo):
            function()
