"""Streams groups in random histories: members that come, crash, restart, fall silent and leave, topics that grow, standby
tasks that are asked for, a log that is slow or fails, and coordinators that take over. After each step:

1. no task is active at two members that may still run it, and none is there twice in one process;
2. what the coordinator has in memory is what another one would load, as far as it is written;
3. what the group derives from its members is what a walk over them finds (`StreamsGroup.check`), and a request is answered
   once.

In the end each task is active at one member. Planted mistakes are found.
"""

from typing import Any

import pytest

from actors.broker.groups.streams import records
from actors.broker.groups.streams.answers import StreamsBeat, Tasks
from actors.broker.groups.streams.state import OwnedTasks, StreamsGroup
from actors.broker.groups.streams.topology import Topology
from actors.wire.errors import ErrorCode
from tests.seeds import first_are_quick
from tests.unit.broker.groups import histories
from tests.unit.broker.groups.histories import AWAY, found
from tests.unit.broker.groups.log_reader import Said
from tests.unit.broker.groups.streams.world import HEARTBEAT_MS, SESSION_MS, Owned, World, subtopology

READS = Topology(0, (subtopology("0", "t"), subtopology("1", "u")))
"""Tasks of two kinds, without topics of their own."""
LONG_MS = 600_000
"""A member lets go as soon as it is told, so none is removed for being late with it."""
SOURCES = {"0": "t", "1": "u"}


class Process:
    """A member, which is a process of its own. It does as it is told, and gives everything up once it may have been taken
    for dead."""

    def __init__(self, history: "History", name: str) -> None:
        self.history, self.name = history, name
        self.begin()

    def begin(self) -> None:
        """It starts, or starts again, and remembers nothing."""
        self.id = f"{self.name}.{next(self.history.numbers)}"
        self.epoch, self.ticket = 0, 0
        self.asked_ms = self.heard_ms = self.now_ms
        self.tasks = Tasks()
        self.whole = True
        """It says all that there is to say, as nobody may know it."""

    @property
    def now_ms(self) -> int:
        return self.history.world.now.mono_ms

    @property
    def lives(self) -> bool:
        """Whether no coordinator can have taken it for dead."""
        return self.epoch > 0 and self.now_ms - self.heard_ms < SESSION_MS

    def step(self) -> None:
        world = self.history.world
        if self.epoch and not self.lives:
            self.begin()
        if self.ticket:
            verdict = world.answers.get(self.ticket)
            if verdict is None:
                return
            self.ticket = 0
            self.hear(verdict)
        self.asked_ms = self.now_ms
        owned: dict[str, Owned] = {
            role: {one: tuple(sorted(numbers)) for one, numbers in sets.items()}
            for role, sets in zip(Tasks._fields, self.tasks, strict=True)
        }
        more: dict[str, Any] = {}
        if self.whole:
            more = {"process": f"process-{self.id}", "rebalance_ms": LONG_MS}
            more["topology"] = READS if self.epoch == 0 else None
        ticket = world.beat(self.id, self.epoch, owned, **more)
        verdict = world.answers.get(ticket)
        if verdict is None:
            self.ticket = ticket
        else:
            self.hear(verdict)

    def hear(self, beat: Any) -> None:
        assert isinstance(beat, StreamsBeat)
        if beat.error is ErrorCode.NONE:
            self.epoch, self.heard_ms, self.whole = beat.epoch, self.asked_ms, False
            self.tasks = self.tasks if beat.tasks is None else beat.tasks
        elif beat.error in AWAY:
            self.whole = True
        else:
            self.begin()


