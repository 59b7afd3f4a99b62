"""What a running cluster alone can tell that is wrong: log directories, transactions that hang, groups that stand still.

This file alone decides how often that is asked, and how much: every EVERY_S, and transactions of a cluster with
PARTITIONS_MAX partitions at most. What does not answer is left out, and asked again.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.operations.cluster import describe_log_dirs
from actors.client.operations.leaders import Part
from actors.client.operations.transactions import CoordinatedTransaction, coordinated, open_transactions
from actors.host.client.asynchronous import Kafka
from actors.why.answers import hanging, offline, silent
from actors.why.facts import GroupFacts, LogDirFacts, TransactionFacts
from actors.why.groups import STANDS_MS, GroupSample, standing

T = TypeVar("T")
EVERY_S = 15.0
ANSWER_S = 10.0
PARTITIONS_MAX = 5_000
"""How many partitions are asked for open transactions at most."""


class Told(NamedTuple):
    """What is wrong, as far as it was told last."""

    log_dirs: tuple[LogDirFacts, ...] = ()
    transactions: tuple[TransactionFacts, ...] = ()


class Troubles:
    """The last answers, and the task that asks."""

    def __init__(self, kafka: Kafka, led: Callable[[int], list[Part] | None], on_change: Callable[[], None]) -> None:
        """`led`: the partitions that have a leader; None, if there are more than so many. `on_change`: called when something
        else is wrong than before."""
        self._kafka = kafka
        self._led = led
        self._on_change = on_change
        self.told = Told()

    async def watch(self) -> None:
        """Ask again and again, until the task is cancelled."""
        while True:
            log_dirs = await self._asked(describe_log_dirs(sizes=False))
            told = Told(tuple(offline(log_dirs or {})), await self._transactions())
            if told != self.told:
                self.told = told
                self._on_change()
            await asyncio.sleep(EVERY_S)

    async def _transactions(self) -> tuple[TransactionFacts, ...]:
        parts = await asyncio.to_thread(self._led, PARTITIONS_MAX)
        open_ = (await self._asked(open_transactions(parts)) if parts else None) or []
        now_ms = int(time.time() * 1000)
        quiet = silent(now_ms, open_)
        nothing: dict[int, CoordinatedTransaction] = {}
        known = await self._asked(coordinated(quiet)) if quiet else nothing
        return tuple(hanging(now_ms, open_, known)) if known is not None else ()

    async def _asked(self, steps: Steps[T]) -> T | None:
        """The answer; None: there is none."""
        try:
            return await self._kafka.run(steps, ANSWER_S)
        except ClientError:
            return None


class Standing:
    """The groups that stand still, out of one look after another."""

    def __init__(self) -> None:
        self._since: dict[str, GroupSample] = {}
        """group -> the earliest look since which some partition has stood still."""
        self.found: tuple[GroupFacts, ...] = ()

    def look(self, now: dict[str, GroupSample]) -> None:
        """Take one more look at all groups."""
        stay = {one.group for one in standing(self._since, now, 0)}
        self._since = {group: self._since[group] if group in stay else sample for group, sample in now.items()}
        self.found = tuple(standing(self._since, now, STANDS_MS))
