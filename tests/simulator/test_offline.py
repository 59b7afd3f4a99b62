"""Replicas whose files cannot be used: their directory failed, their files were removed, or the disk was replaced.

Also a leader that has no room, in whose place another member of the ISR leads.
"""

import errno
from typing import Any

import pytest

from actors.broker.log.directories.directory import CLEAN_SHUTDOWN
from actors.controller.partitions import elect_leaders
from actors.node.runtime.storage import Storage
from actors.ports import DiskFailed
from actors.settings.node_config import node_config
from actors.wire.messages import message
from tests.numbers import numbers
from tests.simulator.cluster import CLUSTER_ID, directory_id
from tests.simulator.disk import VirtualDisk
from tests.simulator.one_topic import DIRECTORY, OneTopic
from tests.simulator.planted import planted
from tests.simulator.world import Process

STORAGE_ERROR = 56


def metadata_first(t: OneTopic, id: int) -> list[VirtualDisk]:
    """Start a broker again, on its disk for the metadata log and two new ones for partitions."""
    process = t.cluster.brokers[id]
    t.stop(id)
    disks = [VirtualDisk(), VirtualDisk()]
    given = dict(process.config.given)
    given.pop("log.dir", None)
    given |= {"metadata.log.dir": "meta", "log.dirs": "one,two"}
    process.config = node_config(given)
    ids = [directory_id(100 * id + number) for number in range(3)]
    process._storage = lambda first: Storage(CLUSTER_ID, "drafts", 2, [first, *disks], ids, ["meta", "one", "two"])
    for path in [path for path in process.disk.files if path.startswith(f"{DIRECTORY}/")]:
        del process.disk.files[path]
    process.start()
    t.until(lambda: id in t.isr)
    t.world.run_for(6_000)
    return disks


def in_one_of_two(replicas: list[int]) -> tuple[OneTopic, VirtualDisk]:
    """A partition with one record, and the directory that holds broker 1's replica."""
    t = OneTopic(replicas=replicas, settings={})
    disks = metadata_first(t, 1)
    t.produce(b"before")
    t.world.run_for(100)
    (home,) = [disk for disk in disks if disk.exists(DIRECTORY)]
    return t, home


def move_to(t: OneTopic, id: int) -> None:
    """Make the preferred replica leader."""
    kind = message("ElectLeadersRequest")
    wanted = [kind.TopicPartitions(topic="t", partitions=[0])]
    t.client.call("b2", "ElectLeaders", 2, kind(election_type=elect_leaders.PREFERRED, topic_partitions=wanted))
    t.until(lambda: t.leader == id)
    t.world.run_for(1_000)


def led_by_the_first(settings: dict[str, str]) -> tuple[OneTopic, list[VirtualDisk], VirtualDisk]:
    """A topic with three replicas and a record, led by broker 1: the topic, that broker's disks, and the one that has it."""
    t = OneTopic(replicas=[1, 2, 3], settings=settings)
    disks = metadata_first(t, 1)
    move_to(t, 1)
    t.produce(b"before")
    (home,) = [disk for disk in disks if disk.exists(DIRECTORY)]
    return t, disks, home


def role(process: Process) -> Any:
    assert process.node is not None and process.node.broker is not None
    return process.node.broker


def elect(t: OneTopic, at: str) -> int:
    """Ask for an unclean election. Returns its error."""
    kind = message("ElectLeadersRequest")
    wanted = [kind.TopicPartitions(topic="t", partitions=[0])]
    request = kind(election_type=elect_leaders.UNCLEAN, topic_partitions=wanted)
    reply = t.client.call(at, "ElectLeaders", 2, request)
    return int(reply.replica_election_results[0].partition_result[0].error_code)


