"""Which of the logs that have grown are flushed at the end of a turn."""

from types import SimpleNamespace
from typing import Any

from actors.node.roles.broker.log.written_logs import FLUSH_NEVER_MS, WrittenLogs

NOW_MS = 1_000
DISK = object()


class Written:
    """Logs that have grown, on one disk."""

    def __init__(self) -> None:
        self.found_room: list[Any] = []
        self.held: dict[Any, int] = {}
        self.full = SimpleNamespace(lacks={}, taken=self.found_room.append)
        self.logs = WrittenLogs(SimpleNamespace(full=self.full), SimpleNamespace(held=self.held))

    def add(self, *, due: bool = False, flush_ms: int = FLUSH_NEVER_MS, asked: bool = False, segments: int = 1) -> Any:
        """A partition that was appended to. `due`: its log says that it is to be flushed."""
        log = SimpleNamespace(
            disk=DISK,
            settings=SimpleNamespace(compact=True),
            blank=not segments,
            segments=[0] * segments,
            flush_due=lambda now_ms: due,
        )
        settings = SimpleNamespace(flush_ms=flush_ms)
        partition = Partition(log=log, settings=settings, flush_before_asking=asked, removed=False)
        self.logs.add(partition)
        return partition


class Partition(SimpleNamespace):
    """A partition that can be a key."""

    __hash__ = object.__hash__


def test_a_log_is_flushed_when_its_settings_or_its_leader_say_so_and_once() -> None:
    written = Written()
    due, asked, _ = written.add(due=True), written.add(asked=True), written.add()
    assert written.logs.due(NOW_MS) == [due, asked] and written.logs.due(NOW_MS) == []


def test_a_log_with_an_interval_is_looked_at_until_it_is_due() -> None:
    written = Written()
    waits = written.add(flush_ms=50)
    assert written.logs.due(NOW_MS) == []
    waits.log.flush_due = lambda now_ms: now_ms >= NOW_MS + 50
    assert written.logs.due(NOW_MS + 49) == [] and written.logs.due(NOW_MS + 50) == [waits]


def test_a_replica_waits_while_its_future_log_is_made_durable() -> None:
    written = Written()
    held = written.add(due=True)
    written.held[held] = NOW_MS + 500
    assert written.logs.due(NOW_MS) == [] and written.logs.due(NOW_MS + 500) == [held]


def test_a_partition_that_was_removed_is_not_flushed() -> None:
    written = Written()
    written.add(due=True).removed = True
    assert written.logs.due(NOW_MS) == []


def test_there_is_something_to_clean_once_a_compacted_log_has_a_sealed_segment() -> None:
    written = Written()
    written.add()
    assert not written.logs.compacted
    written.add(segments=2)
    assert written.logs.compacted


def test_an_append_says_that_a_disk_without_room_has_some() -> None:
    written = Written()
    written.add()
    written.full.lacks[DISK] = object()
    written.add()
    assert written.found_room == [DISK]
