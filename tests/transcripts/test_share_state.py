"""Stories of a share coordinator (KIP-932): what it remembers of a share partition, and which requests it fences."""

from pathlib import Path
from typing import Any

import pytest

from actors.broker.groups.share.persistence.share_state import Batch, ShareState
from actors.broker.groups.share.persistence.share_state_records import read
from actors.wire.errors import ErrorCode
from tests.transcripts.driver import play, stories
from tests.unit.broker.groups.share.persistence.world import FAILED, World


class Remembered:
    """The commands of a share coordinator. Batches are written `0-4:2x1`: offsets, delivery state, delivery count."""

    def __init__(self) -> None:
        self.world = World(updates=3)

    def commands(self) -> dict[str, Any]:
        return {
            name: getattr(self, name) for name in ("initialize", "write", "read", "delete", "fail", "load", "needed")
        }

    def initialize(self, state_epoch: str, start: str) -> str:
        return self._done(self.world.initialize(state_epoch=int(state_epoch), start=int(start)))

    def write(self, leader_epoch: str, state_epoch: str, start: str, *batches: str) -> str:
        found = [_batch(one) for one in batches]
        return self._done(self.world.write(found, int(start), int(leader_epoch), int(state_epoch)))

    def read(self, leader_epoch: str) -> str:
        told = self.world.read(int(leader_epoch))
        return self._done(told, reads=True)

    def delete(self) -> str:
        return self._done(self.world.delete())

    def fail(self, leader_epoch: str, state_epoch: str, start: str, *batches: str) -> str:
        """A write that is not appended."""
        told = self.world.write([_batch(one) for one in batches], int(start), int(leader_epoch), int(state_epoch))
        self.world.settle(FAILED, appended=False)
        return str(told[0].error.name)

    def load(self) -> str:
        """Another broker leads, and reads the log."""
        self.world.load()
        return ""

    def needed(self) -> str:
        ((_, offset),) = self.world.machine.redundant()
        return f"the log is needed from {offset} on"

    def _done(self, told: list[Any], *, reads: bool = False) -> str:
        wrote = [_line(one) for one in self.world.settle()]
        (verdict,) = told
        if verdict.error is not ErrorCode.NONE:
            return str(verdict.error.name)
        if reads:
            state = verdict.state
            batches = " ".join(_text(one) for one in state.batches)
            wrote.append(f"told: state epoch {state.state_epoch}, from {state.start_offset}: {batches or '-'}")
        return "\n".join(wrote)


def _line(record: Any) -> str:
    line = read(*record)
    assert line is not None
    if line.record is None:
        return "removal"
    kind = "snapshot" if isinstance(line.record, ShareState) else "update"
    batches = " ".join(_text(one) for one in line.record.batches)
    said = line.record
    return f"{kind} {said.snapshot_epoch}: leader {said.leader_epoch}, from {said.start_offset}: {batches or '-'}"


def _batch(text: str) -> Batch:
    offsets, _, what = text.partition(":")
    first, _, last = offsets.partition("-")
    state, _, count = what.partition("x")
    return Batch(int(first), int(last or first), int(state), int(count))


def _text(batch: Batch) -> str:
    first, last, state, count = batch
    return f"{first}-{last}:{state}x{count}"


@pytest.mark.parametrize("story", stories("share_state"), ids=lambda path: str(path.stem))
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Remembered().commands(), rewrite)
