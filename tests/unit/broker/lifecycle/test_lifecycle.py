"""The states and leases of a broker (KIP-631, "Broker Heartbeats" to "Broker State Machine")."""

import pytest

from actors.broker.lifecycle.lifecycle import (
    EXIT_CONFLICT,
    STOP_LIMIT_MS,
    TRANSITIONS,
    Answer,
    BrokerState,
    Event,
    Heartbeat,
    Lifecycle,
    Metadata,
)
from actors.ports import Now

LEASE = 20_000
FRESH = Metadata(100, 100, True)


class Story:
    """A lifecycle with a clock whose two hands may disagree."""

    def __init__(self) -> None:
        self.life = Lifecycle(2000, LEASE)
        self.mono, self.wall = 1000, 5_000_000

    @property
    def now(self) -> Now:
        return Now(self.mono, self.wall)

    def after(self, ms: int, metadata: Metadata = FRESH) -> Heartbeat | None:
        self.mono += ms
        self.wall += ms
        return self.life.tick(self.now, metadata)

    def beat(self) -> Heartbeat:
        """Wait for the next heartbeat."""
        beat = self.after(0)
        for _ in range(5):
            if beat is not None:
                return beat
            beat = self.after(max(0, self.life.deadline_ms() - self.mono))
        raise AssertionError("no heartbeat")

    def answer(
        self, state: BrokerState, epoch: int = -1, lease: int = LEASE, error: int = 0, controller: int = 1001
    ) -> None:
        sent = self.life._sent
        assert sent is not None
        self.life.answered(Answer(error, state, epoch, sent[1].lease_start_ms + lease, controller), self.now)

    def active(self, epoch: int = 50) -> "Story":
        self.beat()
        self.answer(BrokerState.ACTIVE, epoch)
        assert self.life.state is BrokerState.ACTIVE
        return self


def test_r631_182_numbers_on_the_wire() -> None:
    assert [(state.name, state.value) for state in BrokerState] == [
        ("UNKNOWN", 0),
        ("INITIAL", 1),
        ("FENCED", 2),
        ("ACTIVE", 3),
        ("SHUTDOWN", 4),
    ]


def test_r631_188_only_the_edges_of_the_diagram_exist() -> None:
    edges = {(a.name, b.name) for (a, _), b in TRANSITIONS.items() if a is not b}
    assert edges == {
        ("INITIAL", "ACTIVE"),
        ("ACTIVE", "FENCED"),
        ("FENCED", "ACTIVE"),
        ("ACTIVE", "SHUTDOWN"),
        ("FENCED", "SHUTDOWN"),
        ("INITIAL", "SHUTDOWN"),
    }
    assert not [one for one in TRANSITIONS if one[0] in (BrokerState.SHUTDOWN, BrokerState.UNKNOWN)]


@pytest.mark.parametrize("state", list(BrokerState))
@pytest.mark.parametrize("event", list(Event))
def test_r631_188_every_other_pair_leaves_the_state_and_reports(state: BrokerState, event: Event) -> None:
    life = Lifecycle(2000, LEASE)
    life.state = state
    life._move(event, "because", Now(0, 0))
    after = TRANSITIONS.get((state, event), state)
    assert life.state is after
    assert bool(life.take_reports()) is (after is not state or (state, event) not in TRANSITIONS)


def test_catch_up_comes_first() -> None:
    story = Story()
    assert story.after(0, Metadata(0, -1, False)) is None
    assert story.after(5000, Metadata(40, 100, True)) is None
    assert Metadata(0, 0, True).caught_up, "nothing is committed, and that is all there is"
    assert not Metadata(1, 0, False).caught_up and not Metadata(0, -1, True).caught_up
    beat = story.after(10, Metadata(100, 100, True))
    assert beat == Heartbeat(BrokerState.ACTIVE, -1, story.wall, 99)


def test_r631_150_what_is_applied_is_reported_not_what_is_committed() -> None:
    story = Story().active()
    beat = story.after(2000, Metadata(120, 150, True))
    assert beat is not None and beat.metadata_offset == 119


@pytest.mark.parametrize("event", [event for event in Event if event is not Event.RESTORED])
def test_r631_157_only_a_lease_under_a_new_epoch_ends_the_fencing(event: Event) -> None:
    life = Lifecycle(2000, LEASE)
    life.state = BrokerState.FENCED
    life._move(event, "because", Now(0, 0))
    assert life.state is not BrokerState.ACTIVE
    life.state = BrokerState.FENCED
    life._move(Event.RESTORED, "because", Now(0, 0))
    assert life.state is BrokerState.ACTIVE


def test_r631_156_serves_only_when_the_own_replay_has_reached_the_epoch() -> None:
    story = Story().active(120)
    assert not story.life.serving(story.now, 120)
    assert story.life.serving(story.now, 121)


