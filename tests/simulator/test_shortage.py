"""A broker whose room or descriptors run short while it cuts or opens a log: it goes on by itself when they are back."""

import errno
from itertools import cycle

import pytest

from tests.simulator.one_topic import DIRECTORY, OneTopic
from tests.simulator.test_cut_and_killed import prefer
from tests.simulator.world import Process
from tests.unit.broker.log.logs import content

SHORT_OF = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
ENDINGS = (".log", ".index", ".timeindex", ".snapshot", ".deleted", ".txnindex", ".swap", ".cleaned")
SHORT_MS = 4_000


def shorten(process: Process, operations: frozenset[str], skip: int) -> list[str]:
    """Let operations on the files of the log find no room, but for the first ones. Returns which have found none."""
    numbers, found, left = cycle(SHORT_OF), list[str](), [skip]

    def fault(operation: str, path: str) -> int:
        if not path.startswith(f"{DIRECTORY}/") or not path.endswith(ENDINGS) or operation not in operations:
            return 0
        left[0] -= 1
        if left[0] >= 0:
            return 0
        found.append(f"{operation} {path}")
        return next(numbers)

    process.disk.fault = fault
    return found


def goes_on(t: OneTopic, process: Process, life: int) -> None:
    """Room is back, and the replica with it, in the same process."""
    assert process.stopped_with is None and process.life == life
    assert not process.node.broker.logs.directories.offline_count
    process.disk.fault = None
    t.until(lambda: t.isr == {1, 2, 3}, 15_000)
    t.produce(b"when all is over")
    t.world.run_for(1_000)
    assert process.stopped_with is None and process.life == life
    assert not process.node.broker.logs.directories.offline_count
    assert content(t.log(2)) == content(t.log(t.leader)), "the replicas differ"


@pytest.mark.parametrize("skip", [0, 1, 3, 6])
@pytest.mark.parametrize("operation", ["rename", "remove", "truncate", "open", "exists", "read"])
def test_a_follower_that_cuts_its_log_waits_for_room_and_goes_on(operation: str, skip: int) -> None:
    t = OneTopic([1, 2, 3], {"internal.segment.bytes": "300", "flush.ms": "500"})
    first, second = (t.cluster.brokers[id] for id in (1, 2))
    first.kill()
    t.until(lambda: t.leader == 2)
    first.start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.world.run_for(2_000)
    for number in range(4):
        t.produce(b"%d" % number * 20, producer_id=7, producer_epoch=0, base_sequence=number)
    first.freeze()
    for number in range(4, 16):
        t.send(b"tail%d" % number * 5, acks=1, producer_id=7, producer_epoch=0, base_sequence=number)
    t.world.run_for(600)
    log, life = t.log(2), second.life
    assert log.log_end_offset == 16 and len(log.segments) > 4 and len(log.snapshots.offsets) > 2
    found = shorten(second, frozenset({operation}), skip)
    prefer(t)
    t.world.run_for(100)
    first.thaw()
    t.world.run_for(SHORT_MS)
    assert t.leader == 1 and (found or skip or operation in ("open", "read")), "nothing was short"
    goes_on(t, second, life)
    assert log is t.log(2) and log.torn is None and log.refusing is None


@pytest.mark.parametrize("operation", ["remove", "truncate", "open", "read"])
def test_a_replica_that_cannot_be_opened_now_is_opened_when_there_is_room(operation: str) -> None:
    """It does not wait for the next start of its broker."""
    t = OneTopic([1, 2, 3], {"internal.segment.bytes": "500", "flush.ms": "500"})
    for number in range(12):
        t.produce(b"%d" % number * 20, producer_id=7, producer_epoch=0, base_sequence=number)
    t.world.run_for(2_000)
    process = t.cluster.brokers[2]
    process.kill()
    (*_, last) = sorted(path for path in process.disk.files if path.startswith(DIRECTORY) and path.endswith(".log"))
    process.disk.files[last].data += bytes(10)  # torn: it is cut
    process.disk.files[last.replace(".log", ".index")].data += bytes(3)
    leftover = process.disk.open(f"{DIRECTORY}/{'0' * 20}.index.cut.deleted", create=True)
    leftover.append((bytes(8),))
    found = shorten(process, frozenset({operation}), 0)
    process.start()
    life = process.life
    t.world.run_for(SHORT_MS)
    assert found and 2 not in t.isr
    assert process.node.broker.logs.claims.unopened
    goes_on(t, process, life)
    assert not process.node.broker.logs.claims.unopened


def test_files_that_wait_to_be_opened_go_when_another_topic_has_their_name() -> None:
    t = OneTopic([1, 2, 3], {"internal.segment.bytes": "500", "file.delete.delay.ms": "100"})
    t.produce(b"of the topic that goes")
    process = t.cluster.brokers[2]
    process.kill()
    shorten(process, frozenset({"open", "read"}), 0)
    process.start()
    t.world.run_for(SHORT_MS)
    assert process.node.broker.logs.claims.unopened
    process.disk.fault = None
    t.drop()
    t.create([1, 2, 3])
    t.until(lambda: t.isr == {1, 2, 3}, 20_000)
    t.produce(b"of the other one")
    t.world.run_for(2_000)
    assert content(t.log(2)) == content(t.log(t.leader)) and not process.node.broker.logs.claims.unopened
