"""A full disk: the broker waits for room, and then makes durable what it could not before."""

from tests.simulator.one_topic import DIRECTORY, OneTopic


def test_a_flush_waits_for_room_for_the_small_files_beside_a_log():
    t = OneTopic()
    process = t.cluster.brokers[t.leader]
    process.disk.replace_full = lambda path: path.startswith(f"{DIRECTORY}/")
    for number in range(12):
        t.produce(b"value" * 12, producer_id=77, producer_epoch=0, base_sequence=number)
    t.world.run_for(5_000)
    log = t.log(t.leader)
    assert process.stopped_with is None
    assert len(log.segments) > 1 and log.recovery_point == 0 and not log.snapshots
    process.disk.replace_full = None
    t.world.run_for(2_000)
    assert log.recovery_point >= log.segments[-1].base_offset == log.snapshots[-1]
    assert t.file(t.leader, f"{DIRECTORY}/leader-epoch-checkpoint") == log.epochs.encode()
