"""A broker takes thousands of replicas at once, a few in a turn, and serves meanwhile as if all were there."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from actors.broker.replication.partition import Partition
from actors.metadata import ops
from actors.node.roles.broker.metadata import image_deltas
from actors.ports import Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab, code, outcome

MANY = 20_000
BYTES_MAX = 1024
"""What a replica without records may take, beside the metadata."""
FEW = 3
ID = bytes(range(16))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few replicas are made in a turn, so that a small topic is a large one."""
    monkeypatch.setattr(image_deltas, "AT_ONCE", FEW)
    return FEW


def assign(lab: Lab, count: int, replicas: tuple[int, ...] = (1,), name: str = "t", topic_id: bytes = ID) -> None:
    """Partitions come up in one record, and no turn has passed since."""
    lists = [replicas] * count
    lab.commit(ops.TopicSet(name, topic_id), ops.PartitionsSet(topic_id, range(count), lists, lists))


def arrived(lab: Lab, id: int = 1) -> int:
    return sum(1 for _ in lab.broker(id).replicas)


def waiting(lab: Lab, id: int = 1) -> int:
    return sum(map(len, lab.broker(id).replicas.arriving.values()))


def growth(lab: Lab) -> Iterator[int]:
    """How many replicas each turn makes, until none is arriving."""
    while waiting(lab):
        before = arrived(lab)
        lab.turn()
        yield arrived(lab) - before


@pytest.mark.long
def test_twenty_thousand_replicas_come_in_slices_and_take_a_kilobyte_each() -> None:
    lab = Lab(1)
    assign(lab, 100, name="before", topic_id=bytes(16))
    lab.settle()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    assign(lab, MANY)
    assert arrived(lab) <= 100 + image_deltas.AT_ONCE, "they do not come in the turn of the record"
    assert lab.broker(1).deadline_ms() == 0, "the next turn is due"
    a_turn = list(growth(lab))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert arrived(lab) == 100 + MANY
    assert max(a_turn) <= image_deltas.AT_ONCE
    image = 60
    assert (after - before) / MANY < BYTES_MAX + image
    replicas = lab.broker(1).replicas
    assert replicas.census.led == 100 + MANY and replicas.written() == ()
    lab.pass_ms(70_000, 10_000)
    assert all(one.log.blank for one in replicas), "nothing that is done from time to time needs their logs"
    assert not [name for name in lab.nodes[1].disk.names("") if name.startswith("t-")]


def test_settings_of_topics_are_worked_out_once() -> None:
    lab = Lab(1)
    assign(lab, 200)
    assign(lab, 200, name="u", topic_id=bytes(16))
    lab.settle()
    assert len({id(one.settings) for one in lab.broker(1).replicas}) == 1
    lab.commit(ops.ConfigSet(2, "u", "retention.ms", "77"))
    kept = {one.settings.retention_ms for one in lab.broker(1).replicas if one.topic == "u"}
    assert kept == {77} and lab.partition(1).settings.retention_ms != 77
    lab.commit(ops.ConfigSet(4, "", "log.retention.ms", "99"))
    assert lab.partition(1).settings.retention_ms == 99, "what is set for all brokers"
    lab.commit(ops.ConfigSet(4, "1", "log.retention.ms", "98"))
    assert lab.partition(1).settings.retention_ms == 98, "what is set for this one"
    lab.commit(ops.ConfigSet(2, "u", "retention.ms", None), ops.ConfigSet(4, "1", "log.retention.ms", None))
    assert {one.settings.retention_ms for one in lab.broker(1).replicas} == {99}


def test_settings_are_not_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.node.roles.broker import metadata_cache

    monkeypatch.setattr(metadata_cache, "SETTINGS_KEPT", 4)
    lab = Lab(1)
    for value in range(20):
        lab.commit(ops.ConfigSet(2, "t", "retention.ms", str(1000 + value)))
        assert lab.broker(1).cache.settings("t").retention_ms == 1000 + value
    assert len(lab.broker(1).cache._settings) <= 4


