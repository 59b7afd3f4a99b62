"""The virtual disk does what the real one does (`tests/unit/host/work/test_disk.py`) where the difference would be a
file."""

import errno
from itertools import islice

import pytest

from actors.ports import DiskFailed, Run, Sync
from tests.simulator.disk import VirtualDisk

MARK = "t-0.1-future/arrived"


def disk() -> VirtualDisk:
    made = VirtualDisk()
    made.replace("t-0.1-future/0.log", b"")
    return made


def test_a_small_file_is_not_written_where_its_directory_has_been_renamed_since() -> None:
    one = disk()
    sync = Sync(0, (), [(one, MARK, b"1"), (one, "checkpoint", b"2")])
    departed = one.departed(sync)
    one.rename("t-0.1-future", "t-0.1-delete")
    one.sync(sync, departed)
    assert one.names("") == ["checkpoint", "t-0.1-delete"]


def test_nor_where_another_directory_has_that_name_now() -> None:
    one = disk()
    sync = Sync(0, (), [(one, MARK, b"1")])
    departed = one.departed(sync)
    one.remove("t-0.1-future")
    one.replace("t-0.1-future/0.log", b"")
    one.sync(sync, departed)
    assert one.names("t-0.1-future") == ["0.log"]
    one.sync(sync, one.departed(sync))
    assert one.names("t-0.1-future") == ["0.log", "arrived"]


def runs(one: VirtualDisk, count: int) -> list[Run]:
    """Each with three files and a small one."""
    made = []
    for number in range(count):
        files = [one.open(f"t-{number}/{place}.log", create=True) for place in range(3)]
        for file in files:
            file.append([b"data"])
        made.append(Run(files, [(one, f"t-{number}/epochs", b"1")]))
    return made


def durable(one: VirtualDisk, count: int) -> list[int]:
    """How many files of each run a power cut leaves. It asserts that none is there without those before it."""
    one.crash(keeps=lambda change: False)
    found = []
    for number in range(count):
        there = one.names(f"t-{number}")
        logs = [f"{place}.log" for place in range(3)]
        left = [name for name in logs if name in there and one.open(f"t-{number}/{name}").size]
        assert left == logs[: len(left)], there
        assert "epochs" not in there or left == logs
        found.append(len(left))
    return found


def test_a_power_cut_amid_runs_leaves_any_of_them_and_each_up_to_some_place() -> None:
    seen = set()
    for seed in range(60):
        one = VirtualDisk()
        sync = Sync(0, (), [(one, "checkpoint", b"1")], runs=runs(one, 2))
        for _ in islice(one.syncing(sync, one.departed(sync), seed), seed % 6):
            pass
        seen.add(tuple(durable(one, 2)))
        assert one.names("checkpoint") == []
    assert {(0, 3), (3, 0), (1, 1), (0, 1), (2, 1)} <= seen


def test_an_error_in_a_run_ends_that_run_and_is_told() -> None:
    one = VirtualDisk()
    sync = Sync(0, (), [(one, "checkpoint", b"1")], runs=runs(one, 3))
    one.sync_fails = lambda path: path == "t-1/1.log"
    with pytest.raises(DiskFailed) as failed:
        one.sync(sync, one.departed(sync))
    assert failed.value.errno == errno.EIO
    assert not one.exists("checkpoint") and not one.exists("t-0/epochs"), "small files come behind all files"
    one.sync_fails = None
    assert durable(one, 3) == [3, 1, 3]
