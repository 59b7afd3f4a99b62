"""Which snapshot a replica asks its leader for, and of which it says that the leader is wrong."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.raft.download import begin
from actors.raft.messages import SnapshotId

WATERMARK, EPOCH = 10, 3


@pytest.mark.parametrize(
    ("end_offset", "epoch", "asked"),
    [
        (WATERMARK + 1, 0, True),
        (WATERMARK + 1, EPOCH, True),
        (WATERMARK + 1, EPOCH + 1, False),
        (WATERMARK + 1, -1, False),
        (WATERMARK, EPOCH, False),
        (0, 0, False),
    ],
)
def test_r500_28_a_snapshot_is_new_and_of_an_epoch_that_has_begun(end_offset: int, epoch: int, asked: bool) -> None:
    """The first epoch of a quorum is 0 until somebody leads. After a wrong one the fetch is repeated later."""
    core: Any = SimpleNamespace(
        high_watermark=WATERMARK,
        epoch=EPOCH,
        now_ms=1_000,
        limits=SimpleNamespace(retry_backoff_ms=50),
        fetching=SimpleNamespace(due_ms=0),
        download=None,
    )
    begin(core, SnapshotId(end_offset, epoch))
    assert (core.download is not None) is asked
    assert core.fetching.due_ms == (0 if asked else 1_050)
    if asked:
        assert core.download.snapshot == (end_offset, epoch) and core.download.position == 0
