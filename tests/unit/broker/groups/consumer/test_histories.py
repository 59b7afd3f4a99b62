"""Consumer groups in random histories: members that come, crash, restart, fall silent and leave, topics that grow, a log
that is slow or fails, and coordinators that take over. After each step:

1. no partition is used by two members that may still use it;
2. what the coordinator has in memory is what another one would load, as far as it is written;
3. what the group derives from its members is what a walk over them finds (`ConsumerGroup.check`), and a request is
   answered once.

In the end all are settled, and each partition has one owner. Planted mistakes are found.
"""

from typing import Any

import pytest

from actors.broker.groups.consumer import reconciliation, records
from actors.broker.groups.consumer.requests import ConsumerBeat
from actors.broker.groups.consumer.state import ConsumerGroup
from actors.wire.errors import ErrorCode
from tests.seeds import first_are_quick
from tests.unit.broker.groups import histories
from tests.unit.broker.groups.consumer.world import HEARTBEAT_MS, SESSION_MS, Owned, World
from tests.unit.broker.groups.histories import AWAY, found
from tests.unit.broker.groups.log_reader import Said

LONG_MS = 600_000
"""A member lets go as soon as it is told, so none is removed for being late with it."""


class Process:
    """A consumer. It does as it is told, and gives everything up once it may have been taken for dead."""

    def __init__(self, history: "History", name: str, static: bool) -> None:
        self.history, self.instance = history, name if static else None
        self.name = name
        self.begin()

    def begin(self) -> None:
        """It starts, or starts again, and remembers nothing."""
        self.id = f"{self.name}.{next(self.history.numbers)}"
        self.epoch, self.ticket = 0, 0
        self.topics = self.history.draw.choice((("t",), ("t", "u")))
        self.asked_ms = self.heard_ms = self.now_ms
        self.owned: Owned = {}
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
            assert isinstance(verdict, ConsumerBeat)
            self.ticket = 0
            self.hear(verdict)
        self.asked_ms = self.now_ms
        more: dict[str, Any] = {"instance": self.instance}
        if self.whole:
            more |= {"topics": self.topics, "rebalance_ms": LONG_MS}
        ticket = world.beat(self.id, self.epoch, dict(self.owned), **more)
        verdict = world.answers.get(ticket)
        if verdict is None:
            self.ticket = ticket
        else:
            self.hear(verdict)  # type: ignore[arg-type]

    def hear(self, beat: ConsumerBeat) -> None:
        if beat.error is ErrorCode.NONE:
            self.epoch, self.heard_ms, self.whole = beat.epoch, self.asked_ms, False
            given = self.history.world.assigned(beat)
            self.owned = self.owned if given is None else given
        elif beat.error in AWAY or beat.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            self.whole = True
        else:
            self.begin()


class History(histories.History):
    """One of a consumer group."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = World(interval_ms=self.draw.choice((0, 1_000)), t=6, u=2)
        self.said: Said = {}
        self.processes = [self.process() for _ in range(3)]

    def process(self) -> Process:
        static = self.draw.random() < 0.4
        return Process(self, f"{'s' if static else 'd'}{next(self.numbers)}", static)

    def let_go(self) -> None:
        self.world.idle = False
        super().let_go()

    def pass_round(self) -> None:
        self.world.pass_ms(HEARTBEAT_MS)

    def used(self) -> list[tuple[str, int]]:
        """All that a process uses."""
        return sorted((topic, n) for one in self.processes for topic, part in one.owned.items() for n in part)

    def rests(self) -> bool:
        wanted = sorted((topic, number) for topic, size in self.world.topics.sizes.items() for number in range(size))
        wants_u = any("u" in one.topics for one in self.processes)
        return self.used() == [one for one in wanted if one[0] == "t" or wants_u]

    def shown(self) -> str:
        return f"{self.used()} of {self.world.topics.sizes}"

    def read(self) -> Any:
        loaded = self.world.heir(self.said).machine.consumer_group("g")
        assert loaded is not None
        return remembered(loaded)

    def check(self) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for process in self.processes:
            if process.lives:
                for topic, part in process.owned.items():
                    for number in part:
                        key = self.world.topics.id(topic), number
                        assert owners.setdefault(key, process.id) == process.id, f"{topic}-{number} has two owners"
        group = self.world.machine.consumer_group("g")
        if group is None or self.failed or self.world.machine.writes or self.world.held or group.rest is not None:
            return  # a look at the members of one at rest would wake it
        assert self.as_read(self.world.topics.version) == remembered(group)

    # ---- what may happen

    def leave(self) -> None:
        going = [one for one in self.processes if one.lives and not one.ticket]
        if len(self.processes) > 1 and going:
            process = self.draw.choice(going)
            self.processes.remove(process)
            self.world.beat(process.id, -1, instance=process.instance)

    def resize(self) -> None:
        """A topic grows, for topics do not shrink."""
        name = self.draw.choice("tu")
        self.world.topics.set(name, min(12, self.world.topics.sizes[name] + 1))
        self.world.drain()

    def wait(self) -> None:
        self.world.pass_ms(self.draw.choice((50, 1_000, 5_000, 20_000)))

    def delay(self) -> None:
        """Assignments are being made for a while."""
        self.world.idle = not self.world.idle
        self.world.drain() if not self.world.held else None

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
        self.world._ticket = old._ticket
        self.failed = False
        for process in self.processes:
            if process.ticket:
                process.ticket, process.whole = 0, True

    CHOICES = (
        (histories.History.step, 100), (histories.History.another, 4), (histories.History.restart, 3), (leave, 2),
        (resize, 2), (wait, 12), (histories.History.hold, 4), (delay, 3), (release, 8), (take_over, 1),
    )  # fmt: skip


def remembered(group: ConsumerGroup) -> Any:
    """All of a group that its log has to say."""
    members = {id: (member.subscription, member.current) for id, member in group.members.items()}
    return group.epoch, group.target_epoch, group.metadata_hash, group.targets, members, group.static, group.holders


@pytest.mark.parametrize("seed", first_are_quick(range(30)))
def test_a_history_of_a_consumer_group(seed: int) -> None:
    History(seed).run()


def test_a_planted_mistake_is_found_a_partition_is_given_before_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reconciliation.reconcile
    monkeypatch.setattr(
        "actors.broker.groups.consumer.groups.reconcile",
        lambda question: whole(question._replace(available=lambda topic, partition: True)),
    )
    assert found(History)


def test_a_planted_mistake_is_found_what_a_member_is_to_let_go_of_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = records._held_fields
    monkeypatch.setattr(records, "_held_fields", lambda held: whole(dict(list(held.items())[1:])))
    assert found(History)
