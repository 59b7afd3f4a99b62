"""A cluster's directory that does not rest, written by the broker's own log code in a process of its own:
`python -m tests.integration.replay.restless ROOT JOURNAL SEED`.

Two nodes have a copy each of two partitions, one compacted. One node leads: it appends, and what the other one has too is
acknowledged. Leaders die in the middle: what they wrote behind the acknowledged end is cut when they come back, and stands
under another epoch in what the successor writes. Segments are tiny. Retention deletes the first of them, and a cleaner puts
new ones in the place of old ones. The journal says all of it, each thing before a file can show it; `Journal` reads it and
judges the rows that somebody was shown.
"""

import json
import os
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from actors.broker.log.cleaning.cleanable import cleanable
from actors.broker.log.cleaning.cleaner import CleaningSlice, LogCleaning, Retired
from actors.broker.log.log import PartitionLog, Unsettled
from actors.broker.log.retention import retain
from actors.broker.log.truncation import truncate_to
from actors.host.work.disk import LocalDisk
from fastpath.records import batch
from tests.unit.broker.log.cleaning.test_cleaner import LIMITS
from tests.unit.broker.log.logs import settings

TOPICS = {"plain": bytes(range(16)), "compacted": bytes(range(16, 32))}
KEYS = 60
SEGMENT_BYTES, RETENTION_BYTES = 12_000, 250_000
NOW_MS = 1_700_000_000_000
BETWEEN_S = 0.004
LEADER_S, CLEAN_S, RETAIN_S = (0.1, 0.6), (0.05, 0.3), (0.1, 0.4)
"""Between two of each."""
SMALL = {"segment_bytes": SEGMENT_BYTES, "index_interval_bytes": 200}
SETTINGS = {
    "plain": settings(**SMALL, retention_bytes=RETENTION_BYTES, retention_ms=-1),
    "compacted": settings(**SMALL, cleanup_policy=("compact",)),
}


