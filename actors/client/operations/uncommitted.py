"""Batches of the metadata log that are fetched, and of which it is not known yet whether they are committed.

A leader gives its log to the end, as its followers need it. What lies above the high watermark may still be undone by the
next leader. Rules:

1. Batches come in the order of their offsets, without a gap, since the log is never compacted, and their leader epoch never
   goes down.
2. A batch is released once all of it is below the high watermark. What was released stays: a leader that does not have it is
   not the leader of this log.

KIP-595 (the high watermark, truncation).
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.client.errors import ClientError
from fastpath.records.scan import scan

CUT = "the bytes end inside the batch"
"""The fault of a batch that an answer's end cuts off: it comes again with the next one."""


class OffsetAndEpoch(NamedTuple):
    """A place in the log: an offset, and the leader epoch of the record before it."""

    offset: int
    epoch: int


class Batches(NamedTuple):
    """Whole batches that lie one behind the other."""

    records: memoryview
    headers: NDArray[np.void]
    """What `scan` says of them. `position` counts from the first byte of `records`."""

    @property
    def end(self) -> OffsetAndEpoch:
        """The place behind them."""
        last = self.headers[-1]
        return OffsetAndEpoch(int(last["last_offset"]) + 1, int(last["epoch"]))

    def part(self, first: int, stop: int) -> "Batches":
        """The batches from the `first` up to the one before `stop`."""
        chosen = self.headers[first:stop].copy()
        begin, end = int(chosen[0]["position"]), int(chosen[-1]["position"] + chosen[-1]["size"])
        chosen["position"] -= begin
        return Batches(self.records[begin:end], chosen)


class Uncommitted:
    """The batches behind a place in the log."""

    def __init__(self, start: OffsetAndEpoch, claimed: bool = False) -> None:
        """The first batch may begin before `start`. `claimed`: its epoch is not known, and nothing follows from it."""
        self.start = start
        """The place behind what was released."""
        self.bytes = 0
        """How many bytes are held."""
        self._claimed = claimed
        self._begun = False
        """Whether something was released."""
        self._held: deque[Batches] = deque()

    @property
    def end(self) -> OffsetAndEpoch:
        """The place behind all that was fetched."""
        return self._held[-1].end if self._held else self.start

    @property
    def claimed(self) -> bool:
        """Whether nothing is known of the log before its end."""
        return self._claimed and not self._held

    def add(self, records: memoryview, epoch: int) -> None:
        """Take batches of the leader of `epoch`. A last one that is cut off is left out. Raises ClientError, with the end of
        a sentence that begins with the leader, for bytes that are no sound batches or do not continue the log."""
        headers, after, fault = scan(records, 0, len(records), True)
        if fault is not None and fault != CUT:
            raise ClientError(f"sent bytes at offset {self.end.offset} that are no batch: {fault}")
        if not len(headers):
            raise ClientError(f"sent {len(records)} bytes at offset {self.end.offset}, and no whole batch")
        end, first = self.end, headers[0]
        follows = self.claimed or first["epoch"] >= end.epoch
        if self._begun or self._held:
            follows &= bool(first["base_offset"] == end.offset)
        else:
            follows &= bool(first["base_offset"] <= end.offset <= first["last_offset"])
        follows &= bool((headers["last_offset"][:-1] + 1 == headers["base_offset"][1:]).all())
        follows &= bool((np.diff(headers["epoch"]) >= 0).all())
        if not follows or headers[-1]["epoch"] > epoch or headers[0]["epoch"] < 0:
            raise ClientError(f"sent batches that do not continue the log at offset {end.offset}")
        self._held.append(Batches(records[:after], headers))
        self.bytes += after

    def truncate(self, diverging: OffsetAndEpoch) -> None:
        """Drop what the leader does not have: its log ends at `diverging.offset` in the newest epoch that both may have.
        Raises ClientError, with the end of a sentence that begins with the leader, if that was committed."""
        if diverging.epoch < self.start.epoch or diverging.offset < self.start.offset:
            raise ClientError(
                f"does not have the records before offset {self.start.offset}, which were committed (its log ends at "
                f"{diverging.offset} in epoch {diverging.epoch}): it belongs to another cluster, or has lost its log"
            )
        kept, self._held, self.bytes = list(self._held), deque(), 0
        for one in kept:
            headers = one.headers
            stays = (headers["last_offset"] < diverging.offset) & (headers["epoch"] <= diverging.epoch)
            count = int(np.logical_and.accumulate(stays).sum())
            if count:
                self._hold(one.part(0, count))
            if count < len(headers):
                break

    def release(self, high_watermark: int) -> list[Batches]:
        """The batches that are committed now, in order."""
        found = []
        while self._held:
            one = self._held.popleft()
            self.bytes -= len(one.records)
            count = int(np.searchsorted(one.headers["last_offset"], high_watermark))
            if count < len(one.headers):
                self._held.appendleft(one if not count else one.part(count, len(one.headers)))
                self.bytes += len(self._held[0].records)
            if count:
                found.append(one.part(0, count))
                self.start, self._claimed, self._begun = found[-1].end, False, True
            if count < len(one.headers):
                break
        return found

    def _hold(self, one: Batches) -> None:
        self._held.append(one)
        self.bytes += len(one.records)
