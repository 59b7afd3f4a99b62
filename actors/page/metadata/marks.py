"""The marks on the slider: in which words they are told, and which of them are bad news.

This file alone decides that. A history makes its marks itself (`actors/replay/timeline/marks.py`); where brokers are asked
instead, marks are made of changes: many partitions that change the same way at one time are one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.page.metadata.moments import Mark
from actors.printable import printable
from actors.replay.columns.as_of import milliseconds
from actors.replay.timeline import marks as made

BAD = ("fenced", "gone", "lost a log directory")
"""The last words of marks that are bad news."""
COUNTED = {
    ("leader", ""): "have another leader, or none",
    ("isr", "smaller"): "lost replicas from the ISR",
    ("isr", "larger"): "got replicas back into the ISR",
    ("reassignment", ""): "changed replicas",
}
"""Kind and words of marks that count partitions -> how they are told."""


def said(mark: made.Mark) -> Mark:
    """A mark of a history as the page tells it."""
    words = COUNTED.get((mark.kind, mark.about))
    if words is not None:
        sentence = f"{mark.number:,} {'partition' if mark.number == 1 else 'partitions'} {words}"
    elif mark.about:
        sentence = mark.about
    else:
        sentence = f"{mark.number:,} times: {mark.kind}"
    return Mark(mark.offset, mark.time_ms, mark.kind, printable(sentence), mark.about.endswith(BAD))


OF_PARTITIONS = ("leader", "isr", "replicas")
Row = dict[str, Any]


def _broker(words: str) -> Callable[[Row], str]:
    return lambda row: f"broker {row['broker']} {words}"


def _fencing(row: Row) -> str:
    return _broker("was fenced" if row["new"] == "fenced" else "is active")(row)


def _registration(row: Row) -> str:
    if row["new"] is None:
        return _broker("was unregistered")(row)
    return _broker("registered" if row["old"] is None else "registered anew")(row)


def _topic(row: Row) -> str:
    return f"topic {row['topic']} was {'deleted' if row['new'] is None else 'created'}"


def _config(row: Row) -> str:
    if row["new"] is None:
        return f"{row['name']} of {row['resource']} was unset"
    return f"{row['name']} of {row['resource']} became {row['new']}"


SENTENCES: dict[str, Callable[[Row], str]] = {
    "fencing": _fencing,
    "registration": _registration,
    "shutdown": _broker("is shutting down"),
    "topic": _topic,
    "config": _config,
    "feature": lambda row: f"feature {row['name']} is at level {row['new'] or 'none'}",
}


def marks_of(changes: pa.Table, count_max: int) -> Iterator[Mark]:
    """The marks of some changes, by offset; of more than `count_max` the last ones."""
    of_partitions = pc.is_in(changes["kind"], value_set=pa.array(OF_PARTITIONS))
    found = [*_few(changes.filter(pc.invert(of_partitions)), count_max), *_partitions(changes.filter(of_partitions))]
    yield from sorted(found)[-count_max:]


def _few(changes: pa.Table, count_max: int) -> Iterator[Mark]:
    for row in changes.slice(max(0, len(changes) - count_max)).to_pylist():
        if not _goes_without_saying(row):
            yield Mark(
                row["offset"], milliseconds(row["timestamp"]), row["kind"], printable(SENTENCES[row["kind"]](row))
            )


def _goes_without_saying(row: Row) -> bool:
    """Whether a change follows from another one: a broker registers fenced, leaves fenced, and stays unless it leaves."""
    return (row["kind"] == "shutdown" and row["new"] != "leaving") or (
        row["kind"] == "fencing" and None in (row["old"], row["new"])
    )


def _partitions(changes: pa.Table) -> Iterator[Mark]:
    """One mark for each time and way in which partitions changed."""
    if not len(changes):
        return
    small = pa.table(
        {
            "timestamp": changes["timestamp"],
            "offset": changes["offset"],
            "way": _ways(changes),
        }
    )
    counted = small.group_by(["timestamp", "way"]).aggregate([("offset", "max"), ("offset", "count")])
    for row in counted.to_pylist():
        count, (kind, words) = row["offset_count"], WAYS[row["way"]]
        sentence = f"{count} {'partition' if count == 1 else 'partitions'} {words}"
        yield Mark(row["offset_max"], milliseconds(row["timestamp"]), kind, sentence, row["way"] == "offline")


WAYS = {
    "offline": ("offline", "lost the leader"),
    "leader": ("leader", "changed the leader"),
    "shrunk": ("isr", "lost replicas from the ISR"),
    "grown": ("isr", "got replicas back into the ISR"),
    "replicas": ("replicas", "changed replicas"),
}


def _ways(changes: pa.Table) -> pa.ChunkedArray:
    """The way in which each partition changed."""
    kind = changes["kind"]
    shrunk = pc.less(pc.list_value_length(changes["new_ids"]), pc.list_value_length(changes["old_ids"]))
    isr = pc.if_else(shrunk, "shrunk", "grown")
    leader = pc.if_else(pc.is_null(changes["new"]), "offline", "leader")
    return pc.if_else(pc.equal(kind, "isr"), isr, pc.if_else(pc.equal(kind, "leader"), leader, kind))
