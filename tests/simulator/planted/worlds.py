"""The kinds of worlds, by name. A mistake names the kind in which it is hunted."""

import random
from collections.abc import Callable, Mapping
from functools import partial

from actors.metadata.topic_names import OFFSETS_TOPIC
from tests.simulator import by_address, failing_disks, faults, simulation, unclean
from tests.simulator.clients.consumer_member import CONFIG as CONSUMER_GROUPS
from tests.simulator.clients.member import Member
from tests.simulator.clients.moves import move
from tests.simulator.clients.pipeline import Pipeline
from tests.simulator.clients.process import Client
from tests.simulator.clients.producer import Producer
from tests.simulator.clients.share_consumer import CONFIG as SHARE_GROUPS
from tests.simulator.clients.share_member import CONFIG as SHARE_MEMBERS
from tests.simulator.clients.streams_member import CONFIG as STREAMS_GROUPS
from tests.simulator.clients.topics import alter, churn, recreate
from tests.simulator.clients.transactions.transactional import Plan
from tests.simulator.faults import Faults
from tests.simulator.impostors import PushyImpostors
from tests.simulator.planted.aged import aged, few_epochs
from tests.simulator.planted.aimed import AimedFaults, AwayFaults, RelocatedFaults
from tests.simulator.planted.arriving import slowly
from tests.simulator.planted.bulk import MENU as TOGETHER
from tests.simulator.planted.bulk import TogetherFaults, small
from tests.simulator.planted.kinds import HastyPipeline, Kind
from tests.simulator.planted.loading import MENU as FAR_BEHIND
from tests.simulator.planted.loading import LoadingFaults, in_slices
from tests.simulator.planted.portions import MENU as AMID
from tests.simulator.planted.portions import AmidFaults, one_by_one
from tests.simulator.planted.rough import CONFIG, ROUGH
from tests.simulator.simulation import Shape, Topic
from tests.simulator.strangers import Pushy, Strangers

REBALANCED = {"leader.imbalance.check.interval.seconds": "1"}
"""Leaderships return to the preferred replicas soon, so that they move between living brokers."""
RETAINED = {"log.retention.check.interval.ms": "1000"}
"""Old segments are deleted while a world lasts."""
BETWEEN_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "400", "internal.metadata.log.segment.bytes": "2048"
}  # fmt: skip
BY_HALF = {"replica.lag.time.max.ms": "500"}


def _topic(name: str, partitions: int, factor: int, min_insync: int, segment: int = 4_000, **more: str) -> Topic:
    configs = {"min.insync.replicas": str(min_insync), "internal.segment.bytes": str(segment), **more}
    return Topic(name, partitions, factor, configs)


def _shape(
    name: str,
    topics: list[Topic],
    config: Mapping[str, str],
    *,
    brokers: int = 3,
    producers: int = 2,
    churn: bool = False,
    members: int = 0,
    purge: bool = False,
) -> Callable[[int], Shape]:
    """The shape of a world with three controllers. The seed decides the metadata format and the sizes of snapshots."""

    def shape(seed: int) -> Shape:
        choose = random.Random(f"{name} {seed}")
        settings = {
            **CONFIG,
            "metadata.log.max.record.bytes.between.snapshots": str(choose.choice((1_000, 5_000, 100_000))),
            "internal.metadata.log.segment.bytes": str(choose.choice((2_048, 8_192))),
            **config,
        }
        return Shape(choose.choice((1, 2)), 3, brokers, settings, topics, producers, 1, churn, members, purge)

    return shape


