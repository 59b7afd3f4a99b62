"""The mixture of changes of `test_mixed_changes.py`, in a log of transactions.

After each step, and behind each crash: readers of committed records are told of the aborted transactions that the batches of
the log tell of, and of nothing that is undecided. What is below the high watermark is not cut, and nothing is cleaned or
deleted that is not below it.
"""

from typing import Any

import pytest

from actors.broker.log.log import PartitionLog, Unsettled
from actors.broker.log.producers.markers import Marker
from actors.broker.log.producers.markers import build as build_marker
from actors.ports import DiskFull
from fastpath.records import batch
from tests.reference import transactions as model
from tests.reference.transactions import ABORT, COMMIT, PLAIN, Batch
from tests.unit.broker.log.cleaning.test_cleaner import NOW, keyed
from tests.unit.broker.log.cleaning.test_cleaning_transactions import CONTROL, aborts
from tests.unit.broker.log.cleaning.test_mixed_changes import STEPS, World
from tests.unit.broker.log.logs import content
from tests.unit.broker.log.transactions import TRANSACTIONAL, aborted, last_stable

pytestmark = pytest.mark.long

SEEDS = 400


class Transactions(World):
    """One log with the batches of three producers, which leaders take unseen."""

    high_watermark = 0

    def grow(self) -> None:
        for _ in range(self.random.randrange(1, 9)):
            offset, kind = self.log.log_end_offset, self.random.random()
            header: dict[str, Any] = {"producer_id": self.random.randrange(1, 4), "producer_epoch": 0}
            if kind < 0.3:
                header = {}
            elif kind < 0.7:
                header |= {"base_sequence": 0, "attributes": TRANSACTIONAL}
            data = keyed(key := b"%d.%d" % (self.leader, offset), b"v", **header)
            if kind >= 0.7:
                data = build_marker(header["producer_id"], 0, Marker(kind < 0.8, 0), NOW)
            headers = batch.accept(data, 0, len(data), offset, self.leader, now_ms=1_000, client=False).headers
            try:
                self.log.append(data, headers, 1_000, client=False)
            except (DiskFull, Unsettled):
                break
            self.keys[offset] = key
        self.note()
        if self.log.names.flush_wanted and not self.recovery_point:
            self.flush()  # as a broker does: where nothing was ever durable a power cut may keep the second file alone

    def note(self) -> None:
        super().note()
        self.look(self.log)

    def begin(self) -> None:
        super().begin()
        self.high_watermark = 0

    def flush(self) -> None:
        super().flush()
        if self.random.random() < 0.5 and self.recovery_point > self.high_watermark:
            self.high_watermark = self.random.randrange(self.high_watermark, self.recovery_point + 1)

    @property
    def lowest_end(self) -> int:
        return max(super().lowest_end, self.high_watermark)

    def retain(self) -> None:
        log = self.log
        if len(log.segments) > 2 and log.segments[2].base_offset <= self.high_watermark and not log.names.flush_wanted:
            super().retain()

    @property
    def cleanable_end(self) -> int:
        return min(super().cleanable_end, last_stable(self.log, self.high_watermark))

    def check(self, log: PartitionLog) -> None:
        assert log.log_end_offset >= min(one.end for one in self.states), "what was durable is gone"
        assert log.log_start_offset <= max(one.start for one in self.states), "what was durable is gone"
        self.look(log)

    def look(self, log: PartitionLog) -> None:
        start, high_watermark = log.log_start_offset, min(self.high_watermark, log.log_end_offset)
        if high_watermark <= start:
            return
        with self.enough():
            batches = told(log)
            stable = last_stable(log, high_watermark)
            assert stable <= model.last_stable_offset(batches, start, high_watermark)[1], "undecided, and shown"
            for offset in (start, (start + stable) // 2):
                inside = [one for one in batches if one.last >= offset and one.last < stable]
                consumed = model.consumed(inside, aborted(log, offset, stable))
                assert consumed == model.visible(batches, offset, stable), "aborted and shown, or committed and not"

    def begin_elsewhere(self) -> None:
        """Nothing: it would cut below the high watermark."""


def told(log: PartitionLog) -> list[Batch]:
    """The batches of a log, as a consumer of all records reads them."""
    data, found = content(log), []
    for head in batch.headers(data):
        kind = model.TRANSACTIONAL if head.attributes & TRANSACTIONAL else PLAIN
        if head.attributes & CONTROL:
            if not head.count:
                continue
            kind = ABORT if aborts(memoryview(data), head) else COMMIT
        found.append(Batch(head.base_offset, head.last_offset, kind, head.producer_id))
    return found


@pytest.mark.parametrize("block", range(4))
def test_no_mixture_of_changes_shows_what_is_aborted_or_undecided(block: int) -> None:
    for seed in range(block * SEEDS // 4, (block + 1) * SEEDS // 4):
        world, done = Transactions(seed), 0
        try:
            while done < STEPS:
                world.step()
                done += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {done}: {error}") from error
