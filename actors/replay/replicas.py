"""Compares replicas in the directories of several nodes, batch by batch, as a Spark job.

    replicas.check(session, {"broker-1": "/var/rayft/broker-1", "broker-2": "/var/rayft/broker-2"})     -> ReplicaComparison

This file alone decides what is wrong with replicas of a log:

| problem | meaning |
|---|---|
| damaged | bytes that are no sound batch, or whose CRC does not match |
| disordered | offsets that go back or overlap |
| epochs | a leader epoch below that of an earlier batch |
| differ | a batch that differs from the other replicas' at an offset below the high watermark |
| behind | the log ends below the high watermark: normal for a replica out of the ISR, an error for one in it |

The high watermark of a partition is the highest that any node wrote to disk. If no node wrote one (the metadata log),
it is the lowest log end of the replicas. Logs are compared from the highest of their start offsets on, because each
node applies retention by itself. Empty logs are not compared. Logs that were compacted by key may differ without an
error; name the other topics in `topics` to leave them out. This file uses Spark only through the given session.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from actors.replay.follow import HIGH_WATERMARKS, high_watermarks
from actors.replay.logs import files
from actors.replay.logs.chunks import ChunkReading, batches
from actors.replay.read_options import split_bytes
from actors.replay.source import Key, Source, Split

SCAN = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("node", pa.string()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("epoch", pa.int32()),
        ("crc", pa.int64()),
        ("size", pa.int64()),
        ("fault", pa.string()),
    ]
)
"""One row for each batch. `fault`: a sentence about bytes that are no batch; their offset is that of the batch
before."""
PROBLEMS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("node", pa.string()),
        ("problem", pa.string()),
        ("offset", pa.int64()),
        ("sentence", pa.string()),
    ]
)
SCAN_SQL = (
    "topic string, partition int, node string, base_offset long, last_offset long, epoch int, crc long, size long, \
fault string"
)
PROBLEMS_SQL = "topic string, partition int, node string, problem string, offset long, sentence string"
BATCH = ("base_offset", "last_offset", "epoch", "crc", "size")
NOTHING = np.empty((0, len(BATCH)), np.int64)
SHOWN = 10
"""How many problems of one kind are listed for a replica."""


class Problem(NamedTuple):
    """One problem and its place."""

    topic: str
    partition: int
    node: str
    problem: str
    offset: int
    sentence: str


class ReplicaComparison(NamedTuple):
    """The result of a comparison."""

    partitions: int
    replicas: int
    problems: tuple[Problem, ...]

    @property
    def sound(self) -> bool:
        """Whether the replicas have no problem. A replica that is behind does not count as one."""
        return not [one for one in self.problems if one.problem != "behind"]

    def __str__(self) -> str:
        """The verdict in a sentence, then the problems, one in each line."""
        counts = {
            kind: sum(one.problem == kind for one in self.problems)
            for kind in sorted({p.problem for p in self.problems})
        }
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing wrong"
        head = f"{'sound' if self.sound else 'NOT SOUND'}: {self.replicas} replicas of {self.partitions} partitions, {said}"
        return "\n".join([head, *(f"  {p.topic}-{p.partition} on {p.node}: {p.sentence}" for p in self.problems)])


def check(session: Any, nodes: Mapping[str, str | Path], topics: Sequence[str] = ()) -> ReplicaComparison:
    """Compare the logs under several nodes' directories, only of `topics` if given. Raises NothingToRead."""
    splits: list[tuple[str, Split]] = []
    high: dict[Key, int] = {}
    last: dict[tuple[Key, str], int] = {}
    held: set[Key] = set()
    replicas: set[tuple[str, Key]] = set()
    for node, path in nodes.items():
        logs = [log for log in files.partitions(path) if log.segments and (not topics or log.topic in topics)]
        source = Source("log", tuple(logs))
        splits += [(node, split) for split in source.splits(split_bytes(source))] if logs else []
        for log in logs:
            key = (log.topic, log.number)
            replicas.add((node, key))
            last[key, node] = log.segments[-1].base_offset
            if any(path.stat().st_size for path in log.files):
                held.add(key)
            known = high_watermarks(log.files[0].parent.parent / HIGH_WATERMARKS)
            high[key] = max(high.get(key, -1), known.get(key, -1))
    frame = session.range(0, len(splits), 1, max(len(splits), 1)).mapInArrow(_Scan(splits), SCAN_SQL)
    judge = _Judge(high, {key: sorted(node for node, of in replicas if of == key) for key in high}, last)
    rows = frame.groupBy("topic", "partition").applyInArrow(lambda table: judge(table), PROBLEMS_SQL).collect()
    found = [Problem(*(row[name] for name in PROBLEMS.names)) for row in rows]
    for key in high.keys() - held:  # they have no row that a job could group
        found += judge.compared(key, dict.fromkeys(judge.nodes[key], NOTHING))
    return ReplicaComparison(len(high), len(replicas), tuple(sorted(found)))


