"""The past of a moment, out of a history: when a replica left its ISR, when a broker went away.

This file alone decides where in a log such a change is looked for, without reading the log for each question. Rules:

1. Each change of a partition raises its partition epoch. So where two pins have the same epoch, nothing of the partition has
   changed between them. Only the pieces of the log between pins with different epochs are read, the latest first.
2. For one question at most PIECES_MAX pieces are read; then the answer is that it is not known.
3. What happened to brokers and settings is among the marks, as far back as each is known as it was made.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from actors.replay.columns.moment import Moment
from actors.replay.timeline.history import History, LogPieceImage
from actors.replay.timeline.marks import Mark
from actors.why.facts import TroubledPartition
from actors.why.past import NEAR_MS, PastEvent
from fastpath.arrow.partition_moves import made, writes

PIECES_MAX = 40
HELD_MAX = 4
"""How many pieces are held for further questions."""
Brokers = tuple[int, ...]
AWAY = ("fenced", "gone")
"""The last words of marks of a broker that is not active from then on."""

BEFORE = {"leaving": "shut down", "registered": "registered"}
"""What a broker did before it was fenced -> how that came."""


class PartitionChange(NamedTuple):
    """A change of a partition."""

    kind: str
    """`isr`, `leader`, or `made`."""
    offset: int
    time_ms: int
    old: Brokers
    new: Brokers
    """The brokers in the ISR, or the leader alone; empty: no leader."""


class HistoryPast:
    """The past of one moment of a history. It remembers what it has read, for further questions."""

    def __init__(self, history: History, moment: Moment) -> None:
        self._history = history
        self._moment = moment
        self._pieces: OrderedDict[tuple[int, int], LogPieceImage] = OrderedDict()
        self._brokers = history.newest_marks("broker", moment)

    # ---- brokers

    def away(self, broker: int) -> PastEvent | None:
        """Since when a broker is not active; see `actors.why.past`."""
        found: PastEvent | None = None
        leaving: PastEvent | None = None
        for one in self._of(broker):
            word = one.about.rpartition(" ")[2]
            if word in AWAY:
                found = found or self._event(broker, one)
            elif word == "active":
                found = leaving = None
            elif word == "registered":  # away as before, until it is active
                found = (found or PastEvent(one.time_ms, "", one.offset))._replace(how="registered")
                leaving = None
            elif word == "leaving":
                leaving = PastEvent(one.time_ms, "shut down", one.offset)
        return found or leaving

    def near(self, broker: int, time_ms: int) -> PastEvent | None:
        """What took a broker away around a time."""
        those = [one for one in self._of(broker) if one.about.rpartition(" ")[2] in AWAY]
        events = [self._event(broker, one) for one in those]
        events += [
            PastEvent(one.time_ms, "shut down", one.offset)
            for one in self._of(broker)
            if one.about.endswith(" leaving")
        ]
        events = [one for one in events if one.how != "registered" and abs(one.time_ms - time_ms) <= NEAR_MS]
        return min(events, key=lambda one: abs(one.time_ms - time_ms), default=None)

    def fencings(self, broker: int, since_ms: int) -> int:
        """How often a broker was fenced after it had been active, since a time."""
        return sum(
            one.about.rpartition(" ")[2] in AWAY and before.about.endswith(" active") and one.time_ms >= since_ms
            for before, one in pairwise(self._of(broker))
        )

    def _of(self, broker: int) -> list[Mark]:
        start = f"broker {broker} "
        return [one for one in self._brokers if one.about.startswith(start)]

    def _event(self, broker: int, mark: Mark) -> PastEvent:
        """A mark of a broker that is not active from then on, and how that came: if it was leaving, it was shut down."""
        earlier = [
            one.about.rpartition(" ")[2] for one in self._of(broker) if one.offset <= mark.offset and one is not mark
        ]
        how = BEFORE.get(earlier[-1] if earlier else "", "fenced")
        if how == "fenced" and mark.about.endswith(" gone"):
            how = "unregistered" if self._history.family == "released" else "gone"
        return PastEvent(mark.time_ms, how, mark.offset)

    # ---- partitions

    def left(self, part: TroubledPartition, broker: int) -> PastEvent | None:
        """When a replica left the ISR that lacks it."""
        for one in self.life(part.topic, part.number):
            if one.kind == "made":
                return PastEvent(one.time_ms, "made", one.offset)
            if one.kind == "isr" and broker in one.old and broker not in one.new:
                return PastEvent(one.time_ms, "left", one.offset)
        return None

    def lost(self, part: TroubledPartition) -> PastEvent | None:
        """When a partition lost its leader."""
        return self._leader(part, "lost")

    def moved(self, part: TroubledPartition) -> PastEvent | None:
        """When the leader that it has now took over."""
        return self._leader(part, "moved")

    def set(self, broker: int, setting: str) -> PastEvent | None:
        """When a setting of a broker was changed last."""
        about = f"broker:{broker} {setting}"
        found = [one for one in self._history.newest_marks("setting", self._moment) if one.about == about]
        return PastEvent(found[-1].time_ms, "set", found[-1].offset) if found else None

    def _leader(self, part: TroubledPartition, how: str) -> PastEvent | None:
        for one in self.life(part.topic, part.number):
            if one.kind in ("leader", "made"):
                return PastEvent(one.time_ms, how if one.kind == "leader" else "made", one.offset)
        return None

    def life(self, topic: str, number: int) -> Iterator[PartitionChange]:
        """The changes of a partition up to the moment, the last first, and at the end where it was `made`. Without that the
        history does not reach back so far, or too many pieces would have to be read."""
        row = self._moment.partition(topic, number)
        if row < 0:
            return
        columns = self._moment.columns
        topic_id = columns.topic_id(columns.topic_of(row))
        later, epoch, read = self._moment.offset, columns.partition_epoch(row), 0
        for pin in reversed([one for one in self._history.kept if one.offset < self._moment.offset]):
            then = _epoch(pin, columns.topic_of(row), number, topic_id)
            if then == epoch:
                later = pin.offset
                continue
            read += 1
            if read > PIECES_MAX:
                return
            piece = self._piece(pin.offset, later)
            found = piece.image.partition(piece.image.topic_row(topic_id or b""), number)
            written = [one for write in writes(piece.image, found) for one in _changes_of(piece, *write)]
            yield from reversed(written)
            if then is None:
                at = made(piece.image, found)
                yield PartitionChange("made", at, piece.time_ms(at), (), ())
                return
            later, epoch = pin.offset, then

    def _piece(self, since: int, until: int) -> LogPieceImage:
        piece = self._pieces.get((since, until))
        if piece is None:
            piece = self._pieces[since, until] = self._history.piece(since, until)
            while len(self._pieces) > HELD_MAX:
                self._pieces.popitem(last=False)
        return piece


def _changes_of(
    piece: LogPieceImage, offset: int, leader: int, isr: Brokers, new_leader: int, new_isr: Brokers
) -> Iterator[PartitionChange]:
    time_ms = piece.time_ms(offset)
    if leader != new_leader:
        yield PartitionChange("leader", offset, time_ms, _leader(leader), _leader(new_leader))
    if set(isr) != set(new_isr):
        yield PartitionChange("isr", offset, time_ms, isr, new_isr)


def _leader(leader: int) -> Brokers:
    return (leader,) if leader >= 0 else ()


def _epoch(pin: Moment, topic: int, number: int, topic_id: bytes | None) -> int | None:
    """The partition epoch in a kept moment, by the row of its topic; None: there was no such partition."""
    if topic >= pin.topic_rows_end or pin.columns.topic_id(topic) != topic_id:
        return None
    row = pin.columns.partition(topic, number)
    return pin.columns.partition_epoch(row) if row >= 0 else None
