"""What a killed broker had taken out of its logs goes behind the next start, and nothing waits for it. That some have lost
their files is durable before anything comes into them."""

from collections.abc import Iterable

import pytest

from actors.broker.log.directories.checkpoints import RECOVERY_POINTS
from actors.broker.log.segment import Job
from actors.node.roles.broker.log import retired_files
from actors.wire.errors import ErrorCode
from tests.unit.node.roles.broker.lab import Lab, code

PARTITIONS = 40


def test_what_a_kill_has_left_goes_in_threads_some_logs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(1)
    lab.topic([1], partitions=PARTITIONS)
    for number in range(PARTITIONS):
        lab.produce(1, bytes(60), number=number)
    lab.settle()
    lab.pass_ms(10_000, 1000)
    disk, seen, at_once = lab.disks[1], list[str](), list[int]()
    left = [f"t-{number}/{7:020d}.log.front.deleted" for number in range(PARTITIONS)]
    lab.crash(1)
    for name in left:
        disk.open(name, create=True)

    def look(operation: str, path: str) -> int:
        if operation in ("settle", "remove") and path.startswith("t-"):
            assert at_once, "the loop waits for the disk"
            seen.append(operation)
        return 0

    each = retired_files._each

    def counted(jobs: Iterable[Job]) -> None:
        jobs = list(jobs)
        at_once.append(len(jobs))
        each(jobs)

    monkeypatch.setattr(retired_files, "_each", counted)
    disk.fault = look
    lab.start(1)
    lab.settle()
    assert seen == ["settle", "remove"] * PARTITIONS and not any(map(disk.found, left))
    assert sum(at_once) == PARTITIONS and max(at_once) <= retired_files.AT_A_TIME


def test_a_log_of_which_all_files_are_lost_is_flushed_when_it_is_opened() -> None:
    """Until the checkpoints forget how far it was durable nothing can be appended that ends in front of that."""
    lab = Lab(1)
    lab.topic([1])
    for number in range(3):
        lab.produce(1, b"%d" % number)
    lab.pass_ms(65_000, 1_000)
    disk = lab.disks[1]
    assert bytes(disk.files[RECOVERY_POINTS].data) == b"0\n1\nt 0 3\n"
    lab.crash(1)
    for path in [one for one in disk.files if one.startswith("t-0/0")]:
        disk.remove(path)
    lab.start(1)
    lab.settle()
    lab.change([1], 1)
    lab.settle()
    assert bytes(disk.files[RECOVERY_POINTS].data) == b"0\n0\n"
    assert code(lab.produce(1, b"3")) is ErrorCode.NONE
    assert lab.partition(1).log.log_end_offset == 1
