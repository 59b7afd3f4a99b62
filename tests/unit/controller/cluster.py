"""A controller without a node: state, clock, randomness, and replay of what operations return."""

import random
from typing import Any

from actors.controller.brokers import fencing_passes, heartbeat_leases
from actors.controller.brokers.registration import broker_heartbeat
from actors.controller.options import Options
from actors.controller.partitions.topics import create_topics
from actors.controller.soft_state import Soft
from actors.controller.state import METADATA_FORMAT, Result, State
from actors.metadata.image import Image
from actors.metadata.ops import FeatureSet
from actors.ports import Now
from actors.wire.messages import message

LISTENER = ("PLAINTEXT", "h", 9092, 0)
FENCED, ACTIVE, SHUTDOWN = 2, 3, 4


class Seeded:
    """The Random port."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = random.Random(seed)

    def below(self, n: int) -> int:
        return self._generator.randrange(n)

    def uuid(self) -> bytes:
        return self._generator.randbytes(16)


class Cluster:
    """`run` an operation and replay it; `beat` for heartbeats; `settle` for the bulk work that a tick would do.

    Everything is committed at once unless `held` is set: then the high watermark stays."""

    def __init__(self, level: int = 2, brokers: int = 0, **options: Any) -> None:
        self.image = Image()
        self.image.replay(0, FeatureSet(METADATA_FORMAT, level))
        self.soft = Soft()
        self.options = Options(cluster_id="c", **options)
        self.mono_ms = 1_000_000
        self.held: int | None = None
        self.random = Seeded()
        self.ops: list[Any] = []
        self.soft.commits.begin(self.mono_ms, 1)
        self.epochs: dict[int, int] = {}
        for broker in range(1, brokers + 1):
            self.join(broker)

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, 1_600_000_000_000 + self.mono_ms)

    @property
    def state(self) -> State:
        end = self.image.next_offset
        return State(
            self.image,
            self.soft,
            self.options,
            end,
            1001,
            self.image.feature(METADATA_FORMAT),
            end if self.held is None else self.held,
            frozenset({1001, 1002, 1003}),
        )

    def run(self, operation: Any, request: Any) -> Any:
        """The reply; `self.ops` are what was replayed, `self.result` the whole."""
        self.result = operation(self.state, request, self.now, self.random)
        return self.apply(self.result)

    def apply(self, result: Result) -> Any:
        self.ops = []
        for item in result.ops:
            for op in item if type(item) is list else (item,):
                self.ops.append(op)
                if self.image.replay(self.image.next_offset, op).brokers:
                    self.soft.changed()
        self.soft.commits.note(self.mono_ms, self.state.high_watermark, 60_000)
        for row in (row for topic in self.image.topics() for row in self.image.topic_partitions(topic)):
            leader = self.image.leader(row)
            assert leader == -1 or leader in self.image.isr(row)
        self.soft.check(self.image)
        return result.reply

    def later(self, ms: int) -> None:
        self.mono_ms += ms

    def beat(self, broker: int, epoch: int | None = None, target: int = ACTIVE, **fields: Any) -> Any:
        """One heartbeat; `epoch` left out: the last one given. A wait ends by settling."""
        kind = message("v28:BrokerHeartbeatRequest")
        given = {
            "lease_start_time_ms": 5000,
            "cur_metadata_offset": self.image.next_offset - 1,
            "listeners": [LISTENER],
        }
        given |= fields
        given["listeners"] = [
            kind.Listener(name=name, host=host, port=port, security_protocol=protocol)
            for name, host, port, protocol in given["listeners"]
        ]
        if epoch is None:
            epoch = self.epochs.get(broker, -1)
        request = kind(target_state=target, broker_id=broker, broker_epoch=epoch, **given)
        reply = self.run(broker_heartbeat, request)
        ops = self.ops
        while self.result.wait is not None:
            self.settle()
            ops += self.ops
            reply = self.run(broker_heartbeat, request)
            ops += self.ops
        self.ops = ops
        if reply.broker_epoch > 0:
            self.epochs[broker] = reply.broker_epoch
        return reply

    def join(self, broker: int, **fields: Any) -> int:
        """Register and settle; the epoch."""
        reply = self.beat(broker, -1, incarnation_id=bytes([broker]) * 16, **fields)
        assert (reply.error_code, reply.next_state) == (0, ACTIVE), reply
        self.settle()
        return reply.broker_epoch

    def settle(self) -> None:
        """All bulk work; `self.ops` are what it wrote."""
        wrote: list[Any] = []
        soft = self.soft
        while True:
            if soft.leaving:
                self.apply(fencing_passes.fence(self.state, None, self.now, self.random))
            elif any(one.moved_offset < 0 for one in soft.stopping.values()):
                broker = next(id for id, one in soft.stopping.items() if one.moved_offset < 0)
                if self.apply(fencing_passes.move(self.state, broker, self.now, self.random)).ended:
                    soft.stopping[broker].moved_offset = self.image.next_offset
                    soft.stopping[broker].moved_ms = self.mono_ms
            elif soft.electing or soft.allowing or soft.search is not None:
                self.apply(fencing_passes.come_back(self.state, None, self.now, self.random))
            else:
                break
            wrote += self.ops
        self.ops = wrote

    def expire(self) -> None:
        for broker in heartbeat_leases.expired(self.soft, self.now):
            heartbeat_leases.revoke(self.soft, broker, "expired")
        self.settle()

    def topic(self, name: str, *assignments: tuple[int, ...], **fields: Any) -> Any:
        """Create a topic with these replicas, or with `fields`; its result."""
        kind = message("CreateTopicsRequest")
        configs = [kind.CreatableTopicConfig(name=n, value=v) for n, v in fields.pop("configs", {}).items()]
        validate_only = fields.pop("validate_only", False)
        given = {"num_partitions": -1, "replication_factor": -1} | fields
        chosen = [
            kind.CreatableReplicaAssignment(partition_index=i, broker_ids=list(a)) for i, a in enumerate(assignments)
        ]
        request = kind(
            topics=[kind.CreatableTopic(name=name, assignments=chosen, configs=configs, **given)],
            validate_only=validate_only,
        )
        return self.run(create_topics, request).topics[0]

    def partition(self, name: str, number: int = 0) -> tuple[tuple[int, ...], int, int]:
        """(isr, leader, leader epoch)."""
        row = self.image.partition(self.image.topic(name), number)
        return self.image.isr(row), self.image.leader(row), self.image.leader_epoch(row)
