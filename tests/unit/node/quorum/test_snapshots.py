"""When a snapshot that was taken is handed over, and when it is thrown away since its state was undone (KIP-630)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.metadata.image import Image
from actors.metadata.ops import TopicSet
from actors.node.quorum.snapshots import Snapshotting

END = 5


class _Replica:
    """A quorum that stores what it is given, and work that is done when the test says so."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.jobs: list[Callable[[Any], None]] = []
        self.raft = SimpleNamespace(high_watermark=0)
        self.now = SimpleNamespace(mono_ms=7)

    def work(self, job: Callable[[], object], then: Callable[[Any], None]) -> None:
        self.jobs.append(then)

    def voters_at(self, end_offset: int) -> None:
        return None

    def snapshot(self, end_offset: int, epoch: int, content: Any) -> None:
        self.stored.append(end_offset)


def image_up_to(end: int) -> Image:
    image = Image()
    for number in range(end):
        image.replay(number, TopicSet(f"t{number}", number.to_bytes(16)))
    return image


@pytest.mark.parametrize("worked", [False, True])
@pytest.mark.parametrize(("undone_to", "kept"), [(None, True), (END, True), (END - 1, False), (0, False)])
def test_a_snapshot_of_a_state_that_was_undone_is_never_stored(worked: bool, undone_to: int | None, kept: bool) -> None:
    """`worked`: it is complete, and waits for its commit, when the state is undone."""
    replica: Any = _Replica()
    taken = Snapshotting(replica, replica, SimpleNamespace(format_level=1))  # type: ignore[arg-type]
    taken.take(image_up_to(END))
    if worked:
        replica.jobs.pop()(None)
    if undone_to is not None:
        taken.undone(undone_to)
    if not worked:
        kept = kept and undone_to is None  # one under way is given up, whatever was undone
        replica.jobs.pop()(None)
    assert not replica.stored and taken.busy is kept
    taken.committed(END - 1)
    assert not replica.stored
    replica.raft.high_watermark = END
    taken.committed(END)
    assert replica.stored == [END] * kept and not taken.busy
    assert (taken.offset, taken.generated_ms) == ((END, 7) if kept else (-1, -1))
    taken.take(image_up_to(END + 1))
    replica.jobs.pop()(None)
    taken.committed(END + 1)
    assert replica.stored == [END] * kept + [END + 1]