def test_r631_191_initial_serves_nobody() -> None:
    story = Story()
    assert not story.life.serving(story.now, 1000)
    story.beat()
    story.answer(BrokerState.INITIAL)
    assert story.life.state is BrokerState.INITIAL and not story.life.serving(story.now, 1000)


def test_r631_129_minus_one_until_an_epoch_is_given_then_that_one() -> None:
    story = Story()
    assert story.beat().epoch == -1
    story.answer(BrokerState.INITIAL)
    assert story.beat().epoch == -1
    story.answer(BrokerState.ACTIVE, 50)
    assert story.beat().epoch == 50


def test_r631_141_lease_start_is_the_wall_clock_at_each_sending() -> None:
    story = Story()
    first = story.beat()
    story.life.lost(story.now)
    second = story.beat()
    assert second.lease_start_ms == story.wall and second.lease_start_ms > first.lease_start_ms


def test_r631_145_146_the_lease_ends_by_itself_to_the_millisecond() -> None:
    story = Story()
    story.beat()
    sent = story.mono
    story.mono += 300
    story.answer(BrokerState.ACTIVE, 50)
    while story.mono < sent + LEASE - 1:
        if story.after(min(500, sent + LEASE - 1 - story.mono)) is not None:
            story.life.lost(story.now)
    assert story.life.serving(story.now, 1000)
    story.after(1)
    assert story.life.state is BrokerState.FENCED


def test_a22_the_wall_clock_may_jump() -> None:
    story = Story().active()
    story.wall -= 86_400_000
    story.after(10_000)
    assert story.life.serving(story.now, 1000)
    story.wall += 2 * 86_400_000
    story.after(9_000)
    assert story.life.serving(story.now, 1000)


@pytest.mark.parametrize("lease", [0, -5])
def test_a14_an_end_not_after_the_start_is_no_lease(lease: int) -> None:
    story = Story()
    story.beat()
    story.answer(BrokerState.ACTIVE, 50, lease)
    assert story.life.state is BrokerState.INITIAL


def test_a22_an_answer_after_the_end_of_its_lease_grants_nothing() -> None:
    story = Story()
    story.beat()
    story.mono += LEASE
    story.answer(BrokerState.ACTIVE, 50)
    assert story.life.state is BrokerState.INITIAL


def test_a23_who_fenced_itself_says_so_and_comes_back_with_a_new_epoch_only() -> None:
    story = Story().active(50)
    while story.life.state is BrokerState.ACTIVE:
        if story.after(500) is not None:
            story.life.lost(story.now)
    beat = story.beat()
    assert (beat.target, beat.epoch) == (BrokerState.FENCED, 50)
    story.answer(BrokerState.FENCED)
    beat = story.after(0)
    assert beat is not None and (beat.target, beat.epoch) == (BrokerState.ACTIVE, 50), "at once"
    story.answer(BrokerState.ACTIVE, 50)
    assert story.life.state is BrokerState.FENCED
    assert story.beat().target is BrokerState.FENCED
    story.answer(BrokerState.FENCED)
    story.beat()
    story.answer(BrokerState.ACTIVE, 90)
    assert story.life.state is BrokerState.ACTIVE and story.life.epoch == 90


@pytest.mark.parametrize("error", [0, 77, 35])
def test_r631_160_told_to_fence_it_fences_at_once(error: int) -> None:
    story = Story().active()
    story.beat()
    story.answer(BrokerState.FENCED, error=error)
    assert story.life.state is BrokerState.FENCED and not story.life.serving(story.now, 1000)
    assert story.beat().target is (BrokerState.ACTIVE if error else BrokerState.FENCED), (
        "and says so if it may still hold its lease"
    )


@pytest.mark.parametrize("error", [31, 42, 77, 101])
def test_a14_on_an_error_only_fenced_is_obeyed(error: int) -> None:
    story = Story().active()
    story.beat()
    story.answer(BrokerState.SHUTDOWN, error=error)
    assert story.life.state is BrokerState.ACTIVE


@pytest.mark.parametrize("number", [0, 5, 127, -1])
def test_r631_189_unknown_states_change_nothing(number: int) -> None:
    story = Story().active()
    story.beat()
    story.life.answered(Answer(0, number, -1, 0), story.now)
    assert story.life.state is BrokerState.ACTIVE


def test_r631_138_not_controller_costs_nothing_and_is_tried_again_soon() -> None:
    story = Story().active()
    story.beat()
    story.life.answered(Answer(41, BrokerState.FENCED, -1, 0), story.now)
    assert story.life.state is BrokerState.ACTIVE
    assert story.life.deadline_ms() - story.mono == 50


def test_a18_level_2_a_refused_initial_broker_stays_initial_and_keeps_minus_one() -> None:
    story = Story()
    story.beat()
    story.answer(BrokerState.INITIAL)
    assert story.life.state is BrokerState.INITIAL and story.beat().epoch == -1


