"""Classic groups in random histories: processes that start, crash, restart and leave, a log that is slow or fails, and
coordinators that take over. After each step:

1. in one generation no partition has two owners, also across coordinators;
2. what the coordinator has in memory is what another one would load, as far as it is written;
3. what the group counts is what a walk over its members finds (`Group.check`), and a request is answered once.

In the end each process that lives is in the group, and each partition has one owner. Two planted mistakes are found.
"""

from typing import Any

import pytest

from actors.broker.groups.classic import rebalance
from actors.broker.groups.classic.state import GroupState
from actors.broker.groups.classic_requests import Joined, Synced
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups import histories
from tests.unit.broker.groups.histories import AWAY, found
from tests.unit.broker.groups.test_coordinator import World, told

PARTITIONS = 6


class Process:
    """A consumer. What it says of itself is what it remembers: a process that has just started remembers nothing."""

    def __init__(self, history: "History", name: str, static: bool, version: int) -> None:
        self.history, self.name, self.version = history, name, version
        self.instance = name if static else None
        self.begin()

    def begin(self) -> None:
        """It starts, or starts again."""
        self.id, self.generation, self.ticket = "", -1, 0
        self.owned: frozenset[int] = frozenset()
        self.leads: list[str] | None = None

    def step(self) -> None:
        world = self.history.world
        if self.ticket:
            verdict = world.verdicts.get(self.ticket)
            if verdict is not None:
                self.ticket = 0
                self.joined(verdict) if isinstance(verdict, Joined) else self.synced(verdict)
        elif self.generation < 0 or self.leads is None:
            self.join()
        else:
            code = world.machine.heartbeat("g", self.id, self.instance, self.generation, world.now)
            world.drain()
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self.owned = frozenset()
                self.join()
            elif code is not ErrorCode.NONE and code not in AWAY:
                self.begin()

    def join(self) -> None:
        metadata = [(name, told(self.generation, sorted(self.owned))) for name in ("range", "cooperative-sticky")]
        fresh = f"{self.name}.{next(self.history.numbers)}"
        self.leads = None
        self.ticket = self.history.world.join(
            self.id, self.instance, metadata, self.version, fresh, session_ms=10_000, rebalance_ms=20_000
        )

    def joined(self, answer: Joined) -> None:
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
        elif answer.error is not ErrorCode.NONE:
            if answer.error not in AWAY and answer.error is not ErrorCode.REBALANCE_IN_PROGRESS:
                self.begin()
        else:
            self.id, self.generation = answer.member_id, answer.generation
            ids = [id for id, _, _ in answer.members]
            self.leads = [] if answer.skip_assignment or answer.leader != self.id else ids
            given = {id: range(place, PARTITIONS, len(ids)) for place, id in enumerate(self.leads)}
            assignments = [(id, bytes(part)) for id, part in given.items()]
            self.ticket = self.history.world.sync(self.id, self.generation, assignments, self.instance)

    def synced(self, answer: Synced) -> None:
        if answer.error is ErrorCode.NONE:
            self.owned = frozenset(answer.assignment)
            self.history.owns(self)
        elif answer.error in AWAY or answer.error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.leads = None
        else:
            self.begin()

    def leave(self) -> None:
        self.history.world.machine.leave("g", [(self.id, self.instance)], self.history.world.now)
        self.history.world.drain()


class History(histories.History):
    """One of a classic group."""

    STEPS, ROUNDS_MAX = 300, 1000

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = World(size_max=100)
        self.owners: dict[tuple[int, int], str] = {}
        self.processes = [self.process() for _ in range(3)]

    def process(self) -> Process:
        static = self.draw.random() < 0.5
        name = f"{'s' if static else 'd'}{next(self.numbers)}"
        return Process(self, name, static, self.draw.choice((5, 8, 9) if static else (3, 4, 9)))

    def owns(self, process: Process) -> None:
        for partition in process.owned:
            owner = self.owners.setdefault((process.generation, partition), process.name)
            assert owner == process.name, f"partition {partition} in generation {process.generation}"

    def pass_round(self) -> None:
        self.world.pass_time(200)

    def rests(self) -> bool:
        group: Any = self.world.machine.group("g")
        if not group or group.state is not GroupState.STABLE or len(group.members) != len(self.processes):
            return False
        owned = sorted(partition for process in self.processes for partition in process.owned)
        current = all(one.generation == group.generation and not one.ticket for one in self.processes)
        return current and owned == list(range(PARTITIONS))

    def shown(self) -> str:
        group: Any = self.world.machine.group("g")
        return f"{group and group.state}: {[(p.name, p.generation, p.ticket) for p in self.processes]}"

    def read(self) -> Any:
        return self.world.heir().group("g")

    def check(self) -> None:
        group: Any = self.world.machine.group("g")
        if group is None or self.failed or self.world.machine.writes or not group.recorded:
            return
        loaded = self.as_read()
        if group.state not in (GroupState.STABLE, GroupState.EMPTY):
            assert loaded is None or loaded.generation <= group.generation
            return
        assert loaded is not None
        for one in (group, loaded):
            one.seen = (
                (one.generation, one.state, one.protocol, one.leader),
                {
                    member.id: (member.instance_id, member.assignment, member.metadata(one.protocol))
                    for member in one.members.values()
                },
            )
        assert loaded.seen == group.seen

    # ---- what may happen

    def leave(self) -> None:
        going = [one for one in self.processes if one.generation >= 0 and not one.ticket]
        if len(self.processes) > 1 and going:
            process = self.draw.choice(going)
            process.leave()
            self.processes.remove(process)

    def wait(self) -> None:
        self.world.pass_time(self.draw.choice((50, 1_000, 6_000)))

    def release(self) -> None:
        self.world.held = False
        written = bool(self.world.machine.writes)
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if self.draw.random() < 0.2 else ErrorCode.NONE
        self.failed = error is not ErrorCode.NONE if written else self.failed
        self.world.drain(error)

    def take_over(self) -> None:
        """Another coordinator has what the log says. What was on its way is lost."""
        self.world.machine.writes.clear()
        self.world.machine.lost(0)
        self.world.held = True
        self.world.drain()
        self.world.machine, self.world.held, self.failed = self.world.heir(), False, False

    CHOICES = (
        (histories.History.step, 100), (histories.History.another, 4), (histories.History.restart, 4), (leave, 2), (wait, 6),
        (histories.History.hold, 4), (release, 6), (take_over, 1),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_a_history_of_a_classic_group(seed: int) -> None:
    History(seed).run()


def test_a_planted_mistake_is_found_a_sync_of_a_generation_that_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rebalance.member_error

    def planted(group: Any, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
        error = whole(group, member_id, instance_id, generation)
        return None if error is ErrorCode.ILLEGAL_GENERATION else error

    monkeypatch.setattr(rebalance, "member_error", planted)
    assert found(History)


def test_a_planted_mistake_is_found_a_static_member_whose_new_id_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = rebalance._rejoin_static

    def planted(group: Any, ticket: int, request: Any, now_ms: int, policy: Any, out: Any, held: Any) -> bool:
        write = whole(group, ticket, request, now_ms, policy, out, held)
        if not held:
            return write
        out.extend((one.ticket, one.answer) for one in held)
        held.clear()
        return False

    monkeypatch.setattr(rebalance, "_rejoin_static", planted)
    assert found(History)