def test_one_that_is_asked_for_is_there(few: int) -> None:
    lab = Lab(1)
    assign(lab, 50)
    assert arrived(lab) == few and waiting(lab) == 50 - few
    assert code(lab.produce(1, b"x", number=49)) is ErrorCode.NONE
    assert arrived(lab) == few + 1
    found = outcome(lab.fetch(1, 0, number=49))
    assert found.error_code == 0 and found.high_watermark == 1 and found.records
    assert outcome(lab.fetch(1, 0, number=48)).high_watermark == 0
    assert code(lab.produce(1, b"x", number=50)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert arrived(lab) == few + 2, "the others still wait for their turn"
    lab.settle()
    assert arrived(lab) == 50 and not lab.broker(1).replicas.arriving
    assert code(lab.produce(1, b"y", number=49)) is ErrorCode.NONE


def test_followers_join_and_records_are_committed_while_the_rest_arrives(few: int) -> None:
    lab = Lab(3)
    assign(lab, 60, (1, 2, 3))
    pending = lab.produce(1, b"x", number=59)
    lab.settle()
    assert code(pending) is ErrorCode.NONE, "both followers have it"
    assert [arrived(lab, id) for id in (1, 2, 3)] == [60, 60, 60]
    assert {lab.partition(id, 59).high_watermark for id in (1,)} == {1}
    for id in (2, 3):
        assert lab.partition(id, 59).log.log_end_offset == 1
        assert [one.number for one in lab.broker(id).replicas.written()] == [59]


def test_what_changes_while_a_replica_is_arriving_is_what_it_becomes(few: int) -> None:
    lab = Lab(3)
    assign(lab, 40, (1, 2))
    lab.change([2], 2, number=30)
    lab.change([1], 1, number=31)
    lab.commit(ops.ConfigSet(2, "t", "retention.ms", "77"))
    assert lab.broker(1).replicas.here(ID, 30) is None, "still arriving"
    lab.settle()
    one, other = lab.partition(1, 30), lab.partition(1, 31)
    assert (one.leader, one.leads, sorted(lab.partition(1, 31).isr.isr)) == (2, False, [1, 2])
    assert other.leads and other.settings.retention_ms == 77


def test_one_that_has_no_replica_here_any_more_never_comes(few: int) -> None:
    lab = Lab(2)
    assign(lab, 40)
    lab.commit(ops.PartitionsSet(ID, range(35, 36), [[2]], [[2]]))
    lab.settle()
    assert arrived(lab, 1) == 39 and lab.broker(1).replicas.get(ID, 35) is None
    assert lab.partition(2, 35).leads


def test_a_topic_that_is_deleted_while_its_replicas_arrive_leaves_none(few: int) -> None:
    lab = Lab(1)
    assign(lab, 40)
    lab.produce(1, b"x", number=20)
    lab.commit(ops.TopicGone(ID))
    assert not lab.broker(1).replicas.arriving
    assign(lab, 10, topic_id=bytes(16))
    lab.settle()
    assert arrived(lab) == 10 and all(one.topic_id == bytes(16) for one in lab.broker(1).replicas)
    lab.pass_ms(120_000, 10_000)
    assert not [name for name in lab.nodes[1].disk.names("") if name.startswith("t-")]


def test_what_it_leads_it_leads_in_its_turn_and_ceases_to_lead_at_once(few: int) -> None:
    lab = Lab(1)
    assign(lab, 40)
    lab.settle()
    own = lab.broker(1).cache.image.broker(1)
    assert own is not None
    led = lambda: sum(one.leads for one in lab.broker(1).replicas)  # noqa: E731
    assert led() == 40
    lab.hold_heartbeats = True
    other = own._replace(incarnation_id=bytes(16))
    lab.commit(other)
    assert led() == 0, "another process has this broker's id"
    lab.turn()
    lab.commit(own)
    assert led() == few and waiting(lab) == 40 - few
    assert lab.broker(1).replicas.get("t", 39).leads, "who asks for one finds it led"
    lab.commit(other)
    assert led() == 0
    lab.settle()
    assert led() == 0, "what was waiting leads nothing either"


def test_files_of_the_process_before_are_claimed_at_once_and_the_rest_comes_behind(few: int) -> None:
    lab = Lab(1)
    assign(lab, 60)
    lab.settle()
    for number in (7, 33, 59):
        assert code(lab.produce(1, b"x", b"y", number=number)) is ErrorCode.NONE
    lab.pass_ms(20_000, 5_000)
    lab.crash(1)
    lab.hold_heartbeats = True
    lab.start(1)
    broker = lab.broker(1)
    here = [one.number for one in broker.replicas]
    assert {7, 33, 59} <= set(here) and waiting(lab) >= 60 - few - 3, "nothing that is on the disk waits"
    assert not broker.logs.claims.unclaimed
    assert [one.log.log_end_offset for one in broker.replicas.written()] == [2, 2, 2]
    lab.hold_heartbeats = False
    lab.settle()
    lab.pass_ms(20_000, 5_000)
    assert arrived(lab) == 60
    for number in (7, 33, 59):
        assert lab.partition(1, number).high_watermark == lab.partition(1, number).log.log_end_offset == 2


def test_a_stop_while_replicas_arrive_is_clean_and_loses_nothing(few: int) -> None:
    lab = Lab(1)
    assign(lab, 10, name="old", topic_id=bytes(16))
    lab.settle()
    lab.produce(1, b"x", topic="old", number=4)
    assign(lab, 80)
    done: list[Any] = []
    broker = lab.broker(1)
    assert waiting(lab)
    broker.logs.begin_close()
    broker.logs.close(broker.replicas, 5, done.append)
    lab.settle()
    assert done == [None]
    lab.dead.add(1)
    lab.start(1)
    lab.settle()
    assert arrived(lab) == 90
    assert lab.partition(1, 4, "old").high_watermark == 1


def test_what_log_directories_hold_is_described(few: int) -> None:
    lab = Lab(1)
    assign(lab, 30)
    lab.produce(1, b"x", number=29)
    lab.settle()
    reply = lab.call(1, "DescribeLogDirs", 4, message("DescribeLogDirsRequest")(topics=None)).reply
    sizes = {one.partition_index: one.partition_size for one in reply.results[0].topics[0].partitions}
    assert len(sizes) == 30 and sizes[29] > 0 and not any(size for number, size in sizes.items() if number != 29)


def test_a_replica_that_is_arriving_is_described(few: int) -> None:
    lab = Lab(1)
    assign(lab, 300)
    kind = message("DescribeLogDirsRequest")
    wanted = [kind.DescribableLogDirTopic(topic="t", partitions=[7, 250, 400])]
    call = lab.call(1, "DescribeLogDirs", 4, kind(topics=wanted))
    (topic,) = call.reply.results[0].topics
    assert {one.partition_index for one in topic.partitions} == {7, 250}
    assert waiting(lab) >= 300 - 10 * few, "the others are in no hurry"
    lab.slices = 0
    call = lab.call(1, "DescribeLogDirs", 4, kind(topics=None))
    (topic,) = call.reply.results[0].topics
    assert {one.partition_index for one in topic.partitions} == set(range(300))
    assert lab.slices >= 3, "they are made in slices"


def test_a_replica_that_had_records_is_lost_and_does_not_begin_blank(few: int) -> None:
    lab = Lab(1)
    assign(lab, 40)
    lab.settle()
    lab.produce(1, b"x", number=30)
    lab.pass_ms(20_000, 5_000)
    lab.crash(1)
    lab.nodes[1].disk.remove("t-30")
    lab.start(1)
    lab.settle()
    broker = lab.broker(1)
    assert (ID, 30) in broker.replicas.offline and broker.replicas.get(ID, 30) is None
    assert arrived(lab) == 39


def test_a_turn_takes_in_only_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_deltas, "ROWS_A_TURN", 20)
    lab = Lab(1)
    broker = lab.broker(1)
    assign(lab, 15)
    assert not broker.full
    assign(lab, 15, name="u", topic_id=bytes(16))
    assert broker.full, "the rest of the log is left to the next turn"
    lab.turn()
    assert not broker.full