def key(offset: int, epoch: int) -> bytes:
    return b"k%d" % ((offset * 7919 + epoch * 31 + offset // 17) % KEYS)


def value(topic: str, offset: int, epoch: int) -> bytes:
    return b"%s:%d:%d:" % (topic.encode(), offset, epoch) + b"x" * (offset * 13 % 90)


# ---- what writes ----------------------------------------------------------------------------------------------------


class Replicas:
    """Both copies of one partition."""

    def __init__(self, topic: str, nodes: Sequence[LocalDisk], journal: "Writing", choose: random.Random) -> None:
        self.topic, self.journal, self.choose = topic, journal, choose
        self.logs = [PartitionLog(disk, f"{topic}-0", SETTINGS[topic], TOPICS[topic]) for disk in nodes]
        self.leader, self.epoch, self.acknowledged = 0, 1, 0

    def write(self, *, alone: bool = False) -> None:
        """A batch, on the leader; and then on the other one, and it is acknowledged, unless the leader is `alone`."""
        log, base = self.logs[self.leader], self.logs[self.leader].log_end_offset
        count = self.choose.randint(1, 12)
        self.journal.say("wrote", self.topic, base, count, self.epoch)
        builder = batch.Builder(timestamp_ms=NOW_MS + base, attributes=self.choose.choice((0, 0, 1, 4)))
        for offset in range(base, base + count):
            builder.append(key(offset, self.epoch), value(self.topic, offset, self.epoch), NOW_MS + offset)
        data = builder.build()
        accepted = batch.accept(data, 0, len(data), base, self.epoch, now_ms=NOW_MS)
        try:
            log.append(data, accepted.headers, NOW_MS)
        except Unsettled:
            flush(log)
            log.append(data, accepted.headers, NOW_MS)
        if not alone:
            self.copy(bytes(data))
            self.acknowledge()

    def copy(self, data: bytes) -> None:
        follower = self.logs[1 - self.leader]
        try:
            follower.append_fetched(data, NOW_MS)
        except Unsettled:
            flush(follower)
            follower.append_fetched(data, NOW_MS)

    def acknowledge(self) -> None:
        self.acknowledged = min(log.log_end_offset for log in self.logs)
        self.journal.say("acknowledged", self.topic, self.acknowledged)

    def change(self) -> None:
        """The leader dies with records that nobody else has; the other one leads, and the old one cuts what was its own."""
        for _ in range(self.choose.randint(0, 15)):
            self.write(alone=True)
        old, self.leader, self.epoch = self.logs[self.leader], 1 - self.leader, self.epoch + 1
        lonely = self.choose.randint(1, 8)
        first = self.logs[self.leader].log_end_offset
        for _ in range(lonely):
            self.write(alone=True)
        self.journal.say("cut", self.topic, self.acknowledged, old.log_end_offset)
        run(truncate_to(old, self.acknowledged))
        flush(old)
        new = self.logs[self.leader]
        while old.log_end_offset < new.log_end_offset:
            found = new.read(old.log_end_offset, 3000, 1 << 62)
            if found is None:
                found = new.cold_read(old.log_end_offset, 3000, 1 << 62)()
            assert found.data and first <= old.log_end_offset
            self.copy(bytes(found.data))
        self.acknowledge()

    def clean(self) -> None:
        log = self.choose.choice(self.logs)
        log.checkpointed_offset = self.acknowledged
        found = cleanable(log, self.acknowledged, NOW_MS)
        if not found.cleanable_bytes:
            return
        steps, result = LogCleaning(log, found, LIMITS, bytes(16), NOW_MS).steps(), None
        while True:
            try:
                wish: Any = steps.send(result)
            except StopIteration as end:
                log.cleaned_offset = end.value.end_offset
                self.journal.say("cleaned", self.topic, end.value.records_read - end.value.records_kept)
                return
            result = wish.job() if isinstance(wish, CleaningSlice) else None
            if isinstance(wish, Retired):
                run(wish.jobs)

    def retain(self) -> None:
        log = self.choose.choice(self.logs)
        surplus = log.size - RETENTION_BYTES
        if surplus > 0:  # told before it happens: not below the first segment that may stay
            sizes = 0
            for segment in log.segments[1:]:
                sizes += segment.size
                if sizes >= surplus:
                    break
            self.journal.say("deleted", self.topic, segment.base_offset)
        run(retain(log, NOW_MS, self.acknowledged).jobs)


def run(jobs: Sequence[Any]) -> None:
    for job in jobs:
        job()


def flush(log: PartitionLog) -> None:
    wanted = log.flush()
    for disk, path, content in wanted.replacements:
        disk.replace(path, content)
    log.flushed(wanted)


class Writing:
    """The journal, as it is written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def say(self, *words: object) -> None:
        self._file.write(json.dumps(words).encode() + b"\n")


def main(root: Path, journal: Path, seed: int) -> None:
    choose = random.Random(seed)
    nodes = []
    for number in (1, 2):
        (root / f"node-{number}").mkdir(parents=True)
        nodes.append(LocalDisk(str(root / f"node-{number}")))
    every = [Replicas(topic, nodes, Writing(journal), choose) for topic in TOPICS]
    plain, compacted = every
    parent = os.getppid()
    jobs = [(LEADER_S, one.change) for one in every]
    jobs += [(CLEAN_S, compacted.clean), (RETAIN_S, plain.retain)]
    due = [time.monotonic() + choose.uniform(*between) for between, _ in jobs]
    while os.getppid() == parent:
        for one in every:
            one.write()
        for at, (between, job) in enumerate(jobs):
            if time.monotonic() > due[at]:
                job()
                due[at] = time.monotonic() + choose.uniform(*between)
        if choose.random() < 0.05:
            flush(choose.choice(choose.choice(every).logs))
        time.sleep(BETWEEN_S)


# ---- what judges ----------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A record, as somebody was shown it."""

    offset: int
    value: bytes


class Moment(NamedTuple):
    """How far a partition was at a moment."""

    acknowledged: int
    start: int
    last: dict[bytes, int]
    """Key -> offset of its last acknowledged record."""
    events: dict[str, int]


class Journal:
    """The journal, as it is read: what may be shown, and what has to be."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""
        self.written: dict[str, dict[int, set[int]]] = {topic: {} for topic in TOPICS}
        """Topic -> offset -> the epochs under which a record was written there."""
        self.epochs: dict[str, list[int]] = {topic: [] for topic in TOPICS}
        """Topic -> the epoch of each acknowledged record."""
        self._newest: dict[str, dict[int, int]] = {topic: {} for topic in TOPICS}
        self.start = dict.fromkeys(TOPICS, 0)
        self.last: dict[str, dict[bytes, int]] = {topic: {} for topic in TOPICS}
        self.events: dict[str, int] = {}

    def moment(self, topic: str) -> Moment:
        """Read what was written by now."""
        for words in self._lines():
            self._learn(*words)
        return Moment(len(self.epochs[topic]), self.start[topic], dict(self.last[topic]), dict(self.events))

    def _lines(self) -> Iterator[list[Any]]:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        yield from map(json.loads, lines)

    def _learn(self, what: str, topic: str, *numbers: int) -> None:
        self.events[what] = self.events.get(what, 0) + 1
        if what == "wrote":
            base, count, epoch = numbers
            for offset in range(base, base + count):
                self.written[topic].setdefault(offset, set()).add(epoch)
                self._newest[topic][offset] = epoch
        elif what == "acknowledged":
            for offset in range(len(self.epochs[topic]), numbers[0]):
                epoch = self._newest[topic][offset]
                self.epochs[topic].append(epoch)
                self.last[topic][key(offset, epoch)] = offset
        elif what == "deleted":
            self.start[topic] = max(self.start[topic], numbers[0])

    def judge(self, topic: str, before: Moment, rows: Sequence[Row]) -> list[str]:
        """What is wrong with rows that were read after the moment `before`, in sentences."""
        now = self.moment(topic)
        faults = []
        offsets = [row.offset for row in rows]
        if offsets != sorted(set(offsets)):
            faults.append("offsets come twice, or out of order")
        for row in rows:
            match = re.match(rb"(\w+):(\d+):(\d+):", row.value)
            epoch = int(match[3]) if match else -1
            if row.value != value(topic, row.offset, epoch) or epoch not in self.written[topic].get(row.offset, ()):
                faults.append(f"{row.value!r} is shown at {row.offset}, where nobody wrote it")
            elif row.offset < before.acknowledged and epoch != self.epochs[topic][row.offset]:
                faults.append(f"{row.value!r} is shown at {row.offset}, which nobody was told is committed")
        shown = set(offsets)
        if topic == "plain":
            missing = [one for one in range(now.start, before.acknowledged) if one not in shown]
            faults += [f"{one} is acknowledged and not shown" for one in missing]
        else:
            again = {key(at, epoch) for at in range(before.acknowledged, max(self.written[topic]) + 1)
                     for epoch in self.written[topic][at]}  # fmt: skip
            faults += [
                f"{one!r} was last written at {at}, which is not shown"
                for one, at in before.last.items()
                if at not in shown and one not in again
            ]
        return faults


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
