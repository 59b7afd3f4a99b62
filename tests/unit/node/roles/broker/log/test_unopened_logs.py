"""A replica whose log finds no descriptor to be opened in a start: it is opened as soon as there is one."""

import errno
from collections import Counter

import pytest

from actors.broker.log.directories.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, parse_offsets
from actors.broker.log.directories.directory import FUTURE
from actors.broker.replication.metadata_delta import MetadataDelta, PartitionState
from actors.broker.replication.partition import Assignment
from actors.metadata import ops
from actors.node.roles.broker.log.log_manager import TRIES_MAX
from actors.wire.errors import ErrorCode
from fastpath.records.batch import records
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, code, outcome

OTHER, NAMESAKE = bytes(range(2, 18)), bytes(range(1, 17))


def short_of_descriptors(*, clean: bool) -> Lab:
    """A broker that has started, and has no descriptor for the log of `t`, which has three records; `other` has one."""
    lab = Lab(1)
    lab.topic([1])
    lab.topic([1], "other", OTHER)
    for number in range(3):
        lab.produce(1, b"%d" % number)
    lab.produce(1, b"0", topic="other")
    lab.pass_ms(6_000, 1_000)
    if clean:
        lab.nodes[1].broker.shutdown()
        lab.settle()
    lab.disks[1].fault = lambda operation, path: errno.EMFILE if path.startswith("t-0/0") else 0
    restart(lab)
    return lab


def restart(lab: Lab) -> None:
    """A new process, which leads again."""
    lab.start(1)
    lab.settle()
    for topic_id in (TOPIC_ID, OTHER):
        if lab.nodes[1].broker.cache.image.topic_by_id(topic_id) >= 0:
            lab.change([1], 1, topic_id=topic_id)
    lab.settle()


def values(lab: Lab) -> list[bytes | None]:
    """The first records of `t`."""
    found = list[bytes | None]()
    while data := outcome(lab.fetch(1, len(found))).records:
        found += [record.value for record in records(data)]
    return found