@pytest.mark.parametrize("what", ["append", "sync"])
def test_a_failed_directory_goes_offline_and_the_broker_goes_on(what: str) -> None:
    t, disks, home = led_by_the_first({"flush.messages": "1"} if what == "sync" else {})
    process = t.cluster.brokers[1]
    if what == "append":
        home.append_fails = lambda path: True
    else:
        home.sync_fails = lambda path: True
    answer = t.send(b"during", acks=1)
    assert answer is None or what == "sync" or answer.error_code == STORAGE_ERROR
    t.until(lambda: t.leader in (2, 3) and 1 not in t.isr and t.partition(t.leader).leads)
    t.produce(b"after")
    assert process.alive and process.stopped_with is None
    assert role(process).replicas.get("t", 0) is None
    reply = t.client.call("b1", "DescribeLogDirs", 4, message("DescribeLogDirsRequest")(topics=None))
    bad = "one" if home is disks[0] else "two"
    assert {one.log_dir: one.error_code for one in reply.results} == {"one": 0, "two": 0} | {bad: STORAGE_ERROR}
    assert numbers(process.node.metrics())["kafka_log_logmanager_offlinelogdirectorycount"] == 1
    (other,) = [disk for disk in disks if disk is not home]
    other.append_fails = lambda path: True
    t.drop()
    t.create([1, 2, 3])
    if t.leader == 1:
        t.send(b"on the other one", acks=1)
    t.until(lambda: process.stopped_with is not None)  # the last one


def test_a_directory_that_cannot_say_how_much_room_it_has_goes_offline() -> None:
    """The directory was said to fail (KAFKA_STORAGE_ERROR) by a broker that went on with it: seed 6000015."""
    t, _, home = led_by_the_first({})
    process = t.cluster.brokers[1]
    home.fail(reads=False)
    t.client.call("b1", "DescribeLogDirs", 4, message("DescribeLogDirsRequest")(topics=None))
    assert role(process).logs.directories.failed(home) and role(process).replicas.get("t", 0) is None
    t.until(lambda: t.leader in (2, 3) and 1 not in t.isr)
    assert process.alive and process.stopped_with is None


@pytest.mark.parametrize("cached", [True, False])
def test_a_directory_that_cannot_be_read_goes_offline(cached: bool) -> None:
    """Before, its replicas were given up one by one as damaged, and the broker stopped for each."""
    t, _, home = led_by_the_first({})
    process = t.cluster.brokers[1]

    def failing(path: str, position: int, size: int) -> bool:
        raise DiskFailed(errno.EIO, "read failed", path)

    home.unreadable = failing
    home.cold = failing if cached else lambda path, position, size: True
    answer = t.fetch()
    assert answer is None or answer.error_code == STORAGE_ERROR
    t.until(lambda: t.leader in (2, 3) and 1 not in t.isr and t.partition(t.leader).leads)
    t.produce(b"after")
    t.world.run_for(10_000)
    assert process.alive and process.stopped_with is None
    assert role(process).replicas.get("t", 0) is None and role(process).logs.directories.failed(home)


@pytest.mark.parametrize(("number", "offline"), [(errno.EIO, True), (errno.EROFS, True), (errno.ENOTEMPTY, False)])
def test_a_directory_whose_device_fails_in_a_job_goes_offline(number: int, offline: bool) -> None:
    t, home = in_one_of_two([1, 2, 3])

    def unlink() -> None:
        raise DiskFailed(number, "remove failed", "old")

    logs = role(t.cluster.brokers[1]).logs
    logs.retired.unlink(home, [unlink])
    t.world.run_for(5_000)
    assert t.cluster.brokers[1].alive and logs.directories.failed(home) is offline
    assert (1 in t.isr) is not offline


