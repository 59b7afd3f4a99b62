"""A fetcher of one thread that waits for no single broker: what one brings is given while another is silent.

This file alone decides when a broker is asked again. Each has one request under way. Whom to ask is looked up behind every
answer; while that takes long, as where a broker that is asked for it is frozen, those that answer are asked on.
"""

from actors.client.errors import NotInTime
from actors.client.operations.fetching import Fetcher, Result
from actors.client.tasks import Task
from actors.host.client.blocking import Kafka

DAY_S = 86_400.0
"""The time for a Fetch, whose own time is request.timeout.ms: what passes is tried again by the fetcher."""


class Reading:
    """A fetcher whose brokers are asked at once, for one thread."""

    def __init__(self, kafka: Kafka, fetcher: Fetcher) -> None:
        self._kafka = kafka
        self._fetcher = fetcher
        self._nodes: set[int] = set()
        """The brokers that are to be asked, as it was found last."""
        self._under_way: dict[int, Task[list[Result]]] = {}
        self._preparing: Task[tuple[list[int], list[Result]]] | None = None

    def next(self) -> list[Result]:
        """What came next; empty: a broker had nothing new. Raises ClientError, as when no broker can be asked in time."""
        kafka, told = self._kafka, list[Result]()
        if self._preparing is None:
            self._preparing = kafka.start(self._fetcher.prepare())
        kafka.wait_until([self._preparing, *self._under_way.values()], None)
        for node in [node for node, task in self._under_way.items() if task.done]:
            told += self._under_way.pop(node).result()
        if self._preparing.done:
            told += self._prepared(self._preparing)
            self._preparing = None
        for node in self._nodes - self._under_way.keys():
            self._under_way[node] = kafka.start(self._fetcher.fetch_from(node), DAY_S)
        if not self._under_way and self._preparing is None and not told:
            told = kafka.run(self._fetcher.fetch())  # which looks for a broker, after a while
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
