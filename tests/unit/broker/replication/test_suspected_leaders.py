"""A leader that may just have died: answers that would name it wait for the controller, for a moment."""

import pytest

from actors.broker.replication.suspected_leaders import DOUBT_MS, SuspectedLeaders
from actors.metadata.image import Image
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab, Pending


def ask(lab: Lab, id: int, *topics: str) -> Pending:
    kind = message("MetadataRequest")
    wanted = [kind.MetadataRequestTopic(name=name) for name in topics] or None
    return lab.call(id, "Metadata", 12, kind(topics=wanted, allow_auto_topic_creation=False))


def leader(pending: Pending) -> int:
    assert pending.done
    (topic,) = pending.reply.topics
    return topic.partitions[0].leader_id


def test_metadata_waits_for_the_leader_that_follows() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.topic([2, 3], "other", bytes(16)[:-1] + b"\7")
    lab.produce(1, b"a")
    lab.settle()
    lab.split.update((frozenset((1, 2)), frozenset((1, 3))))
    for _ in range(200):
        lab.pass_ms(10, step_ms=10)
        if any(lab.broker(2).suspected_leaders.now(lab.now.mono_ms)):
            break
    waiting, everything = ask(lab, 2, "t"), ask(lab, 2)
    assert not waiting.done and not everything.done
    assert leader(ask(lab, 2, "other")) == 2, "it is not concerned"
    lab.change([2, 3], 3)
    lab.settle()
    assert leader(waiting) == 3
    assert everything.done


def test_a_topic_that_is_named_many_times_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte names a topic 300,000 times, and a topic may have thousands of partitions."""
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.topic([2, 3], "other", bytes(16)[:-1] + b"\7")
    looked: list[int] = []
    look = Image.topic_partitions
    monkeypatch.setattr(Image, "topic_partitions", lambda image, row: looked.append(row) or look(image, row))
    monkeypatch.setattr(lab.broker(2).suspected_leaders, "now", lambda mono_ms: iter([(1, mono_ms + DOUBT_MS)]))
    assert leader(ask(lab, 2, *["other"] * 1000)) == 2
    assert len(looked) < 5


def test_the_wait_ends_without_a_decision_too_and_is_not_repeated() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.produce(1, b"a")
    lab.settle()
    lab.split.update((frozenset((1, 2)), frozenset((1, 3))))
    for _ in range(200):
        lab.pass_ms(10, step_ms=10)
        if any(lab.broker(2).suspected_leaders.now(lab.now.mono_ms)):
            break
    waiting = ask(lab, 2, "t")
    assert not waiting.done
    lab.pass_ms(DOUBT_MS + 20, step_ms=10)
    assert leader(waiting) == 1, "it is what is known"
    lab.pass_ms(1000)
    assert leader(ask(lab, 2, "t")) == 1, "the link is still down, and nobody waits for it any more"


def test_an_answer_or_a_new_registration_ends_the_doubt() -> None:
    registered = {1: 10}
    suspected_leaders = SuspectedLeaders(registered)
    suspected_leaders.lost(1, 0)
    assert not list(suspected_leaders.now(1)), "it had never answered"
    suspected_leaders.heard(1)
    suspected_leaders.lost(1, 100)
    assert list(suspected_leaders.now(101)) == [(1, 100 + DOUBT_MS)]
    suspected_leaders.heard(1)
    assert not list(suspected_leaders.now(101))
    suspected_leaders.lost(1, 200)
    suspected_leaders.lost(1, 250)
    assert list(suspected_leaders.now(260)) == [(1, 200 + DOUBT_MS)], "a refused redial adds nothing"
    registered[1] = 11
    assert not list(suspected_leaders.now(260))
    del registered[1]
    assert not list(suspected_leaders.now(260))
