"""What brokers told, kept within its bounds."""

from pathlib import Path

import pytest

from actors.client.metadata import Broker, Metadata, Partition, Topic
from actors.page.metadata import polled
from actors.page.metadata.polled import Polled
from actors.page.metadata.recorded import Recorded

LOG = Path(__file__).parents[3] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"


def told(leader: int) -> Metadata:
    parts = {at: Partition(at, leader, 1, (1, 2), (1, 2), ()) for at in range(100)}
    brokers = {one: Broker(one, "localhost", 9092) for one in (1, 2)}
    return Metadata(brokers, {"orders": Topic("orders", bytes(16), False, parts, 0)})


def test_states_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Polled("no right")
    assert found.take(told(1), 1_000) and not found.take(told(1), 2_000)
    monkeypatch.setattr(polled, "BYTES_MAX", 3 * found._states[0].bytes + 1_000)
    for at in range(20):
        assert found.take(told(2 - at % 2), 3_000 + at)
    extent = found.extent()
    assert (extent.begin, extent.end) == (19, 21)
    assert len(found.table("partitions", found.moment("19"))) == 100
    with pytest.raises(ValueError, match="knows nothing of before"):
        found.moment("18")


def test_the_present_and_what_was_before_it_are_kept_whatever_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polled, "BYTES_MAX", 0)
    found = Polled("no right")
    for at in range(5):
        found.take(told(1 + at % 2), at)
    assert (found.extent().begin, found.extent().end) == (4, 5)


def test_a_log_that_can_be_read_at_last_is_not_taken_for_more_of_what_brokers_told() -> None:
    """A moment of the past has a number of these states, and was not looked up anew as an offset of that log."""
    found = Polled("no right")
    found.take(told(1), 1_000)
    assert found.extent().reading != Recorded(LOG).extent().reading
