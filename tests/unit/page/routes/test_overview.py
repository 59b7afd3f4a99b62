"""The first page: what is kept for all readers is of now."""

from types import SimpleNamespace

import pytest

from actors.page.lately import Lately
from actors.page.metadata.moments import Extent, Moment
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
