"""The proof that the worlds of test_bridge.py notice mistakes: each is planted, and a story must fail."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from actors.bridge import agreement, bases, claim, following, returning, takeover, writing
from actors.bridge.asks import End, Here, Hold, Job
from actors.bridge.stages import Progress
from actors.bridge.subjects import topics
from actors.controller.pushes.pushes import Outbox
from actors.node.roles.controller import bridge
from actors.node.roles.controller.bridge import Bridge
from actors.node.roles.controller.pusher import Pusher
from actors.ports.zookeeper import Began, Create
from tests.simulator import test_bridge as stories
from tests.simulator.planted.registry import Patch, instead

Plant = Callable[[], Sequence[Patch]]
MISTAKES: list[tuple[Plant, Callable[[], None]]] = []


def caught_by(story: Callable[[], None]) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        MISTAKES.append((plant, story))
        return plant

    return register


def nothing(here: Here) -> Job:
    """A job that does nothing."""
    return
    yield


@caught_by(stories.test_a_session_that_expires_makes_no_gap)
def controller_goes_with_the_session() -> Sequence[Patch]:
    """/controller is ephemeral, as Apache Kafka's controllers have it: it is empty when the session ends."""
    true = claim.claim

    def ephemeral(here: Here, snapshot: Any) -> Job:
        steps = true(here, snapshot)
        ask: Any = next(steps)
        changes = [
            one._replace(ephemeral=True) if isinstance(one, Create) and one.path == "/controller" else one
            for one in ask.changes
        ]
        result = yield ask._replace(changes=changes)
        try:
            steps.send(result)
        except StopIteration as end:
            return end.value

    return [instead(takeover, "claim", ephemeral)]


@caught_by(stories.test_brokers_are_told_what_zookeeper_had_under_higher_epochs)
def leader_epochs_stay_as_zookeeper_has_them() -> Sequence[Patch]:
    """Brokers ignore what they are told under a leader epoch that they have already."""
    true = topics.taken_over

    def same(one: Any, states: Any, *more: Any) -> Any:
        lower = {n: state._replace(leader_epoch=state.leader_epoch - 1, version=0) for n, state in states.items()}
        return true(one, lower, *more)

    return [instead(topics, "taken_over", same)]


@caught_by(stories.test_the_next_active_controller_goes_on_under_a_higher_epoch)
def the_next_controller_claims_the_same_epoch() -> Sequence[Patch]:
    """Two controllers tell brokers under one epoch."""
    true = claim.controller_epoch
    return [instead(claim, "controller_epoch", lambda snapshot: true(snapshot) - (true(snapshot) > 7))]


def a_broker_dies() -> None:
    with pytest.MonkeyPatch.context() as patch:
        stories.test_a_broker_that_dies_is_fenced_at_once_whatever_takes_long(True, patch)


@caught_by(a_broker_dies)
def who_is_there_is_asked_behind_what_takes_long() -> Sequence[Patch]:
    """A broker that has died leads until all topics are compared."""
    return [instead(bridge, "FOLLOWS_BROKERS", frozenset())]


@caught_by(stories.test_a_session_that_expires_makes_no_gap)
def a_new_session_is_taken_for_the_old_one() -> Sequence[Patch]:
    """In a new session no znode is read again, and none is watched."""
    true = Bridge.happened

    def happened(self: Any, event: Any) -> None:
        if not (isinstance(event, Began) and self._here.claim is not None):
            true(self, event)

    return [instead(Bridge, "happened", happened)]


@caught_by(stories.test_zookeeper_is_away_for_half_a_minute_and_nobody_is_fenced)
def what_was_committed_meanwhile_is_not_written_back() -> Sequence[Patch]:
    """A setting that was changed while ZooKeeper was away does not reach it."""
    return [
        instead(takeover.settings, "every", lambda image: ()),
        instead(takeover.Snapshot, "entities", lambda self: ()),
    ]


@caught_by(stories.test_a_controller_that_is_deleted_is_claimed_again)
def nobody_looks_whether_the_claim_holds() -> Sequence[Patch]:
    """Another controller drives the same brokers."""
    return [instead(following, "is_ours", lambda here, snapshot: True)]


@caught_by(stories.test_a_controller_that_is_deleted_is_claimed_again)
def brokers_are_not_told_again_under_a_new_claim() -> Sequence[Patch]:
    """What the controller between has told them stays."""

    def hold(self: Any, ask: Hold) -> Any:
        self._role.soft.zookeeper_epoch = ask.epoch

    return [instead(bridge, "ASKS", bridge.ASKS | {Hold: hold})]


@caught_by(stories.test_the_old_cluster_has_what_was_committed_just_before_it_is_handed_back)
def the_old_cluster_gets_nothing_but_states() -> Sequence[Patch]:
    """What was committed in the last moment is lost for it."""
    return [instead(returning, "agree", nothing)]


@caught_by(stories.test_the_old_cluster_has_a_topic_that_was_made_just_before_it_is_handed_back)
def the_old_cluster_gets_no_topics_of_the_last_moment() -> Sequence[Patch]:
    """A state cannot be written, since its topic has no znode."""
    return [instead(agreement, "_topics", nothing)]


@caught_by(stories.test_it_is_handed_back_and_taken_again)
def states_are_handed_back_under_our_epochs() -> Sequence[Patch]:
    """The old controller repeats an epoch that brokers have, so they ignore it."""
    true = topics.state_data
    return [
        instead(topics, "state_data", lambda image, row, controller, leader: true(image, row, controller, leader - 1))
    ]