def test_a18_level_1_the_first_answer_ends_the_winning_phase() -> None:
    story = Story()
    story.beat()
    story.answer(BrokerState.FENCED, 0)
    assert story.life.state is BrokerState.INITIAL and story.beat().epoch == 0


def test_r631_140_one_in_flight_at_the_interval() -> None:
    story = Story().active()
    first = story.beat()
    assert first is not None and story.after(5000) is None, "one in flight"
    story.life.lost(story.now)
    story.beat()
    story.answer(BrokerState.ACTIVE, 50)
    at = story.mono
    story.beat()
    assert story.mono - at == 2000


def test_r631_165_to_169_controlled_shutdown() -> None:
    story = Story().active()
    story.life.stop(story.now)
    beat = story.after(0)
    assert beat is not None and beat.target is BrokerState.SHUTDOWN
    story.answer(BrokerState.ACTIVE, 50)
    assert story.life.serving(story.now, 1000)
    at = story.mono
    story.beat()
    assert story.mono - at == 50
    story.answer(BrokerState.ACTIVE, 50)
    at = story.mono
    story.beat()
    assert story.mono - at == 2000
    story.answer(BrokerState.SHUTDOWN)
    assert story.life.state is BrokerState.SHUTDOWN and story.life.stop_at == (0, "controlled shutdown granted")
    assert story.after(60_000) is None


def test_r631_170_a_fenced_broker_is_granted_too() -> None:
    story = Story().active()
    story.beat()
    story.answer(BrokerState.FENCED)
    story.life.stop(story.now)
    story.beat()
    story.answer(BrokerState.SHUTDOWN)
    assert story.life.state is BrokerState.SHUTDOWN


def test_a49_initial_stops_at_once() -> None:
    story = Story()
    story.life.stop(story.now)
    assert story.life.state is BrokerState.SHUTDOWN


def test_a49_without_any_answer_it_stops_after_a_lease_period() -> None:
    story = Story().active()
    story.life.stop(story.now)
    at = story.mono
    while story.life.stop_at is None:
        if story.after(250) is not None:
            story.life.lost(story.now)
    assert story.mono - at == LEASE and "no active controller" in story.life.stop_at.why


def test_a49_without_the_grant_it_stops_after_five_minutes() -> None:
    story = Story().active()
    story.life.stop(story.now)
    at = story.mono
    while story.life.stop_at is None and story.mono - at < 2 * STOP_LIMIT_MS:
        if story.after(250) is not None:
            story.answer(BrokerState.ACTIVE, 50)
    assert story.mono - at == STOP_LIMIT_MS


def test_r500_45_a_second_signal_changes_nothing() -> None:
    story = Story().active()
    story.life.stop(story.now)
    story.beat()
    story.life.stop(story.now)
    assert story.life.stopping and story.after(0) is None


def test_r500_45_a_second_signal_gives_no_more_time() -> None:
    story = Story().active()
    story.life.stop(story.now)
    at = story.mono
    while story.life.stop_at is None and story.mono - at < 2 * STOP_LIMIT_MS:
        story.life.stop(story.now)
        if story.after(250) is not None:
            story.answer(BrokerState.ACTIVE, 50)
    assert story.mono - at == STOP_LIMIT_MS


def test_a_rival_for_three_lease_periods_ends_the_process_for_good() -> None:
    story = Story().active()
    while story.life.stop_at is None:
        story.beat()
        story.answer(BrokerState.FENCED, error=77)
    assert story.life.stop_at.code == EXIT_CONFLICT
    assert story.mono > 3 * LEASE


@pytest.mark.parametrize("between", ["another controller", "no answer", "no controller"])
def test_a_rival_that_each_new_controller_takes_for_alive_ends_no_process(between: str) -> None:
    story = Story()
    for controller in (1001, 1002 if between == "another controller" else 1001):
        begun = story.mono
        while story.mono - begun < 2 * LEASE:
            story.beat()
            story.answer(BrokerState.FENCED, error=77, controller=controller)
        if between == "no answer":
            story.beat()
            story.life.lost(story.now)
        elif between == "no controller":
            story.beat()
            story.answer(BrokerState.FENCED, error=41, controller=controller)
    assert story.life.stop_at is None
    story.beat()
    story.answer(BrokerState.ACTIVE, 50)
    assert story.life.state is BrokerState.ACTIVE


def test_without_controlled_shutdown_it_does_not_ask() -> None:
    story = Story().active()
    story.life.stop(story.now, ask=False)
    assert story.life.state is BrokerState.SHUTDOWN and story.life.stop_at is not None
    assert story.life.stop_at.code == 0 and "without asking" in story.life.stop_at.why
