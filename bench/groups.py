"""Consumer groups beside Apache Kafka: how fast a thousand members settle, and whom one more member stops (KIP-848).

`python -m bench.groups [--members 1000] [--partitions 2000] [--windows 3] [--heartbeat-ms 5000] [--out FILE.json]`

Both clusters run at once, with one broker and the same settings, which are those that both have by themselves unless others
are asked for. One process plays all members (`group_members.py`), the same beside both. Windows of both sides alternate, and
the clusters take turns in being first; the first window of each is not counted. Each window is a new group:

- **settle**: from the first heartbeat of all members, which are connected already, until every partition has one owner and
  all members are in the newest epoch. The broker has to call the group Stable then.
- **one more**: a member joins, and the same is awaited. Every partition that a member has to let go of is counted, with the
  time in which it had no owner. A partition that stays with its owner is never without one.

What counts is the median of the windows' ratios. The processor seconds of nodes and of the client are beside them.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from actors.wire.messages import message
from bench import apache, frames
from bench.end_to_end import RESULTS, Side, machine, running
from bench.group_members import Crowd

TOPIC = "shared-by-a-thousand"
SECONDS_MAX = 120
CALM_SECONDS = 2.0
"""Longer than the least time between two assignments, so that the next one is made at once."""
AIM = 1 / 4


class Window(NamedTuple):
    """What one side did with one group. Times in seconds."""

    settle: float
    settle_node_cpu: float
    settle_client_cpu: float
    settle_beats: int
    one_more: float
    moved: int
    """Partitions that others had to let go of for the new member."""
    moved_elsewhere: int
    """Of them those that went to another member than the new one."""
    longest_gap: float
    """The longest time in which a moved partition had no owner."""
    longest_gap_of_others: float
    """The same of all partitions that did not go to the new member."""


def create(side: Side, partitions: int) -> None:
    """The topic, and the coordinator's own."""
    connection = frames.Connection(side.broker, 120)
    frames.check_created(connection.exchange(frames.create_topic(TOPIC, partitions, 1)))
    find = message("FindCoordinatorRequest")(key="", key_type=0, coordinator_keys=["any"])
    end = time.monotonic() + SECONDS_MAX
    while connection.ask("FindCoordinator", 4, find).coordinators[0].error_code and time.monotonic() < end:
        time.sleep(0.1)
    connection.close()
    time.sleep(3)


def state(side: Side, group: str) -> str:
    """Of a group, as the broker tells it."""
    connection = frames.Connection(side.broker)
    found = connection.ask(
        "ConsumerGroupDescribe", 1, message("ConsumerGroupDescribeRequest")(group_ids=[group])
    ).groups[0]
    connection.close()
    return str(found.group_state)


def await_stable(side: Side, crowd: Crowd) -> None:
    """The broker must say so too, once it has the last acknowledgement. Raises AssertionError."""
    end = time.monotonic() + 2
    while (found := state(side, crowd.group)) != "Stable":
        if time.monotonic() > end:
            raise AssertionError(f"{side.name} calls a settled group {found}: {crowd.describe()}")
        serve(crowd, 0.05)


def serve(crowd: Crowd, seconds: float) -> None:
    """Go on as members for a while."""
    end = time.perf_counter() + seconds
    crowd.until(lambda: time.perf_counter() > end, seconds + 10)


def window(side: Side, group: str, members: int, partitions: int) -> Window:
    """One group from its first member to its last."""
    with closing(Crowd(side.broker, group, TOPIC, partitions)) as crowd:
        crowd.join(members)
        node_cpu = side.cpu_seconds()
        settle = crowd.until(crowd.settled, SECONDS_MAX)
        node_cpu, client_cpu, beats = side.cpu_seconds() - node_cpu, crowd.cpu_seconds, crowd.beats
        await_stable(side, crowd)
        serve(crowd, CALM_SECONDS)
        before = len(crowd.moves)
        crowd.join(1)
        newcomer = next(reversed(crowd.people))
        one_more = crowd.until(crowd.settled, SECONDS_MAX)
        await_stable(side, crowd)
        moves = crowd.moves[before:]
        gaps = [(move.given_at - move.at, move.to == newcomer) for move in moves]
        crowd.leave(SECONDS_MAX)
        return Window(
            settle,
            node_cpu,
            client_cpu,
            beats,
            one_more,
            len(gaps),
            sum(not mine for _, mine in gaps),
            max((gap for gap, _ in gaps), default=0.0),
            max((gap for gap, mine in gaps if not mine), default=0.0),
        )


