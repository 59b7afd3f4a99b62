"""A log of which everything is too old: nothing of it goes before the file is durable that says where it ends."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.node.roles.broker.lab import Lab

LAST, EMPTY = "t-0/00000000000000000000.log", "t-0/00000000000000000003.log"
PRODUCERS = "t-0/00000000000000000003.snapshot"


def test_the_last_segment_goes_as_soon_as_the_empty_one_is_durable() -> None:
    lab = Lab(1)
    lab.topic([1], configs={"retention.ms": "1000"})
    for _ in range(3):
        lab.produce(1, bytes(60))
    lab.settle()
    log, disk = lab.partition(1).log, lab.disks[1]
    is_durable = list[bool]()

    def look(operation: str, path: str) -> int:
        if (operation, path) == ("rename", LAST):
            is_durable.append(disk.files[EMPTY].durable is not None)
        return 0

    assert [one.base_offset for one in log.segments] == [0]
    disk.fault = look
    lab.pass_ms(35_000, 1000)
    assert [one.base_offset for one in log.segments] == [3] and log.log_start_offset == 3
    assert is_durable == [True]


def test_the_last_segment_goes_as_soon_as_it_is_durable_what_its_producers_have_sent() -> None:
    """Behind a power cut the next batch of an idempotent producer was out of order."""
    lab = Lab(1)
    lab.topic([1], configs={"retention.ms": "1000"})
    for number in range(3):
        lab.produce(1, bytes(60), producer_id=5, producer_epoch=0, base_sequence=number)
    lab.settle()
    disk, is_durable, held = lab.disks[1], list[bool](), list[Callable[[], None]]()
    runtime: Any = lab.nodes[1].runtime
    sync = runtime.sync

    def late(files: Sequence[Any], replacements: Sequence[Any], then: Callable[[Any], None], **more: Any) -> None:
        if more.get("runs"):
            held.append(lambda: sync(files, replacements, then, **more))
        else:
            sync(files, replacements, then, **more)

    def look(operation: str, path: str) -> int:
        if (operation, path) == ("rename", LAST):
            is_durable.append(PRODUCERS in disk.files and disk.files[PRODUCERS].durable is not None)
        return 0

    disk.fault = look
    runtime.sync = late
    lab.pass_ms(35_000, 1000)
    assert not is_durable
    while held:
        held.pop(0)()
        lab.pass_ms(2000, 1000)
    assert lab.partition(1).log.log_start_offset == 3 and is_durable == [True]
