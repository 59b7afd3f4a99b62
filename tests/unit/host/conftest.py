"""A loop that a test runs is not its process: it sets nothing of the collector aside, and says that it would have."""

import pytest


@pytest.fixture(autouse=True)
def set_aside(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each time a loop has set objects that live long aside."""
    told: list[bool] = []
    monkeypatch.setattr("actors.host.loop.set_aside", lambda: told.append(True))
    return told
