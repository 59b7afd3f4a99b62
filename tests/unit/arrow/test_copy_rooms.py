"""The directories of copies: those of processes that were killed go, and no other."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.arrow import copy_rooms
from actors.arrow.copy_rooms import Room, remove_left

ROOT = Path(__file__).resolve().parents[3]
HOLDS = """
import sys
from actors.arrow.copy_rooms import Room
room = Room()
(room.path / "00000000000000000000.log").write_bytes(b"something")
print(room.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield


def test_what_a_killed_process_has_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    around = os.environ | {"PYTHONPATH": str(ROOT)}
    with (
        Room() as own,
        subprocess.Popen([sys.executable, "-c", HOLDS], env=around, stdin=-1, stdout=-1, text=True) as process,
    ):
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        try:
            remove_left()
            assert own.path.exists() and list(path.iterdir()), "both live"
        finally:
            process.kill()
            process.wait()
        assert path.exists()
        remove_left()
        assert not path.exists() and list(tmp_path.iterdir()) == [own.path]
    assert list(tmp_path.iterdir()) == []


def test_what_is_of_another_machine_or_user_or_only_looks_like_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Room() as room:
        own = room.path.name[:-8]
    with monkeypatch.context() as patched:
        patched.setattr(copy_rooms.platform, "node", lambda: "an-other.host")
        with Room() as room:
            others = tmp_path / room.path.name
        assert others.name.startswith("rayft-metadata-an_other.host-")
    others.mkdir()
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / f"{own}abcdefgh").symlink_to(kept)
    (tmp_path / f"{own}abcd").mkdir()
    (tmp_path / f"{own}abcdefgi").write_text("a file")
    (tmp_path / "rayft-metadata-abcdefgh").mkdir()
    before = {*tmp_path.iterdir()}
    remove_left()
    assert {*tmp_path.iterdir()} == before and kept.exists()
    foreign = tmp_path / f"{own}foreign_"
    foreign.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(copy_rooms.os, "geteuid", lambda: os.getuid() + 1)
        remove_left()
    assert foreign.exists()
    remove_left()
    assert {*tmp_path.iterdir()} == before


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_directory_that_is_taken_for_one_that_was_left_before_it_is_locked_is_not_used(
    monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """Another process removes what was left between the making of a directory and its locking."""
    flock, taken = fcntl.flock, []

    def late(descriptor: int, how: int) -> None:
        if not taken:
            (path,) = Path(tempfile.gettempdir()).iterdir()
            taken.append(path)
            other = os.open(path, os.O_RDONLY)
            flock(other, how)
            if is_gone:
                path.rmdir()
                os.close(other)
        flock(descriptor, how)

    monkeypatch.setattr(copy_rooms.fcntl, "flock", late)
    with Room() as room:
        assert room.path != taken[0] and room.path.exists()


def test_where_directories_have_no_locks_copies_are_made_and_none_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(descriptor: int, how: int) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(copy_rooms.fcntl, "flock", refuses)
    with Room() as room:
        remove_left()
        assert room.path.exists()
    assert not room.path.exists()
