"""The virtual disk does what the real one does (`tests/unit/host/work/test_disk.py`) where the difference would be a
file."""

from actors.ports import Sync
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