def test_the_look_for_followers_that_lag_goes_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.broker.replication import replicas

    monkeypatch.setattr(replicas, "SLICE", 10)
    lab = Lab(3)
    assign(lab, 100, (1, 2, 3))
    lab.settle()
    lab.split.add(frozenset((1, 3)))
    lab.lost.discard("Fetch")
    for number in (5, 95):
        lab.produce(1, b"x", acks=1, number=number)
    judged: list[int] = []
    decide = replicas.Replicas.decide

    def noted(self: replicas.Replicas, partition: Partition, mono_ms: int) -> None:
        judged.append(partition.number)
        decide(self, partition, mono_ms)

    monkeypatch.setattr(replicas.Replicas, "decide", noted)
    steps = lab.broker(1).replicas.check_lag(lambda: lab.now.mono_ms)
    assert sum(1 for _ in steps) == 10
    assert set(judged) == {5, 95}, "those at rest are not judged"
    lab.pass_ms(2 * lab.broker(1).cluster.lag_ms_max, 1_000)
    for number in (5, 95):
        assert sorted(lab.partition(1, number).isr.isr) == [1, 2], "the follower that is cut off has left"
    assert sorted(lab.partition(1, 50).isr.isr) == [1, 2, 3], "an idle one keeps it"


def test_the_look_for_followers_that_lag_comes_to_its_end_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from actors.broker.replication import replicas

    monkeypatch.setattr(replicas, "SLICE", 10)
    lab = Lab(3)
    assign(lab, 100, (1, 2, 3))
    lab.settle()
    lab.split.add(frozenset((1, 3)))
    lab.produce(1, b"x", acks=1, number=95)
    step_ms = lab.broker(1).cluster.lag_ms_max // 8
    for _ in range(40):
        lab.now = Now(lab.now.mono_ms + step_ms, lab.now.wall_ms + step_ms)
        lab.turn()
    assert sorted(lab.partition(1, 95).isr.isr) == [1, 2], "the tenth slice comes after the next look would begin"


