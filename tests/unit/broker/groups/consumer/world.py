"""A coordinator of consumer groups with a clock, a log and topics that a test moves."""

import copy
from collections.abc import Iterator

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.classic.rebalance import GroupPolicy
from actors.broker.groups.classic_requests import Joined, JoinRequest, Synced
from actors.broker.groups.consumer import settings as consumer
from actors.broker.groups.consumer.migration import Migration, MigrationPolicy
from actors.broker.groups.consumer.requests import ConsumerBeat, ConsumerHeartbeat
from actors.broker.groups.consumer.state import ConsumerGroup
from actors.broker.groups.coordinator import Coordinator
from actors.broker.groups.kinds import GroupSettings
from actors.broker.groups.member_groups import GroupConfig
from actors.broker.groups.share import groups as share
from actors.ports import Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import encode, message
from tests.unit.broker.groups.log_reader import Said, successor

SESSION_MS, HEARTBEAT_MS = 45_000, 5_000
Owned = dict[str, tuple[int, ...]]


class Topics:
    """Topics by name: how many partitions they have. Their ids follow from name and incarnation."""

    def __init__(self, **sizes: int) -> None:
        self.version = 1
        self.sizes: dict[str, int] = dict(sizes)
        self.made: dict[str, int] = {}

    def set(self, name: str, size: int) -> None:
        """It comes, grows, or goes (0)."""
        self.version += 1
        if size:
            self.sizes[name] = size
        else:
            del self.sizes[name]
            self.made[name] = self.made.get(name, 0) + 1

    def id(self, name: str) -> bytes:
        return f"{name}/{self.made.get(name, 0)}".encode().ljust(16, b".")

    def named(self, name: str) -> tuple[bytes, int] | None:
        return (self.id(name), self.sizes[name]) if name in self.sizes else None

    def name(self, topic_id: bytes) -> str | None:
        return next((name for name in self.sizes if self.id(name) == topic_id), None)

    def names(self) -> Iterator[str]:
        return iter(self.sizes)


SHARE = share.ShareGroupSettings(10, lambda group: GroupConfig(SESSION_MS, HEARTBEAT_MS, 0), 30_000)


def subscription_bytes(topics: tuple[str, ...], owned: Owned) -> bytes:
    """A member's metadata as consumers write it, in version 1."""
    kind = message("ConsumerProtocolSubscription")
    parts = [kind.TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in owned.items()]
    return b"\0\1" + encode(kind(topics=list(topics), user_data=None, owned_partitions=parts), 1)


def assignment_bytes(parts: Owned, user_data: bytes | None = None) -> bytes:
    """An assignment as the leader of a classic group writes it, in version 1."""
    kind = message("ConsumerProtocolAssignment")
    topics = [kind.TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in parts.items()]
    return b"\0\1" + encode(kind(assigned_partitions=topics, user_data=user_data), 1)


