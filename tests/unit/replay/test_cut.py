"""A file that a node truncates, or writes anew, while it is read: rows that were there, or one sentence, and never the end
of the process by SIGBUS. Each test reads in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors import replay
from actors.metadata.ops import ConfigSet
from actors.replay.columns import record_columns
from actors.replay.logs.chunks import Chunk, ChunkReading, chunks
from tests.unit.replay import metadata_logs
from tests.unit.replay.test_source import write
from tests.unit.replay.written import append, batches


@pytest.mark.long
def test_a_truncation_under_the_command_is_one_error(tmp_path: Path) -> None:
    folder = write(tmp_path, batches=4000)
    program = f"""
import os, sys
from pathlib import Path
from actors.command import cli
from actors.replay.logs import chunks as log
from actors.replay.logs import files
path = Path({str(folder)!r}, "{0:020}.log")
scan = log.scan
def late(data, position, stop, *rest, **more):
    if "into" in more:
        os.truncate(path, 5000)  # after the last look at its size
    return scan(data, position, stop, *rest, **more)
log.scan = late
sys.exit(cli.main(["replay", "--topic", "orders", "--table", "log", "--limit", "0", {str(folder.parent)!r}]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1, done
    sentence = f"{folder}/{0:020}.log was truncated while it was read, as a running node may do: read it again."
    assert done.stderr.strip().splitlines()[-1].endswith(sentence)
    assert "Traceback" not in done.stderr and not done.stdout


def test_a_truncation_under_a_reader_in_python_is_one_error(tmp_path: Path) -> None:
    """Spark's and Ray's workers read in this way. The file is shorter when the second chunk is copied, and as long as before
    when its size is asked again: the zeros in between are not taken for the end of the log."""
    folder = write(tmp_path, batches=4000)
    done = in_python(f"""
import os
from actors import replay
from actors.replay.logs import chunks as log
path = "{folder}/{0:020}.log"
split, *_ = replay.open({str(folder)!r}, "log").splits()
scan = log.scan
def late(data, position, stop, *rest, **more):
    size = os.stat(path).st_size
    if position > 30_000 and "into" in more:
        os.truncate(path, 20_000)
    found = scan(data, position, stop, *rest, **more)
    os.truncate(path, size)
    return found
log.scan = late
rows = 0
try:
    for batch in replay.read(split, chunk_bytes=30_000):
        rows += batch.num_rows
except replay.FileTruncated as error:
    print(0 < rows < split.records, str(error).startswith(path))
""")
    assert done.stdout == "True True\n", done


@pytest.mark.parametrize(("cut", "each"), [(0, 7), (200, 10), (200, 3)], ids=["all", "as long", "some"])
def test_what_does_not_follow_what_was_read_is_not_given(cut: int, each: int, tmp_path: Path) -> None:
    """A follower that has cut its log writes what its new leader has, up to behind where the reader is."""
    path = append(tmp_path, "orders", 0, 0, 500)
    (split,) = replay.open(tmp_path, topics=["orders"]).splits()
    found: list[int] = []
    with pytest.raises(replay.FileTruncated, match="was truncated while it was read"):
        for part in replay.read(split, ["offset"], chunk_bytes=4000):
            found += part["offset"].to_pylist()
            if 250 < found[-1] < 400 and path.stat().st_size == split.end:
                os.truncate(path, len(batches(0, cut, 10)))
                with path.open("ab") as file:
                    file.write(batches(cut, cut + each, each, 1) + batches(cut + each, 700, 10, 1))
    assert found == list(range(len(found))) and 250 < len(found) < 400


def test_a_metadata_log_that_was_cut_after_it_was_planned_is_read_by_its_offsets(tmp_path: Path) -> None:
    """What is in its place now is no damage, though batches begin elsewhere."""
    ops = [ConfigSet(2, "orders", f"name{number}", "x" * 100) for number in range(60)]
    first = metadata_logs.batches(ops[:30], 3)
    folder = metadata_logs.write(tmp_path, first + metadata_logs.batches(ops[30:], 3, start=first[-1].last_offset + 1))
    splits = replay.open(tmp_path, "records").splits(900)
    path = folder / f"{0:020}.log"
    other = [ConfigSet(2, "orders", f"other{number}", "y" * 77) for number in range(50)]
    with path.open("r+b") as file:
        file.truncate(sum(len(one.data) for one in first))
        file.seek(0, os.SEEK_END)
        file.writelines(one.data for one in metadata_logs.batches(other, 7, start=first[-1].last_offset + 1, epoch=4))
    found = [row["offset"] for split in splits for part in replay.read(split, ["offset"]) for row in part.to_pylist()]
    assert found == list(range(len(found))) and len(found) >= 61 and len(splits) > 5
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is gone, and no other segment has its offsets"):
        list(replay.read(splits[-1]))


def test_what_was_verified_is_what_is_decoded(tmp_path: Path) -> None:
    """A follower that cuts its log writes other records into the same bytes: between the check of a CRC and the decoding of
    its records, too."""
    folder = write(tmp_path, batches=10)
    path = folder / f"{0:020}.log"
    before = list(chunks(path, ChunkReading()))
    reading = chunks(path, ChunkReading())
    first = next(reading)
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    rows = [decoded(chunk) for chunk in (first, *reading)]
    assert rows == [decoded(chunk) for chunk in before] and len(rows[0]) > 1


def test_a_missing_page_of_somebody_else_ends_the_process_as_before(tmp_path: Path) -> None:
    folder = write(tmp_path, batches=2000)
    (tmp_path / "other").write_bytes(bytes(100_000))
    done = in_python(f"""
import mmap, os
from actors import replay
found = replay.open({str(folder)!r}, "log").splits()
print(sum(batch.num_rows for split in found for batch in replay.read(split)), flush=True)
with open({str(tmp_path / "other")!r}, "r+b") as file:
    other = mmap.mmap(file.fileno(), 0)
os.truncate({str(tmp_path / "other")!r}, 0)
other[50_000]
""")
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "14000\n")


def test_a_handler_that_gives_the_signal_back_ends_the_process_once(tmp_path: Path) -> None:
    """Python's faulthandler, which came behind the first mapping and before the second, as in Ray's workers."""
    folder = write(tmp_path, batches=20)
    done = in_python(f"""
import faulthandler, os, signal
from actors import replay
splits = replay.open({str(folder)!r}, "log").splits()
faulthandler.enable()
print(sum(batch.num_rows for split in splits for batch in replay.read(split)), flush=True)
os.kill(os.getpid(), signal.SIGBUS)
print("alive")
""")
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "140\n")
    assert done.stderr.count("Fatal Python error") == 1


def decoded(chunk: Chunk) -> list[int]:
    decoder = record_columns.Decoder("orders", 3, ["offset"], ChunkReading(), 0, -1)
    return [offset for batch in decoder.batches(chunk) for offset in batch.column("offset").to_pylist()]


def in_python(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