def test_a_follower_is_judged_by_the_time_at_which_the_look_comes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.broker.replication import replicas

    monkeypatch.setattr(replicas, "SLICE", 10)
    lab = Lab(3)
    assign(lab, 30, (1, 2, 3))
    lab.settle()
    lab.split.add(frozenset((1, 3)))
    lab.produce(1, b"x", acks=1, number=25)
    lab.settle()
    here, now_ms = lab.broker(1).replicas, lab.now.mono_ms
    steps = here.check_lag(lambda: now_ms)
    next(steps)
    assert here.get("t", 25).isr.proposal is None
    now_ms += lab.broker(1).cluster.lag_ms_max + 1
    for _ in steps:
        pass
    assert here.get("t", 25).isr.proposal.want == {1, 2}, "it began to lag while the look was under way"


def test_a_look_that_is_under_way_judges_nothing_that_it_does_not_lead_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from actors.broker.replication import replicas

    monkeypatch.setattr(replicas, "SLICE", 10)
    lab = Lab(3)
    assign(lab, 30, (1, 2, 3))
    lab.settle()
    lab.split.add(frozenset((1, 3)))
    for number in (25, 26, 27):
        lab.produce(1, b"x", acks=1, number=number)
    lab.settle()
    here = lab.broker(1).replicas
    kept = {number: here.get("t", number) for number in (25, 26)}
    steps = here.check_lag(lambda: lab.now.mono_ms + 2 * lab.broker(1).cluster.lag_ms_max)
    next(steps)
    lab.change([1, 2, 3], 2, number=25)
    lab.commit(ops.PartitionsSet(ID, range(26, 27), [[2, 3]], [[2, 3]]))
    assign(lab, 10, (1, 2), name="later", topic_id=bytes(16))
    for _ in steps:
        pass
    assert [one.isr.proposal for one in kept.values()] == [None, None]
    assert here.get("t", 27).isr.proposal.want == {1, 2}


