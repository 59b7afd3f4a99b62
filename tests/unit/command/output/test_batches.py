"""`rayft dump`: what it says of a batch, and to somebody who stops reading."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.command.output.batches import dump
from fastpath.records.batch import Builder

ROOT = Path(__file__).parents[4]
LOG = ROOT / "tests" / "golden" / "kafka-4.3.1" / "__cluster_metadata-0" / "00000000000000000000.log"


def test_who_has_seen_enough_is_told_nothing() -> None:
    """As of `rayft dump FILE | head`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "actors.command.cli", "dump", str(LOG)]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize(("attributes", "control"), [(0x00, False), (0x10, False), (0x20, True), (0x30, True)])
def test_a_batch_is_a_control_batch_by_one_bit(codec: int, attributes: int, control: bool, tmp_path: Path) -> None:
    """Whatever its codec is, and whether or not it is of a transaction."""
    builder = Builder(timestamp_ms=0, attributes=attributes | codec)
    builder.append(b"\0\0\0\1", b"\0\0\0\0\0\0")
    path, said = tmp_path / f"{0:020}.log", io.StringIO()
    path.write_bytes(builder.build())
    dump(path, said, batches_only=True)
    (_, told) = said.getvalue().splitlines()
    assert (" control records 1 " in told, f"codec {codec}" in told) == (control, True)
