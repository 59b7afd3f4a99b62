"""Who is told what by a controller that pushes (KIP-291): what of deleted topics a broker in ZooKeeper mode is told, and
that a controller which is active no more keeps nothing of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.controller.pushes.push_versions import RAYFT
from actors.controller.pushes.pushes import Ending, Outbox
from actors.node.roles.controller.pusher import Pusher


@pytest.mark.parametrize(
    ("row", "has_it", "ends"), [(-1, False, True), (0, False, False), (0, True, True), (5, False, False)]
)
def test_a_name_that_is_in_use_again_is_ended_for_those_only_that_have_not_been_told_of_the_new_topic(
    row: int, has_it: bool, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`row`: of the topic that has the name now. StopReplica names no ids, and the first topic of all is at row 0."""
    told: list[Any] = []
    monkeypatch.setattr(Outbox, "end", lambda outbox, ending: told.append(ending))
    pusher: Any = Pusher.__new__(Pusher)
    pusher._outboxes = {}
    pusher._role = SimpleNamespace(soft=SimpleNamespace(zookeeper_epoch=1))
    pusher._speech = lambda id, process: RAYFT
    ending = Ending(b"x" * 16, "t", {}, frozenset({1} if has_it else {9}))
    pusher._ending = {ending.topic_id: ending}
    registration = SimpleNamespace(incarnation_id=b"i" * 16, epoch=4)
    image: Any = SimpleNamespace(topic=lambda name: row, broker=lambda id: registration)
    process: Any = SimpleNamespace(incarnation_id=b"i" * 16, zookeeper=True)
    assert pusher._follow(image, 1, process) is not None
    assert told == ([ending] if ends else [])


def test_r291_75_a_controller_that_is_active_no_more_remembers_no_deletion() -> None:
    """Another one drives the brokers meanwhile, and may use the name again: in its next term all are asked anew."""
    given: Any = SimpleNamespace(
        config=SimpleNamespace(push_listener="CP", bridge_endpoints=()), format_level=2, channels=SimpleNamespace()
    )
    pusher = Pusher(given, given.channels, given, given, given)
    first, second, both = (Ending(b"x" * 16, "t", {0: (1, 2)}, frozenset(ids)) for ids in ((1,), (2,), (1, 2)))
    assert not pusher.gave_up(both) and pusher.ending == ["t"]
    assert not pusher.gave_up(first) and pusher.gave_up(second) and not pusher.ending, "broker 2 had done so before"
    assert not pusher.gave_up(first)
    pusher.stop()
    assert not pusher.ending
    assert not pusher.gave_up(second) and pusher.ending == ["t"]
