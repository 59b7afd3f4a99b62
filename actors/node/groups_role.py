"""Composition of the group coordinator: its writes go through the partition log, its answers to whoever waits."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.broker.groups.coordinator import Coordinator, Settings, Write
from actors.broker.groups.rebalance import Policy, Verdict
from actors.controller.names import OFFSETS_TOPIC
from actors.node.group_condensing import GroupCondensing
from actors.node.group_loading import Loading
from actors.node.registry import Answer, Done, Parked
from actors.ports import Now
from actors.wire.errors import ErrorCode
from fastpath import batch

if TYPE_CHECKING:
    from actors.node.broker_role import BrokerRole
    from actors.node.node import Node

NEVER_MS = 1 << 62


class GroupsRole:
    """The coordinator inside a broker."""

    def __init__(self, node: "Node", broker: "BrokerRole") -> None:
        self._node = node
        self._broker = broker
        value = node.config.value
        self.machine = Coordinator(
            Settings(
                partitions=value("offsets.topic.num.partitions"),
                policy=Policy(value("group.initial.rebalance.delay.ms"), value("group.max.size")),
                session_ms_min=value("group.min.session.timeout.ms"),
                session_ms_max=value("group.max.session.timeout.ms"),
                metadata_bytes_max=value("offset.metadata.max.bytes"),
                retention_ms=value("offsets.retention.minutes") * 60_000,
            )
        )
        self.condensing = GroupCondensing(node, self.machine)
        self._next_ticket = 0
        self._verdicts: dict[int, Verdict] = {}
        self._waiting: set[int] = set()
        self._asked: dict[int, set[int]] = {}
        """Connection -> tickets of its requests that are not answered yet, while it is there."""
        self._check_ms = 0

    # ---- hooks of the broker

    def became_leader(self, topic: str, partition: int, epoch: int) -> None:
        """This broker leads a partition in a new epoch."""
        if topic == OFFSETS_TOPIC:
            self.count_partitions()
            self._gain(partition, epoch)

    def count_partitions(self) -> None:
        """The image has moved: the topic itself says where a group is found; the configuration, only until it exists."""
        image = self._broker.image
        topic = image.topic(OFFSETS_TOPIC)
        for partition, epoch in self.machine.resized(len(image.topic_partitions(topic)) if topic >= 0 else None):
            self._gain(partition, epoch)
        self.drain()

    def resigned(self, topic: str, partition: int) -> None:
        """It leads it no more."""
        if topic == OFFSETS_TOPIC:
            self.lost(partition)

    def lost(self, partition: int) -> None:
        """Groups of that partition have another coordinator now, or need one."""
        self.machine.lost(partition)
        self.condensing.lost(partition)
        self.drain()

    def topic_deleted(self, topic: str) -> None:
        """A topic is gone, and what groups committed for it."""
        self.machine.forget_topic(topic)
        self.drain()

    def tick(self, now: Now) -> None:
        """Time."""
        self.machine.tick(now)
        if now.mono_ms >= self._check_ms:
            self._check_ms = now.mono_ms + self._node.config.value("offsets.retention.check.interval.ms")
            image = self._broker.image
            self.machine.expire_offsets(now, lambda topic: image.topic(topic) >= 0)
        self.drain()

    def deadline_ms(self) -> int:
        """When `tick` is due."""
        return min(self.machine.deadline_ms(), self._check_ms)

    # ---- for the handlers

    def ask(self, connection: int, begin: Callable[[int], None], reply: Callable[[Verdict], Any]) -> Answer:
        """Hand a request to the machine under a fresh ticket; answer now, or when its verdict comes, if the connection
        still is there then."""
        self._next_ticket += 1
        ticket = self._next_ticket
        self._waiting.add(ticket)
        if connection not in self._asked:
            self._asked[connection] = set()
            self._node.when_closed(connection, "groups", lambda: self._hung_up(connection))
        self._asked[connection].add(ticket)
        begin(ticket)
        self.drain()
        return self._answer(connection, ticket, reply)

    def commit(self, start: Callable[[Callable[[ErrorCode], None]], None], reply: Callable[[ErrorCode], Any]) -> Answer:
        """Start a write; answer when it is committed."""
        box: list[ErrorCode] = []
        self._next_ticket += 1
        key = ("group-write", self._next_ticket)

        def then(error: ErrorCode) -> None:
            box.append(error)
            self._node.waiting.signal(key)

        start(then)
        self.drain()

        def again(expired: bool) -> Answer:
            if box:
                return Done(reply(box[0]))
            return Parked([key], NEVER_MS, again)

        return again(False)

    def drain(self) -> None:
        """Carry out what the machine has decided."""
        while self.machine.writes or self.machine.answers or self.machine.condensed:
            answers, self.machine.answers = self.machine.answers, []
            for ticket, verdict in answers:
                if ticket in self._waiting:
                    self._verdicts[ticket] = verdict
                    self._node.waiting.signal(("group", ticket))
            writes, self.machine.writes = self.machine.writes, []
            for write in writes:
                builder = batch.Builder(timestamp_ms=self._node.now.wall_ms)
                for key, value in write.records:
                    builder.append(key, value)
                data = builder.build()
                then = self._written(write, len(data))
                self._broker.append_internal(OFFSETS_TOPIC, write.partition, data, then)
            condensed, self.machine.condensed = self.machine.condensed, []
            for one in condensed:
                self.condensing.condensed(one)

    def _written(self, write: Write, size: int) -> Callable[[ErrorCode], None]:
        def then(error: ErrorCode) -> None:
            code = error
            if error is ErrorCode.NONE:
                self.condensing.committed(write.partition, size)
            if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
                code = ErrorCode.NOT_COORDINATOR
            elif error in (
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                ErrorCode.REQUEST_TIMED_OUT,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ):
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.machine.written(write.token, code, self._node.now)
            self.drain()

        return then

    def _hung_up(self, connection: int) -> None:
        for ticket in sorted(self._asked.pop(connection, ())):
            self._waiting.discard(ticket)
            self._verdicts.pop(ticket, None)
            self._node.waiting.signal(("group", ticket))

    def _answer(self, connection: int, ticket: int, reply: Callable[[Verdict], Any]) -> Answer:
        def again(expired: bool) -> Answer:
            verdict = self._verdicts.pop(ticket, None)
            if verdict is None:
                return Parked([("group", ticket)], NEVER_MS, again)
            self._waiting.discard(ticket)
            self._asked[connection].discard(ticket)
            return Done(reply(verdict))

        return again(False)

    def _gain(self, partition: int, epoch: int) -> None:
        self.machine.gained(partition, epoch)
        self.condensing.lost(partition)
        found = self._broker.replicas.get(OFFSETS_TOPIC, partition)
        if found is not None:
            Loading(self._node, self, found).go_on(0)
