"""Stories of share partitions (KIP-932): which member acquires which records, and what becomes of them."""

from pathlib import Path
from typing import Any

import pytest

from actors.broker.groups.share.delivery.acknowledgement import AcknowledgementBatch
from actors.broker.groups.share.delivery.acquisition import AcquisitionRequest, Extent
from actors.broker.groups.share.delivery.delivery_states import DeliveryState, Event
from actors.broker.groups.share.delivery.in_flight import StateBatch
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.delivery.share_partition import ShareLimits, SharePartition
from actors.broker.replication.admission import RequestRefused
from actors.wire.errors import ErrorCode
from tests.transcripts.driver import play, stories

STORED = {
    "available": DeliveryState.AVAILABLE,
    "acknowledged": DeliveryState.ACKNOWLEDGED,
    "archived": DeliveryState.ARCHIVED,
}


class Share:
    """The commands of these stories. Offsets are written `0-9`; a log is the offsets of its batches."""

    def __init__(self) -> None:
        self.group = ShareLimits(30_000, 5, 2_000, True, False)
        self.extents: list[Extent] = []
        self.share = SharePartition(SharePartitionKey("g", b"t" * 16, 0), 1)
        self.share.load(0, 0, [])
        self.now_ms = 0

    def commands(self) -> dict[str, Any]:
        names = ("limits", "log", "load", "fetch", "say", "write", "fail", "wait", "close", "starts", "show")
        return {name: getattr(self, name) for name in names}

    def limits(self, **given: str) -> str:
        """`lock_duration_ms`, `delivery_limit`, `in_flight_max`, `renewals`."""
        self.group = self.group._replace(**{name: int(value) for name, value in given.items()})
        return ""

    def log(self, *batches: str) -> str:
        """What the log holds from now on."""
        self.extents = [Extent(*_range(one)) for one in batches]
        return ""

    def load(self, start: str, *stored: str) -> str:
        """Begin with another leader. `stored` is what was stored, each as `0-9:available:2`."""
        self.share = SharePartition(self.share.key, self.share.leader_epoch + 1)
        batches = []
        for one in stored:
            offsets, state, count = one.split(":")
            batches.append(StateBatch(*_range(offsets), STORED[state], int(count)))
        self.share.load(int(start), 0, batches)
        return self.show()

    def fetch(self, member: str, records: str = "500", **more: str) -> str:
        """Fetch as a member. `batch`: the member's batch size; `strict`: a strict limit; `aborted`: offsets of an
        aborted transaction."""
        if not self.share.can_acquire(self.group):
            return "nothing can be acquired"
        offset = self.share.next_offset()
        extents = [one for one in self.extents if one.last >= offset]
        ask = AcquisitionRequest(
            member,
            int(records),
            int(more.get("batch", 500)),
            "strict" in more,
            self.now_ms + self.group.lock_duration_ms,
            self.group.delivery_limit,
            self.group.in_flight_max,
        )
        aborted = [Extent(*_range(more["aborted"]))] if "aborted" in more else []
        acquired = self.share.acquire(ask, offset, extents, aborted)
        self._check()
        told = [f"{_offsets(first, last)} for the {count}. time" for first, last, count in acquired]
        return f"read from {offset}: " + (", ".join(told) or "nothing")

    def say(self, member: str, *acks: str) -> str:
        """Each as `accept:0-9`, or `accept,release:0-1` for one type a record."""
        batches = []
        for one in acks:
            types, offsets = one.split(":")
            given = [Event[word.upper()].value for word in types.split(",")]
            batches.append(AcknowledgementBatch(*_range(offsets), given))
        try:
            change = self.share.acknowledge(member, batches, self.now_ms, self.group)
        except RequestRefused as refused:
            return f"{refused.code.name}: {refused}"
        self._check()
        return "to be stored" if change is not None else "nothing to be stored"

    def write(self) -> str:
        """One write, which succeeds."""
        return self._end(ErrorCode.NONE)

    def fail(self, code: str) -> str:
        """One write, which fails."""
        return self._end(ErrorCode[code])

    def wait(self, ms: str) -> str:
        self.now_ms += int(ms)
        return "locks have ended" if self.share.expire(self.now_ms, self.group) else ""

    def close(self, member: str) -> str:
        self.share.give_back(member, self.group)
        return ""

    def starts(self, offset: str) -> str:
        """The log starts at a later offset."""
        self.share.log_starts_at(int(offset))
        self._check()
        return self.show()

    def show(self) -> str:
        window = self.share.window
        assert window is not None
        if self.share.fenced is not None:
            return f"fenced: {self.share.fenced.name}"
        lines = [f"start {window.start}, {window.records} in flight, next read at {self.share.next_offset()}"]
        for batch in window.batches:
            for run in batch.runs:
                words = f"  {_offsets(run.first, run.last)} {run.state.name}"
                if run.member:
                    words += f" by {run.member} until {run.lock_ms}"
                if run.change is not None:
                    words += f", to be {run.target.name}"
                lines.append(f"{words}, {run.count} deliveries")
        return "\n".join(lines)

    def _end(self, code: ErrorCode) -> str:
        write = self.share.next_write()
        if write is None:
            return "nothing to be stored"
        told = [
            f"{_offsets(one.first_offset, one.last_offset)} {DeliveryState(one.delivery_state).name} {one.delivery_count}"
            for one in write.batches
        ]
        self.share.written(code, self.now_ms)
        self._check()
        return f"start {write.start_offset}, {write.complete_count} complete: {', '.join(told)}"

    def _check(self) -> None:
        assert self.share.window is not None
        self.share.window.check()


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _offsets(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


@pytest.mark.parametrize("story", stories("share"), ids=lambda story: story.stem)
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Share().commands(), rewrite)
