"""Batches decoded once into a file: read by whoever maps it, with no second decode and nothing in Arrow's pool."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from actors.replay import shared
from actors.replay.read_options import read_options
from tests.unit.replay.written import node

ROOT = Path(__file__).parents[3]


def test_all_rows_in_order_and_in_parts(tmp_path: Path) -> None:
    path = node(tmp_path / "node", {"orders": 2}, 500)
    handle = shared.write(
        read_options({"path": str(path), "columns": "partition,offset", "chunkBytes": "2000"}), tmp_path / "x.arrow"
    )
    found = shared.attach(handle)
    assert found.schema.names == ["partition", "offset"] and found.parts >= shared.PARTS_MIN
    rows = pa.Table.from_batches([batch for part in range(found.parts) for batch in found.batches(part)])
    assert rows.to_pydict() == {
        "partition": [0] * 500 + [1] * 500,
        "offset": [*range(500), *range(500)],
    }
    assert sorted(one.name for one in tmp_path.iterdir()) == ["node", "x.arrow"], "nothing temporary is left"


def test_readers_decode_nothing_and_allocate_nothing(tmp_path: Path) -> None:
    path = node(tmp_path / "node", {"orders": 1}, 20_000, 500)
    handle = shared.write(read_options({"path": str(path)}), tmp_path / "x.arrow")
    code = (
        "import sys, pyarrow as pa\n"
        "from actors.replay import shared, source\n"
        "source.read = None  # a decode would fail\n"
        f"found = shared.attach({handle!r})\n"
        "before = pa.total_allocated_bytes()\n"
        "batches = [batch for part in range(found.parts) for batch in found.batches(part)]\n"
        "print(sum(batch.num_rows for batch in batches), pa.total_allocated_bytes() - before, 'pyspark' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["20000", "0", "False"], ran.stderr


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    path = node(tmp_path / "node", {"orders": 1}, 10)
    handle = shared.write(read_options({"path": str(path), "endOffset": "4"}), tmp_path / "x.arrow")
    first = shared.attach(handle)
    assert shared.attach(handle) is first
    assert sum(batch.num_rows for batch in first.batches(0)) == 4
    shared.write(read_options({"path": str(path)}), tmp_path / "x.arrow")
    assert sum(batch.num_rows for batch in shared.attach(handle).batches(0)) == 10


def test_a_log_that_is_damaged_leaves_no_file(tmp_path: Path) -> None:
    path = node(tmp_path / "node", {"orders": 1}, 100)
    file = path / "orders-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="CRC"):
        shared.write(read_options({"path": str(path)}), tmp_path / "x.arrow")
    assert [one.name for one in tmp_path.iterdir()] == ["node"]


def test_a_file_whose_offsets_were_altered_is_refused(tmp_path: Path) -> None:
    """Spark reads what it is given without bounds checks."""
    path = node(tmp_path / "node", {"orders": 1}, 100)
    handle = shared.write(read_options({"path": str(path), "columns": "value"}), tmp_path / "x.arrow")
    made = tmp_path / "x.arrow"
    (whole,) = list(shared.attach(handle).batches(0))
    offsets = whole.column(0).buffers()[1].to_pybytes()[: 4 * 101]
    data = bytearray(made.read_bytes())
    assert data.count(offsets) == 1
    at = data.index(offsets) + 4 * 50
    data[at : at + 4] = (1 << 30).to_bytes(4, "little")
    made.write_bytes(data)
    os.utime(made, (1, 1))
    with pytest.raises(ValueError, match=r"x\.arrow is damaged: .* Write it again with shared\.write"):
        list(shared.attach(handle).batches(0))


@pytest.mark.parametrize("cut", ["nothing", "footer", "body"])
def test_a_file_that_was_cut_or_whose_batches_lie_elsewhere_says_what_to_do(tmp_path: Path, cut: str) -> None:
    """Arrow has errors of several kinds for these."""
    path = node(tmp_path / "node", {"orders": 1}, 100)
    handle = shared.write(read_options({"path": str(path), "columns": "value"}), tmp_path / "x.arrow")
    made = tmp_path / "x.arrow"
    whole = made.read_bytes()
    footer = whole[-10 - int.from_bytes(whole[-10:-6], "little") :]
    kept = {"nothing": b"", "footer": whole[: len(whole) // 2], "body": b"ARROW1\0\0" + footer}
    made.write_bytes(kept[cut])
    with pytest.raises(ValueError, match=r"x\.arrow is damaged: .* Write it again with shared\.write"):
        list(shared.attach(handle).batches(0))


def test_only_its_owner_reads_a_shared_file(tmp_path: Path) -> None:
    path = node(tmp_path / "node", {"orders": 1}, 10)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    (tmp_path / f".x.arrow.{os.getpid()}").symlink_to(elsewhere)
    shared.write(read_options({"path": str(path)}), tmp_path / "x.arrow")
    assert (tmp_path / "x.arrow").stat().st_mode & 0o777 == 0o600 and elsewhere.read_text() == "kept"


@pytest.mark.parametrize("handle", ["", "file:", "x.arrow", "http://x"])
def test_text_that_is_no_handle(handle: str) -> None:
    with pytest.raises(ValueError, match="write file:<path> or ray:"):
        shared.attach(handle)


def test_a_holder_that_nobody_waits_for_any_longer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from actors.replay import ray_cache

    fake = MagicMock()
    fake.get.side_effect, fake.exceptions.RayError = KeyboardInterrupt, RuntimeError
    monkeypatch.setattr(ray_cache, "ray", fake)
    with pytest.raises(KeyboardInterrupt):
        ray_cache.share(path="/var/rayft/broker-1")
    fake.kill.assert_called_once_with(fake.remote()().options().remote())
