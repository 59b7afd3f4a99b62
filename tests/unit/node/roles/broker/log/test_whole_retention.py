"""A log of which everything is too old: nothing of it goes before the file is durable that says where it ends."""

from tests.unit.node.roles.broker.lab import Lab

LAST, EMPTY = "t-0/00000000000000000000.log", "t-0/00000000000000000003.log"


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
