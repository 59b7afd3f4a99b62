"""A log in the middle of a cleaning: a segment named `.swap` may be the only copy of its records."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.host.work.disk import LocalDisk
from actors.replay.logs.copies import end_of
from actors.replay.logs.files import partitions
from actors.replay.read_options import read_options, scan
from tests.unit.broker.log.cleaning.test_cleaner import COMPACT
from tests.unit.broker.log.logs import settings
from tests.unit.replay.logs.test_replaced import written
from tests.unit.replay.test_compacted import cleaned
from tests.unit.replay.written import batches


class Watched(LocalDisk):
    """A disk of which somebody sees each change of names."""

    look: Callable[[], None] = staticmethod(lambda: None)

    def rename(self, *names: Any) -> Any:
        done = super().rename(*names)
        self.look()
        return done

    def remove(self, *names: Any) -> Any:
        done = super().remove(*names)
        self.look()
        return done


def shown(root: Path) -> list[tuple[int, bytes]]:
    options = read_options({"path": str(root), "topics": "topic"})
    parts = [part for split in options.planned() for part in scan(options, split, ("offset", "key"))]
    return [row for part in parts for row in zip(part[0].to_pylist(), part[1].to_pylist(), strict=True)]


@pytest.mark.long
def test_the_last_record_of_each_key_is_shown_at_each_step_of_a_cleaning(tmp_path: Path) -> None:
    disk = Watched(str(tmp_path))
    log = PartitionLog(disk, "topic-0", settings(**{**COMPACT, "segment_bytes": 2000}), bytes(range(16)))
    written(log, 0, 120)
    whole = dict(shown(tmp_path))
    last = {key: offset for offset, key in whole.items()}
    swaps, steps = set[str](), 0

    def look() -> None:
        nonlocal steps
        steps += 1
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "topic-0", copy / "topic-0")
        swaps.update(one.name for one in copy.glob("*/*.log.swap"))
        found = shown(copy)
        assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
        assert found == [(offset, key) for offset, key in found if whole[offset] == key]
        assert {key: offset for offset, key in found} == last, f"step {steps}"
        (one,) = partitions(copy)
        assert end_of(one).offset == 360
        shutil.rmtree(copy)

    disk.look = look  # type: ignore[method-assign]
    cleaned(log)
    assert swaps and steps > 20


@pytest.mark.parametrize(
    ("files", "offsets"),
    [
        ({"0.log": (0, 30), "30.log": (30, 60), "0.log.swap": (0, 30)}, range(60)),
        ({"30.log": (30, 60), "0.log.swap": (0, 30)}, range(60)),
        ({"0.log": (0, 30), "60.log": (60, 70), "30.log.swap": (30, 60), "40.log": (40, 60)}, range(70)),
        ({"0.log.swap": (0, 30)}, range(30)),
        ({"0.log": (0, 30), "30.log": (30, 60), "0.log.swap": (0, 30), "30.log.cleaned": (30, 40)}, range(60)),
        ({"0.log": (0, 60), "30.log.swap": (40, 60), "0.log.cleaned": (0, 20)}, range(60)),
        (
            {"0.log.swap": (0, 60, 30), "30.log": (30, 60), "60.log": (60, 70)},
            [*range(10), *range(30, 40), *range(60, 70)],
        ),
    ],
)
def test_what_a_crash_has_left_of_a_cleaning(
    files: dict[str, tuple[int, ...]], offsets: Sequence[int], tmp_path: Path
) -> None:
    """Batches of ten begin at every tenth offset, or as far apart as a third number says. Where there is `.cleaned`, Apache
    Kafka may have split a segment: all of its parts count, or none."""
    folder = tmp_path / "topic-0"
    folder.mkdir()
    for name, (first, last, *step) in files.items():
        base, _, ending = name.partition(".")
        parts = [batches(one, one + 10, 10) for one in range(first, last, *(step or [10]))]
        (folder / f"{int(base):020}.{ending}").write_bytes(b"".join(parts))
    assert [offset for offset, _ in shown(tmp_path)] == list(offsets)
