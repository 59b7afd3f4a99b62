"""`rayft top`, once it runs: the health of a cluster in a line, the topics that grow, and the groups that are behind.

This file alone decides what is asked in each look, how much, and how it is laid out. Rules:

1. What did not answer is told in a line and asked again in the next look; what was seen before is still shown.
2. A look asks for PARTITIONS_MAX partitions and GROUPS_MAX groups at most. What is left out is told.
3. On a terminal the screen is drawn anew; anywhere else looks are printed one below the other.
"""

import argparse
import datetime
import json
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from actors.client.errors import ClientError
from actors.client.metadata import Topic
from actors.client.operations.group_offsets.positions import Position, positions
from actors.client.operations.groups import Listed, list_groups
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import TRIES_SAMPLED, Found, list_offsets
from actors.command.by_address import health
from actors.command.by_address.connection import connected
from actors.command.by_address.ended_by_signals import ended_by_signals
from actors.command.by_address.health import SeenCluster
from actors.command.by_address.live.rates import GroupRate, Growth, TopicRate
from actors.command.output import colours, full_screen, listing
from actors.command.output.listing import LONG, TEXT, Listing
from actors.command.output.pipe import open_pipe
from actors.command.output.sparkline import sparkline
from actors.host.client.blocking import Kafka
from actors.printable import printable

PARTITIONS_MAX = 20_000
GROUPS_MAX = 200
FAULTS_SHOWN = 5
ANSWER_S = 10.0
"""How long each answer may take, s."""
BARS = 24
PRINTED_ROWS = 20
"""How many topics and groups are printed where there is no terminal."""
TOPICS = Listing({"topic": TEXT, "records/s": LONG, "last": TEXT, "end": LONG, "partitions": LONG})
GROUPS = Listing({"group": TEXT, "lag": LONG, "grows/s": LONG, "last": TEXT})


class Look:
    """What was seen last of everything, and what could not be seen this time."""

    def __init__(self) -> None:
        self.growth = Growth()
        self.health = SeenCluster([], "")
        self.topics: list[TopicRate] = []
        self.groups: list[GroupRate] = []
        self.unseen: list[str] = []
        """What this look could not see, or left out: sentences."""

    def again(self, kafka: Kafka, options: argparse.Namespace) -> None:
        """Ask everything once more."""
        self.unseen = []
        self.health = health.look_again(kafka, PARTITIONS_MAX)
        self.unseen += self.health.unseen
        if not self.health.well:
            self.unseen.append("topics and groups are those of the look before")
            return
        try:
            self._see_topics(kafka, options.topic or "")
            self._see_groups(kafka, options.group or "")
        except ClientError as error:
            self.unseen.append(f"topics and groups are those of the look before: {error}")

    def _see_topics(self, kafka: Kafka, text: str) -> None:
        chosen, left_out = _chosen({name: one for name, one in self.health.topics.items() if text in name})
        if left_out:
            self.unseen.append(
                f"{left_out} topics are left out, as {PARTITIONS_MAX} partitions are asked at most: --topic TEXT chooses"
            )
        parts = [(name, number) for name, count in chosen.items() for number in range(count)]
        found = kafka.run(list_offsets(parts, tries=TRIES_SAMPLED), ANSWER_S) if parts else {}
        ends = {part: one.offset for part, one in found.items() if isinstance(one, Found)}
        self.topics = self.growth.topics(time.monotonic(), chosen, ends)
        if len(ends) < len(parts):
            self.unseen.append(f"{len(parts) - len(ends)} of {len(parts)} partitions did not tell where they end")

    def _see_groups(self, kafka: Kafka, text: str) -> None:
        listed, failed = kafka.run(list_groups(), ANSWER_S)
        self.unseen += [f"broker {one} did not tell its groups: {error}" for one, error in sorted(failed.items())]
        chosen = [one for name, one in sorted(listed.items()) if text in name]
        if len(chosen) > GROUPS_MAX:
            self.unseen.append(
                f"{len(chosen) - GROUPS_MAX} groups are left out, as {GROUPS_MAX} are asked at most: --group TEXT chooses"
            )
        chosen = chosen[:GROUPS_MAX]
        held = _positions(kafka, chosen)
        if len(held) < len(chosen):
            self.unseen.append(f"{len(chosen) - len(held)} of {len(chosen)} groups did not tell where they read on")
        parts = {part for group in held.values() for part, one in group.items() if one.lag is None}
        ends = kafka.run(list_offsets(sorted(parts), tries=TRIES_SAMPLED), ANSWER_S) if parts else {}
        lags = {one.name: _lag(held.get(one.name, {}), ends) for one in chosen}
        self.groups = self.growth.groups(time.monotonic(), lags)


def _chosen(topics: Mapping[str, Topic]) -> tuple[dict[str, int], int]:
    """(how many partitions each topic has that is asked for, how many topics are left out)."""
    chosen: dict[str, int] = {}
    room = PARTITIONS_MAX
    for name, topic in sorted(topics.items()):
        if len(topic.partitions) <= room:
            chosen[name] = len(topic.partitions)
            room -= len(topic.partitions)
    return chosen, len(topics) - len(chosen)