def test_a_scrape_makes_no_part_of_a_log_without_records() -> None:
    from actors.node.metrics.partitions import Columns, partition_parts

    lab = Lab(1)
    assign(lab, 100)
    lab.settle()
    lab.produce(1, b"x", b"y", number=7)
    here = lab.broker(1).replicas
    tables = [
        part for part in partition_parts(here) if isinstance(part, list) for part in part if isinstance(part, Columns)
    ]
    sizes = [size for one in tables for size in one.of("size")]
    assert len(sizes) == 100 and sizes[7] == here.get("t", 7).log.size > 0 and sum(sizes) == sizes[7]
    assert sum(sum(one.of("segments")) for one in tables) == 1
    assert [one.number for one in here.written()] == [7]


def test_settings_that_want_each_record_on_the_disk_make_no_part_of_a_log_without_records() -> None:
    lab = Lab(1)
    assign(lab, 20)
    lab.settle()
    lab.commit(ops.ConfigSet(2, "t", "flush.messages", "1"))
    lab.settle()
    assert lab.broker(1).replicas.written() == ()
    pending = lab.produce(1, b"x", number=3)
    lab.settle()
    assert code(pending) is ErrorCode.NONE
    assert lab.partition(1, 3).log.recovery_point == 1


def test_a_registration_change_is_looked_at_in_slices_and_each_change_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from actors.broker.replication import replicas

    monkeypatch.setattr(replicas, "SLICE", 10)
    lab = Lab(4)
    assign(lab, 100, (1, 2, 3, 4))
    lab.settle()
    here, now_ms = lab.broker(1).replicas, lab.now.mono_ms
    epochs = {id: here.cluster.unfenced[id] for id in (3, 4)}
    for id in epochs:
        here.broker_changed(id, None, now_ms)
        lab.split.add(frozenset((1, id)))
    while here.look_again is not None:
        here.go_on(now_ms)
    for number in (5, 95):
        lab.change([1, 2], 1, number=number)
        for id in epochs:  # a fetch that came before its registration did
            here.get("t", number).note_fetch(id, 0, 0, epochs[id], now_ms, attached=False)
    near, far = here.get("t", 5), here.get("t", 95)
    here.broker_changed(3, epochs[3], now_ms)
    assert near.isr.proposal.want == {1, 2, 3}, "the first slice is looked at at once"
    assert far.isr.proposal is None and here.look_again is not None
    assert lab.broker(1).deadline_ms() == 0, "the next turn is due"
    here.broker_changed(4, epochs[4], now_ms)
    for _ in range(10):
        here.go_on(now_ms)
    assert far.isr.proposal.want == {1, 2, 3, 4}, "what it is when the look comes to it"
    for _ in range(20):
        here.go_on(now_ms)
    assert near.isr.proposal.want == {1, 2, 3, 4}, "the second change is looked at from the first partition on"
    assert here.look_again is None


def test_a_broker_that_has_few_replicas_looks_at_all_of_them_in_the_turn_of_a_change() -> None:
    lab = Lab(3)
    assign(lab, 100, (1, 2, 3))
    lab.settle()
    here = lab.broker(1).replicas
    assert here.look_again is None
    here.broker_changed(3, None, lab.now.mono_ms)
    assert here.look_again is None and 3 not in here.cluster.unfenced
