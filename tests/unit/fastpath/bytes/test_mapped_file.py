"""A mapped file whose bytes go away, or come back, while it is read: what a reader sees, and that it lives."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastpath.bytes.mapped_file import MappedFile

PAGE = mmap.PAGESIZE


def mapped(path: Path, size: int | None = None) -> MappedFile:
    with path.open("rb") as file:
        return MappedFile(file.fileno(), path.stat().st_size if size is None else size)


def test_the_bytes_are_those_of_the_file_and_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data := os.urandom(3 * PAGE + 7))
    one = mapped(path)
    assert bytes(one) == data and len(one) == len(data) and one.missing == 0
    view = memoryview(one)
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 1


def test_pages_behind_a_new_end_read_as_zeros_and_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (4 * PAGE))
    one = mapped(path)
    os.truncate(path, PAGE + 10)
    assert one.file_size() == PAGE + 10
    assert bytes(one) == b"x" * (PAGE + 10) + bytes(3 * PAGE - 10)
    assert one.missing == 2
    bytes(one)
    assert one.missing == 2, "a page is replaced once"
    path.write_bytes(b"y" * (4 * PAGE))
    assert bytes(memoryview(one)[2 * PAGE :]) == bytes(2 * PAGE), "what was missing stays zeros"


def test_two_mappings_count_for_themselves(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for path in (first, second):
        path.write_bytes(b"x" * (2 * PAGE))
    one, other = mapped(first), mapped(second)
    os.truncate(second, 0)
    assert bytes(one) == b"x" * (2 * PAGE) and bytes(other) == bytes(2 * PAGE)
    assert (one.missing, other.missing) == (0, 2)
    del one
    again = mapped(first)
    assert again.missing == 0 and bytes(again) == b"x" * (2 * PAGE)


def test_pages_that_were_given_back_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data := os.urandom(8 * PAGE))
    one = mapped(path)
    assert bytes(one) == data
    one.forget(PAGE + 1, 5 * PAGE)
    assert bytes(one) == data and one.missing == 0


@pytest.mark.parametrize("size", [0, -1])
def test_nothing_is_not_mapped(tmp_path: Path, size: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x")
    with pytest.raises(ValueError):
        mapped(path, size)


def test_what_cannot_be_mapped_is_told() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError):
            MappedFile(reading, 10)
    finally:
        os.close(reading)
        os.close(writing)


ELSEWHERE = """
import mmap, os, sys
from fastpath.bytes.mapped_file import MappedFile
path = sys.argv[1]
with open(path, "rb") as file:
    known = MappedFile(file.fileno(), 2 * mmap.PAGESIZE)
    strange = mmap.mmap(file.fileno(), 2 * mmap.PAGESIZE, prot=mmap.PROT_READ)
os.truncate(path, 0)
assert bytes(known) == bytes(2 * mmap.PAGESIZE)
print("lives", flush=True)
strange[0]
print("never")
"""


def test_only_pages_of_a_mapped_file_are_replaced(tmp_path: Path) -> None:
    """A SIGBUS in memory of others ends the process, as it would have."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * (2 * PAGE))
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "lives\n" and done.returncode < 0
