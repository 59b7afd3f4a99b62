"""Worlds in which the replicas of a broker arrive one in a hundred turns, so that much happens before all are there.

The mistakes here are planted where a replica is made later than it is assigned.
"""

from collections.abc import Sequence

from actors.broker.replication import replicas
from actors.broker.replication.metadata_delta import PartitionState
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata import image_deltas
from actors.node.roles.broker.metadata.image_deltas import ImageDeltas
from tests.simulator.planted.registry import Patch, instead, mistake

TURNS = 100
"""A turn that waits for nothing comes 50 us behind the one before."""
SLICE = 2


def slowly() -> Sequence[Patch]:
    """One replica is made in a hundred turns, and two are looked at in a turn."""
    turns = dict[int, int]()

    def begin_turn(self: ImageDeltas) -> None:
        turn = turns[id(self)] = turns.get(id(self), 0) + 1
        self._room, self._rows = int(turn % TURNS == 0), 0

    return [
        instead(image_deltas, "AT_ONCE", 1),
        instead(ImageDeltas, "begin_turn", begin_turn),
        instead(replicas, "SLICE", SLICE),
    ]


@mistake("arriving")
def the_first_word_of_a_replica_counts() -> Sequence[Patch]:
    """A replica becomes what the metadata said when it was assigned, whatever was said since."""
    waits, now = ImageDeltas._waits, ImageDeltas._now
    said = dict[tuple[int, bytes, int], list[PartitionState]]()

    def noted(self: ImageDeltas, name: str, topic_id: bytes, number: int, **before: bool) -> bool:
        waiting = waits(self, name, topic_id, number, **before)
        if waiting:
            said.setdefault((id(self), topic_id, number), now(self, topic_id, number))
        return waiting

    def first(self: ImageDeltas, topic_id: bytes, number: int) -> list[PartitionState]:
        return said.pop((id(self), topic_id, number), None) or now(self, topic_id, number)

    return [instead(ImageDeltas, "_waits", noted), instead(ImageDeltas, "_now", first)]


@mistake("arriving")
def files_are_not_looked_for() -> Sequence[Patch]:
    """A replica that has files waits for its turn like one that begins without: until then they are nobody's."""

    def always(self: LogManager, topic: str, topic_id: bytes, number: int, *, before: bool) -> bool:
        return True

    return [instead(LogManager, "begins_blank", always)]
