"""When a group stands still."""

import pytest

from actors.why.facts import GroupFacts
from actors.why.groups import GroupSample, standing

A, B = ("t", 0), ("t", 1)


def look(
    time_ms: int, committed: dict[tuple[str, int], int], ends: dict[tuple[str, int], int], members: int = 1
) -> GroupSample:
    return GroupSample(time_ms, members, committed, ends)


def test_a_group_that_commits_nothing_though_it_is_behind() -> None:
    before = {"g": look(0, {A: 5, B: 7}, {A: 10, B: 7})}
    now = {"g": look(90_000, {A: 5, B: 9}, {A: 30, B: 10}, 2)}
    assert standing(before, now) == [GroupFacts("g", 2, 26, ("t-0",), 90_000)]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (look(0, {A: 5}, {A: 10}), look(59_999, {A: 5}, {A: 10})),
        (look(0, {A: 5}, {A: 10}), look(90_000, {A: 6}, {A: 90})),
        (look(0, {A: 10}, {A: 10}), look(90_000, {A: 10}, {A: 10})),
        (look(0, {A: 10}, {A: 10}), look(90_000, {A: 10}, {A: 11})),
        (look(0, {}, {A: 10}), look(90_000, {A: 5}, {A: 10})),
        (look(0, {A: 5}, {A: 10}), look(90_000, {A: 5}, {})),
        (look(0, {A: 5}, {A: 10}), look(90_000, {A: 3}, {A: 10})),
    ],
    ids=["too soon", "slow", "all read", "just written", "new", "gone", "reset"],
)
def test_a_group_that_does_not_stand_still(before: GroupSample, now: GroupSample) -> None:
    assert standing({"g": before}, {"g": now}) == [] == standing({}, {"g": now})
