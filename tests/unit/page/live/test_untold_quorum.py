"""A cluster that does not tell its quorum is not one whose quorum does not answer."""

import asyncio
from typing import Any

import pytest

from actors.page.live.quorums import Quorums
from actors.page.verdict import Asked, verdict
from actors.page.watched import Live
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.operations.test_leaders import cluster
from tests.unit.client.servers import World
from tests.unit.page.live.test_lags import Kafka
from tests.unit.page.test_verdict import NOW, Known

SILENT = message("DescribeQuorumResponse")(error_code=ErrorCode.REQUEST_TIMED_OUT)
NOT_ALLOWED = message("DescribeQuorumResponse")(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def asked(world: World) -> Quorums:
    found = Quorums(Kafka(world), lambda: None)  # type: ignore[arg-type]
    asyncio.run(found._ask())
    return found


def answering(answer: Any) -> World:
    """Two brokers that answer so; None: they do not know the request, as in ZooKeeper mode."""
    world = cluster([1, 2])
    for one in world.servers.values():
        one.answers["DescribeQuorum"] = answer
        if answer is None:
            one.versions["DescribeQuorum"] = (0, -1)
    return world


@pytest.mark.parametrize("answer", [None, NOT_ALLOWED])
def test_a_quorum_that_is_not_told_is_no_fault_and_is_said(answer: Any) -> None:
    found = asked(answering(answer))
    known = Known()
    judged = verdict(known, NOW, found.asked)  # type: ignore[arg-type]
    assert judged.is_well and not judged.findings
    assert known.live is not None and known.live.quorum is None, "what else is told counts"
    assert found.cluster is not None, "which cluster answers is looked at all the same"
    (note,) = Live(None, None, found).notes()  # type: ignore[arg-type]
    assert note.startswith("The quorum of controllers is not looked at: ")


@pytest.mark.parametrize("answer", [SILENT, ConnectionError("reset")])
def test_a_quorum_that_does_not_answer_is_one(answer: Any) -> None:
    found = asked(answering(answer))
    assert found.asked.problem.startswith("the quorum of controllers does not answer: ")
    assert not verdict(Known(), NOW, found.asked).is_well  # type: ignore[arg-type]
    assert not Live(None, None, found).notes() and found.asked == Asked(None, found.asked.problem)  # type: ignore[arg-type]
