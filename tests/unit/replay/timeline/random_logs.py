"""Random metadata logs of both families, valid and full of turns: topics come, go and come again, brokers are fenced, ISRs
and leaders change, replicas move, rules and settings are set and removed, and in the released family metadata transactions
end, are aborted, or stay open."""

import random
from collections.abc import Iterator

from actors.metadata.batches import BatchWriter, LeaderChange, control_batch
from actors.metadata.dialects import dialect
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    EndPoint,
    Extra,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicGone,
    TopicSet,
)
from actors.ports import Batch
from tests.unit.replay import metadata_logs
from tests.unit.replay.metadata_logs import Record

RARE = Extra(None, None, None, (2,), (1,))


class _World:
    """What exists while a log is made up."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.topics: dict[str, tuple[bytes, dict[int, list[int]]]] = {}
        self.brokers: dict[int, bool] = {}
        self.epoch = 0
        """Goes up by far more than brokers that are gone can raise the epoch of a partition: epochs never go back."""
        self.rules: list[bytes] = []

    def partition(self) -> tuple[bytes, int, list[int]] | None:
        some = [(id, number, replicas) for id, those in self.topics.values() for number, replicas in those.items()]
        return self.choose.choice(some) if some else None

    def new_topic(self) -> tuple[str, bytes] | None:
        free = [name for name in ("a", "b.c", "b_c", "d", "e") if name not in self.topics]
        if not free:
            return None
        name, topic_id = self.choose.choice(free), self.choose.randbytes(16)
        self.topics[name] = (topic_id, {})
        return name, topic_id

    def new_partitions(self, name: str) -> list[tuple[int, list[int]]]:
        those = self.topics[name][1]
        made = []
        for _ in range(self.choose.randint(1, 4)):
            size = 40 if self.choose.random() < 0.05 else 3
            made.append((len(those), self.choose.sample(range(1, 6 if size == 3 else 60), size)))
            those[len(those)] = made[-1][1]
        return made

    def isr(self, replicas: list[int]) -> list[int]:
        return [one for one in replicas if self.choose.random() < 0.7] or replicas[:1]

    def gone(self) -> bytes | None:
        if not self.topics:
            return None
        return self.topics.pop(self.choose.choice(sorted(self.topics)))[0]


def drafts(seed: int, steps: int, level: int = 2) -> list[Batch]:
    """Batches of the drafts' family, some with many records, some with one; leaders are elected between them."""
    world = _World(seed)
    ops: list[Op] = [FeatureSet("metadata.format", level)]
    for _ in range(steps):
        ops += _draft_ops(world, level)
    found, offset, time_ms, epoch = [], 0, 1_000, 1
    while ops or not found:
        if not found or world.choose.random() < 0.1:
            epoch += 1
            found.append(control_batch(offset, epoch, time_ms, [LeaderChange(1000 + epoch % 3, (1000, 1001), (1000,))]))
            offset += 1
        size = world.choose.choice((1, 1, 3, 20))
        out = BatchWriter(offset, epoch, time_ms)
        dialect(level).encode(ops[:size], out)
        ops = ops[size:]
        found += out.finish()
        offset = out.next_offset
        time_ms += world.choose.choice((0, 1, 700, 90_000))
    return found


def _draft_ops(world: _World, level: int) -> Iterator[Op]:
    choose = world.choose
    what = choose.random()
    if what < 0.15:
        made = world.new_topic()
        if made:
            yield TopicSet(*made)
            rows = world.new_partitions(made[0])
            yield PartitionsSet(made[1], [n for n, _ in rows], [r for _, r in rows], [r for _, r in rows])
    elif what < 0.6:
        found = world.partition()
        if found:
            topic_id, number, replicas = found
            isr = world.isr(replicas)
            world.epoch += 1_000
            extra = RARE if choose.random() < 0.1 else None
            leader = choose.choice([*isr, -1])
            yield PartitionsChanged.one(topic_id, number, isr, leader, world.epoch, world.epoch, extra=extra)
    elif what < 0.65:
        found = world.partition()
        if found:
            topic_id, number, replicas = found
            world.epoch += 1_000
            yield PartitionsSet.one(
                topic_id, number, replicas, replicas[:1], replicas[0], world.epoch, world.epoch,
                adding=tuple(replicas[1:2]), removing=(),
            )  # fmt: skip
    elif what < 0.72:
        topic = next((name for name in world.topics), None)
        topic_id = world.gone()
        if topic_id is not None:
            yield TopicGone(topic_id, topic or "")
    elif what < 0.82:
        id = choose.randint(1, 5)
        if world.brokers.get(id):
            world.brokers[id] = False
            yield BrokerGone(id)
        else:
            world.brokers[id] = True
            world.epoch += 1_000
            yield BrokerSet(id, world.epoch, choose.randbytes(16), (EndPoint("P", "h", 9000 + id),), fenced=False)
    elif what < 0.9:
        yield ConfigSet(
            choose.choice((2, 4)), choose.choice("ab1"), choose.choice("xy"), choose.choice(("1", "2", None))
        )
    elif what < 0.95:
        world.epoch += 1_000
        yield ProducerIdsSet(1, 1, world.epoch)


