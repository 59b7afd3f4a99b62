"""The virtual disk does what the real one does (`tests/unit/host/work/test_disk.py`) where the difference would be a
file."""

import errno
from itertools import islice
from random import Random

import pytest

from actors.ports import DiskFailed, Run, Sync, departures
from tests.simulator.disk import VirtualDisk

MARK = "t-0.1-future/arrived"


def disk() -> VirtualDisk:
    made = VirtualDisk()
    made.replace("t-0.1-future/0.log", b"")
    return made


def test_a_small_file_is_not_written_where_its_directory_has_been_renamed_since() -> None:
    one = disk()
    small = [(one, MARK, b"1"), (one, "checkpoint", b"2")]
    sync = Sync(0, (), small, departures=departures(small, ()))
    one.rename("t-0.1-future", "t-0.1-delete")
    one.sync(sync)
    assert one.names("") == ["checkpoint", "t-0.1-delete"]


def test_nor_where_it_was_submitted_at_the_end_of_the_turn_in_which_its_directory_went() -> None:
    one = disk()
    sync = Sync(0, (), [(one, MARK, b"1")])
    one.rename("t-0.1-future", "t-0.1-delete")
    one.sync(sync)
    assert one.names("") == ["t-0.1-delete"]


def test_nor_where_another_directory_has_that_name_now() -> None:
    one = disk()
    small = [(one, MARK, b"1")]
    sync = Sync(0, (), small, departures=departures(small, ()))
    one.remove("t-0.1-future")
    one.replace("t-0.1-future/0.log", b"")
    one.sync(sync)
    assert one.names("t-0.1-future") == ["0.log"]
    one.sync(Sync(0, (), small))
    assert one.names("t-0.1-future") == ["0.log", "arrived"]


def test_a_handle_does_not_know_the_bytes_of_an_append_that_the_device_has_ended_short() -> None:
    one = VirtualDisk()
    file = one.open("t-0/0.timeindex", create=True)
    file.append((bytes(12),))
    one.fault, one.short = lambda operation, path: errno.EIO, Random(3)
    with pytest.raises(DiskFailed):
        file.append((bytes(1_000),))
    one.fault = one.short = None
    assert file.size == 12 < len(one.files["t-0/0.timeindex"].data) == one.open("t-0/0.timeindex").size
    with pytest.raises(DiskFailed):
        file.append((b"",))


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
        for _ in islice(one.syncing(sync, seed), seed % 6):
            pass
        seen.add(tuple(durable(one, 2)))
        assert one.names("checkpoint") == []
    assert {(0, 3), (3, 0), (1, 1), (0, 1), (2, 1)} <= seen


def test_an_error_in_a_run_ends_that_run_and_is_told() -> None:
    one = VirtualDisk()
    sync = Sync(0, (), [(one, "checkpoint", b"1")], runs=runs(one, 3))
    one.sync_fails = lambda path: path == "t-1/1.log"
    with pytest.raises(DiskFailed) as failed:
        one.sync(sync)
    assert failed.value.errno == errno.EIO
    assert not one.exists("checkpoint") and not one.exists("t-0/epochs"), "small files come behind all files"
    one.sync_fails = None
    assert durable(one, 3) == [3, 1, 3]


def test_a_name_is_changed_as_posix_says() -> None:
    """And who is refused knows which disk it was."""
    one = VirtualDisk()
    for path in ("a/1", "b/1", "file"):
        one.open(path, create=True).append((path.encode(),))
    one.rename("a", "a")
    assert one.names("a") == ["1"] and one.departures == 0, "a name that is given to whom it belongs"
    refused = {
        ("a", "b"): errno.ENOTEMPTY,
        ("file", "b"): errno.EISDIR,
        ("a", "file"): errno.ENOTDIR,
        ("a", "a/2"): errno.EINVAL,
        ("c", "d"): errno.ENOENT,
    }
    for number, ((old, new), wanted) in enumerate(refused.items()):
        with pytest.raises(DiskFailed) as failed:
            one.rename(old, new)
        assert (failed.value.errno, failed.value.disk, one.refused) == (wanted, one, number + 1)
    assert (one.names("a"), one.names("b"), one.names("file")) == (["1"], ["1"], [])
    one.rename("file", "b/1")
    one.remove("a")
    one.rename("b", "a")
    assert bytes(one.open("a/1").read_cold(0, 9)) == b"file"


