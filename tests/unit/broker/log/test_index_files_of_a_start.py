"""A start cuts nothing off index files: what they have beyond the trusted part is written over when the index is written
next."""

from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.segment import INDEX, LOG, TIME_INDEX
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.unit.broker.log.logs import DIRECTORY, build, content, flush, new, put, reopen, stop

SMALL = {"index_interval_bytes": 1}
"""Each batch has an entry."""


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was done to which index file: (method, ending)."""
    found: list[tuple[str, str]] = []
    for name in ("truncate", "append", "overwrite"):
        method = getattr(VirtualFile, name)

        def noted(self: VirtualFile, *given: Any, name: str = name, method: Any = method) -> Any:
            if self.path.endswith((INDEX, TIME_INDEX)):
                found.append((name, self.path[-len(INDEX) :]))
            return method(self, *given)

        monkeypatch.setattr(VirtualFile, name, noted)
    return found


def files(log: PartitionLog) -> dict[str, bytes]:
    """The content of the files of the first segment, as the disk has them."""
    disk, found = log.disk, {}
    for ending in (LOG, INDEX, TIME_INDEX):
        file = disk.open(f"{DIRECTORY}/{0:020d}{ending}")
        found[ending] = bytes(file.read_cold(0, file.size))
    return found


def written(batches: int, **changes: Any) -> PartitionLog:
    log = new(**changes)
    for number in range(batches):
        put(log, build(timestamp_ms=1_000 + number))
    return log


@pytest.mark.parametrize("interval", [1, 4096])
def test_a_clean_start_and_a_clean_stop_leave_index_files_as_they_are(
    changed: list[tuple[str, str]], interval: int
) -> None:
    log = written(3, index_interval_bytes=interval)
    stop(log)
    before = files(log)
    changed.clear()
    for _ in range(2):
        log = reopen(log, clean=True).log
        assert content(log) and not changed, "nothing that is there is written again"
        stop(log)
        assert files(log) == before and not changed
    assert before[TIME_INDEX], "a stop enters the largest timestamp"


def test_what_comes_behind_a_start_follows_what_was_trusted(changed: list[tuple[str, str]]) -> None:
    log, other = written(3, **SMALL), written(6, **SMALL)
    stop(log)
    log = reopen(log, clean=True).log
    for number in range(3, 6):
        put(log, build(timestamp_ms=1_000 + number))
    assert log.active is not None and log.active.trusted is not None
    stop(log)
    stop(other)
    assert files(log) == files(other) and log.active.trusted is None
    again = reopen(log, clean=True).log
    assert content(again) == content(other)


def test_a_log_that_is_written_to_behind_a_start_has_nothing_cut(changed: list[tuple[str, str]]) -> None:
    """To cut a file waits for the journal: ten thousand logs took over half a minute for it at a clean stop."""
    log = written(2)
    stop(log)
    for number in range(2, 5):
        log = reopen(log, clean=True).log
        put(log, build(timestamp_ms=1_000 + number))
        changed.clear()
        stop(log)
        assert changed == [("overwrite", TIME_INDEX[-len(INDEX) :])]
    other = written(5)
    stop(other)
    assert files(log) == files(other)


def test_a_log_that_idles_is_cut_when_its_index_grows() -> None:
    log, other = written(1), written(2)
    stop(log)
    log = reopen(log, clean=True).log
    put(log, build(timestamp_ms=1_001))
    flush(log)
    stop(log)
    stop(other)
    assert files(log) == files(other)


@pytest.mark.parametrize("damage", [b"\x07" * 8, b"\x07" * 40, b"\x07" * 5])
def test_what_is_not_trusted_never_stands_between_what_is(damage: bytes) -> None:
    log, other = written(4, **SMALL), written(6, **SMALL)
    flush(log)
    assert isinstance(log.disk, VirtualDisk)
    file = log.disk.open(f"{DIRECTORY}/{0:020d}{INDEX}")
    file.append((damage,))
    again = reopen(log).log
    for number in range(4, 6):
        put(again, build(timestamp_ms=1_000 + number))
    stop(again)
    stop(other)
    assert files(again) == files(other)


def test_a_cut_after_a_start_cuts_index_files_too() -> None:
    from actors.broker.log.truncation import truncate_to

    log, other = written(5, **SMALL), written(2, **SMALL)
    stop(log)
    log = reopen(log, clean=True).log
    truncate_to(log, 2)
    flush(log)
    stop(log)
    stop(other)
    assert files(log) == files(other)
