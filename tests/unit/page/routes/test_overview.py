"""What is asked by every open page: what is kept for all of them is of now."""

from types import SimpleNamespace

import pytest

from actors.page.lately import Lately
from actors.page.metadata.moments import Extent, Flow, Moment
from actors.page.routes import overview as module
from actors.page.verdict import Verdict


def test_numbers_of_before_a_change_are_not_kept_for_those_who_ask_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request has its moment, and the log grows before it is answered: all others had the old numbers then, until the next
    change."""
    made = []

    def numbers(known: object, at: Moment) -> dict[str, int]:
        made.append(at.offset)
        return {"of": at.offset}

    monkeypatch.setattr(module, "_numbers", numbers)
    monkeypatch.setattr(module, "quorum_shown", lambda known, asked, at: None)
    known = SimpleNamespace(extent=lambda: Extent(0, 5, 0, 0, 5))
    watched = SimpleNamespace(known=known, asked=None, verdict=lambda at: Verdict(True, "Well.", []))
    here = SimpleNamespace(watched=watched, lately=Lately())
    found = [module._now(here, Moment(offset, 0, True))["of"] for offset in (4, 5, 9)]  # type: ignore[arg-type]
    assert found == [4, 5, 5] and made == [4, 5]


def test_the_time_is_laid_out_once_for_all_who_ask_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMELINE_S", 1e6)
    made, told = [], {"touched": 5, "reading": 0}

    def flow(count: int) -> Flow:
        made.append(count)
        return Flow(0, 0, [len(made)], [0], [9])

    known = SimpleNamespace(extent=lambda: Extent(0, 9, 0, 0, **told), flow=flow, marks=list)
    here = SimpleNamespace(watched=SimpleNamespace(known=known), timeline=Lately())

    def asked(count: int = 400) -> bytes:
        return module._timeline(here, count)  # type: ignore[arg-type]

    assert len({asked() for _ in range(10)}) == 1 and made == [400]
    for change in ({"touched": 6}, {"reading": 1}):
        told |= change
        assert asked() == asked() and b'"records":[%d]' % len(made) in asked()
    assert asked(10) != asked(400) and made == [400, 400, 400, 10, 400]
    monkeypatch.setattr(module, "TIMELINE_S", 1e-9)
    asked()
    assert len(made) == 6, "records that change nothing are seen a while later"