def test_it_is_opened_when_there_is_a_descriptor() -> None:
    for clean in (True, False):
        lab = short_of_descriptors(clean=clean)
        assert code(lab.produce(1, b"refused")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert code(lab.produce(1, b"1", topic="other")) is ErrorCode.NONE, "the directory goes on"
        lab.pass_ms(10_000, 500)
        told = [line for line in lab.nodes[1].log.lines if "until there is room and a descriptor" in line]
        assert len(told) == 1, "it is said once"
        lab.disks[1].fault = None
        lab.pass_ms(2_000, 500)
        assert values(lab) == [b"0", b"1", b"2"]
        assert code(lab.produce(1, b"3")) is ErrorCode.NONE
        assert lab.nodes[1].stopped is None


def test_checkpoints_that_are_written_meanwhile_keep_what_is_known_of_it() -> None:
    lab = short_of_descriptors(clean=False)
    lab.produce(1, b"1", topic="other")
    lab.pass_ms(10_000, 1_000)
    points, marks = (parse_offsets(bytes(lab.disks[1].files[one].data)) for one in (RECOVERY_POINTS, HIGH_WATERMARKS))
    assert marks == {("t", 0): 3, ("other", 0): 2} and points["t", 0] == 3
    lab.disks[1].fault = None
    restart(lab)
    assert lab.partition(1).log.recovery_point == 3, "nothing below it has to be looked at again"


def test_its_files_go_when_its_topic_is_deleted() -> None:
    lab = short_of_descriptors(clean=True)
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    lab.settle()
    lab.disks[1].fault = None
    lab.pass_ms(65_000, 1_000)
    assert not [path for path in lab.disks[1].files if path.startswith("t-0")]
    assert code(lab.produce(1, b"2", topic="other")) is ErrorCode.NONE


def test_a_namesake_begins_with_nothing_of_it() -> None:
    lab = short_of_descriptors(clean=True)
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    lab.topic([1], topic_id=NAMESAKE)
    lab.disks[1].fault = None
    lab.pass_ms(3_000, 500)
    assert code(lab.produce(1, b"new")) is ErrorCode.NONE
    assert values(lab) == [b"new"]
    lab.pass_ms(65_000, 1_000)
    assert {path.partition("/")[0] for path in lab.disks[1].files if path.startswith("t-0")} == {"t-0"}
    assert values(lab) == [b"new"]


def left_of(lab: Lab) -> set[str]:
    """The directories of `t` when there are descriptors again and all has gone that goes."""
    lab.disks[1].fault = None
    lab.pass_ms(65_000, 1_000)
    assert code(lab.produce(1, b"2", topic="other")) is ErrorCode.NONE
    claims = lab.nodes[1].broker.logs.claims
    assert not claims.unopened and not claims.futures and not claims.unclaimed
    return {path.partition("/")[0] for path in lab.disks[1].files if path.startswith("t-0")}


def test_its_files_go_when_new_metadata_does_not_name_it() -> None:
    """A snapshot says what there is, and not what was deleted."""
    lab = short_of_descriptors(clean=True)
    role = lab.broker(1)
    kept = PartitionState("other", OTHER, 0, Assignment((1,), (1,), 1, 1, 1))
    brokers = [(broker.id, broker) for broker in role.cache.image.brokers()]
    role.applier.loaded(lambda: MetadataDelta(brokers, partitions=[kept]))
    assert left_of(lab) == set()


@pytest.mark.parametrize("deleted", [False, True])
def test_its_files_go_where_it_is_given_up_while_it_is_about_to_be_tried_again(deleted: bool) -> None:
    lab = short_of_descriptors(clean=True)
    role = lab.broker(1)
    role.replicas.may_begin(TOPIC_ID, 0)
    gone = [PartitionState("t", TOPIC_ID, 0, None)]
    role.applier.apply(MetadataDelta(deleted_topics=[("t", TOPIC_ID)]) if deleted else MetadataDelta(partitions=gone))
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    assert left_of(lab) == set()


def test_its_future_log_goes_with_it() -> None:
    lab = short_of_descriptors(clean=True)
    claims = lab.nodes[1].broker.logs.claims
    ((directory, found),) = claims.unopened.values()
    name = f"t-0.{'a' * 32}{FUTURE}"
    lab.disks[1].open(f"{name}/00000000000000000000.log", create=True)
    claims.futures["t", 0] = [(directory, found._replace(name=name, suffix=FUTURE))]
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    assert left_of(lab) == set()


def test_the_checkpoints_forget_it_when_it_is_given_up() -> None:
    """Else it would pass for lost when it comes again."""
    lab = short_of_descriptors(clean=True)
    lab.pass_ms(10_000, 1_000)
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    lab.disks[1].fault = None
    lab.pass_ms(10_000, 1_000)
    assert set(parse_offsets(bytes(lab.disks[1].files[RECOVERY_POINTS].data))) == {("other", 0)}


def test_it_is_tried_once_a_second_however_often_it_comes_and_goes() -> None:
    lab = short_of_descriptors(clean=True)
    role, tries = lab.broker(1), []
    begin = role.logs.may_begin
    role.logs.may_begin = lambda topic_id, number: (tries.append(lab.now.mono_ms), begin(topic_id, number))[1]
    for _ in range(5):
        lab.pass_ms(100)
        role.replicas.may_begin(TOPIC_ID, 0)
    lab.pass_ms(1_000, 100)
    tries.clear()
    lab.pass_ms(10_000, 100)
    assert 8 <= len(tries) <= 11


def test_of_many_a_few_are_tried_in_a_second_and_heartbeats_name_them_all_the_time() -> None:
    """A broker with thousands did little else, and each second the controller gave it those back that waited."""
    lab, count = Lab(1), 2 * TRIES_MAX + 10
    lab.topic([1], partitions=count)
    for number in range(count):
        lab.produce(1, b"%d" % number, number=number)
    lab.pass_ms(6_000, 1_000)
    lab.disks[1].fault = lambda operation, path: errno.EMFILE * (path.startswith("t-") and ".log" in path)
    lab.start(1)
    lab.settle()
    claims, replicas = lab.nodes[1].broker.logs.claims, lab.broker(1).replicas
    assert len(claims.unopened) == count
    tries, begin = Counter[int](), replicas.open_log
    replicas.open_log = lambda *which: (tries.update([lab.now.mono_ms // 1_000]), begin(*which))[1]
    lab.asked.clear()
    lab.pass_ms(8_000, 100)
    beats = [request for _, name, request in lab.asked if name == "BrokerHeartbeat"]
    assert beats and {sum(len(one.partitions) for one in beat.unreadable) for beat in beats} == {count}
    assert len(beats) < 8, "one that can be used no more than before is no news"
    assert len(tries) >= 6 and max(tries.values()) <= TRIES_MAX
    lab.disks[1].fault = None
    lab.pass_ms(1_200, 100)
    assert not claims.unopened and not replicas.offline and len(list(replicas)) == count


def test_what_was_cut_of_it_in_vain_is_told_when_it_is_opened() -> None:
    lab = short_of_descriptors(clean=False)
    path, disk = "t-0/00000000000000000000.log", lab.disks[1]
    disk.corrupt(path, len(disk.files[path].data) - 1)
    disk.remove("recovery-point-offset-checkpoint")
    disk.fault = lambda operation, path: errno.EMFILE * (path == "t-0/leader-epoch-checkpoint")
    restart(lab)
    lab.pass_ms(3_000, 500)
    told = f"bytes of {path} at"
    assert lab.nodes[1].broker.logs.claims.unopened and not any(told in line for line in lab.nodes[1].log.lines)
    disk.fault = None
    lab.pass_ms(2_000, 500)
    assert sum(told in line for line in lab.nodes[1].log.lines) == 1
    assert values(lab) == [b"0", b"1"]
