"""What a start says about a log directory that it cannot use."""

import errno
from pathlib import Path

import pytest

from actors.host.storage import unusable
from actors.host.work.disk import LocalDisk
from actors.ports import DiskFailed


def test_the_sentence_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    disk = LocalDisk(str(tmp_path / "d"))
    failed = disk.error(OSError(errno.EIO, "Input/output error"), "open failed: Input/output error", "recovery-point")
    assert isinstance(failed, DiskFailed)
    said = unusable(failed)
    assert said.startswith(f"{tmp_path}/d: recovery-point: open failed: Input/output error: this node does not start")
    assert "out of log.dirs" in said


@pytest.mark.parametrize(("number", "what"), [(errno.EMFILE, "ulimit -n"), (errno.EIO, "out of log.dirs")])
def test_a_lack_is_no_dead_disk(number: int, what: str) -> None:
    said = unusable(OSError(number, "why", "/a/meta.properties"))
    assert said.startswith("/a/meta.properties: why: this node does not start") and what in said