def released(seed: int, steps: int) -> list[Batch]:
    """Batches of released Kafka's records, with metadata transactions over several batches."""
    world = _World(seed)
    found: list[Batch] = []
    offset, time_ms, epoch = 0, 1_000, 1
    left, is_open = steps, False
    before = None
    while left > 0 or not found:
        if not is_open and (not found or world.choose.random() < 0.1):
            epoch += 1
            found.append(control_batch(offset, epoch, time_ms, [LeaderChange(3000 + epoch % 3, (3000, 3001), (3000,))]))
            offset += 1
        records: list[Record] = []
        if not is_open and world.choose.random() < 0.15:
            records.append((23, 0, "BeginTransactionRecord", {}))
            is_open, before = True, (dict(world.brokers), _copied(world), list(world.rules))
        for _ in range(world.choose.choice((1, 1, 3, 20))):
            records += _released_records(world)
            left -= 1
        if is_open and world.choose.random() < 0.3:
            if world.choose.random() < 0.5:
                records.append((24, 0, "EndTransactionRecord", {}))
            else:
                records.append((25, 0, "AbortTransactionRecord", {}))
                assert before is not None
                world.brokers, world.topics, world.rules = before
            is_open = False
        if records:
            batch = metadata_logs.released(records, offset, time_ms)
            found.append(batch)
            offset = batch.last_offset + 1
        time_ms += world.choose.choice((0, 1, 700, 90_000))
    return found


def _copied(world: _World) -> dict[str, tuple[bytes, dict[int, list[int]]]]:
    return {name: (id, dict(those)) for name, (id, those) in world.topics.items()}


def _released_records(world: _World) -> Iterator[Record]:
    choose = world.choose
    what = choose.random()
    if what < 0.15:
        made = world.new_topic()
        if made:
            name, topic_id = made
            yield 2, 0, "TopicRecord", {"name": name, "topic_id": topic_id}
            for number, replicas in world.new_partitions(name):
                fields: dict[str, object] = {
                    "partition_id": number, "topic_id": topic_id, "replicas": replicas, "isr": replicas,
                    "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0,
                    "directories": [bytes([one]) * 16 for one in replicas],
                }  # fmt: skip
                yield 3, 2, "PartitionRecord", fields
    elif what < 0.65:
        found = world.partition()
        if found:
            topic_id, number, replicas = found
            isr = world.isr(replicas)
            change: dict[str, object] = {"partition_id": number, "topic_id": topic_id, "isr": isr}
            if choose.random() < 0.7:
                change["leader"] = choose.choice([*isr, -1])
            else:
                change["leader"] = isr[0]
            if choose.random() < 0.1:
                change["eligible_leader_replicas"] = [replicas[-1]]
            if choose.random() < 0.1:
                change["adding_replicas"] = choose.choice(([], [replicas[0]]))
            yield 5, 2, "PartitionChangeRecord", change
    elif what < 0.72:
        topic_id_ = world.gone()
        if topic_id_ is not None:
            yield 9, 0, "RemoveTopicRecord", {"topic_id": topic_id_}
    elif what < 0.82:
        id = choose.randint(1, 5)
        if id in world.brokers:
            world.brokers[id] = not world.brokers[id]
            fenced = 1 if world.brokers[id] else -1
            yield 17, 0, "BrokerRegistrationChangeRecord", {"broker_id": id, "broker_epoch": id, "fenced": fenced}
        else:
            world.brokers[id] = True
            yield (
                0,
                3,
                "RegisterBrokerRecord",
                {"broker_id": id, "broker_epoch": id, "incarnation_id": bytes([id]) * 16},
            )
    elif what < 0.9:
        yield 4, 0, "ConfigRecord", {
            "resource_type": choose.choice((2, 4)), "resource_name": choose.choice("ab1"), "name": choose.choice("xy"),
            "value": choose.choice(("1", "2", None)),
        }  # fmt: skip
    elif what < 0.97:
        if world.rules and choose.random() < 0.5:
            yield 19, 0, "RemoveAccessControlEntryRecord", {"id": world.rules.pop()}
        else:
            world.rules.append(choose.randbytes(16))
            yield 18, 0, "AccessControlEntryRecord", {
                "id": world.rules[-1], "resource_type": 2, "resource_name": "a", "pattern_type": 3, "principal": "User:a",
                "host": "*", "operation": 3, "permission_type": 3,
            }  # fmt: skip
    else:
        yield 28, 0, "ClearElrRecord", {"topic_name": ""}
