"""Mistakes of the log cleaner, and of those who meet logs with gaps."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from actors.broker.log.cleaning import cleanable
from actors.broker.log.cleaning import cleaner as cleaner_of
from actors.broker.log.cleaning.cleaner import LogCleaning
from actors.broker.log.log import PartitionLog
from actors.node.roles.broker.log import log_cleaner
from actors.node.roles.broker.log.log_cleaner import LogCleaner
from fastpath.records import batch as batches
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("cleaned")
def cleaned_above_the_high_watermark() -> Sequence[Patch]:
    """A record that may still be cut off takes the place of the one that is committed."""
    return [instead(LogCleaner, "_stable", staticmethod(lambda partition: partition.log.log_end_offset))]


@mistake("cleaned")
def tombstones_go_at_once() -> Sequence[Patch]:
    """The cleaner does not wait for readers that have seen the value and not yet its end."""
    make = cleaner_of.Cleaner

    def hasty(*args: Any, **limits: Any) -> Any:
        return make(*args, **{**limits, "delete_retention_ms": -1_000})

    return [instead(cleaner_of, "Cleaner", hasty)]


@mistake("cleaned")
def new_segments_not_synced() -> Sequence[Patch]:
    """New segments take the place of segments that were on the disk, and a power cut finds neither."""
    carry_out = LogCleaner._carry_out

    def unsafe(self: LogCleaner, running: Any, wish: Any) -> None:
        if isinstance(wish, cleaner_of.Durable):
            self._go_on(running, None)
        else:
            carry_out(self, running, wish)

    return [instead(LogCleaner, "_carry_out", unsafe)]


@mistake("cleaned")
def full_map_taken_for_whole() -> Sequence[Patch]:
    """What the map has had no room for counts as clean: a tombstone there goes, and an older value comes back."""
    fill = LogCleaning._fill

    def boastful(self: LogCleaning, wanted: Any) -> Any:
        yield from fill(self, wanted)
        self._whole = True

    return [instead(LogCleaning, "_fill", boastful)]


@mistake("cleaned")
def clean_part_not_written_anew() -> Sequence[Patch]:
    """The cleaner cleans dirty segments only: older values stay before them, and come back with the end of their
    tombstones."""
    groups = cleanable.groups

    def dirty(log: PartitionLog, upper_offset: int) -> list[cleanable.Group]:
        found = groups(log, upper_offset)
        return [one for one in found if one.last_offset >= log.cleaned_offset]

    return [instead(cleaner_of, "groups", dirty)]


@mistake("cleaned")
def gap_taken_for_damage_by_readers() -> Sequence[Patch]:
    """Broker after broker gives its replica up."""
    return [instead(PartitionLog, "sparse", property(lambda log: False))]


@mistake("cleaned")
def next_segment_kept_instead_of_the_last_record() -> Sequence[Patch]:
    """The map is filled from behind the first dirty segment: what is there is thought to be the last of its key."""
    return [instead(cleaner_of, "fill", partial(_backwards, cleaner_of.fill))]


@mistake("swept")
def open_transactions_cleaned() -> Sequence[Patch]:
    """A record that may be aborted takes the place of the one that is committed."""
    return [instead(LogCleaner, "_stable", staticmethod(lambda partition: partition.high_watermark))]


@mistake("swept")
def aborted_records_in_the_map() -> Sequence[Patch]:
    """A record that was aborted takes the place of the one that is committed."""
    fill_one = LogCleaning._fill_one

    def knows_nothing(self: LogCleaning, segment: Any, position: int, transactions: Any) -> Any:
        return fill_one(self, segment, position, cleaner_of.Transactions())

    return [instead(LogCleaning, "_fill_one", knows_nothing)]


@mistake("swept")
def cleaner_knows_no_aborted_transactions() -> Sequence[Patch]:
    """The rest of an aborted transaction counts as committed: the new segment has no index of them."""

    def none(self: LogCleaning) -> Any:
        yield from ()
        return cleaner_of.Transactions()

    return [instead(LogCleaning, "_transactions", none)]


@mistake("swept")
def all_counts_as_clean() -> Sequence[Patch]:
    """What was written while a cleaning ran is never looked at: a tombstone there goes, and the older values stay."""
    cleaned = LogCleaner._cleaned

    def boastful(self: LogCleaner, running: Any, done: Any) -> None:
        cleaned(self, running, done._replace(end_offset=running.log.log_end_offset))

    return [instead(LogCleaner, "_cleaned", boastful)]


@mistake("swept")
def young_records_cleaned() -> Sequence[Patch]:
    """A reader that is behind by less than min.compaction.lag.ms misses values."""

    def impatient(log: PartitionLog, upper_offset: int, now_ms: int) -> cleanable.Cleanable:
        return cleanable.cleanable(log, upper_offset, now_ms + 3_600_000)

    return [instead(log_cleaner, "cleanable", impatient)]


def _backwards(fill: Any, offsets: Any, data: Any, pos: int, end: int, start: int, *more: Any, **limits: Any) -> Any:
    found = fill(offsets, data, pos, end, start, *more, **limits)
    for head in batches.headers(data[pos:end]):
        for record in batches.records(data[pos:end], head.position):
            if record.key == b"k3":
                offsets.add(record.key, record.offset + 1)
    return found
