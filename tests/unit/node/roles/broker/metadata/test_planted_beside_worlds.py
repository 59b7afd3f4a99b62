"""Mistakes about replicas that arrive and logs that are blank that no world catches soon: a named test catches each."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from actors.broker.log import recovery, truncation
from actors.broker.log.log import PartitionLog
from actors.broker.replication import partition
from actors.broker.replication.metadata_delta import PartitionState
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.metadata import image_deltas
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from tests.simulator.planted.registry import Patch, instead
from tests.unit.broker.log import test_log
from tests.unit.node.roles.broker.metadata import test_arriving_replicas as arriving


def ceases_to_lead_in_its_turn() -> Sequence[Patch]:
    """A broker whose registration is another process's leads on until the turn of each partition comes."""
    in_turn = MetadataApplier._led_in_turn

    def late(self: MetadataApplier, own: bool, state: PartitionState) -> bool:
        return in_turn(self, True, state)

    return [instead(MetadataApplier, "_led_in_turn", late)]


def what_is_written_is_found_once() -> Sequence[Patch]:
    """Logs that begin later are in no checkpoint, and no stop flushes them."""
    written = Replicas.written

    def once(self: Replicas) -> Any:
        return self._written if self._written is not None else written(self)

    return [instead(Replicas, "written", once)]


def an_empty_log_keeps_no_start() -> Sequence[Patch]:
    """A replica whose leader has deleted everything has no file that says where it begins: after a start it begins at 0."""
    fully = truncation.truncate_fully

    def forgetful(log: PartitionLog, offset: int, now_ms: int = 0) -> Any:
        with instead(PartitionLog, "open_first", lambda *_: None):
            return fully(log, offset, now_ms)

    return [instead(place, "truncate_fully", forgetful) for place in (truncation, partition, recovery, test_log)]


CAUGHT_BY: dict[Callable[[], Sequence[Patch]], Callable[[], None]] = {
    ceases_to_lead_in_its_turn: lambda: arriving.test_what_it_leads_it_leads_in_its_turn_and_ceases_to_lead_at_once(
        arriving.FEW
    ),
    what_is_written_is_found_once: lambda: (
        arriving.test_followers_join_and_records_are_committed_while_the_rest_arrives(arriving.FEW)
    ),
    an_empty_log_keeps_no_start: lambda: test_log.test_a_log_begun_elsewhere_keeps_its_offset_over_a_restart(),
}


@pytest.mark.parametrize("plant", CAUGHT_BY, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_caught_by_the_named_test(
    plant: Callable[[], Sequence[Patch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_deltas, "AT_ONCE", arriving.FEW)
    CAUGHT_BY[plant]()
    with ExitStack() as stack, pytest.raises((AssertionError, ValueError)):
        for one in plant():
            stack.enter_context(one)
        CAUGHT_BY[plant]()
