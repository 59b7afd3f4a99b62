"""A bit that has rotted in a checkpoint of a log directory: nothing else covers it."""

import pytest

from actors.broker.log.directories.checkpoints import HIGH_WATERMARKS, LOG_STARTS
from actors.wire.errors import ErrorCode
from fastpath.records.batch import records
from tests.unit.node.roles.broker.lab import Lab, code, outcome


def values(lab: Lab, offset: int) -> list[bytes | None]:
    """The records of `t` from an offset on."""
    found = list[bytes | None]()
    while data := outcome(lab.fetch(1, offset + len(found))).records:
        found += [record.value for record in records(data)]
    return found


def stopped(*, clean: bool, deletes: bool = True) -> Lab:
    """A broker that has stopped, and of whose three records the first one was deleted."""
    lab = Lab(1)
    lab.topic([1])
    for number in range(3):
        lab.produce(1, b"%d" % number)
    if deletes:
        lab.partition(1).log.delete_records(1)
    lab.pass_ms(65_000, 1_000)
    if clean:
        lab.nodes[1].broker.shutdown()
        lab.settle()
    return lab


def started(lab: Lab) -> None:
    lab.start(1)
    lab.settle()
    lab.change([1], 1)
    lab.settle()


@pytest.mark.parametrize("clean", [False, True])
def test_a_start_above_the_high_watermark_deletes_no_log(clean: bool) -> None:
    """A log that ends below its start is removed when it is opened: one bit took all records of a replica."""
    for bit in range(8):
        lab = stopped(clean=clean)
        file = lab.disks[1].files[LOG_STARTS]
        assert bytes(file.data) == b"0\n1\nt 0 1\n"
        file.data[-2] ^= 1 << bit
        started(lab)
        assert values(lab, 1) == [b"1", b"2"] or bytes(file.data) == b"0\n1\nt 0 3\n", bytes(file.data)
        assert code(lab.produce(1, b"3")) is ErrorCode.NONE
        assert lab.partition(1).log.log_end_offset == 4
        said = [line for line in lab.nodes[1].log.lines if "above its high watermark" in line]
        assert len(said) == (bytes(file.data) in (b"0\n1\nt 0 5\n", b"0\n1\nt 0 9\n"))


@pytest.mark.parametrize("clean", [False, True])
def test_what_was_deleted_stays_deleted(clean: bool) -> None:
    lab = stopped(clean=clean)
    assert bytes(lab.disks[1].files[HIGH_WATERMARKS].data) == b"0\n1\nt 0 3\n"
    started(lab)
    assert lab.partition(1).log.log_start_offset == 1 and values(lab, 1) == [b"1", b"2"]
