"""When a follower asks its leader for more."""

from actors.wire.errors import ErrorCode
from tests.unit.node.roles.broker.lab import Lab, code
from tests.unit.node.roles.broker.replication.test_replication import content


def test_a_leader_whose_batch_is_damaged_is_not_asked_without_end() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.split.add(frozenset((1, 2)))
    assert code(lab.produce(1, b"a", acks=1)) is ErrorCode.NONE
    path = lab.partition(1).log.segments[0].path(".log")
    lab.disks[1].corrupt(path, 65)
    lab.split.clear()
    before = lab.fetches
    lab.pass_ms(5000)
    assert 2 <= lab.fetches - before < 100 and content(lab, 2) == []
    lab.disks[1].corrupt(path, 65)
    lab.pass_ms(2000)
    assert content(lab, 2) == [b"a"]