class History(histories.History):
    """One of a streams group."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world: World = World(interval_ms=self.draw.choice((0, 1_000)), standby=self.draw.choice((0, 1)), t=4, u=2)
        self.first = self.world
        """Its `pace` is what the coordinators read, also those that take over."""
        self.said: Said = {}
        self.processes: list[Process] = [self.process() for _ in range(3)]

    def process(self) -> Process:
        return Process(self, f"d{next(self.numbers)}")

    def active(self) -> list[tuple[str, int]]:
        """Every task that is active somewhere."""
        return sorted(
            (SOURCES[one], n) for process in self.processes for one, part in process.tasks.active.items() for n in part
        )

    def read(self) -> Any:
        loaded = self.group(self.world.heir(self.said))
        assert loaded is not None
        return remembered(loaded)

    def check(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for process in self.processes:
            if process.lives:
                for one, part in process.tasks.active.items():
                    for number in part:
                        assert owners.setdefault((one, number), process.id) == process.id, f"{one}_{number} runs twice"
                        assert number not in process.tasks.standby.get(one, ()), f"{one}_{number} has two roles"
        group = self.group(self.world)
        if group is None or self.failed or self.world.machine.writes or self.world.held:
            return
        assert self.as_read(self.world.topics.version, self.first.pace) == remembered(group)

    @staticmethod
    def group(world: World) -> StreamsGroup | None:
        group = world.machine.find("g")
        return group if isinstance(group, StreamsGroup) else None

    def let_go(self) -> None:
        self.world.idle = False
        super().let_go()

    def pass_round(self) -> None:
        self.world.pass_ms(HEARTBEAT_MS)

    def rests(self) -> bool:
        sizes = self.world.topics.sizes
        return self.active() == sorted((topic, number) for topic, size in sizes.items() for number in range(size))

    def shown(self) -> str:
        return f"{self.active()} of {self.world.topics.sizes}"

    # ---- what may happen

    def leave(self) -> None:
        going = [one for one in self.processes if one.lives and not one.ticket]
        if len(self.processes) > 1 and going:
            process = self.draw.choice(going)
            self.processes.remove(process)
            self.world.beat(process.id, -1)

    def resize(self) -> None:
        """A topic grows, for topics do not shrink."""
        name = self.draw.choice("tu")
        self.world.topics.set(name, min(8, self.world.topics.sizes[name] + 1))
        self.world.drain()

    def wait(self) -> None:
        self.world.pass_ms(self.draw.choice((50, 1_000, 5_000, 20_000)))

    def delay(self) -> None:
        """Assignments are being made for a while."""
        self.world.idle = not self.world.idle
        if not self.world.held:
            self.world.drain()

    def standby(self) -> None:
        """The group wants another number of standby tasks."""
        self.first.pace = self.first.pace._replace(standby_replicas=self.draw.choice((0, 1)))

    def release(self) -> None:
        self.world.held = False
        if self.world.machine.writes:
            self.failed = self.draw.random() < 0.2
            self.world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE if self.failed else ErrorCode.NONE)
        self.world.drain()

    def take_over(self) -> None:
        """Another coordinator has what the log says. What was on its way is lost, and asked again."""
        old = self.world
        self.world = old.heir()
        self.world.settings, self.world._ticket = old.settings, old._ticket
        self.failed = False
        for process in self.processes:
            if process.ticket:
                process.ticket, process.whole = 0, True

    CHOICES = (
        (histories.History.step, 100), (histories.History.another, 4), (histories.History.restart, 3), (leave, 2),
        (resize, 2), (standby, 1), (wait, 12), (histories.History.hold, 4), (delay, 3), (release, 8), (take_over, 1),
    )  # fmt: skip


def remembered(group: StreamsGroup) -> Any:
    """All of a group that its log has to say."""
    members = {id: (member.told, member.current) for id, member in group.members.items()}
    own = group.epoch, group.target_epoch, group.metadata_hash, group.topology, group.valid_epoch, group.settings
    return own, group.targets, members, group.holders


@pytest.mark.parametrize("seed", first_are_quick(range(30)))
def test_a_history_of_a_streams_group(seed: int) -> None:
    History(seed).run()


def test_a_planted_mistake_is_found_a_task_is_given_before_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamsGroup, "available", lambda group, member, role, subtopology, partition: True)
    assert found(History)


def test_a_planted_mistake_is_found_what_a_member_is_to_let_go_of_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = records._current_fields
    monkeypatch.setattr(records, "_current_fields", lambda current: whole(current._replace(revoking=OwnedTasks())))
    assert found(History)
