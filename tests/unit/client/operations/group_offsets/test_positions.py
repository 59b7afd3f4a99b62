"""Where groups of each kind read on, and how far that is from the end."""

from typing import Any

import pytest

from actors.client.asks import Know, Steps
from actors.client.errors import ClientError
from actors.client.operations.group_offsets import positions
from actors.client.operations.group_offsets.positions import Position
from actors.client.operations.groups import CLASSIC, SHARE, STREAMS, Committed

WRONG = ClientError("partition 2 is not known")


def told(monkeypatch: pytest.MonkeyPatch, kind: str) -> dict[Any, Any]:
    def committed(group: str) -> Steps[dict[Any, Any]]:
        yield Know(())
        return {("t", 0): Committed(0, -1, ""), ("t", 1): Committed(7, 3, "x"), ("t", 2): WRONG}

    def share_offsets(group: str) -> Steps[dict[Any, Any]]:
        yield Know(())
        return {("t", 0): (0, 0), ("t", 1): (7, -1), ("t", 2): WRONG, ("t", 3): (-1, -1)}

    monkeypatch.setattr(positions, "committed", committed)
    monkeypatch.setattr(positions, "share_offsets", share_offsets)
    steps = positions.positions("g", kind)
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(None)
    return dict(ended.value.value)


def test_an_offset_of_zero_is_a_position_and_an_error_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (CLASSIC, STREAMS, "consumer", ""):
        found = told(monkeypatch, kind)
        assert found == {("t", 0): Position(0, None), ("t", 1): Position(7, None), ("t", 2): WRONG}
    assert told(monkeypatch, SHARE) == {("t", 0): Position(0, 0), ("t", 1): Position(7, None), ("t", 2): WRONG}


def test_the_lag_is_the_coordinators_where_it_counts_and_never_below_zero() -> None:
    assert Position(7, None).behind(10) == 3 and Position(7, None).behind(7) == 0
    assert Position(7, None).behind(5) == 0, "the log was cut behind the commit"
    assert Position(7, None).behind(None) is None
    assert Position(7, 2).behind(10) == Position(7, 2).behind(None) == 2 and Position(7, 0).behind(10) == 0
