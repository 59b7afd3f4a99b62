"""The quorum asked again and again: what is told at once, what once a while, and when it counts as silent."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.client.errors import ClientError, NotInTime
from actors.client.operations.cluster import Cluster, Quorum, Replica
from actors.page.live import quorums as module
from actors.page.live.quorums import Quorums


def quorum(leader: int, end: int, epoch: int = 1) -> Quorum:
    return Quorum(leader, epoch, end, [Replica(one, bytes(16), end, 0, 0) for one in (1, 2, 3)], [], {})


class Answers:
    """A cluster that gives these answers to questions about its quorum, one after the other, then the last one for ever."""

    def __init__(self, *answers: Quorum | ClientError) -> None:
        self.left = list(answers)
        self.clusters = 0

    async def run(self, steps: Any, timeout_s: float) -> Any:
        """The next answer."""
        if steps.__name__ == "describe_cluster":
            self.clusters += 1
            return Cluster("id", -1, {})
        found = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(found, ClientError):
            raise found
        return found


def watched(answers: Answers, until: Callable[[Quorums], bool]) -> tuple[Quorums, list[Any]]:
    """Watch until something holds, and some rounds more: with what was told."""
    told: list[Any] = []

    async def main() -> Quorums:
        found = Quorums(answers, lambda: told.append(found.asked))  # type: ignore[arg-type]
        task = asyncio.create_task(found.watch())
        async with asyncio.timeout(30):
            while not until(found):
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
        task.cancel()
        return found

    return asyncio.run(main()), told


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.001)
    monkeypatch.setattr(module, "OFFSETS_S", 600.0)


def test_offsets_that_move_are_told_once_a_while_and_a_new_leader_at_once() -> None:
    answers = Answers(quorum(1, 5), quorum(1, 6), quorum(1, 7), quorum(2, 8, 2), quorum(2, 9, 2), quorum(2, 9, 3))
    found, told = watched(answers, lambda found: len(answers.left) == 1)
    assert [(one.quorum.leader, one.quorum.leader_epoch) for one in told] == [(1, 1), (2, 2), (2, 3)]
    assert found.asked.quorum == quorum(2, 9, 3) and found.cluster_id == "id" and not found.silent.is_set()
    assert answers.clusters == 1, "an address changes seldom"


def test_offsets_are_told_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OFFSETS_S", 0.0)
    answers = Answers(quorum(1, 5), quorum(1, 6), quorum(1, 6), quorum(1, 7))
    _, told = watched(answers, lambda found: len(answers.left) == 1)
    assert [one.quorum.high_watermark for one in told] == [5, 6, 7], "and what has not changed is not told"


@pytest.mark.parametrize(("error", "silent"), [(NotInTime("late"), True), (ClientError("not authorized"), False)])
def test_no_answer_is_silence_and_a_refusal_is_none(error: ClientError, silent: bool) -> None:
    answers = Answers(error, quorum(1, 5))
    found, told = watched(answers, lambda found: found.asked.quorum is not None)
    assert found.silent.is_set() is silent
    assert [one.problem for one in told] == [f"the quorum of controllers does not answer: {error}", ""]
