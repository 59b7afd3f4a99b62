"""The history of a cluster's partitions and brokers, from its metadata log, as Spark jobs.

    found = audit.audit(session, "/var/rayft/controller-1001")
    found.partitions.orderBy("under_replicated_s", ascending=False).show()

| frame | a row is |
|---|---|
| history | a period with the same leader, ISR and replicas of a partition: since, until, leader, isr, replicas,
leader_known |
| partitions | a partition: seconds under-replicated and without a leader, how often leader and ISR changed |
| brokers | a broker: how often it left, the most within the window, ISRs that it left, whether it flaps |

This file alone decides how changes become periods. history.py gives the changes. They are grouped by topic, and each
group is one task. Rules: a period ends with the next change, with the topic, or with the audit. The first value of a
field is what its first change names as the old value, or else its value at the end. For a deleted topic, a field that
never changed is not known, and no time counts as time without a leader. A partition counts from its topic's creation
on. A broker flaps if it left at least `flaps` times within the window. This file uses Spark only through the given
session.
"""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from actors.printable import html_table
from actors.replay.columns.as_of import time_of
from actors.replay.logs.chunks import ChunkReading, batches
from actors.replay.logs.copies import metadata_log

EVENTS = ("offset", "timestamp", "kind", "topic", "partition", "old", "new", "old_ids", "new_ids")
IDS = pa.list_(pa.int32())
TIME = pa.timestamp("us", "UTC")
HISTORY = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("since", TIME),
        ("until", TIME),
        ("leader", pa.int32()),
        ("isr", IDS),
        ("replicas", IDS),
        ("leader_known", pa.bool_()),
    ]
)
HISTORY_SQL = "topic string, partition int, offset long, since timestamp, until timestamp, leader int, isr array<int>, \
replicas array<int>, leader_known boolean"
END = 1 << 62
FLAPS, WINDOW_S = 3, 600
Times = tuple[datetime.datetime, datetime.datetime]


class Audit(NamedTuple):
    """The result of an audit, as Spark frames."""

    history: Any
    partitions: Any
    brokers: Any

    def _repr_html_(self) -> str:
        """The frames and their columns: rows would need Spark jobs, which nobody has asked for."""
        rows = ((name, ", ".join(getattr(self, name).columns)) for name in self._fields)
        return html_table(("frame", "columns"), rows, words="An audit: .show() of a frame runs its Spark job.")


def audit(
    session: Any, path: str | Path, until: int | None = None, flaps: int = FLAPS, window_s: int = WINDOW_S
) -> Audit:
    """Audit everything below an offset (None: the end) in the log under a path. Raises NothingToRead, CorruptLog."""
    times = bounds(path, until)
    end = {} if until is None else {"asOf": str(until)}
    stop = {} if until is None else {"endOffset": str(until)}
    reader = session.read.format("rayft").option("path", str(path))
    changes = reader.option("table", "changes").options(**stop).load().cache()
    state = session.read.format("rayft").options(path=str(path), table="partitions", **end).load()
    ends = state.selectExpr(
        f"{END}L offset", "cast(null as timestamp) timestamp", "'end' kind", "topic", "partition",
        "cast(null as string) old", "cast(leader as string) new", "replicas old_ids", "isr new_ids",
    )  # fmt: skip
    events = changes.where("kind in ('leader', 'isr', 'replicas', 'topic')").select(*EVENTS).unionByName(ends)
    history = events.groupBy("topic").applyInArrow(lambda table: periods(table, times), HISTORY_SQL).cache()
    partitions = session.sql(PARTITIONS, history=history)
    brokers = session.sql(BROKERS, changes=changes, flaps=flaps, window=window_s * 1_000_000)
    return Audit(history, partitions, brokers)


def bounds(path: str | Path, until: int | None) -> Times:
    """The times of the first and of the last batch."""
    log = metadata_log(path)
    reading, first, last = ChunkReading(crc=False), -1, 0
    for segment in log.segments:
        for _, _, headers, _ in batches(segment.path, reading):
            headers = headers if until is None else headers[headers["base_offset"] < until]
            if len(headers):
                first = int(headers[0]["max_timestamp"]) if first < 0 else first
                last = max(last, int(headers["max_timestamp"].max()))
    return time_of(max(first, 0)), time_of(last)