def test_a_broker_survives_that_it_cannot_rename_a_deleted_partition() -> None:
    t, home = in_one_of_two([1, 2, 3])
    home.failed = True
    t.client.call("b2", "DeleteTopics", 5, message("DeleteTopicsRequest")(topic_names=["t"], timeout_ms=5_000))
    t.world.run_for(5_000)
    process = t.cluster.brokers[1]
    assert process.alive and process.stopped_with is None and role(process).logs.directories.failed(home)
    assert home.exists(DIRECTORY), "its files wait for the next start"


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_broker_that_cannot_open_a_log_starts_without_it(number: int) -> None:
    """Before, this was taken for a failure of the metadata log, and the broker stopped at each start. A log that cannot
    be opened for another reason than its device leaves the others of its directory online."""
    t, home = in_one_of_two([1, 2, 3])
    process = t.cluster.brokers[1]
    t.stop(1)

    def failing(path: str, position: int, size: int) -> bool:
        if path.startswith(f"{DIRECTORY}/0"):  # a segment
            raise DiskFailed(number, "read failed", path)
        return False

    home.unreadable = failing
    process.start()
    t.until(lambda: process.node is not None and role(process).applier._opened)
    t.world.run_for(6_000)
    assert process.alive and process.stopped_with is None
    assert role(process).logs.directories.failed(home) is (number == errno.EIO)
    assert role(process).replicas.get("t", 0) is None and t.isr == {2, 3}
    assert home.exists(DIRECTORY), "its files wait for the next start"
    process.node.shutdown()
    t.until(lambda: not process.alive)
    assert not home.exists(CLEAN_SHUTDOWN), "nobody has seen whether that log is whole"
    home.work()
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})


def test_a_follower_whose_directory_failed_stays_out_of_the_isr() -> None:
    """The leader knew the follower as caught up, and proposed it again after every heartbeat that removed it."""
    t, home = in_one_of_two([2, 1, 3])
    home.fail(reads=False)
    t.until(lambda: 1 not in t.isr)  # the next checkpoint meets the failure
    changes = t.image.leader_epoch(t._row)
    for _ in range(60):
        t.world.run_for(100)
        assert t.isr == {2, 3}
    assert t.image.leader_epoch(t._row) == changes
    t.stop(1)
    home.work()
    t.cluster.brokers[1].start()
    t.until(lambda: t.isr == {1, 2, 3})


def test_r858_01_a_broker_whose_directory_failed_leads_nothing_of_it_and_keeps_the_others() -> None:
    """Partitions that nobody writes to, so that no failed append tells their leader."""
    t, _, home = led_by_the_first({})
    kind = message("CreateTopicsRequest")
    row = kind.CreatableReplicaAssignment
    assigned = [row(partition_index=number, broker_ids=[1, 2, 3]) for number in range(6)]
    many = kind.CreatableTopic(name="many", num_partitions=-1, replication_factor=-1, assignments=assigned)
    assert t.client.call("b1", "CreateTopics", 7, kind(topics=[many])).topics[0].error_code == 0
    t.world.run_for(2_000)
    process = t.cluster.brokers[1]
    replicas = [role(process).replicas.get("many", number) for number in range(6)]
    there = {one.number for one in replicas if one.log.disk is home}
    assert 0 < len(there) < 6, "some are in the other directory"
    home.append_fails = lambda path: True
    t.send(b"it is met", acks=1)
    image = t.image
    rows = {image.number(one): one for one in image.topic_partitions(image.topic("many"))}
    t.until(lambda: all((t.image.leader(one) != 1) == (number in there) for number, one in rows.items()))
    t.until(lambda: all((1 not in t.image.isr(one)) == (number in there) for number, one in rows.items()))
    assert process.alive and process.stopped_with is None


def test_a_directory_that_is_unmounted_goes_offline_as_a_whole() -> None:
    """A checkpoint that was under way is in the place where it was, which is not empty. Nothing is given up as removed."""
    t = OneTopic(replicas=[1, 2, 3], settings={})
    disks = metadata_first(t, 1)
    t.drop()
    t.create([1])
    t.produce(b"before")
    t.world.run_for(6_000)
    (home,) = [disk for disk in disks if disk.exists(DIRECTORY)]
    process = t.cluster.brokers[1]
    home.unmount()
    home.replace("replication-offset-checkpoint", b"0\n0\n")
    t.produce(b"to the open file")
    t.until(lambda: role(process).logs.directories.failed(home), 30_000)
    assert process.alive and process.stopped_with is None
    t.until(lambda: t.leader == -1)
    t.world.run_for(12_000)
    process.kill()
    home.mount()
    process.start()
    t.until(lambda: t.leader == 1 and t.partition(1).leads)
    t.world.run_for(2_000)
    assert list(t.read().values()) == [b"before", b"to the open file"]


