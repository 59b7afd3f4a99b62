"""A share partition in random histories: members that take, accept, reject, release and lose records, leaders that follow
each other, and a share coordinator whose log is slow or fails, and that others take over. After each step:

1. what a member was told is done is given to nobody again, under this leader and every later one;
2. in one leadership a record has one holder at a time, and its delivery count rises by one each time;
3. what a fresh coordinator loads is what this one has in memory, as far as it is written; and a leader that began now would
   know of nothing that this one does not, and of all that members were told.

In the end every record is done. Planted mistakes are found.
"""

from typing import Any

import pytest

from actors.broker.groups.share.delivery.acknowledgement import AcknowledgementBatch, Event
from actors.broker.groups.share.delivery.acquisition import AcquisitionRequest, Extent
from actors.broker.groups.share.delivery.delivery_states import DeliveryState
from actors.broker.groups.share.delivery.in_flight import DeliveryChange, StateBatch
from actors.broker.groups.share.delivery.share_partition import ShareLimits, SharePartition
from actors.broker.groups.share.persistence import share_coordinator
from actors.broker.groups.share.persistence.share_coordinator import ShareStateVerdict
from actors.broker.groups.share.persistence.share_state import Batch
from actors.broker.replication.admission import RequestRefused
from actors.wire.errors import ErrorCode
from tests.seeds import first_are_quick
from tests.unit.broker.groups import histories
from tests.unit.broker.groups.histories import found
from tests.unit.broker.groups.log_reader import Said
from tests.unit.broker.groups.share.persistence.world import FAILED, KEY, World

LOCK_MS = 30_000
LIMITS = ShareLimits(LOCK_MS, 4, 40, True, False)
DONE = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
EVENTS = (Event.ACCEPT, Event.ACCEPT, Event.REJECT, Event.RELEASE)
MEMBERS = "abc"


class Leader:
    """One leadership: the window, what its members have, and the write that is under way."""

    def __init__(self, history: "History", epoch: int) -> None:
        self.history, self.epoch = history, epoch
        self.share = SharePartition(KEY, epoch)
        self.told: list[tuple[DeliveryChange, int, int, Event]] = []
        """What members have said and were not answered yet."""
        self.sent: list[ShareStateVerdict] | None = None
        """Where the verdict on the write that is under way comes to."""
        self.unsure = False
        """A write has failed, which the coordinator may know all the same: what a member was refused may be done."""
        self.reading: list[ShareStateVerdict] | None = history.world.read(epoch)

    def hear(self) -> None:
        """What the coordinator has said counts."""
        if self.reading:
            (verdict,), self.reading = self.reading, None
            if verdict.error is ErrorCode.NONE:
                state = verdict.state
                batches = [StateBatch(*one) for one in state.batches]
                self.share.load(state.start_offset, state.state_epoch, batches)
        elif self.reading is None and not self.share.active and self.share.fenced is None:
            self.reading = self.history.world.read(self.epoch)
        if self.sent:
            (verdict,), self.sent = self.sent, None
            self.unsure |= verdict.error is not ErrorCode.NONE
            self.share.written(verdict.error, self.history.now_ms)
        for change, first, last, event in [one for one in self.told if one[0].done]:
            if not change.error and event is not Event.RELEASE:
                self.history.done |= set(range(first, last + 1))
        self.told = [one for one in self.told if not one[0].done]

    def step(self) -> None:
        """It does nothing by itself: what it does in the end is in `pass_round`."""

    def write(self) -> None:
        """Have stored what waits for it."""
        if self.sent is None and self.share.active and (write := self.share.next_write()) is not None:
            batches = [Batch(*one) for one in write.batches]
            self.sent = self.history.world.write(batches, write.start_offset, self.epoch, write.state_epoch)

    def fetch(self, member: str, records: int) -> None:
        share, history = self.share, self.history
        if not share.active or not share.can_acquire(LIMITS):
            return
        offset = share.next_offset()
        extents = [one for one in history.extents if one.last >= offset]
        ask = AcquisitionRequest(member, records, 500, history.draw.random() < 0.5, history.now_ms + LOCK_MS, 4, 40)
        for first, last, _ in share.acquire(ask, offset, extents, ()):
            again = history.done & set(range(first, last + 1))
            assert not again, f"{sorted(again)} were done, and are given out by the leader of epoch {self.epoch}"
        share.window.check()  # type: ignore[union-attr]

    def held(self, member: str) -> list[Any]:
        """What a member has, and has not said anything of."""
        assert self.share.window is not None
        runs = (run for _, run in self.share.window.runs())
        return [
            run for run in runs if run.state is DeliveryState.ACQUIRED and run.member == member and run.change is None
        ]

    def say(self, member: str, event: Event) -> None:
        if not self.share.active or not (runs := self.held(member)):
            return
        run = self.history.draw.choice(runs)
        first = self.history.draw.randint(run.first, run.last)
        last = self.history.draw.randint(first, run.last)
        try:
            batches = [AcknowledgementBatch(first, last, [event.value])]
            change = self.share.acknowledge(member, batches, self.history.now_ms, LIMITS)
        except RequestRefused:
            return
        assert change is not None
        self.told.append((change, first, last, event))


