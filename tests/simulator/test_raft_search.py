"""All states of small quorums whose voters change."""

from unittest.mock import patch

import pytest

from actors.raft import change
from tests.simulator.raft_search import Bounds, Search


def test_three_controllers_and_one_change() -> None:
    found = Search(Bounds(nodes=3, initial=3, epochs=2, changes=1)).run()
    assert (found.violation, found.states) == (None, 30810)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("bounds", "states"), [((3, 3, 2, 2), 112_938), ((4, 3, 2, 1), 584_386), ((4, 1, 2, 2), 501_910)]
)
def test_no_way_leads_to_a_violation(
    bounds: tuple[int, int, int, int], states: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """(nodes, voters at first, epochs, changes). The count says that the search was as large as it should be."""
    found = Search(Bounds(*bounds)).run()
    with capsys.disabled():
        nodes, initial, epochs, changes = bounds
        print(
            f"\n{nodes} controllers, {initial} voters at first, {epochs} epochs, {changes} changes: "
            f"{found.states:,} states, {found.violation or 'no violation'}"
        )
    assert (found.violation, found.states) == (None, states)


def test_two_changes_at_once_are_found_by_their_shortest_way() -> None:
    left = {
        kind: tuple(one for one in checks if one is not change._uncommitted)
        for kind, checks in change.OBJECTIONS.items()
    }
    with patch.object(change, "OBJECTIONS", left):
        found = Search(Bounds(nodes=3, initial=3, epochs=2, changes=2)).run()
    assert found.violation is not None
    assert "lacks what was committed" in found.violation
    assert found.steps == (
        "0 stands for 1, votes of (1,)",
        "1 fetches from 0",
        "0 removes 1",
        "0 removes 2",
        "1 stands for 2, votes of (2,)",
    )
