"""The groups of a running cluster and how far they are behind, sampled while the page is open.

This file alone decides how often groups are asked and how many. The lag of a partition is what lies between the committed
offset and the end of its log. A cluster keeps no history of it, so it begins when the page does.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from actors.client.errors import ClientError
from actors.client.operations.group_offsets import positions as operations
from actors.client.operations.group_offsets.positions import Position
from actors.client.operations.groups import Listed, describe, list_groups
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import TRIES_SAMPLED, Found, list_offsets
from actors.host.client.asynchronous import Kafka
from actors.page.live.samples import Samples
from actors.page.live.troubles import Standing
from actors.why.facts import GroupFacts
from actors.why.groups import GroupSample

EVERY_S = 5.0
GROUPS_MAX = 500
AT_ONCE = 8
ANSWER_S = 8.0
SUMS_MAX = 2 * GROUPS_MAX
"""How many groups' sums are kept over time: those of groups that are gone stay for a day."""
COUNTED_MAX = 20
"""How many groups that stand still are asked for their members."""
TREND_MS = 120_000
"""The time over which it is judged whether a group catches up, ms."""


class Behind(NamedTuple):
    """A group and how far it was behind when it was asked last."""

    listed: Listed
    lag: int | None
    """The sum over its partitions; None: it has committed nothing, or did not answer."""
    partitions: int


class Trend(NamedTuple):
    """The way in which a lag changes."""

    per_s: float
    """Records a second; below zero the group catches up."""
    caught_up_s: float | None
    """When it will have caught up at this pace, s; None: never."""


class Lags:
    """The groups as they were told last, and their lags over time."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.samples = Samples()
        """The lag of each partition, by (group, topic, partition)."""
        self.sums = Samples(SUMS_MAX)
        """The lag of each group, by its name, at the times at which that of all its partitions is known."""
        self.groups: dict[str, Behind] = {}
        self._keys: dict[str, list[Any]] = {}
        """group -> its series"""
        self.asked_ms = 0
        """The wall clock time of the last round, ms; 0: there was none yet."""
        self.problem = ""
        """What could not be asked, as a sentence; empty: nothing."""
        self.left_out = 0
        """How many groups beyond GROUPS_MAX are not sampled."""
        self.standing: tuple[GroupFacts, ...] = ()
        """The groups that stand still."""
        self._trends: dict[str, Trend | None] = {}
        """What was judged since the last round, however many pages ask for it."""
        self._standing = Standing()
        self._first = asyncio.Event()

    async def watch(self) -> None:
        """Ask again and again, until the task is cancelled."""
        while True:
            begun = time.monotonic()
            try:
                await self._round()
            except ClientError as error:
                self.problem = f"groups cannot be told: {error}"
                self.standing = ()
            finally:
                self._first.set()
            await asyncio.sleep(max(EVERY_S - (time.monotonic() - begun), 1.0))

    async def ready(self) -> None:
        """Wait until groups were asked once."""
        await self._first.wait()

    async def _round(self) -> None:
        listed, refused = await self._kafka.run(list_groups(), ANSWER_S)
        chosen = [one for _, one in sorted(listed.items())]
        self.left_out = max(0, len(chosen) - GROUPS_MAX)
        turns = asyncio.Semaphore(AT_ONCE)
        told = await asyncio.gather(*(self._positions(one, turns) for one in chosen[:GROUPS_MAX]))
        parts = {part for positions in told for part, one in positions.items() if one.lag is None}
        ends = await self._kafka.run(list_offsets(sorted(parts), tries=TRIES_SAMPLED), ANSWER_S) if parts else {}
        self.groups = {}
        looks: dict[str, GroupSample] = {}
        sampled: dict[Any, float] = {}
        sums: dict[Any, float] = {}
        for group, positions in zip(chosen, told, strict=False):
            lags = {part: one.behind(_offset(ends.get(part))) for part, one in positions.items()}
            known = {part: lag for part, lag in lags.items() if lag is not None}
            whole = bool(known) and len(known) == len(lags)  # a sum without one would fall where it grows
            sampled |= {(group.name, *part): float(lag) for part, lag in known.items()}
            self.groups[group.name] = Behind(group, sum(known.values()) if whole else None, len(positions))
            if whole:
                sums[group.name] = float(sum(known.values()))
            looks[group.name] = _look(positions, ends)
        self.groups |= {one.name: Behind(one, None, 0) for one in chosen[GROUPS_MAX:]}
        self.asked_ms = int(time.time() * 1000)
        self.samples.add(self.asked_ms, sampled)
        self.sums.add(self.asked_ms, sums)
        self._trends = {}
        by_group: dict[str, list[Any]] = {}
        for key in self.samples.keys():  # noqa: SIM118
            by_group.setdefault(key[0], []).append(key)  # type: ignore[index]
        self._keys = by_group  # as a whole: other threads read it
        self._standing.look(looks)
        self.standing = tuple([await self._counted(at, one) for at, one in enumerate(self._standing.found)])
        names = ", ".join(map(str, sorted(refused)))
        self.problem = f"broker {names} did not tell its groups: {next(iter(refused.values()))}" if refused else ""

    async def _positions(self, group: Listed, turns: asyncio.Semaphore) -> dict[Part, Position]:
        async with turns:
            try:
                return await positions(self._kafka, group.name, group.type)
            except ClientError:
                return {}

    async def _counted(self, at: int, one: GroupFacts) -> GroupFacts:
        """A group that stands still, with how many members it has, as far as that is asked."""
        if self.groups[one.group].listed.state == "Empty":
            return one._replace(members=0)
        if at < COUNTED_MAX:
            with suppress(ClientError):
                return one._replace(members=len((await self._kafka.run(describe(one.group), ANSWER_S)).members))
        return one._replace(members=-1)

    def trend(self, group: str) -> Trend | None:
        """How the lag of a group changes; None: it is not known yet."""
        if group not in self.groups:
            return self._judged(group)
        trends = self._trends
        if group not in trends:
            trends[group] = self._judged(group)
        return trends[group]

    def _judged(self, group: str) -> Trend | None:
        line = self.sums.line([group])
        recent = line.times >= (line.times[-1] - TREND_MS if len(line.times) else 0)
        times, values = line.times[recent] / 1000, line.values[recent].astype(float)
        if len(times) < 3 or times[-1] == times[0]:
            return None
        slope = float(np.polyfit(times - times[0], values, 1)[0])
        left = float(values[-1])
        return Trend(slope, left / -slope if slope < 0 and left > 0 else 0.0 if left == 0 else None)

    def keys(self, group: str) -> list[Any]:
        """The series of a group's partitions: (group, topic, partition)."""
        return self._keys.get(group, [])


async def positions(kafka: Kafka, name: str, type: str) -> dict[Part, Position]:
    """Where a group reads on in each partition of which that is known. Raises ClientError."""
    found = await kafka.run(operations.positions(name, type), ANSWER_S)
    return {part: one for part, one in found.items() if not isinstance(one, ClientError)}


def _look(positions: dict[Part, Position], ends: dict[Part, Any]) -> GroupSample:
    """What a group has committed now, by a clock that nobody sets, and where its partitions end."""
    known = {part: one.offset for part, one in ends.items() if isinstance(one, Found) and part in positions}
    return GroupSample(
        int(time.monotonic() * 1000), 0, {part: one.offset for part, one in positions.items() if part in known}, known
    )


def _offset(end: Any) -> int | None:
    return end.offset if isinstance(end, Found) else None
