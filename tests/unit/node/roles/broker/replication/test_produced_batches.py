"""A produced batch that was looked up before it is appended: what has changed in between decides."""

from collections.abc import Callable

import pytest

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