class Row(NamedTuple):
    """One size of group."""

    members: int
    partitions: int
    rayft: list[Window]
    kafka: list[Window]

    def ratio(self, field: str) -> float | None:
        """rayft to Apache Kafka, the median of the windows; None: Apache Kafka has 0."""
        pairs = [
            (getattr(mine, field), getattr(theirs, field)) for mine, theirs in zip(self.rayft, self.kafka, strict=True)
        ]
        return statistics.median(mine / theirs for mine, theirs in pairs) if all(b for _, b in pairs) else None

    def median(self, side: str, field: str) -> float:
        """Of one side's windows."""
        return statistics.median(getattr(one, field) for one in getattr(self, side))

    @property
    def met(self) -> dict[str, bool]:
        """The aims: settled in a quarter of the time, and nobody is stopped by one more."""
        settle = self.ratio("settle")
        return {
            "settles in a quarter of the time": settle is not None and settle <= AIM,
            "one more member stops nobody": not any(one.moved_elsewhere for one in self.rayft),
        }


def measured(sides: Sequence[Side], members: int, partitions: int, windows: int) -> Row:
    """Windows of both sides in turn."""
    found: dict[str, list[Window]] = {side.name: [] for side in sides}
    for number in range(1 + windows):
        for side in sides if number % 2 else sides[::-1]:
            one = window(side, f"crowd-{number}", members, partitions)
            print(f"window {number} {side.name}: {one}", file=sys.stderr, flush=True)
            if number:
                found[side.name].append(one)
    return Row(members, partitions, found["rayft"], found["kafka"])


def main(arguments: list[str] | None = None) -> int:
    """Run and print. Returns 0 if every aim is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--heartbeat-ms", type=int, default=5000)
    parser.add_argument("--assignment-ms", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if apache.libs() is None:
        print(apache.MISSING, file=sys.stderr)
        return 2
    console = Console(width=140)
    config = {
        "offsets.topic.replication.factor": "1",
        "group.consumer.min.heartbeat.interval.ms": str(min(5000, given.heartbeat_ms)),
        "group.consumer.heartbeat.interval.ms": str(given.heartbeat_ms),
        "group.consumer.assignment.interval.ms": str(given.assignment_ms),
    }
    with running("rayft", 1, 1, config) as mine, running("kafka", 1, 1, config, "1g") as theirs:
        for side in (mine, theirs):
            create(side, given.partitions)
        row = measured((mine, theirs), given.members, given.partitions, given.windows)
    table = Table("median of the windows", "rayft", f"Kafka {apache.version()}", "ratio")
    ratios = {field: row.ratio(field) for field in Window._fields}
    for field, ratio in ratios.items():
        sides = (f"{row.median(side, field):.3f}" for side in ("rayft", "kafka"))
        table.add_row(field, *sides, "-" if ratio is None else f"{ratio:.3f}")
    console.print(table)
    for aim, met in row.met.items():
        console.print(f"{aim}: {'yes' if met else 'no'}")
    out = given.out or RESULTS / f"groups-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    report = {
        **row._asdict(),
        "rayft": [one._asdict() for one in row.rayft],
        "kafka": [one._asdict() for one in row.kafka],
        "ratios": ratios,
        "met": row.met,
        "config": config,
    }
    out.write_text(json.dumps({"machine": machine(), "rows": [report]}, indent=2))
    console.print(f"written to {out}")
    return 0 if all(row.met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