def test_every_error_of_a_disk_says_whose_it_is() -> None:
    one = VirtualDisk()
    file = one.open("a/1", create=True)
    file.append((b"x",))
    one.fail(reads=True)
    for operation in (
        lambda: file.append((b"y",)),
        lambda: file.read_cold(0, 1),
        lambda: one.rename("a", "b"),
        lambda: one.settle("a"),
        lambda: one.sync(Sync(0, [file], [])),
        lambda: one.sync(Sync(0, [], [(one, "b", b"1")])),
    ):
        with pytest.raises(DiskFailed) as failed:
            operation()
        assert failed.value.disk is one


@pytest.mark.parametrize("small", [False, True], ids=["a log", "a small file"])
@pytest.mark.parametrize("synced", [False, True])
def test_two_directories_of_one_name_never_become_one(small: bool, synced: bool) -> None:
    """The old one is renamed, a new one is made, and the power is cut: there is the new one, if it was synced, or the old
    one again, or both."""
    found = set()
    for seed in range(40):
        one = VirtualDisk()
        old = one.open("t-0/24.log", create=True)
        one.sync(Sync(0, [old], []))
        one.rename("t-0", "t-0.1-delete")
        new = one.open("t-0/0.log", create=True)
        if synced:
            one.sync(Sync(1, [] if small else [new], [(one, "t-0/epochs", b"0")] if small else []))
        random = Random(seed)
        one.crash(random, lambda change, random=random: random.random() < 0.5)  # type: ignore[misc]
        found.add((*one.names("t-0"), "|", *one.names("t-0.1-delete")))
    if synced and small:
        assert found == {("epochs", "|", "24.log"), ("0.log", "epochs", "|", "24.log")}
    elif synced:
        assert found == {("0.log", "|", "24.log")}
    else:
        assert found == {("24.log", "|"), ("|", "24.log"), ("0.log", "|", "24.log")}


@pytest.mark.parametrize("what", ["two left", "a future log", "a future log, the other removed", "nothing removed"])
def test_a_name_that_a_directory_has_again_takes_nothing_from_others(what: str) -> None:
    """Directories leave a name, or take it, one after the other, and the power is cut: what was durable is under one name or
    the other, and never two directories become one."""
    found = set()
    for seed in range(60):
        one = VirtualDisk()
        durable = ["t-0.f/7.log", *(["t-0/24.log"] if what != "nothing removed" else [])]
        one.sync(Sync(0, [one.open(path, create=True) for path in durable], []))
        if what in ("two left", "a future log"):
            one.rename("t-0", "t-0.1-delete")
        else:
            one.remove("t-0")
        if what == "two left":
            one.open("t-0/0.log", create=True)
            one.rename("t-0", "t-0.2-delete")
        else:
            one.rename("t-0.f", "t-0")
        random = Random(seed)
        one.crash(random, lambda change, random=random: random.random() < 0.5)  # type: ignore[misc]
        assert sum(path.endswith("/7.log") for path in one.files) == 1
        assert what != "a future log" or sum(path.endswith("/24.log") for path in one.files) == 1
        for directory in ("t-0", "t-0.f", "t-0.1-delete", "t-0.2-delete"):
            assert len(one.names(directory)) < 2, one.files
        found.add(tuple(sorted(one.files)))
    assert len(found) >= {"two left": 5, "nothing removed": 2}.get(what, 3)
