"""A fetcher of one thread that waits for no single broker: what one brings is given while another is silent.

This file alone decides when a broker is asked again. Each has one request under way. Whom to ask is looked up behind every
answer, and each LOOK_US without one; while that takes long, as where a broker that is asked for it is frozen, those that
answer are asked on.
"""

from typing import Any

from actors.client.connection import NEVER
from actors.client.errors import NotInTime
from actors.client.operations.fetching import Fetcher, Result
from actors.client.tasks import Task
from actors.host.client.blocking import Kafka, now_us

DAY_S = 86_400.0
"""The time for a Fetch, whose own time is request.timeout.ms: what passes is tried again by the fetcher."""
LOOK_US = 1_000_000
"""How often it is looked for brokers that are to be asked while those that are asked say nothing, µs."""


class Reading:
    """A fetcher whose brokers are asked at once, for one thread."""

    def __init__(self, kafka: Kafka, fetcher: Fetcher) -> None:
        self._kafka = kafka
        self._fetcher = fetcher
        self._nodes: set[int] = set()
        """The brokers that are to be asked, as it was found last."""
        self._under_way: dict[int, Task[list[Result]]] = {}
        self._preparing: Task[tuple[list[int], list[Result]]] | None = None
        self._look_us = 0
        """When it is looked for brokers again; NEVER: it is being looked for, and nothing came meanwhile."""

    def next(self) -> list[Result]:
        """What came next; empty: a broker had nothing new, or LOOK_US are over. Raises ClientError, as when no broker can be
        asked in time."""
        kafka, told, is_over = self._kafka, list[Result](), False
        while not told and not is_over:
            if self._preparing is None and (now_us() >= self._look_us or not self._under_way):
                self._preparing, self._look_us = kafka.start(self._fetcher.prepare()), NEVER
            tasks: list[Task[Any]] = [*self._under_way.values(), *([self._preparing] if self._preparing else [])]
            is_over = not kafka.wait_until(tasks, now_us() + LOOK_US if self._preparing else self._look_us)
            for node in [node for node, task in self._under_way.items() if task.done]:
                told += self._under_way.pop(node).result()
                is_over, self._look_us = True, 0
            if self._preparing is not None and self._preparing.done:
                preparing, self._preparing = self._preparing, None
                self._look_us = min(self._look_us, now_us() + LOOK_US)
                told += self._prepared(preparing)
            for node in self._nodes - self._under_way.keys():
                self._under_way[node] = kafka.start(self._fetcher.fetch_from(node), DAY_S)
            if not self._under_way and self._preparing is None and not told:
                return kafka.run(self._fetcher.fetch())  # which looks for a broker, after a while
        return told

    def _prepared(self, task: Task[tuple[list[int], list[Result]]]) -> list[Result]:
        """Take in which brokers are to be asked. Returns what is to be told before. Raises ClientError."""
        try:
            nodes, told = task.result()
        except NotInTime:
            if not self._under_way:
                raise
            return []
        self._nodes = set(nodes)
        return told