class _Scan:
    """The batches of splits: reads headers, verifies every CRC, and reports faults."""

    def __init__(self, splits: Sequence[tuple[str, Split]]) -> None:
        self.splits = splits

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for index in batch.column(0).to_pylist():
                yield from self._split(*self.splits[index])

    def _split(self, node: str, split: Split) -> Iterator[pa.RecordBatch]:
        faults: list[tuple[int, str]] = []
        last = split.base_offset
        reading = ChunkReading.of(
            True, lambda damage: faults.append((last, f"{damage.path}, byte {damage.position}: {damage.reason}"))
        )
        for _, _, headers, _ in batches(Path(split.path), reading, split.begin, split.end):
            last = int(headers[-1]["last_offset"])
            columns = [pa.array(headers[name].astype(np.int64)) for name in BATCH]
            yield self._rows(node, split, columns, [None] * len(headers))
        if faults:
            offsets = [offset for offset, _ in faults]
            columns = [pa.array(offsets), pa.array(offsets), *[pa.array([0] * len(faults))] * 3]
            yield self._rows(node, split, columns, [sentence for _, sentence in faults])

    def _rows(
        self, node: str, split: Split, columns: Sequence[pa.Array], faults: Sequence[str | None]
    ) -> pa.RecordBatch:
        count = len(faults)
        of = [
            pa.array([value] * count, kind)
            for value, kind in ((split.topic, pa.string()), (split.partition, pa.int32()))
        ]
        columns = [column.cast(SCAN.field(name).type) for name, column in zip(BATCH, columns, strict=True)]
        return pa.RecordBatch.from_arrays(
            [*of, pa.array([node] * count), *columns, pa.array(faults, pa.string())], schema=SCAN
        )


class _Judge:
    """From all batches of all replicas of one partition to its problems."""

    def __init__(
        self, high: Mapping[Key, int], nodes: Mapping[Key, Sequence[str]], last: Mapping[tuple[Key, str], int]
    ) -> None:
        self.high = high
        self.nodes = nodes
        self.last = last
        """The base offset of the last segment of each node's log. If that segment is empty, as retention can leave it,
        the log ends there."""

    def __call__(self, table: pa.Table) -> pa.Table:
        key = (table.column("topic")[0].as_py(), table.column("partition")[0].as_py())
        names = np.array(table.column("node").to_pylist())
        logs: dict[str, Any] = {}
        found: list[Problem] = []
        for node in self.nodes[key]:
            own = table.filter(pa.array(names == node))
            for row in own.filter(own.column("fault").is_valid()).select(["base_offset", "fault"]).to_pylist():
                found.append(Problem(*key, node, "damaged", row["base_offset"], row["fault"]))
            own = own.filter(own.column("fault").is_null()).sort_by("base_offset")
            logs[node] = np.stack([own.column(name).to_numpy().astype(np.int64) for name in BATCH], axis=1)
            found += _order(key, node, logs[node])
        found += self.compared(key, logs)
        return pa.Table.from_pylist([one._asdict() for one in found], PROBLEMS)

    def compared(self, key: Key, logs: Mapping[str, Any]) -> Iterator[Problem]:
        """The problems that show when replicas are compared. `logs`: the columns of BATCH of each."""
        ends = {node: max(int(log[-1, 1]) + 1 if len(log) else 0, self.last[key, node]) for node, log in logs.items()}
        return _compared(key, logs, ends, self.high[key])


def _order(key: Key, node: str, log: Any) -> Iterator[Problem]:
    """The problems within one replica."""
    for at in np.flatnonzero(log[1:, 0] <= log[:-1, 1])[:SHOWN].tolist():
        yield Problem(*key, node, "disordered", int(log[at + 1, 0]), f"offset {log[at + 1, 0]} comes twice")
    for at in np.flatnonzero(log[1:, 2] < log[:-1, 2])[:SHOWN].tolist():
        sentence = f"epoch {log[at + 1, 2]} at offset {log[at + 1, 0]} after epoch {log[at, 2]}"
        yield Problem(*key, node, "epochs", int(log[at + 1, 0]), sentence)


def _compared(key: Key, logs: Mapping[str, Any], ends: Mapping[str, int], high: int) -> Iterator[Problem]:
    """The problems that show when replicas are compared. The content of most replicas is right; of the lowest node's if
    they are even."""
    end = high if high >= 0 else min(ends.values())
    begin = max((int(log[0, 0]) for log in logs.values() if len(log)), default=0)
    held: dict[str, set[tuple[int, ...]]] = {}
    for node, log in logs.items():
        within = log[(log[:, 0] >= begin) & (log[:, 1] < end)]
        if len(log):
            held[node] = set(map(tuple, within.tolist()))
        if ends[node] < end:
            sentence = f"the log ends at {ends[node]}, the high watermark is {end}"
            yield Problem(*key, node, "behind", ends[node], sentence)
    votes: dict[int, dict[tuple[int, ...], list[str]]] = {}
    same = set.intersection(*held.values()) if held else set()
    for node in sorted(held):
        for batch in held[node] - same:
            votes.setdefault(batch[0], {}).setdefault(batch, []).append(node)
    shown = dict.fromkeys(held, 0)
    for offset in sorted(votes):
        right = max(votes[offset].values(), key=len)
        for node in sorted(held):
            if node in right or ends[node] <= offset or shown[node] == SHOWN:
                continue
            shown[node] += 1
            sentence = f"another batch at offset {offset} than on {', '.join(right)}"
            yield Problem(*key, node, "differ", offset, sentence)
