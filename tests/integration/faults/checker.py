"""Checks a history for lost, duplicated, reordered and phantom records, and for records that readers should not have
seen.

It is modelled on the queue analysis of Jepsen (total-queue, and its workload for Kafka): what went in must come out;
what came out must have gone in; an operation with an unknown end may have happened or not. Every client's view counts:
a record that any reader got was committed, so it stays where it was seen.

    lost          acknowledged, and not in the log at the end
    misplaced     acknowledged with another offset than where it is
    duplicated    more than once in the log; every producer here is idempotent
    reordered     behind a later record of the same producer in its partition
    phantom       in the log, or seen, but never sent; or sent to another partition
    damaged       bytes that no producer makes
    unstable      seen at an offset where the log has something else at the end, or nothing
    backward      a reader got an offset again, or a lower one
    skipped       a reader jumped over a record that is there
    unread        acknowledged and there, and a reader that was waited for never got so far
    unconsumed    in the log, and no member of the consumer group ever got it
    forgotten     an acknowledged commit of an offset that is lower at the end
    fallen        a member was told a lower offset than was committed before it asked
    ahead         a committed offset beyond all that any client saw: the next records would be skipped
    vanished      a topic that was created and not deleted, and is not there
    returned      a topic that was deleted and is there
    idle          a kind of client that never completed anything, so that its checks prove nothing
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from tests.integration.faults.history import History, Seen, origin

SHOWN_MAX = 5


@dataclass
class Verdict:
    """The problems of a run by kind, and its size."""

    wrong: dict[str, list[str]] = field(default_factory=dict)
    sent: int = 0
    acknowledged: int = 0
    recovered: int = 0
    """The number of records in the log whose end the client did not learn."""
    final: int = 0

    @property
    def clean(self) -> bool:
        """Whether there is no problem."""
        return not any(self.wrong.values())

    def __str__(self) -> str:
        head = (
            f"sent {self.sent:,}; acknowledged {self.acknowledged:,}; in the log {self.final:,}, "
            f"of which {self.recovered:,} with an end unknown to the client"
        )
        lines = [head]
        for kind, cases in self.wrong.items():
            if cases:
                more = f" and {len(cases) - SHOWN_MAX} more" if len(cases) > SHOWN_MAX else ""
                lines.append(f"{kind} {len(cases)}: {'; '.join(cases[:SHOWN_MAX])}{more}")
        if self.clean:
            lines.append("nothing lost, nothing twice, nothing out of order, nothing that nobody sent")
        return "\n".join(lines)


def check(history: History) -> Verdict:
    """The verdict on a run that is over."""
    log = {(seen.partition, seen.offset): seen.value for seen in history.final}
    places: dict[bytes, list[tuple[int, int]]] = {}
    for seen in history.final:
        places.setdefault(seen.value, []).append((seen.partition, seen.offset))
    wrong = {
        "lost": [_show(seen) for seen in history.acknowledged if seen.value not in places],
        "misplaced": list(_misplaced(history.acknowledged, places)),
        "duplicated": [f"{_text(value)} at {where}" for value, where in places.items() if len(where) > 1],
        "reordered": list(_reordered(history.final)),
        "phantom": list(_phantom(history)),
        "damaged": [_show(seen) for seen in history.final if origin(seen.value) is None],
        "unstable": list(_unstable(history, log)),
        "backward": [],
        "skipped": [],
        "unread": list(_unread(history, log)),
        "unconsumed": list(_unconsumed(history)),
        "forgotten": [
            f"partition {part}: {history.committed_at_end.get(part, -1)} after {offset}"
            for part, offset in sorted(history.committed.items())
            if history.committed_at_end.get(part, -1) < offset
        ],
        "fallen": [
            f"partition {told.partition}: {told.offset} after {told.floor}"
            for told in history.told
            if max(told.offset, -1) < told.floor
        ],
        "ahead": list(_ahead(history)),
        "vanished": sorted(history.created - history.topics_at_end),
        "returned": sorted(history.deleted & history.topics_at_end),
        "idle": list(_idle(history)),
        "broken client": list(history.broken),
    }
    for reader, records in sorted(history.read.items()):
        _follow(reader, records, log, wrong)
    acknowledged = {seen.value for seen in history.acknowledged}
    return Verdict(
        wrong,
        len(history.sent),
        len(acknowledged),
        sum(1 for value in places if value in history.sent and value not in acknowledged),
        len(history.final),
    )


def _misplaced(acknowledged: Iterable[Seen], places: dict[bytes, list[tuple[int, int]]]) -> Iterable[str]:
    for seen in acknowledged:
        where = places.get(seen.value)
        if where and seen.offset >= 0 and (seen.partition, seen.offset) not in where:
            yield f"{_show(seen)} is at {where}"


def _reordered(final: Iterable[Seen]) -> Iterable[str]:
    """A second copy is always out of order, so it is counted as a duplicate only."""
    newest: dict[tuple[str, int], int] = {}
    known: set[bytes] = set()
    for seen in final:
        from_ = origin(seen.value)
        if from_ is None or seen.value in known:
            continue
        known.add(seen.value)
        before = newest.get((from_.producer, seen.partition), -1)
        if from_.sequence < before:
            yield f"{_show(seen)} behind number {before}"
        newest[from_.producer, seen.partition] = max(before, from_.sequence)


def _phantom(history: History) -> Iterable[str]:
    everywhere = (history.final, history.consumed, *history.read.values())
    told: set[bytes] = set()
    for records in everywhere:
        for seen in records:
            if history.sent.get(seen.value, -1) != seen.partition and seen.value not in told:
                told.add(seen.value)
                yield _show(seen)


def _unstable(history: History, log: dict[tuple[int, int], bytes]) -> Iterable[str]:
    told: set[Seen] = set()
    for records in (history.consumed, *history.read.values()):
        for seen in records:
            now = log.get((seen.partition, seen.offset))
            if now != seen.value and seen not in told:
                told.add(seen)
                yield f"{_show(seen)}, now {_text(now) if now is not None else 'nothing'}"


def _follow(
    reader: str, records: Iterable[Seen], log: dict[tuple[int, int], bytes], wrong: dict[str, list[str]]
) -> None:
    next_offset: Counter[int] = Counter()
    for seen in records:
        wanted = next_offset[seen.partition]
        if seen.offset < wanted:
            wrong["backward"].append(f"{reader}: {_show(seen)} after {wanted - 1}")
            continue
        jumped = [offset for offset in range(wanted, seen.offset) if (seen.partition, offset) in log]
        if jumped:
            wrong["skipped"].append(f"{reader}: partition {seen.partition} {jumped[0]} to {jumped[-1]}")
        next_offset[seen.partition] = seen.offset + 1


def _unread(history: History, log: dict[tuple[int, int], bytes]) -> Iterable[str]:
    acknowledged = {seen.value for seen in history.acknowledged}
    for reader, records in sorted(history.read.items()):
        ends, left = _ends(records), acknowledged - {seen.value for seen in records}
        for (partition, offset), value in log.items():
            if offset >= ends[partition] and value in left:
                yield f"{reader}: {_show(Seen(partition, offset, value))}"


def _ahead(history: History) -> Iterable[str]:
    ends = _ends(chain(history.final, history.acknowledged, history.consumed, *history.read.values()))
    for partition, offset in sorted(history.committed_at_end.items()):
        if offset > ends[partition]:
            yield f"partition {partition}: {offset} of {ends[partition]}"


def _ends(records: Iterable[Seen]) -> Counter[int]:
    ends: Counter[int] = Counter()
    for seen in records:
        ends[seen.partition] = max(ends[seen.partition], seen.offset + 1)
    return ends


def _idle(history: History) -> Iterable[str]:
    done = {
        "nothing acknowledged": history.acknowledged,
        "nobody reads": any(history.read.values()),
        "no offset committed": history.committed,
        "no topic created": history.created,
        "no topic deleted": history.deleted,
    }
    return (what for what, found in done.items() if not found)


def _unconsumed(history: History) -> Iterable[str]:
    got = {(seen.partition, seen.offset) for seen in history.consumed}
    for seen in history.final:
        if (seen.partition, seen.offset) not in got:
            yield _show(seen)


def _text(data: bytes) -> str:
    return data.rstrip(b".").decode("latin-1")[:60]


def _show(seen: Seen) -> str:
    return f"{_text(seen.value)} at ({seen.partition}, {seen.offset})"
