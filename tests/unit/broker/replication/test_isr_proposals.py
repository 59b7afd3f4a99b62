"""When proposals of ISRs leave again (KIP-497): the pauses of `broker/replication/isr_proposals.py`."""

import pytest

from actors.broker.replication import isr_proposals
from actors.broker.replication.isr_proposals import IsrProposals


@pytest.mark.parametrize("known", [True, False])
def test_without_a_controller_the_pause_is_the_longer_one(known: bool) -> None:
    """One that is known is asked again soon; without one there is nobody to ask before another is elected."""
    proposals = IsrProposals.__new__(IsrProposals)
    proposals._in_flight = []
    assert proposals.lost(known, 1_000) == []
    assert isr_proposals.BACKOFF_MS < isr_proposals.BACKOFF_UNKNOWN_MS
    pause_ms = isr_proposals.BACKOFF_MS if known else isr_proposals.BACKOFF_UNKNOWN_MS
    assert proposals.not_before_ms == 1_000 + pause_ms
