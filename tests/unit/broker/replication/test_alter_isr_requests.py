"""When proposals of ISRs leave again (KIP-497): the pauses of `broker/replication/alter_isr_requests.py`."""

import pytest

from actors.broker.replication import alter_isr_requests
from actors.broker.replication.alter_isr_requests import IsrProposals


@pytest.mark.parametrize("known", [True, False])
def test_without_a_controller_the_pause_is_the_longer_one(known: bool) -> None:
    """One that is known is asked again soon; without one there is nobody to ask before another is elected."""
    proposals = IsrProposals.__new__(IsrProposals)
    proposals._in_flight = []
    assert proposals.lost(known, 1_000) == []
    assert alter_isr_requests.BACKOFF_MS < alter_isr_requests.BACKOFF_UNKNOWN_MS
    pause_ms = alter_isr_requests.BACKOFF_MS if known else alter_isr_requests.BACKOFF_UNKNOWN_MS
    assert proposals.not_before_ms == 1_000 + pause_ms
