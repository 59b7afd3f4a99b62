"""Stories of a broker's states, its lease, and its heartbeats to the controller (KIP-631)."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from actors.broker.lifecycle.lifecycle import Answer, BrokerState, Heartbeat, Lifecycle, Metadata
from actors.ports import Now
from tests.transcripts.driver import play, stories

STEP_MS = 10
WALL_MS = 1_600_000_000_000
CODES = {"NOT_CONTROLLER": 41, "STALE_BROKER_EPOCH": 77}


class Life:
    """The commands of these stories. Time moves in steps. What the broker sends or decides meanwhile is shown with its
    time in seconds."""

    def __init__(self) -> None:
        self.life = Lifecycle(2000, 20_000)
        self.ms = 0
        self.next_offset, self.high_watermark, self.leader_known = 0, -1, False
        self.beat: Heartbeat | None = None
        self.replies: dict[str, str] | None = None
        self.state = BrokerState.INITIAL

    def commands(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in ("wait", "metadata", "controller", "silence", "answer", "stop", "show")
        }

    def now(self) -> Now:
        return Now(self.ms, WALL_MS + self.ms)

    def metadata(self, next_offset: str, committed: str) -> str:
        """Set how far the broker's replay is, and what is known to be committed."""
        self.next_offset, self.high_watermark, self.leader_known = int(next_offset), int(committed), True
        return ""

    def controller(self, state: str = "", **fields: str) -> str:
        """Set the answer to every heartbeat from now on: `controller ACTIVE epoch=5`, `controller
        error=NOT_CONTROLLER`."""
        self.replies = {"state": state, **fields}
        return self._answered() if self.beat is not None else ""

    def silence(self) -> str:
        """Lose heartbeats from now on."""
        self.replies = None
        return ""

    def answer(self, state: str, **fields: str) -> str:
        """Answer the heartbeat that is in flight."""
        before, self.replies = self.replies, {"state": state, **fields}
        told = self._answered()
        self.replies = before
        return told

    def stop(self) -> str:
        """Stop the broker, as SIGTERM does."""
        self.life.stop(self.now())
        return self._told()

    def wait(self, seconds: str) -> str:
        until = self.ms + int(float(seconds) * 1000)
        lines: list[str] = []
        while self.ms < until:
            lines.append(self._turn())
            self.ms += STEP_MS
        return "\n".join(_shortened([row for line in lines for row in line.split("\n") if row]))

    def show(self) -> str:
        life = self.life
        left = max(0, life.lease_until_ms - self.ms) / 1000
        serves = "serves clients" if life.serving(self.now(), self.next_offset) else "serves nobody"
        return f"{life.state.name} epoch={life.epoch} lease {left:g} s, {serves}"

    def _turn(self) -> str:
        beat = self.life.tick(self.now(), Metadata(self.next_offset, self.high_watermark, self.leader_known))
        lines = [self._told()]
        if beat is not None:
            self.beat = beat
            lines.append(f"{self._clock()} sends {beat.target.name} epoch={beat.epoch} offset={beat.metadata_offset}")
            if self.replies is not None:
                lines.append(self._answered())
            else:
                self.beat = None
                self.life.lost(self.now())
        return "\n".join(line for line in lines if line)

    def _answered(self) -> str:
        assert self.beat is not None and self.replies is not None, "no heartbeat is out"
        fields, beat, self.beat = self.replies, self.beat, None
        lease_ms = int(float(fields.get("lease", "20")) * 1000) if fields["state"] == "ACTIVE" else 0
        self.life.answered(
            Answer(
                CODES.get(fields.get("error", ""), 0),
                BrokerState[fields["state"] or "UNKNOWN"],
                int(fields.get("epoch", "-1")),
                beat.lease_start_ms + lease_ms,
            ),
            self.now(),
        )
        return self._told()

    def _told(self) -> str:
        lines = [f"{self._clock()} {line}" for line in self.life.take_reports()]
        if self.life.stop_at is not None and self.state is not BrokerState.SHUTDOWN:
            self.state = BrokerState.SHUTDOWN
            lines.append(f"{self._clock()} ends with exit code {self.life.stop_at.code}")
        return "\n".join(lines)

    def _clock(self) -> str:
        return f"{self.ms / 1000:g} s:"


def _shortened(lines: list[str]) -> list[str]:
    """The first of several equal heartbeats, and how many more came until when."""
    told: list[str] = []
    for what, group in groupby(lines, key=lambda line: line.partition(": ")[2]):
        same = list(group)
        told.append(same[0])
        if len(same) > 1:
            told.append(f"... {len(same) - 1} more, the last at {same[-1].removesuffix(': ' + what)}")
    return told


@pytest.mark.parametrize("story", stories("broker"), ids=lambda path: path.stem)
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Life().commands(), rewrite)
