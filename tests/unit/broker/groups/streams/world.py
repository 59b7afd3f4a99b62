"""A coordinator of streams groups with a clock, a log and topics that a test moves."""

import copy

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.classic.rebalance import GroupPolicy
from actors.broker.groups.classic_requests import Joined, JoinRequest
from actors.broker.groups.consumer import settings as consumer
from actors.broker.groups.coordinator import Coordinator
from actors.broker.groups.kinds import GroupSettings
from actors.broker.groups.member_groups import GroupConfig
from actors.broker.groups.streams import groups as streams
from actors.broker.groups.streams.answers import Endpoint, StreamsBeat
from actors.broker.groups.streams.requests import StreamsHeartbeat
from actors.broker.groups.streams.state import StreamsGroup
from actors.broker.groups.streams.topology import Copartition, Subtopology, Topic, Topology
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups.consumer.world import SHARE, Topics
from tests.unit.broker.groups.log_reader import Said, successor

SESSION_MS, HEARTBEAT_MS = 45_000, 5_000
Owned = dict[str, tuple[int, ...]]


def subtopology(
    id: str,
    *sources: str,
    changelogs: tuple[str, ...] = (),
    repartitions: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    together: bool = False,
) -> Subtopology:
    """One whose internal topics have no size of their own."""
    group = Copartition(tuple(range(len(sources))), (), tuple(range(len(repartitions))))
    return Subtopology(
        id, sources, (), tuple(Topic(name, 0, 0, ()) for name in changelogs), sinks,
        tuple(Topic(name, 0, 0, ()) for name in repartitions), (group,) if together else (),
    )  # fmt: skip


COUNTS = Topology(0, (subtopology("0", "lines", changelogs=("log",)),))
"""The application of most tests: it reads `lines` and keeps state, which is also in `log`."""


class World:
    """One coordinator with one shard. `held`: writes wait. `idle`: jobs wait."""

    def __init__(
        self, interval_ms: int = 0, delay_ms: int = 0, standby: int = 0, size_max: int = 1_000, **sizes: int
    ) -> None:
        self.topics = Topics(**sizes)
        self.pace = streams.StreamsGroupConfig(SESSION_MS, HEARTBEAT_MS, interval_ms, delay_ms, standby)
        config = GroupConfig(SESSION_MS, HEARTBEAT_MS, interval_ms)
        self.settings = GroupSettings(
            partitions=1,
            policy=GroupPolicy(0, 10),
            session_ms_min=100,
            session_ms_max=60_000,
            metadata_bytes_max=64,
            retention_ms=1_000_000,
            consumer=consumer.ConsumerGroupSettings(size_max, ("uniform", "range"), 600_000, lambda group: config),
            share=SHARE,
            streams=streams.StreamsGroupSettings(size_max, lambda group: self.pace),
        )
        self.machine = Coordinator(self.settings, self.topics)
        self.now = Now(1, 1_000_000)
        self.log: list[Record] = []
        self.written: list[Record] = []
        """What was written since a test has looked."""
        self.held = self.idle = False
        self.answers: dict[int, StreamsBeat | Joined] = {}
        self._ticket = 0
        self.machine.gained(0, 1)
        self.machine.loaded(0, 1, self.now)

    # ---- requests

    def beat(
        self,
        member: str,
        epoch: int,
        owned: dict[str, Owned] | None = None,
        topology: Topology | None = None,
        *,
        group: str = "g",
        process: str | None = None,
        endpoint: Endpoint | None = None,
        endpoint_epoch: int = 0,
        rebalance_ms: int = -1,
        shutdown: bool = False,
        tags: tuple[tuple[str, str], ...] | None = None,
        **other: object,
    ) -> int:
        """A heartbeat; its ticket. `owned`: by role."""
        self._ticket += 1
        has = [None if owned is None else list(owned.get(role, {}).items()) for role in ("active", "standby", "warmup")]
        request = StreamsHeartbeat(
            group, member, epoch, endpoint_epoch, None, None, rebalance_ms, topology, *has, process, endpoint, tags,
            False, shutdown, "client", "/127.0.0.1",
        )._replace(**other)  # type: ignore[arg-type]  # fmt: skip
        self.machine.kinds.streams.heartbeat(self._ticket, request, self.now)
        self.drain()
        return self._ticket

    def join(self, member: str, topology: Topology = COUNTS, **more: object) -> StreamsBeat:
        """A member's first heartbeat, and its answer. It is a process of its own."""
        given = {"rebalance_ms": 60_000, "process": f"process-{member}", **more}
        return self.answer(self.beat(member, 0, {}, topology, **given))  # type: ignore[arg-type]

    def answer(self, ticket: int) -> StreamsBeat:
        found = self.answers[ticket]
        assert isinstance(found, StreamsBeat)
        return found

    def join_classic(self) -> Joined:
        self._ticket += 1
        request = JoinRequest(
            3, "", None, "client", "/127.0.0.1", 1_000, 1_000, "consumer", [("range", b"")], f"c{self._ticket}"
        )
        self.machine.join("g", self._ticket, request, self.now)
        self.drain()
        found = self.answers[self._ticket]
        assert isinstance(found, Joined)
        return found

    # ---- the world

    def drain(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Carry out what the machine has decided. `error`: how its writes end."""
        machine, kind = self.machine, self.machine.kinds.streams
        while machine.answers or (machine.writes and not self.held) or (kind.jobs and not self.idle):
            for ticket, verdict in machine.answers:
                assert ticket not in self.answers, "a request is answered once"
                self.answers[ticket] = verdict
            machine.answers.clear()
            if not self.held:
                writes, machine.writes = machine.writes, []
                for write in writes:
                    if error is ErrorCode.NONE:
                        self.log.extend(write.records)
                        self.written.extend(write.records)
                    machine.written(write.token, error, self.now)
            if not self.idle:
                jobs, kind.jobs = kind.jobs, []
                for job in jobs:
                    try:
                        result = job.run()
                    except Exception as failed:
                        result = failed
                    job.then(result, self.now)
        for group in machine.groups("streams"):
            group.check()

    def pass_ms(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.machine.tick(self.now)
        self.drain()

    def group(self, id: str = "g") -> StreamsGroup:
        found = self.machine.find(id)
        assert isinstance(found, StreamsGroup)
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
