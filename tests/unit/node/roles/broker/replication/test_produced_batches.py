"""A produced batch that was looked up before it is appended: what has changed in between decides."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.replication import admission
from actors.broker.replication.replicas import Replicas
from actors.metadata import ops
from actors.wire.errors import ErrorCode
from tests.unit.node.roles.broker.lab import TOPIC_ID, Pending, code, outcome
from tests.unit.node.roles.broker.replication.test_batch_inspections import LARGE, Held, built, sent

ANOTHER_ID = bytes(range(1, 17))


def inspected(lab: Held) -> Pending:
    """A thread has a batch that was admitted."""
    lab.topic([1])
    pending = sent(lab, built(lab, LARGE))
    assert len(lab.jobs) == 1 and not pending.done
    return pending


def smaller(lab: Held) -> None:
    lab.commit(ops.ConfigSet(2, "t", "max.message.bytes", "100"))


def gone(lab: Held) -> None:
    lab.commit(ops.TopicGone(TOPIC_ID))


def begun_anew(lab: Held) -> None:
    lab.commit(ops.TopicGone(TOPIC_ID))
    lab.topic([1], topic_id=ANOTHER_ID, configs={"max.message.bytes": "100"})


def elsewhere(lab: Held) -> None:
    lab.change([1], -1)


@pytest.mark.parametrize(
    ("happens", "answer"),
    [
        (smaller, ErrorCode.MESSAGE_TOO_LARGE),
        (gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (begun_anew, ErrorCode.MESSAGE_TOO_LARGE),
        (elsewhere, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_was_admitted_is_admitted_anew_if_it_does_not_hold_any_more(
    happens: Callable[[Held], None], answer: ErrorCode
) -> None:
    lab = Held()
    pending = inspected(lab)
    happens(lab)
    lab.go_on()
    assert code(pending) is answer
    found = lab.partition(1)
    assert found is None or found.log.log_end_offset == 0


def test_what_holds_is_appended_as_it_was_admitted() -> None:
    lab = Held()
    pending = inspected(lab)
    lab.commit(ops.ConfigSet(2, "another", "max.message.bytes", "100"))
    lab.go_on()
    assert code(pending) is ErrorCode.NONE and outcome(pending).base_offset == 0


STEPS = ("check", "judge", "believe")
"""What `admission` asks of a batch, in its order; `accept` is what the partition asks it at last."""


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of admission, and look-ups of a partition, as they are taken."""
    taken: list[str] = []

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **more: Any) -> Any:
            taken.append(name)
            return original(*arguments, **more)

        return step

    for name in STEPS:
        monkeypatch.setattr(admission, name, noted(name, getattr(admission, name)))
    monkeypatch.setattr("actors.broker.replication.partition.accept", noted("accept", admission.accept))
    monkeypatch.setattr(Replicas, "get", noted("look up", Replicas.get))
    return taken


def test_a_batch_is_looked_up_and_judged_in_one_walk(walked: list[str]) -> None:
    lab = Held()
    lab.topic([1])
    walked.clear()
    assert code(sent(lab, built(lab, b"a", codec=0))) is ErrorCode.NONE
    assert walked[:2] == ["look up", "check"], "it is looked up first"
    assert Counter(walked) == {"look up": 1, "check": 1, "judge": 1, "accept": 1}


def test_a_batch_that_a_thread_inspects_is_admitted_once_and_judged_when_it_is_appended(walked: list[str]) -> None:
    lab = Held()
    lab.topic([1])
    walked.clear()
    pending = sent(lab, built(lab, LARGE))
    assert [one for one in walked if one != "look up"] == ["check"] and not pending.done
    lab.go_on()
    assert code(pending) is ErrorCode.NONE
    assert [one for one in walked if one != "look up"] == ["check", "judge", "believe", "accept"]
    assert walked.count("look up") == 2, "once more to see whether what was admitted still holds"