def _positions(kafka: Kafka, groups: list[Listed]) -> dict[str, dict[Part, Position]]:
    """Where groups read on, asked side by side; a group that does not answer is not in it."""
    tasks = {one.name: kafka.start(positions(one.name, one.type), ANSWER_S) for one in groups}
    found = {}
    for name, task in tasks.items():
        try:
            told = kafka.wait(task)
        except ClientError:
            continue
        found[name] = {part: one for part, one in told.items() if isinstance(one, Position)}
    return found


def _lag(group: Mapping[Part, Position], ends: Mapping[Part, Any]) -> int | None:
    """The sum over all partitions; None: it is not known of one of them, and a sum without it would fall where it grows."""
    each = [one.behind(ends[part].offset if isinstance(ends.get(part), Found) else None) for part, one in group.items()]
    known = [lag for lag in each if lag is not None]
    return sum(known) if known and len(known) == len(each) else None


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError if no broker answers the first look."""
    is_drawn = options.output == "table" and sys.stdout.isatty()
    with connected(options) as kafka:
        try:
            with ended_by_signals(), full_screen.full_screen() if is_drawn else nullcontext():
                _look_on(kafka, options, is_drawn)
        except KeyboardInterrupt:
            pass
    return 0


def _look_on(kafka: Kafka, options: argparse.Namespace, is_drawn: bool) -> None:
    look, count = Look(), 0
    while count != options.looks:
        if count:
            open_pipe()
            time.sleep(options.every)
        look.again(kafka, options)
        _show(look, options, is_drawn)
        count += 1


# ---- how it is shown


def _show(look: Look, options: argparse.Namespace, is_drawn: bool) -> None:
    topics, groups = _sorted(look, options.sort)
    if options.output == "jsonl":
        sys.stdout.write(json.dumps(_object(look, topics, groups)) + "\n")
    elif is_drawn:
        full_screen.draw(_lines(look, topics, groups, full_screen.height()))
    else:
        colours.write("\n".join(_lines(look, topics, groups, 0)) + "\n\n")
    sys.stdout.flush()


def _sorted(look: Look, how: str) -> tuple[list[TopicRate], list[GroupRate]]:
    if how == "name":
        return sorted(look.topics), sorted(look.groups)
    return (
        sorted(look.topics, key=lambda one: (-(one.rates[-1] or 0.0), one.name)),
        sorted(look.groups, key=lambda one: (-(one.lag or 0), one.name)),
    )


def _object(look: Look, topics: list[TopicRate], groups: list[GroupRate]) -> dict[str, Any]:
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "well": not look.health.faults,
        "faults": [one.sentence for one in look.health.faults],
        "topics": [
            {"topic": one.name, "partitions": one.partitions, "end": one.end, "records_per_s": one.rates[-1]}
            for one in topics
        ],
        "groups": [{"group": one.name, "lag": one.lag, "lag_per_s": one.rates[-1]} for one in groups],
        "unseen": look.unseen,
    }


def _lines(look: Look, topics: list[TopicRate], groups: list[GroupRate], height: int) -> list[str]:
    """The lines of a look. `height`: those that fit; 0: there is no screen that they must fit."""
    now = datetime.datetime.now(datetime.UTC).strftime("%H:%M:%S")
    lines = [printable(f"{now} {_sentence(look.health)}")]
    if colours.are_shown():
        lines[0] = colours.painted(lines[0], "red" if look.health.faults else "green")
    lines += [printable(f"  {one.sentence}: {one.command}") for one in look.health.faults[:FAULTS_SHOWN]]
    lines += [printable(f"  {one}") for one in look.unseen[:FAULTS_SHOWN]]
    room = max(2, height - len(lines) - 4) if height else 2 * PRINTED_ROWS
    for_groups = min(len(groups), max(room // 3, room - len(topics))) if height else PRINTED_ROWS
    lines += ["", *_table([_topic_row(one) for one in topics], TOPICS, room - for_groups)]
    if groups:
        lines += ["", *_table([_group_row(one) for one in groups], GROUPS, for_groups)]
    return lines


def _sentence(seen: SeenCluster) -> str:
    count = len(seen.faults)
    return f"not well: {count} {'fault' if count == 1 else 'faults'}" if count else seen.well


def _table(rows: list[dict[str, Any]], of: Listing, most: int) -> list[str]:
    """A table of the first rows, and a line that says how many there are more."""
    shown = rows if len(rows) <= most else rows[: max(0, most - 1)]
    lines = listing.table(shown, of, colours.are_shown())[:-1].split("\n")
    return lines if len(shown) == len(rows) else [*lines, f"and {len(rows) - len(shown)} more"]


def _topic_row(one: TopicRate) -> dict[str, Any]:
    return {
        "topic": one.name, "records/s": _whole(one.rates[-1]), "last": sparkline(one.rates, BARS), "end": one.end,
        "partitions": one.partitions,
    }  # fmt: skip


def _group_row(one: GroupRate) -> dict[str, Any]:
    return {
        "group": one.name, "lag": one.lag, "grows/s": _whole(one.rates[-1]), "last": sparkline(one.lags, BARS),
    }  # fmt: skip


def _whole(rate: float | None) -> int | None:
    return None if rate is None else round(rate)
