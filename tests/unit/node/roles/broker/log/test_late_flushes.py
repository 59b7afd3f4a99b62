"""A log that was cut while it was being flushed, and a device that fails where the flush's small files are to go again."""

import errno

from actors.broker.log.directories.directory import CLEAN_SHUTDOWN
from actors.broker.log.truncation import truncate_to
from tests.unit.node.roles.broker.lab import Lab

CONFIGS = {"internal.segment.bytes": "200"}


def written(records: int) -> Lab:
    """A broker alone, with so many records of one producer, each in a segment of its own."""
    lab = Lab(1)
    lab.topic([1], configs=CONFIGS)
    write(lab, range(records))
    lab.settle()
    lab.nodes[1].hold_syncs = True
    return lab


def write(lab: Lab, numbers: range) -> None:
    for number in numbers:
        lab.produce(1, bytes(60), producer_id=7, producer_epoch=0, base_sequence=number)


def cut_and_fail(lab: Lab) -> None:
    """The log is cut while it is being flushed; then the flush ends, and what it wrote cannot be removed."""
    node = lab.nodes[1]
    truncate_to(lab.partition(1).log, 2)
    held, node.held_syncs, node.hold_syncs = node.held_syncs, [], False
    lab.disks[1].fault = lambda operation, path: errno.EIO if operation == "remove" else 0
    for one in held:
        one()
    lab.settle()
    assert node.stopped is not None and "remove fails" in node.stopped.sentence


def test_a_device_that_fails_there_ends_a_broker_that_has_no_other() -> None:
    lab = written(3)
    for number in range(3, 6):
        write(lab, range(number, number + 1))
        lab.settle()
    assert lab.nodes[1].held_syncs, "what was rolled is being flushed"
    cut_and_fail(lab)


def test_a_device_that_fails_there_in_a_clean_stop_is_what_the_stop_says() -> None:
    """No stop ends in a traceback, and none is marked as clean."""
    lab = written(6)
    lab.nodes[1].broker.shutdown()
    while not lab.nodes[1].held_syncs:
        lab.turn()
    cut_and_fail(lab)
    assert CLEAN_SHUTDOWN not in lab.disks[1].files