@caught_by(stories.test_it_is_handed_back_and_taken_again)
def brokers_are_told_after_the_cluster_was_handed_back() -> Sequence[Patch]:
    """Two controllers drive the same brokers."""

    def hold(self: Any, ask: Hold) -> Any:
        self._role.soft.zookeeper_epoch = ask.epoch or 99

    return [instead(bridge, "ASKS", bridge.ASKS | {Hold: hold})]


@caught_by(stories.test_it_is_handed_back_and_taken_again)
def it_is_taken_over_again_though_it_is_wanted_back() -> Sequence[Patch]:
    """What the operator has handed back does not stay so."""
    return [instead(takeover, "wanted", lambda snapshot: "")]


def what_is_acknowledged() -> None:
    """The worlds in which each side changes rules and settings of its own."""
    for seed in range(1, 7):
        stories.test_each_side_keeps_what_it_has_acknowledged_while_nobody_watched(seed)


@caught_by(what_is_acknowledged)
def a_base_ends_with_the_controller_that_knows_it() -> Sequence[Patch]:
    """What was agreed on is in memory alone, as it once was."""
    true = bases.known
    return [instead(bases, "known", lambda here, path, znode, have: true(here, path, None, have) or None)]


@caught_by(what_is_acknowledged)
def a_write_leaves_the_base_of_before() -> Sequence[Patch]:
    """What rayft writes is not agreed on."""
    return [instead(bases, "noted", lambda here, path, base, znode, changes: changes)]


@caught_by(what_is_acknowledged)
def what_is_taken_leaves_the_base_of_before() -> Sequence[Patch]:
    """The bases do not hold what is taken over from ZooKeeper."""
    return [instead(bases, "write", nothing), instead(bases, "announce", lambda *_: iter(()))]


def a_controller_ends_behind_the_commit() -> None:
    """Worlds in which one does: which of them do depends on every step before, so there are several."""
    for seed in (106, 109, 110, 124, 134):
        stories.test_each_side_keeps_what_it_has_acknowledged_while_nobody_watched(seed)


@caught_by(a_controller_ends_behind_the_commit)
def what_is_taken_is_not_announced() -> Sequence[Patch]:
    """A controller that ends behind the commit leaves the base of before: a right that is revoked then is back."""
    return [instead(bases, "announce", lambda *_: iter(()))]


@caught_by(stories.test_topics_of_both_sides_are_on_both_sides)
def topics_that_brokers_make_are_not_followed() -> Sequence[Patch]:
    """A topic in ZooKeeper gets no leader."""
    return [instead(following, "FOLLOWED", dict(following.FOLLOWED) | {"/brokers/topics": nothing})]


@caught_by(stories.test_topics_of_both_sides_are_on_both_sides)
def topics_that_clients_make_are_not_written_back() -> Sequence[Patch]:
    """Brokers look in ZooKeeper for a topic and do not find it."""
    return [instead(Bridge, "committed", lambda self, ops: None)]


@caught_by(stories.test_topics_of_both_sides_are_on_both_sides)
def replicas_stay_on_a_controller() -> Sequence[Patch]:
    """A partition is to live on a controller, which has no data."""
    return [instead(following, "without_controllers", lambda here, found: found.replicas)]


@caught_by(stories.test_a_topic_deleted_by_a_tool_goes_everywhere)
def deletions_are_not_followed() -> Sequence[Patch]:
    """A topic that a tool wants deleted stays."""
    return [instead(following, "FOLLOWED", dict(following.FOLLOWED) | {"/admin/delete_topics": nothing})]


@caught_by(stories.test_a_broker_that_was_away_gives_up_a_topic_that_was_deleted_meanwhile)
def a_deletion_waits_for_nobody() -> Sequence[Patch]:
    """A broker that was away keeps what was deleted."""
    return [instead(bridge, "ASKS", bridge.ASKS | {End: lambda self, ask: True})]


@caught_by(stories.test_a_controller_that_dies_before_it_tells_of_a_deletion_leaves_that_to_the_next)
def who_is_there_counts_as_told() -> Sequence[Patch]:
    """A controller tells nothing of what was deleted before it."""
    return [instead(Outbox, "end", lambda self, ending: self._ended.add(ending.topic_id))]


@caught_by(stories.test_a_new_topic_under_the_name_of_a_deleted_one_is_not_deleted)
def a_wish_counts_for_every_topic_of_its_name() -> Sequence[Patch]:
    """A new topic is deleted, since the one before was to be."""
    return [instead(writing, "is_another", lambda *_: False)]


@caught_by(stories.test_a_broker_that_was_away_begins_a_new_topic_under_the_name_of_a_deleted_one)
def what_a_broker_has_given_up_is_not_remembered() -> Sequence[Patch]:
    """StopReplica comes again, and takes the new topic of that name."""
    return [instead(Pusher, "_given_up", lambda *_: None)]


@caught_by(lambda: stories.test_a_broker_gives_nothing_up_but_what_was_deleted(0))
def nobody_remembers_a_deletion_before_zookeeper_does() -> Sequence[Patch]:
    """The name is in use again before, and a broker that was away keeps what was deleted."""
    return [instead(Pusher, "_deleted", lambda *_: None)]


@caught_by(stories.test_a_takeover_that_stops_half_way_is_begun_anew)
def half_a_takeover_counts_as_a_whole() -> Sequence[Patch]:
    """The next controller drives a cluster of which the log has a part."""
    return [instead(takeover, "progress", lambda image: Progress.MIGRATION if image.topic_count else Progress.NONE)]


@pytest.mark.parametrize(("plant", "story"), MISTAKES, ids=[plant.__name__ for plant, _ in MISTAKES])
def test_a_planted_mistake_is_caught(plant: Plant, story: Callable[[], None]) -> None:
    with ExitStack() as stack:
        for one in plant():
            stack.enter_context(one)
        with pytest.raises((AssertionError, KeyError, ValueError)):
            story()