class History(histories.History):
    """One of a share partition."""

    STEPS, ROUNDS_MAX = 400, 400

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world: World = World(updates=self.draw.choice((1, 3, 50)))
        self.now_ms = 0
        self.said: Said = {}
        self.extents: list[Extent] = []
        self.end = 0
        self.done: set[int] = set()
        """Offsets of which a member was told that they are done."""
        self.world.initialize()
        self.world.settle()
        self.grow()
        self.processes = [Leader(self, 1)]
        """Leaders, the newest last. One before it does not know yet that it leads no more."""

    @property
    def leader(self) -> Leader:
        return self.processes[-1]  # type: ignore[no-any-return]

    def read(self) -> Any:
        heir = World()
        heir.log = list(self.world.log)
        heir.load(self.said)
        return self.stored(heir)

    def check(self) -> None:
        for one in self.processes:
            one.hear()
        if self.world.machine.writes or self.failed:
            return
        stored = self.stored(self.world)
        loaded = self.as_read()
        assert loaded == stored
        finals = {n for first, last, state, _ in loaded.batches if state for n in range(first, last + 1)}
        unknown = {one for one in self.done if one >= loaded.start_offset} - finals
        assert not unknown, f"{sorted(unknown)} were done, and nobody who begins now knows of it"
        window = self.leader.share.window
        leader = self.leader
        if window is None or leader.sent is not None or leader.unsure or leader.share.fenced is not None:
            return
        known = {n: run for _, run in window.runs() for n in range(run.first, run.last + 1)}
        assert loaded.start_offset <= window.start
        for first, last, state, count in loaded.batches:
            for number in range(max(first, window.start), last + 1):
                run = known[number]
                assert count <= run.count, f"{number} is stored as delivered {count} times, and was {run.count} times"
                assert not state or run.state in DONE, f"{number} is stored as done"

    @staticmethod
    def stored(world: World) -> Any:
        (shard,) = world.machine.shards.values()
        state = shard.entries[KEY].state
        return state._replace(snapshot_epoch=0, created_ms=0, written_ms=0)

    # ---- the end

    def let_go(self) -> None:
        self.world.settle()
        self.failed = False
        del self.processes[:-1]

    def pass_round(self) -> None:
        leader = self.leader
        self.world.settle()
        leader.hear()
        self.now_ms += LOCK_MS
        if leader.share.active:
            leader.share.expire(self.now_ms, LIMITS)
            leader.fetch("d", 10)
            for run in leader.held("d"):
                batches = [AcknowledgementBatch(run.first, run.last, [Event.ACCEPT.value])]
                change = leader.share.acknowledge("d", batches, self.now_ms, LIMITS)
                if change is not None:
                    leader.told.append((change, run.first, run.last, Event.ACCEPT))
        leader.write()
        self.world.settle()

    def rests(self) -> bool:
        share = self.leader.share
        return share.active and share.start_offset >= self.end

    def shown(self) -> str:
        share = self.leader.share
        return f"start {share.start_offset if share.active else None} of {self.end}, fenced {share.fenced}"

    # ---- what may happen

    def fetch(self) -> None:
        self.leader.fetch(self.draw.choice(MEMBERS), self.draw.randint(1, 12))

    def say(self) -> None:
        self.leader.say(self.draw.choice(MEMBERS), self.draw.choice(EVENTS))

    def late(self) -> None:
        """A leader that was followed goes on, as it has not heard of it."""
        one = self.draw.choice(self.processes)
        one.say(self.draw.choice(MEMBERS), self.draw.choice(EVENTS))
        one.write()

    def write(self) -> None:
        self.leader.write()

    def end_writes(self) -> None:
        """All that the coordinator writes is there, or has failed; then the log may have it all the same."""
        if not self.world.machine.writes:
            return
        self.failed = self.draw.random() < 0.2
        if self.failed:
            self.world.settle(FAILED, appended=self.draw.random() < 0.5)
            if self.draw.random() < 0.5:
                for one in self.processes:
                    one.hear()
                self.take_over()
        else:
            self.world.settle()

    def leave(self) -> None:
        """A session ends: what its member has is given back."""
        if self.leader.share.active:
            self.leader.share.give_back(self.draw.choice(MEMBERS), LIMITS)

    def wait(self) -> None:
        self.now_ms += self.draw.choice((1_000, 10_000, LOCK_MS))
        for one in self.processes:
            if one.share.active:
                one.share.expire(self.now_ms, LIMITS)

    def grow(self) -> None:
        size = self.draw.randint(1, 8)
        self.extents.append(Extent(self.end, self.end + size - 1))
        self.end += size

    def follow(self) -> None:
        """Another broker leads."""
        self.processes = [*self.processes[-1:], Leader(self, self.leader.epoch + 1)]

    def take_over(self) -> None:
        """Another share coordinator reads the log. What was on its way is lost, and leaders hear that it is elsewhere."""
        self.world.machine.writes.clear()
        self.world.load()
        self.failed = False
        away = ShareStateVerdict(ErrorCode.NOT_COORDINATOR)
        for one in self.processes:
            if one.sent is not None and not one.sent:
                one.sent.append(away)
            if one.reading is not None and not one.reading:
                one.reading.append(away)

    CHOICES = (
        (fetch, 30), (say, 40), (write, 20), (end_writes, 20), (leave, 2), (wait, 3), (grow, 5), (follow, 1), (late, 3),
        (take_over, 1),
    )  # fmt: skip


@pytest.mark.parametrize("seed", first_are_quick(range(40)))
def test_a_history_of_a_share_partition(seed: int) -> None:
    History(seed).run()


def test_a_planted_mistake_is_found_a_write_that_failed_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SharePartition.written
    monkeypatch.setattr(SharePartition, "written", lambda share, code, now_ms: whole(share, ErrorCode.NONE, now_ms))
    assert found(History)


def test_a_planted_mistake_is_found_a_leader_of_before_is_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_coordinator, "_fence_leader_epoch", lambda entry, epoch: None)
    assert found(History)


def test_a_planted_mistake_is_found_an_update_is_read_as_if_it_were_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = share_coordinator.combine
    monkeypatch.setattr(share_coordinator, "combine", lambda known, batches, start: whole((), list(batches)[:1], start))
    assert found(History)