PARTITIONS = """
SELECT topic, partition,
       sum(if(size(isr) < size(replicas), seconds, 0)) AS under_replicated_s,
       sum(if(leader_known AND (leader IS NULL OR leader < 0), seconds, 0)) AS leaderless_s,
       count_if(NOT leader <=> leader_before) - 1 AS leader_changes,
       greatest(count_if(NOT sort_array(isr) <=> sort_array(isr_before)) - 1, 0) AS isr_changes,
       max_by(leader, offset) AS leader, max_by(isr, offset) AS isr,
       max_by(size(isr) < size(replicas), offset) AS under_replicated
FROM (SELECT *, (unix_micros(until) - unix_micros(since)) / 1e6 AS seconds,
             lag(leader, 1, -9) OVER w AS leader_before, lag(isr) OVER w AS isr_before
      FROM {history} WINDOW w AS (PARTITION BY topic, partition ORDER BY offset))
GROUP BY topic, partition
"""
BROKERS = """
WITH went AS (
       SELECT broker, timestamp, sum(gone) OVER (PARTITION BY broker ORDER BY micros
              RANGE BETWEEN {window} PRECEDING AND CURRENT ROW) AS within, gone
       FROM (SELECT broker, timestamp, unix_micros(timestamp) AS micros, if(new <=> 'active', 0, 1) AS gone
             FROM {changes} WHERE kind = 'fencing')),
     counted AS (
       SELECT broker, sum(gone) AS times_gone, max(within) AS most_within_window,
              max(if(gone = 1, timestamp, NULL)) AS last_gone
       FROM went GROUP BY broker),
     dropped AS (
       SELECT broker, count(*) AS isrs_left
       FROM (SELECT explode(array_except(old_ids, new_ids)) AS broker FROM {changes} WHERE kind = 'isr') GROUP BY broker)
SELECT broker, coalesce(times_gone, 0) AS times_gone, coalesce(most_within_window, 0) AS most_within_window, last_gone,
       coalesce(isrs_left, 0) AS isrs_left, coalesce(most_within_window >= {flaps}, false) AS flapping
FROM counted FULL JOIN dropped USING (broker)
"""


# ---- periods of one topic -----------------------------------------------------------------------------------------


class _Life:
    """One partition while its events are read."""

    def __init__(self, since: datetime.datetime, offset: int) -> None:
        self.marks: list[tuple[int, datetime.datetime]] = [(offset, since)]
        self.values: dict[str, list[Any]] = {"leader": [None], "isr": [None], "replicas": [None]}
        self.known: set[str] = set()
        """Fields whose first value is known."""

    def change(self, field: str, offset: int, time: datetime.datetime, old: Any, new: Any) -> None:
        """Note a change of a field. The first change says what the field was from the beginning."""
        if field not in self.known:
            self.known.add(field)
            self.values[field] = [old] * len(self.marks)
        if self.marks[-1][0] != offset:
            self.marks.append((offset, time))
            for values in self.values.values():
                values.append(values[-1])
        self.values[field][-1] = new

    def at_end(self, field: str, value: Any) -> None:
        """Note the last value of a field. If the field never changed, it had this value all the time."""
        if field not in self.known:
            self.known.add(field)
            self.values[field] = [value] * len(self.marks)

    def rows(self, topic: str, partition: int, until: datetime.datetime) -> Iterator[dict[str, Any]]:
        """The periods of the partition."""
        for index, (offset, since) in enumerate(self.marks):
            following = self.marks[index + 1][1] if index + 1 < len(self.marks) else until
            yield {
                "topic": topic, "partition": partition, "offset": offset, "since": since, "until": following,
                **{field: values[index] for field, values in self.values.items()}, "leader_known": "leader" in self.known,
            }  # fmt: skip


def periods(table: pa.Table, times: Times) -> pa.Table:
    """Turn the events of one topic into HISTORY. Events of kind `end` hold the last state of its partitions."""
    events = sorted(table.to_pylist(), key=lambda event: (event["offset"], event["kind"] != "topic"))
    begin, end = times
    born = (-1, begin)
    lives: dict[int, _Life] = {}
    rows: list[dict[str, Any]] = []
    topic = str(events[0]["topic"])
    for event in events:
        number, kind = event["partition"], event["kind"]
        if kind == "topic":
            for of, life in lives.items():
                life.at_end("replicas", life.values["isr"][0])
                rows += life.rows(topic, of, event["timestamp"])
            born, lives = (event["offset"], event["timestamp"]), {}
            continue
        life = lives.setdefault(number, _Life(born[1], born[0]))
        if kind == "end":
            life.at_end("leader", _id(event["new"]))
            life.at_end("isr", event["new_ids"])
            life.at_end("replicas", event["old_ids"])
            rows += life.rows(topic, number, end)
        elif kind == "leader":
            life.change(kind, event["offset"], event["timestamp"], _id(event["old"]), _id(event["new"]))
        else:
            life.change(kind, event["offset"], event["timestamp"], event["old_ids"], event["new_ids"])
    return pa.Table.from_pylist(rows, HISTORY)


def _id(text: str | None) -> int | None:
    return None if text is None else int(text)