@pytest.mark.parametrize("written", ["scrub-checkpoint", "rayft.kept-room", f"{DIRECTORY}/leader-epoch-checkpoint"])
def test_what_is_written_where_a_directory_was_does_not_hide_that_it_is_unmounted(written: str) -> None:
    t = OneTopic(replicas=[1, 2, 3], settings={})
    disks = metadata_first(t, 1)
    process = t.cluster.brokers[1]
    t.stop(1)
    for disk in disks:
        disk.replace("meta.properties", b"version=1")
    process.start()
    t.until(lambda: 1 in t.isr)
    t.drop()
    t.create([1])
    t.produce(b"before")
    t.world.run_for(6_000)
    (home,) = [disk for disk in disks if disk.exists(DIRECTORY)]
    home.unmount()
    home.replace(written, b"0\n0\n")
    t.until(lambda: role(process).logs.directories.failed(home), 30_000)
    assert process.alive and process.stopped_with is None


def test_a_partition_that_is_removed_from_a_formatted_directory_is_offline_alone() -> None:
    t = OneTopic(replicas=[1, 2, 3], settings={})
    disks = metadata_first(t, 1)
    process = t.cluster.brokers[1]
    t.stop(1)
    for disk in disks:
        disk.replace("meta.properties", b"version=1")
    process.start()
    t.until(lambda: 1 in t.isr)
    t.produce(b"before")
    t.world.run_for(6_000)
    (home,) = [disk for disk in disks if disk.exists(DIRECTORY)]
    for path in [path for path in home.files if path.startswith(f"{DIRECTORY}/")]:
        del home.files[path]
    t.until(lambda: 1 not in t.isr, 30_000)
    assert not role(process).logs.directories.failed(home)


def test_a_replica_whose_files_are_removed_goes_offline_and_does_not_come_back_empty() -> None:
    t = OneTopic(replicas=[1], settings={})
    t.produce(b"value")
    t.world.run_for(10_000)
    process = t.cluster.brokers[1]
    process.kill()
    t.until(lambda: t.leader == -1)
    process.start()
    t.until(lambda: t.leader == 1 and role(process).replicas.get("t", 0) is not None)
    assert t.log(1).log_end_offset == 1 and not role(process).replicas.offline, "with its files it is as it was"
    t.world.run_for(10_000)
    for path in [path for path in process.disk.files if path.startswith(f"{DIRECTORY}/")]:
        del process.disk.files[path]
    t.until(lambda: t.leader == -1, 12_000)
    assert t.isr == {1}
    t.world.run_for(6_000)
    for _ in range(2):
        process.kill()
        process.start()
        t.world.run_for(40_000)
        assert t.leader == -1 and t.isr == {1}
        assert role(process).replicas.get("t", 0) is None
    t.drop()
    t.create([1])
    t.produce(b"anew")


def test_a_replica_whose_files_are_removed_is_fetched_again_from_another() -> None:
    t = OneTopic(replicas=[1, 2, 3], settings={})
    t.produce(b"value")
    t.world.run_for(10_000)
    process = t.cluster.brokers[1]
    for path in [path for path in process.disk.files if path.startswith(f"{DIRECTORY}/")]:
        del process.disk.files[path]
    t.until(lambda: process.stopped_with is not None, 30_000)
    assert process.stopped_with[1].startswith("t-0 was removed here and was given up")
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})
    assert t.log(1).log_end_offset == 1


