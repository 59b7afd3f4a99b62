"""Measures `replay.History`: how soon a long log shows a table, how fast it moves, and what it holds.

`python -m bench.history [--moves 200] [--only million churn] [--out FILE.json]`

(million) Apache Kafka's log of a million partitions and two million records, in the folder RAYFT_KAFKA_DATA; left out if it
does not exist. (churn) a log that is made for it: a million partitions, then a million changes of one partition each, in an
order of chance, so that each record changes another page: the worst there is for pins. Each case runs in a process of its
own, from its start on. `whole_table_by_state` is `replay.state` at the same offsets, in turn with `History.at`.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.replay import RESULTS, million

PARTITIONS, CHANGES, TOPICS = 1_000_000, 1_000_000, 100
PAGE = 50
"""Rows of a page of the table."""
AGAINST = 10
"""At how many offsets `replay.state` is asked too: it takes a second each."""
CASES = ("million", "churn")


def million_log(folder: Path) -> Path:
    """Apache Kafka's log, unpacked."""
    (folder / "__cluster_metadata-0").mkdir()
    path = folder / "__cluster_metadata-0" / f"{0:020}.log"
    path.write_bytes(memoryview(cramjam.zstd.decompress(million().read_bytes())))
    return path.parent


def churn_log(folder: Path) -> Path:
    """A million partitions, and a million changes of one of them each."""
    from actors.metadata.batches import BatchWriter
    from actors.metadata.dialects import dialect
    from actors.metadata.ops import FeatureSet, PartitionsChanged, PartitionsSet, TopicSet
    from fastpath.image.blocks import Block

    (folder / "__kafka_metadata-0").mkdir()
    path = folder / "__kafka_metadata-0" / f"{0:020}.log"
    ids = [bytes([n]) * 16 for n in range(TOPICS)]
    each = PARTITIONS // TOPICS
    order = np.random.default_rng(1).permutation(PARTITIONS)[:CHANGES].tolist()
    with path.open("wb") as file:
        offset, time_ms = 0, 1_700_000_000_000

        def write(ops: list[Any]) -> None:
            nonlocal offset, time_ms
            out = BatchWriter(offset, 1, time_ms)
            dialect(2).encode(ops, out, atomic=False)
            for batch in out.finish():
                file.write(batch.data)
            offset, time_ms = out.next_offset, time_ms + 100

        write([FeatureSet("metadata.format", 2)])
        for n, topic_id in enumerate(ids):
            replicas = [[1 + (n + i) % 9, 1 + (n + i + 1) % 9, 1 + (n + i + 2) % 9] for i in range(each)]
            write([TopicSet(f"topic-{n:03}", topic_id), PartitionsSet(topic_id, range(each), replicas, replicas)])
        for first in range(0, len(order), 1_000):
            block = Block()
            for row in order[first : first + 1_000]:
                topic, number = divmod(row, each)
                leader = 1 + (topic + number) % 9
                block.append(ids[topic], number, None, [leader], leader, 1, 1)
            write([PartitionsChanged(block)])
    return path.parent


LOGS: dict[str, Callable[[Path], Path]] = {"million": million_log, "churn": churn_log}


def timed(action: Callable[[], object]) -> float:
    """Elapsed ms."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def quantiles(found: list[float]) -> dict[str, float]:
    """The median and the 95th percentile, in ms."""
    ordered = sorted(found)
    return {"p50_ms": ordered[len(ordered) // 2], "p95_ms": ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]}


def memory() -> dict[str, float]:
    """What this process holds, in MiB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {name: int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon", "RssFile")}


def measure(path: Path, moves: int, began: float) -> dict[str, Any]:
    """The figures of one log, in the process that was started at `began` (as time.time)."""
    from actors import replay
    from actors.replay.columns import tables

    history = replay.History(path)
    open_s = time.time() - began
    tables.partitions(history.now, history.now.page(0, PAGE))
    first_s = time.time() - began
    held = memory()
    choose, end = random.Random(1), history.now.offset
    pins = [one.offset for one in history.pins]

    def page(offset: int) -> None:
        moment = history.at(offset)
        tables.partitions(moment, moment.page(choose.randrange(max(moment.partition_total, 1)), PAGE))

    at_pin = [timed(lambda: page(choose.choice(pins))) for _ in range(moves)]
    exact = [timed(lambda: history.at(choose.randrange(end))) for _ in range(moves)]
    offsets = [choose.randrange(end) for _ in range(AGAINST)]
    pairs = [
        (
            timed(lambda at=at: history.table("partitions", at)),
            timed(lambda at=at: replay.state(path, at, ["partitions"])),
        )  # type: ignore[misc]
        for at in offsets
    ]
    whys = [timed(lambda: replay.why(history, choose.choice(pins))) for _ in range(20)]
    counts: dict[str, int] = {}
    for one in history.marks():
        counts[one.kind] = counts.get(one.kind, 0) + 1
    return {
        "records": end,
        "partitions": history.now.partition_total,
        "from_start_to_open_s": open_s,
        "from_start_to_first_page_s": first_s,
        "pins": len(pins),
        "pins_mib": history.pins_bytes / (1 << 20),
        "marks": counts,
        "memory_mib": held,
        "memory_after_mib": memory(),
        "page_at_a_pin": quantiles(at_pin),
        "exact_offset": quantiles(exact),
        "whole_table_exact": quantiles([one for one, _ in pairs]),
        "whole_table_by_state": quantiles([other for _, other in pairs]),
        "why_at_a_pin": quantiles(whys),
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS / "history.json")
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.log is not None:
        print(json.dumps(measure(options.log, options.moves, options.began)))
        return 0
    console = Console()
    found: dict[str, Any] = {"machine": platform.platform(), "cores": os.cpu_count()}
    for case in options.only:
        if case == "million" and not million().exists():
            console.print(f"no {million()}: left out; RAYFT_KAFKA_DATA names another folder")
            continue
        with tempfile.TemporaryDirectory(prefix="rayft-bench-") as folder:
            path = LOGS[case](Path(folder))
            command = [sys.executable, "-m", "bench.history", "--log", str(path), "--moves", str(options.moves)]
            ran = subprocess.run([*command, "--began", str(time.time())], check=True, capture_output=True, text=True)
            found[case] = json.loads(ran.stdout)
        table = Table(case, "")
        for name, value in found[case].items():
            shown = (
                {key: round(one, 2) if isinstance(one, float) else one for key, one in value.items()}
                if isinstance(value, dict)
                else value
            )
            table.add_row(name, f"{shown:,.2f}" if isinstance(shown, float) else f"{shown}")
        console.print(table)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