class World:
    """One coordinator with one shard. `held`: writes wait. `idle`: jobs wait."""

    def __init__(
        self,
        interval_ms: int = 0,
        size_max: int = 1_000,
        policy: str = "bidirectional",
        classic_max: int = 10,
        **sizes: int,
    ) -> None:
        self.topics = Topics(**sizes)
        config = GroupConfig(SESSION_MS, HEARTBEAT_MS, interval_ms)
        self.settings = GroupSettings(
            1, GroupPolicy(0, classic_max), 100, 60_000, 64, 1_000_000,
            consumer.ConsumerGroupSettings(
                size_max, ("uniform", "range"), 600_000, lambda group: config,
                Migration(MigrationPolicy[policy.upper()], classic_max),
            ),
            SHARE,
        )  # fmt: skip
        self.machine = Coordinator(self.settings, self.topics)
        self.now = Now(1, 1_000_000)
        self.log: list[Record] = []
        self.written: list[Record] = []
        """What was written since a test has looked."""
        self.held = self.idle = False
        self.answers: dict[int, ConsumerBeat | Joined | Synced] = {}
        self.visible = {"*"}
        self._ticket = 0
        self.machine.gained(0, 1)
        self.machine.loaded(0, 1, self.now)

    # ---- requests

    def beat(
        self,
        member: str,
        epoch: int,
        owned: Owned | None = None,
        topics: tuple[str, ...] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        version: int = 1,
        rack: str | None = None,
    ) -> int:
        """A heartbeat; its ticket."""
        self._ticket += 1
        visible = self.visible
        request = ConsumerHeartbeat(
            group, member, epoch, instance, rack, rebalance_ms, topics, regex, assignor,
            None if owned is None else {self.topics.id(name): frozenset(part) for name, part in owned.items()},
            "client", "/127.0.0.1", f"fresh{self._ticket}", version,
            visible=lambda topic: "*" in visible or topic in visible,
        )  # fmt: skip
        self.machine.kinds.consumer.heartbeat(self._ticket, request, self.now)
        self.drain()
        return self._ticket

    def join(self, member: str, *topics: str, **more: object) -> ConsumerBeat:
        """A member's first heartbeat, and its answer."""
        ticket = self.beat(member, 0, {}, topics, **{"rebalance_ms": 60_000, **more})  # type: ignore[arg-type]
        return self.answer(ticket)

    def answer(self, ticket: int) -> ConsumerBeat:
        found = self.answers[ticket]
        assert isinstance(found, ConsumerBeat)
        return found

    def assigned(self, beat: ConsumerBeat) -> Owned | None:
        """What an answer gives, by name."""
        if beat.assigned is None:
            return None
        names = {topic_id: self.topics.name(topic_id) or "?" for topic_id in beat.assigned}
        return {names[topic_id]: tuple(sorted(part)) for topic_id, part in sorted(beat.assigned.items())}

    def classic_join(
        self,
        member: str,
        *topics: str,
        owned: Owned | None = None,
        instance: str | None = None,
        known: bool = False,
        protocols: tuple[str, ...] = ("range",),
        rebalance_ms: int = 10_000,
        metadata: bytes | None = None,
        version: int = 3,
    ) -> int:
        """JoinGroup of a classic member that is to have this id, or has it (`known`); the ticket."""
        self._ticket += 1
        told = subscription_bytes(topics, owned or {}) if metadata is None else metadata
        request = JoinRequest(
            version, member if known else "", instance, "client", "/127.0.0.1", rebalance_ms, 10_000, "consumer",
            [(name, told) for name in protocols], member,
        )  # fmt: skip
        self.machine.join("g", self._ticket, request, self.now)
        self.drain()
        return self._ticket

    def classic_sync(
        self, member: str, generation: int, assigned: dict[str, Owned] | None = None, instance: str | None = None
    ) -> int:
        """SyncGroup; its ticket. `assigned`: what the leader of a classic group gives, by member."""
        self._ticket += 1
        given = [(id, assignment_bytes(parts)) for id, parts in (assigned or {}).items()]
        self.machine.sync("g", self._ticket, member, instance, generation, "consumer", None, given, self.now)
        self.drain()
        return self._ticket

    def classic_heartbeat(self, member: str, generation: int) -> ErrorCode:
        error = self.machine.heartbeat("g", member, None, generation, self.now)
        self.drain()
        return error

    def classic_leave(self, *members: str) -> list[ErrorCode] | ErrorCode:
        codes = self.machine.leave("g", [(member, None) for member in members], self.now)
        self.drain()
        return codes

    def join_classic(self, member: str = "") -> Joined:
        self._ticket += 1
        request = JoinRequest(
            3, member, None, "client", "/127.0.0.1", 1_000, 1_000, "consumer", [("range", b"")], f"c{self._ticket}"
        )
        self.machine.join("g", self._ticket, request, self.now)
        self.drain()
        found = self.answers[self._ticket]
        assert isinstance(found, Joined)
        return found

    # ---- the world

    def drain(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Carry out what the machine has decided. `error`: how its writes end."""
        machine = self.machine
        while machine.answers or (machine.writes and not self.held) or (machine.kinds.consumer.jobs and not self.idle):
            for ticket, verdict in machine.answers:
                assert ticket not in self.answers, "a request is answered once"
                self.answers[ticket] = verdict  # type: ignore[assignment]
            machine.answers.clear()
            if not self.held:
                writes, machine.writes = machine.writes, []
                for write in writes:
                    if error is ErrorCode.NONE:
                        self.log.extend(write.records)
                        self.written.extend(write.records)
                    machine.written(write.token, error, self.now)
            if not self.idle:
                jobs, machine.kinds.consumer.jobs = machine.kinds.consumer.jobs, []
                for job in jobs:
                    try:
                        result = job.run()
                    except Exception as failed:
                        result = failed
                    job.then(result, self.now)
        for group in machine.every():
            if getattr(group, "rest", None) is None:  # a look at its members would wake it
                group.check()  # type: ignore[attr-defined]

    def pass_ms(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.machine.tick(self.now)
        self.drain()

    def group(self, id: str = "g") -> ConsumerGroup:
        found = self.machine.consumer_group(id)
        assert found is not None
        return found

    def kinds(self) -> list[int]:
        """Kinds of the records that were written since the last look; removals as negative numbers."""
        written, self.written = self.written, []
        return [int.from_bytes(key[:2], "big") * (1 if value is not None else -1) for key, value in written]

    def heir(self, said: Said | None = None) -> "World":
        """Another coordinator that has read the same log. `said`: what those before it have decoded of it."""
        other = copy.copy(self)
        other.machine = successor(self.settings, self.topics, said)
        other.log, other.written, other.answers = list(self.log), [], {}
        other.held = other.idle = False
        other.machine.gained(0, 2)
        assert other.machine.load(0, 2, self.log) == []
        other.machine.loaded(0, 2, self.now)
        other.drain()
        return other