def test_a_log_whose_names_have_changed_in_part_is_not_given_up_as_removed() -> None:
    """A name that is not found there is one that the broker has given itself."""
    t = OneTopic(replicas=[1, 2, 3], settings={})
    t.produce(b"value")
    t.world.run_for(10_000)
    process = t.cluster.brokers[2]
    (path,) = [path for path in process.disk.files if path.startswith(f"{DIRECTORY}/") and path.endswith(".log")]
    process.disk.files[f"{path}.deleted"] = process.disk.files.pop(path)
    t.log(2).tear(OSError(errno.EIO, "the device failed on the way back"))
    t.world.run_for(40_000)
    assert process.stopped_with is None
    process.kill()
    process.start()
    t.produce(b"more")
    t.until(lambda: t.isr == {1, 2, 3})
    assert t.log(2).log_end_offset == 2


def test_the_last_member_of_an_isr_does_not_lead_with_an_empty_disk() -> None:
    t = OneTopic(replicas=[1, 2], settings={"min.insync.replicas": "1"})
    t.produce(b"value")
    t.world.run_for(6_000)
    t.cluster.brokers[2].kill()
    t.until(lambda: t.isr == {1})
    process = t.cluster.brokers[1]
    process.kill()
    t.until(lambda: t.leader == -1)
    process.disk = VirtualDisk()
    process.disk.id = directory_id(77)
    process.start()
    t.cluster.brokers[2].start()
    t.world.run_for(60_000)
    assert t.leader == -1 and t.isr == {1}, "as long as nobody says otherwise"
    process.kill()
    process.start()
    t.world.run_for(30_000)
    assert t.leader == -1 and t.isr == {1}, "and after one more start"
    assert elect(t, "b2") == 0
    t.until(lambda: t.leader == 2 and t.isr == {1, 2})
    assert t.log(1).log_end_offset == t.log(2).log_end_offset == 1


def test_an_empty_partition_leads_again_after_a_restart() -> None:
    t = OneTopic(replicas=[1], settings={})
    t.world.run_for(10_000)
    t.cluster.brokers[1].kill()
    t.world.run_for(1_000)
    t.cluster.brokers[1].start()
    t.until(lambda: t.leader == 1)
    t.world.run_for(1_000)
    t.produce(b"value")


def test_a_leader_without_room_gives_its_leadership_away() -> None:
    t = OneTopic(replicas=[1, 2, 3], settings={})
    t.produce(b"before")
    disk = t.cluster.brokers[1].disk
    disk.room = 0
    assert t.send(b"refused").error_code == STORAGE_ERROR
    t.until(lambda: t.leader in (2, 3), 1_000)
    assert t.isr == {1, 2, 3}, "what is committed is there"
    t.world.run_for(1_000)
    assert t.send(b"after", acks=1).error_code == 0
    t.until(lambda: 1 not in t.isr, 60_000)
    t.produce(b"and committed")
    disk.room = None
    t.until(lambda: 1 in t.isr, 60_000)
    move_to(t, 1)
    t.produce(b"back")
    assert list(t.read().values()) == [b"before", b"after", b"and committed", b"back"]


def test_leaderships_do_not_go_round_where_nobody_has_room() -> None:
    t = OneTopic(replicas=[1, 2, 3], settings={})
    t.produce(b"before")
    for process in t.cluster.brokers.values():
        process.disk.room = 20_000  # for the metadata, and not for a batch
    before = t.image.leader_epoch(t._row)
    for _ in range(40):
        assert t.send(bytes(25_000), acks=1).error_code == STORAGE_ERROR
        t.world.run_for(500)
    assert 1 <= t.image.leader_epoch(t._row) - before <= 4


@pytest.mark.parametrize("mistake", ["an empty only ISR member leads", "a failed directory ends the broker"])
def test_a_mistake_is_noticed(mistake: str) -> None:
    """The stories above fail if the mistake is planted."""
    story = _last_member if mistake == "an empty only ISR member leads" else _failed_directory
    with planted(mistake), pytest.raises(AssertionError):
        story()


def _last_member() -> None:
    test_the_last_member_of_an_isr_does_not_lead_with_an_empty_disk()


def _failed_directory() -> None:
    test_a_failed_directory_goes_offline_and_the_broker_goes_on("append")