async def _busy(client: Client, pause_ms: int, factor: int) -> None:
    """An operator with short pauses."""
    await churn(client, pause_ms // 20, factor)


async def _recreating(client: Client, pause_ms: int, factor: int) -> None:
    """Topics are created, deleted and created again."""
    for number in range(8):
        client.spawn(recreate(client, f"{client.name}-{number}", pause_ms // 5, factor))


async def _moving(client: Client, pause_ms: int, factor: int) -> None:
    """Partitions move between brokers all the time, also those of topics that are created and deleted."""
    names = [f"{client.name}-{number}" for number in range(2)]
    for name in names:
        client.spawn(recreate(client, name, pause_ms // 2, 1))
    client.spawn(move(client, ["t0", "t1"], pause_ms // 20))
    client.spawn(move(client, names, pause_ms // 20))


async def _reassigning(client: Client, pause_ms: int, factor: int) -> None:
    """Partitions go to other brokers while their replicas are moved between directories."""
    client.spawn(move(client, ["t1", "t2"], pause_ms // 3))


async def _looking(client: Client, pause_ms: int, factor: int) -> None:
    """A client that fetches a group's offsets all the time."""
    onlooker = Member(client, "group", "t0", 2)
    while not client.stopping:
        await onlooker._offsets([0, 1])
        await client.sleep(client.random.randint(1, 40))


async def _compacted(client: Client, pause_ms: int, factor: int) -> None:
    """A few commits fill a segment of the offsets, which are cleaned all the time; a client fetches offsets of a group."""
    await alter(client, OFFSETS_TOPIC, {"internal.segment.bytes": "1200", "min.cleanable.dirty.ratio": "0.01"})
    await _looking(client, pause_ms, factor)


DEPOSED = {
    "controller alone": 6, "kill": 2, "follower freezes": 2, "connections cut": 1, "controllers lose power": 1,
}  # fmt: skip
TOLD = {
    "late pushes": 5, "controller alone": 3, "short reigns": 3, "kill": 3, "controllers lose power": 2, "connections cut": 3,
    "orderly restart": 2, "slow link": 2, "follower freezes": 1, "long freeze": 1,
}  # fmt: skip
SILENCE = {"long freeze": 4, "broker silent": 4, "broker deaf": 2, "late lease": 4, "kill": 1, "slow link": 2}
MOVING = {
    "proposal overtaken": 4, "kill": 4, "leader falls behind": 6, "follower freezes": 5, "slow proposals": 5, "slow link": 3,
    "last of the isr dies": 3, "connections cut": 2, "long freeze": 1, "broker loses power": 3,
}  # fmt: skip
VOTERS = {
    "split vote": 4, "short reigns": 4, "one controller stays down": 5, "controllers lose power": 4, "kill": 1,
    "controller alone": 1,
}  # fmt: skip
IDLE = {"all brokers lose power": 6, "kill": 6}
OUTPACED = {"leader outpaced": 6, "one controller stays down": 1}
RECREATED = {
    "follower freezes": 6, "slow proposals": 6, "kill": 2, "broker loses power": 1, "orderly restart": 1,
}  # fmt: skip
GROUPS = {"coordinator dies": 8, "kill": 1, "long freeze": 2, "slow link": 2}
SHARED = {
    "kill": 5, "coordinator dies": 6, "broker loses power": 3, "leader falls behind": 3, "follower freezes": 2,
    "orderly restart": 3, "connections cut": 3, "slow link": 3, "long freeze": 1,
}  # fmt: skip
PURGED = {
    "disk lost": 4, "kill": 4, "broker loses power": 4, "leader falls behind": 2, "orderly restart": 2, "rot": 1,
}  # fmt: skip
REASSIGNED = {
    "orderly restart": 5, "kill": 4, "broker loses power": 3, "leader falls behind": 2, "follower freezes": 2,
    "disk lost": 1,
}  # fmt: skip
CLEANED = {
    "kill": 5, "broker loses power": 5, "leader falls behind": 4, "follower freezes": 3, "disk lost": 2,
    "orderly restart": 2, "connections cut": 1,
}  # fmt: skip
RACKED = {
    "follower freezes": 6, "leader falls behind": 5, "kill": 4, "broker loses power": 3, "slow link": 3,
    "connections cut": 1,
}  # fmt: skip
RELOCATED = {
    "dies in a move": 10, "broker loses power": 3, "leader falls behind": 2, "orderly restart": 2, "disk full": 2,
    "disk lost": 1, "kill": 1, "connections cut": 1,
}  # fmt: skip
GUARDED = {
    "kill": 3, "controllers lose power": 2, "long freeze": 2, "leader falls behind": 2, "orderly restart": 2,
    "connections cut": 2, "slow link": 1,
}  # fmt: skip
ROTTEN = {"rot": 6, "disk lost": 3, "kill": 2}
TRANSACTIONAL = {
    "kill": 5, "coordinator dies": 5, "broker loses power": 3, "leader falls behind": 3, "follower freezes": 2,
    "orderly restart": 3, "connections cut": 3, "slow link": 3,
}  # fmt: skip
PIPELINED = {
    "orderly restart": 5, "connections cut": 4, "kill": 2, "leader falls behind": 3, "slow link": 2, "follower freezes": 2,
}  # fmt: skip
ARRIVING = {
    "kill": 5, "orderly restart": 4, "broker loses power": 4, "stops and loses power": 4, "long freeze": 2,
    "broker silent": 2, "leader falls behind": 2,
}  # fmt: skip
QUIET = {
    "broker loses power": 6, "unnoticed power cut": 6, "stops and loses power": 4, "kill": 4,
}  # fmt: skip

THREE = _topic("t0", 1, 3, 2)
PAIR = _topic("t1", 2, 2, 1)

_paired = _shape("away", [PAIR, _topic("t2", 2, 2, 1)], BY_HALF)


def _cleaned(seed: int) -> Shape:
    """Compacted topics alone, cleaned all the time: one with room for all keys, in several segments or few."""
    segment_bytes, memory = random.Random(f"cleaned {seed}").choice(((500, "1024"), (900, "100000"), (2_000, "100000")))
    topics = (
        simulation.compacted_topic("k0", 1, 3, segment_bytes, retention_ms=2_500),
        simulation.compacted_topic("k1", 1, 3, segment_bytes, min_insync=2, retention_ms=2_500),
    )
    config = {"log.cleaner.dedupe.buffer.size": memory, **simulation.CLEANER}
    return _shape("cleaned", [_topic("t0", 1, 3, 1)], BY_HALF | config, producers=1)(seed)._replace(compacted=topics)


_read_nearby = _shape(
    "racked",
    [
        _topic("t0", 1, 3, 1, 2_000, **{"compression.type": "zstd", "compression.zstd.level": "15"}),
        _topic("t1", 2, 2, 1, 2_000, **{"compression.type": "gzip"}, **simulation.THROTTLED),
    ],
    BY_HALF | simulation.RACKS | simulation.RATES | {"replica.fetch.max.bytes": "2000"},
    brokers=4,
    churn=True,
)


_read_by_epochs = _shape("stating", [_topic("t0", 2, 3, 1), _topic("t1", 1, 2, 1)], BY_HALF | REBALANCED)


def _stating(seed: int) -> Shape:
    """Consumers that state the leader epochs that they know."""
    return _read_by_epochs(seed)._replace(stating=True, consumers=3)


def _racked(seed: int) -> Shape:
    """Consumers in racks, two topics that are stored in a codec, one of which moves under a throttle."""
    return _read_nearby(seed)._replace(racks=True, consumers=3)


async def _moving_slowly(client: Client, pause_ms: int, factor: int) -> None:
    """Throttled partitions move, and the last moves have to come to their end."""
    client.spawn(move(client, ["t1"], pause_ms // 4))
    await client.sleep(15_000)
    client.stopping = True


def _relocated(seed: int) -> Shape:
    """Two directories a broker, between which replicas are moved all the time: at once, or slowly."""
    choose = random.Random(f"relocated {seed}")
    flushed = {"flush.messages": "1"} if choose.randrange(2) else {}
    speed = str(choose.choice((3_000, 20_000, 1 << 40)))
    config = {"replica.alter.log.dirs.io.max.bytes.per.second": speed, **simulation.CLEANER}
    topics = [_topic("t0", 1, 3, 1, 1_000, **flushed), _topic("t1", 1, 3, 2, 2_000), _topic("t2", 1, 1, 1, 2_000)]
    compacted = (simulation.compacted_topic("k0", 1, 3, 900, retention_ms=60_000),)
    shape = _shape("relocated", topics, BY_HALF | config, purge=bool(choose.randrange(2)), churn=True)(seed)
    return shape._replace(directories=2, compacted=compacted, relocated=True)


def _idle(seed: int) -> Shape:
    """A topic whose producers pause for so long that everything of it is too old again and again, on slow disks, where all
    brokers lose power at once."""
    old = {"cleanup.policy": "delete", "retention.ms": "400"}
    config = {
        "log.retention.check.interval.ms": "700", "log.initial.task.delay.ms": "0", "log.flush.interval.messages": "1",
        "log.segment.delete.delay.ms": "500",
    }  # fmt: skip
    found = _shape("idle", [_topic("t0", 1, 3, 1)], config, producers=1)(seed)
    return found._replace(compacted=(simulation.compacted_topic("k0", 4, 1, 100_000, **old),))


_members = _shape(
    "compacted", [_topic("t0", 2, 3, 1)], REBALANCED | RETAINED | simulation.CLEANER, members=3, churn=True
)


def _offsets_cleaned(seed: int) -> Shape:
    return _members(seed)._replace(cleaned=(OFFSETS_TOPIC,))


def _statics(seed: int) -> Shape:
    found = _shape("statics", [_topic("t0", 4, 3, 1)], REBALANCED, members=4, churn=True)(seed)
    return found._replace(statics=True)


def _consumers(seed: int) -> Shape:
    """Members of KIP-848 alone, four for four partitions."""
    found = _shape("consumers", [_topic("t0", 4, 3, 1)], REBALANCED | CONSUMER_GROUPS, producers=1)(seed)
    return found._replace(consumer_members=4)


def _migrating(seed: int) -> Shape:
    """One member of KIP-848 that comes and goes, and two classic ones in the same group."""
    found = _shape("migrating", [_topic("t0", 4, 3, 1)], REBALANCED | CONSUMER_GROUPS, producers=1)(seed)
    return found._replace(consumer_members=1, classic_members=2)


def _shared(seed: int) -> Shape:
    """Members of a share group alone, three for two partitions."""
    found = _shape("shared", [_topic("t0", 2, 3, 1)], REBALANCED | BY_HALF | SHARE_GROUPS, producers=1)(seed)
    return found._replace(share_consumers=3)


def _sharing(seed: int) -> Shape:
    """Members of a share group that join, leave and are silent, four for two topics of two partitions and one."""
    topics = [_topic("t0", 2, 3, 1), _topic("t1", 1, 3, 1)]
    found = _shape("sharing", topics, REBALANCED | BY_HALF | SHARE_MEMBERS, producers=1)(seed)
    return found._replace(share_members=4)


def _streams(seed: int) -> Shape:
    """Members of KIP-1071 alone, four in three processes for four tasks, each of which has a copy."""
    found = _shape("streams", [_topic("t0", 4, 3, 1)], REBALANCED | STREAMS_GROUPS, producers=1)(seed)
    return found._replace(streams_members=4)


def _transactional(seed: int) -> Shape:
    """Transactions one behind the other, on few partitions."""
    choose = random.Random(f"transactional {seed}")
    plan = Plan(choose.choice((0, 2)), {"x0": 1, "x1": 1}, "x1", 2, 2, 150)
    found = _shape("transactional", [_topic("t0", 1, 3, 1)], REBALANCED | BY_HALF, producers=1)(seed)
    return found._replace(config={**found.config, **simulation.TRANSACTIONS}, transactions=plan)


def _prepared(seed: int) -> Shape:
    """Two-phase commits one behind the other, beside a writer whose transactions have a timeout."""
    plan = Plan(2, {"x0": 1, "x1": 1}, "", 1, 0, 150, preparers=2)
    found = _shape("prepared", [_topic("t0", 1, 3, 1)], REBALANCED | BY_HALF, producers=1)(seed)
    config = {**found.config, **simulation.TRANSACTIONS, "transaction.two.phase.commit.enable": "true"}
    return found._replace(config=config, transactions=plan)


def _swept(seed: int) -> Shape:
    """Compacted topics that transactions write to, with records that are too young to be cleaned."""
    choose = random.Random(f"swept {seed}")
    topics = (
        simulation.compacted_topic("k0", 1, 3, choose.choice((500, 900)), retention_ms=2_500),
        simulation.compacted_topic("k1", 1, 3, 700, retention_ms=2_500, **{"min.compaction.lag.ms": "3000"}),
    )
    plan = Plan(choose.choice((0, 2)), {"x0": 1}, "", 2, 0, 100, {"k0": 1, "k1": 1})
    config = {"log.cleaner.dedupe.buffer.size": "100000", **simulation.CLEANER, **simulation.TRANSACTIONS}
    found = _shape("swept", [_topic("t0", 1, 3, 1)], BY_HALF | config, producers=1)(seed)
    return found._replace(compacted=topics, transactions=plan, coordinator_segment_bytes=4_000)


def _guarded(seed: int) -> Shape:
    """Access rules that change all the time, and impostors; transactions in half of the worlds."""
    found = _shape("guarded", [_topic("t0", 1, 3, 1), PAIR], BY_HALF, churn=True, members=2)(seed)._replace(
        guarded=True
    )
    if random.Random(f"guarded plan {seed}").randrange(2):
        return found
    plan = Plan(2, {"x0": 1, "x1": 1}, "x1", 1, 1, 150)
    return found._replace(config={**found.config, **simulation.TRANSACTIONS}, transactions=plan)


def _away(seed: int) -> Shape:
    return _paired(seed)._replace(directories=2)


def _pushed(seed: int) -> Shape:
    """Some brokers pull the metadata log, and some are told; topics come and go."""
    found = _shape("pushed", [THREE, PAIR], BY_HALF | REBALANCED, churn=True)(seed)
    choose = random.Random(f"pushed brokers {seed}")
    return found._replace(pushed=tuple(sorted(choose.sample((1, 2, 3), choose.choice((1, 2, 2, 3))))))


VOTING = Kind(
    _shape("voters", [PAIR], {}, churn=True, producers=1),
    partial(AimedFaults, menu=VOTERS),
    faulty_ms=15_000,
    pause_ms=(200, 1_500),
    operator=_busy,
    sync_us=(3_000, 30_000),
)

GENERAL = Kind(
    simulation.shape,
    Faults,
    faulty_ms=simulation.FAULTY_MS,
    healthy_ms=simulation.HEALTHY_MS,
    pause_ms=faults.PAUSE_MS,
    producer=Producer,
    pipeline=Pipeline,
    strangers=Strangers,
)
"""The simulator's own worlds, as they are."""


def _aged(seed: int) -> Shape:
    """Members of a classic group and transactions, in a cluster that is old."""
    choose = random.Random(f"aged {seed}")
    plan = Plan(choose.choice((0, 2)), {"x0": 1, "x1": 1}, "x1", 2, 1, 300)
    found = _shape("aged", [PAIR], REBALANCED, members=3, churn=True)(seed)
    return found._replace(config={**found.config, **simulation.TRANSACTIONS}, transactions=plan)


WORLDS: dict[str, Kind] = {
    "general": GENERAL,
    "strange": VOTING._replace(shape=_shape("strange", [PAIR], {}, producers=1), strangers=Pushy),
    "rough": ROUGH,
    "aged": ROUGH._replace(shape=_aged, begun=aged),
    "bulk": Kind(
        _shape("bulk", [_topic("t0", 5, 3, 1), _topic("t1", 4, 2, 1), _topic("t2", 3, 1, 1)], BY_HALF, brokers=4),
        partial(TogetherFaults, menu=TOGETHER),
        pause_ms=(200, 2_000),
        begun=small,
    ),
    "portions": Kind(
        _shape("portions", [_topic("t0", 6, 3, 1), _topic("t1", 5, 2, 1)], BY_HALF, churn=True),
        partial(AmidFaults, menu=AMID),
        pause_ms=(200, 2_000),
        begun=one_by_one,
    ),
    "arriving": Kind(
        _shape("arriving", [_topic("t0", 5, 3, 2), _topic("t1", 4, 2, 1), _topic("t2", 3, 1, 1)], BY_HALF, churn=True),
        partial(AimedFaults, menu=ARRIVING),
        faulty_ms=15_000,
        pause_ms=(200, 2_000),
        begun=slowly,
    ),
    "loading": Kind(
        _shape("loading", [THREE, PAIR], BETWEEN_SNAPSHOTS, churn=True),
        partial(LoadingFaults, menu=FAR_BEHIND),
        faulty_ms=25_000,
        pause_ms=(200, 1_500),
        operator=_busy,
        begun=in_slices,
    ),
    "deposed": Kind(
        _shape("deposed", [THREE, PAIR], {}, churn=True),
        partial(AimedFaults, menu=DEPOSED),
        faulty_ms=15_000,
        pause_ms=(500, 3_500),
        operator=_busy,
    ),
    "pushed": Kind(
        _pushed,
        partial(AimedFaults, menu=TOLD),
        faulty_ms=15_000,
        pause_ms=(100, 1_500),
        operator=_busy,
    ),
    "silence": Kind(
        _shape("silence", [THREE, PAIR], {}),
        partial(AimedFaults, menu=SILENCE),
        faulty_ms=20_000,
        pause_ms=(500, 3_000),
    ),
    "moving": Kind(
        _shape("moving", [THREE, _topic("t1", 2, 2, 2), _topic("t2", 1, 4, 1)], REBALANCED | BY_HALF, brokers=4),
        partial(AimedFaults, menu=MOVING),
        faulty_ms=15_000,
    ),
    "voters": VOTING,
    "outpaced": VOTING._replace(
        shape=_shape("outpaced", [PAIR], {}, churn=True, producers=1), faults=partial(AimedFaults, menu=OUTPACED)
    ),
    "recreated": Kind(
        _shape("recreated", [THREE], BY_HALF, churn=True, producers=1),
        partial(AimedFaults, menu=RECREATED),
        faulty_ms=15_000,
        pause_ms=(50, 400),
        operator=_recreating,
    ),
    "groups": Kind(
        _shape("groups", [_topic("t0", 2, 3, 1)], REBALANCED, members=2, churn=True),
        partial(AimedFaults, menu=GROUPS),
        operator=_looking,
        faulty_ms=15_000,
        pause_ms=(200, 2_000),
        commits_ms=(10, 200),
    ),
    "statics": Kind(
        _statics,
        partial(AimedFaults, menu=GROUPS),
        operator=_looking,
        faulty_ms=20_000,
        pause_ms=(200, 2_000),
        commits_ms=(10, 200),
    ),
    "consumers": Kind(
        _consumers,
        partial(AimedFaults, menu=GROUPS),
        operator=_looking,
        faulty_ms=20_000,
        pause_ms=(200, 2_000),
    ),
    "migrating": Kind(
        _migrating,
        partial(AimedFaults, menu=GROUPS),
        operator=_looking,
        faulty_ms=25_000,
        pause_ms=(200, 2_000),
    ),
    "shared": Kind(
        _shared,
        partial(AimedFaults, menu=SHARED),
        faulty_ms=15_000,
        pause_ms=(100, 1_200),
    ),
    "sharing": Kind(
        _sharing,
        partial(AimedFaults, menu=SHARED),
        faulty_ms=25_000,
        pause_ms=(100, 1_200),
    ),
    "streams": Kind(
        _streams,
        partial(AimedFaults, menu=GROUPS),
        operator=_looking,
        faulty_ms=20_000,
        pause_ms=(200, 2_000),
    ),
    "compacted": Kind(
        _offsets_cleaned,
        partial(AimedFaults, menu=GROUPS | {"broker loses power": 3, "disk lost": 1}),
        operator=_compacted,
        faulty_ms=15_000,
        pause_ms=(200, 2_000),
        commits_ms=(10, 200),
    ),
    "cleaned": Kind(
        _cleaned,
        partial(AimedFaults, menu=CLEANED),
        faulty_ms=15_000,
        keyed_pause_ms=40,
    ),
    "transactional": Kind(
        _transactional,
        partial(AimedFaults, menu=TRANSACTIONAL),
        faulty_ms=12_000,
        pause_ms=(50, 900),
    ),
    "prepared": Kind(
        _prepared,
        partial(AimedFaults, menu=TRANSACTIONAL),
        faulty_ms=12_000,
        pause_ms=(50, 900),
    ),
    "repeated": Kind(
        _prepared,
        partial(AimedFaults, menu=TRANSACTIONAL),
        faulty_ms=12_000,
        pause_ms=(50, 900),
        begun=few_epochs,
    ),
    "swept": Kind(
        _swept,
        partial(AimedFaults, menu=CLEANED),
        faulty_ms=12_000,
        keyed_pause_ms=200,
    ),
    "away": Kind(
        _away,
        partial(AwayFaults, menu=MOVING),
        faulty_ms=15_000,
    ),
    "racked": Kind(
        _racked,
        partial(AimedFaults, menu=RACKED),
        faulty_ms=15_000,
        operator=_moving_slowly,
    ),
    "stating": Kind(_stating, partial(AimedFaults, menu=MOVING), faulty_ms=15_000),
    "relocated": Kind(
        _relocated,
        partial(RelocatedFaults, menu=RELOCATED),
        faulty_ms=15_000,
        pause_ms=(100, 900),
        operator=_reassigning,
        relocation_ms=120,
        keyed_pause_ms=80,
    ),
    "guarded": Kind(
        _guarded,
        partial(AimedFaults, menu=GUARDED),
        faulty_ms=12_000,
        pause_ms=(200, 1_500),
        producer=Producer,
        pipeline=Pipeline,
        commits_ms=(50, 400),
        rules_ms=80,
        strangers=PushyImpostors,
    ),
    "rotten": Kind(
        _shape("rotten", [_topic("t0", 1, 3, 1, 1_000), _topic("t1", 1, 3, 2, 2_000)], {}),
        partial(AimedFaults, menu=ROTTEN),
        faulty_ms=15_000,
    ),
    "purged": Kind(
        _shape("purged", [_topic("t0", 1, 3, 1, 1_000), _topic("t1", 2, 3, 2, 2_000)], BY_HALF, purge=True),
        partial(AimedFaults, menu=PURGED),
        faulty_ms=15_000,
        purge_ms=200,
    ),
    "reassigned": Kind(
        _shape("reassigned", [_topic("t0", 1, 3, 1, 1_000), PAIR], BY_HALF, brokers=4, churn=True, purge=True),
        partial(AimedFaults, menu=REASSIGNED),
        faulty_ms=15_000,
        operator=_moving,
        purge_ms=1_000,
    ),
    "pipelined": Kind(
        _shape("pipelined", [_topic("t0", 3, 3, 2), _topic("t1", 2, 1, 1, 2_000)], REBALANCED | BY_HALF, producers=4),
        partial(AimedFaults, menu=PIPELINED),
        faulty_ms=20_000,
        pause_ms=(50, 400),
        pipeline=HastyPipeline,
    ),
    "by address": Kind(
        by_address.shape,
        by_address.ClientFaults,
        faulty_ms=15_000,
        pause_ms=(50, 900),
        simulation=by_address.ByAddress,
    ),
    "unclean": Kind(
        unclean.shape,
        unclean.UncleanFaults,
        faulty_ms=30_000,
        pause_ms=(100, 2_500),
        simulation=unclean.Unclean,
    ),
    "failing disks": Kind(
        failing_disks.shape,
        failing_disks.FailingDisks,
        faulty_ms=7_000,
        pause_ms=(50, 600),
        purge_ms=400,
        relocation_ms=250,
        keyed_pause_ms=120,
        begun=failing_disks.often,
        simulation=failing_disks.OnFailingDisks,
    ),
    "idle": Kind(
        _idle,
        partial(AimedFaults, menu=IDLE),
        faulty_ms=25_000,
        pause_ms=(200, 1_200),
        keyed_pause_ms=2_000,
        sync_us=(100_000, 400_000),
    ),
    "quiet": Kind(
        _shape("quiet", [THREE, PAIR], REBALANCED),
        partial(AimedFaults, menu=QUIET),
        faulty_ms=15_000,
        producer=Producer,
        pipeline=Producer,
    ),
}
