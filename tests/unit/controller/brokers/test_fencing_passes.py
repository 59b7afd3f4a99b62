"""Fencing, return, elections: what becomes of the partitions of a broker that goes or comes."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.controller.brokers import fencing_passes, heartbeat_leases
from actors.controller.brokers.unregistration import turn_ended, unregister_broker
from actors.controller.configs import unclean_allowed
from actors.controller.partitions.alter_isr import alter_isr
from actors.controller.partitions.elect_leaders import elect_leaders, rebalance
from actors.controller.partitions.leader_election import leave
from actors.controller.soft_state import Soft
from actors.metadata.dialects import drafts
from actors.metadata.families import DRAFTS, RELEASED, Epochs
from actors.metadata.image import Image
from actors.metadata.ops import BrokerGone, BrokerSet, PartitionsChanged, PartitionsSet, TopicSet
from actors.wire.messages import decode_exact, message
from fastpath.image import clean_elections
from fastpath.image.isr_removal import departures
from tests.unit.controller.cluster import SHUTDOWN, Cluster


def gone(c, broker):
    heartbeat_leases.revoke(c.soft, broker, "test")
    c.settle()


def test_r631_162_leaders_move_and_isrs_shrink_before_the_broker_goes():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3), (2, 1, 3), (2, 3, 1))
    gone(c, 1)
    assert [c.partition("t", n) for n in range(3)] == [((2, 3), 2, 1), ((2, 3), 2, 1), ((2, 3), 2, 1)]
    assert [type(op) for op in c.ops] == [PartitionsChanged, BrokerGone]  # A38: every prefix is a valid state


def test_r500_16_a_new_active_controller_looks_for_partitions_without_a_leader_once(monkeypatch):
    c = Cluster(brokers=4)
    c.topic("t", (1,), (2,), (3,), (4,))
    for broker in (1, 2):
        gone(c, broker)
    searches = []
    search = fencing_passes.elections
    monkeypatch.setattr(fencing_passes, "elections", lambda *given: searches.append(given[2:4]) or search(*given))
    c.join(2)
    searches.clear()
    c.soft.electing = dict.fromkeys((4, 3, 2))
    c.settle()
    assert searches == [(0, 4)] and c.partition("t", 0)[1] == -1
    c.join(1)
    assert len(searches) == 2 and c.partition("t", 0)[1] == 1, "what was written since is seen"


def test_a32_the_last_member_stays_and_leads_again():
    c = Cluster(brokers=2)
    c.topic("t", (1,))
    gone(c, 1)
    assert c.partition("t") == ((1,), -1, 1)
    c.join(1)
    assert c.partition("t") == ((1,), 1, 2)


def test_the_next_leader_is_the_most_preferred_usable_member():
    c = Cluster(brokers=4)
    c.topic("t", (1, 4, 3, 2))
    gone(c, 4)
    gone(c, 1)
    assert c.partition("t") == ((3, 2), 3, 2)


def test_i6_all_go_one_after_the_other_and_the_last_one_leads_again():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3))
    for broker in (1, 3, 2):
        gone(c, broker)
    assert c.partition("t") == ((2,), -1, 3)
    c.join(1)
    assert c.partition("t")[:2] == ((2,), -1)  # it lacks records
    c.join(2)
    assert c.partition("t") == ((2,), 2, 4)


def test_an_unclean_election_where_the_topic_allows_it():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2), configs={"unclean.leader.election.enable": "true"})
    c.topic("u", (1, 2))
    for name in "tu":
        kind = message("AlterIsrRequest")
        entry = kind.PartitionData(partition_id=0, leader=1, isr=[1])
        topic = kind.TopicData(topic=name, partitions=[entry])
        c.run(alter_isr, kind(broker_id=1, broker_epoch=c.epochs[1], topics=[topic]))
    gone(c, 1)
    assert c.partition("t") == ((2,), 2, 2) and c.partition("u") == ((1,), -1, 2)


def test_g12_unregistering_gives_the_last_copy_up():
    c = Cluster(brokers=2)
    c.topic("t", (1,))
    kind = message("UnregisterBrokerRequest")
    c.run(unregister_broker, kind(broker_id=1))
    assert c.result.wait == ("registration", 1)
    c.settle()
    assert c.run(unregister_broker, kind(broker_id=1)).error_code == 0
    assert c.partition("t") == ((), -1, 1) and c.image.broker(1) is None
    turn_ended(c.soft)
    assert c.run(unregister_broker, kind(broker_id=1)).error_code == 102
    assert c.run(unregister_broker, kind(broker_id=9)).error_code == 102


def test_unregistering_is_done_again_for_a_broker_that_came_back_though_nobody_heard_of_the_first_time():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3))
    request = message("UnregisterBrokerRequest")(broker_id=3)
    c.run(unregister_broker, request)
    turn_ended(c.soft)
    c.settle()
    for _ in "two that waited":
        assert c.run(unregister_broker, request).error_code == 0
    turn_ended(c.soft)
    assert c.run(unregister_broker, request).error_code == 102
    c.join(3)
    c.run(unregister_broker, request)
    assert c.result.wait is not None and 3 in c.soft.leaving
    c.settle()
    assert c.image.broker(3) is None and c.run(unregister_broker, request).error_code == 0


def test_slices_are_resumed_and_add_up(monkeypatch):
    whole, sliced = Cluster(brokers=3), Cluster(brokers=3)
    for c in (whole, sliced):
        c.topic("t", num_partitions=50, replication_factor=3)
        c.topic("u", num_partitions=20, replication_factor=1)
    gone(whole, 2)
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 7)
    gone(sliced, 2)
    assert len([op for op in sliced.ops if type(op) is PartitionsChanged]) > 7
    for name, count in (("t", 50), ("u", 20)):
        assert [whole.partition(name, n) for n in range(count)] == [sliced.partition(name, n) for n in range(count)]


def test_brokers_that_are_lost_together_leave_as_one_after_the_other_but_each_partition_is_written_once():
    together, one_by_one = Cluster(brokers=5), Cluster(brokers=5)
    for c in (together, one_by_one):
        c.topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 4, 5))
        c.topic("u", (4, 5), (2, 1))
        c.topic("v", (1,))
    for broker in (2, 1, 3):
        heartbeat_leases.revoke(together.soft, broker, "test")
        gone(one_by_one, broker)
    together.settle()
    changed = [one for op in together.ops if type(op) is PartitionsChanged for one in op.block]
    assert len(changed) == len({(one.topic_id, one.number) for one in changed}) == 6
    assert [op.id for op in together.ops if type(op) is BrokerGone] == [2, 1, 3]
    for name, count in (("t", 4), ("u", 2), ("v", 1)):
        for number in range(count):
            assert together.partition(name, number)[:2] == one_by_one.partition(name, number)[:2]
    assert together.partition("t", 0) == ((3,), -1, 1) and one_by_one.partition("t", 0) == ((3,), -1, 3)


def test_who_is_lost_while_others_are_fenced_joins_their_pass_and_is_done_when_it_has_gone_round(monkeypatch):
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 10)
    c = Cluster(brokers=3)
    c.topic("t", *[(1, 2, 3)] * 40)
    heartbeat_leases.revoke(c.soft, 1, "test")
    c.apply(fencing_passes.fence(c.state, None, c.now, c.random))
    heartbeat_leases.revoke(c.soft, 2, "test")
    slices = []
    while c.soft.leaving:
        c.apply(fencing_passes.fence(c.state, None, c.now, c.random))
        slices.append([one.number for op in c.ops if type(op) is PartitionsChanged for one in op.block])
    assert slices == [[*range(10, 20)], [*range(20, 30)], [*range(30, 40)], [*range(10)]]
    assert c.soft.leaving_row == 0 and not c.image.is_registered(1) and not c.image.is_registered(2)
    assert [c.partition("t", number)[:2] for number in range(40)] == [((3,), 3)] * 40


def test_who_is_given_up_while_it_is_fenced_leaves_partitions_that_were_passed(monkeypatch):
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 60)
    c = Cluster(brokers=2)
    c.topic("t", *[(1,)] * 200)
    heartbeat_leases.revoke(c.soft, 1, "test")
    c.apply(fencing_passes.fence(c.state, None, c.now, c.random))
    assert c.partition("t", 0)[:2] == ((1,), -1) and c.soft.leaving_row > 0
    heartbeat_leases.revoke(c.soft, 1, "test", give_up=True)
    c.settle()
    assert {c.partition("t", number)[:2] for number in range(200)} == {((), -1)}


@pytest.mark.parametrize("first", ["lost", "given up"])
def test_who_is_given_up_leaves_before_brokers_that_may_come_back(first: str) -> None:
    c = Cluster(brokers=3)
    c.topic("t", (1, 2), (2, 1))
    c.topic("u", (1, 2, 3))
    c.topic("v", (1,))
    for give_up in (False, True) if first == "lost" else (True, False):
        heartbeat_leases.revoke(c.soft, 1 if give_up else 2, "test", give_up=give_up)
    c.settle()
    assert [c.partition("t", number)[:2] for number in range(2)] == [((2,), -1), ((2,), -1)]
    assert (c.partition("u")[:2], c.partition("v")[:2]) == (((3,), 3), ((), -1))
    c.join(2)
    assert [c.partition("t", number)[:2] for number in range(2)] == [((2,), 2)] * 2, "it has what was acknowledged"


def test_partitions_that_no_slice_changes_cost_what_it_takes_to_ask_their_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 10)
    c = Cluster(brokers=2)
    for number in range(40):
        c.topic(f"t{number}", (1,))
    c.topic("own", (2,))
    gone(c, 1)
    asked = [0]

    def allowed(*given: Any) -> bool:
        asked[-1] += 1
        return unclean_allowed(*given)

    monkeypatch.setattr(fencing_passes, "unclean_allowed", allowed)
    c.soft.electing = {2: None}
    while c.soft.electing or c.soft.search is not None:
        c.apply(fencing_passes.come_back(c.state, None, c.now, c.random))
        asked.append(0)
    assert asked == [10, 10, 10, 10, 0, 0], "a search that finds nobody who could lead"
    heartbeat_leases.revoke(c.soft, 1, "again")
    while c.soft.leaving:
        c.apply(fencing_passes.fence(c.state, None, c.now, c.random))
        asked.append(0)
    assert asked[5:] == [10, 10, 10, 10, 0, 0], "a departure of one that was gone already"


def test_a_search_for_each_of_many_topics_walks_over_no_disk_that_cannot_be_read() -> None:
    class Walked(frozenset):
        def __iter__(self):
            raise AssertionError("all replicas of a disk were walked over")

    c = Cluster(brokers=3)
    c.topic("t", (2,), (2,))
    topic_id = c.image.topic_id(c.image.topic("t"))
    gone(c, 2)
    c.beat(2, -1, incarnation_id=b"2" * 16)
    c.soft.unreadable[2] = Walked({(topic_id, 0)})
    c.soft.allowing[topic_id] = None
    c.settle()
    assert [c.partition("t", number)[:2] for number in range(2)] == [((2,), -1), ((2,), 2)]


def test_the_end_of_a_departure_looks_at_no_partition_where_nothing_is_left_to_change(monkeypatch):
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3), (2, 1, 3), (1, 3, 2))
    c.topic("u", (1,), (2,))
    looked = []
    in_isr = Image.rows_in_isr
    monkeypatch.setattr(Image, "rows_in_isr", lambda image, broker: looked.append(broker) or in_isr(image, broker))
    for broker in (1, 2, 3):
        heartbeat_leases.revoke(c.soft, broker, "test")
    c.settle()
    assert looked == [] and [c.image.counters.alone(broker) for broker in (1, 2, 3)] == [1, 1, 3]
    c.image.check()


def drawn(data, c, topic_id, family, ids):
    """Partitions of one topic as anybody may have left them."""
    c.image.replay(c.image.next_offset, TopicSet("t", topic_id))
    count = data.draw(st.integers(1, 12))
    for number in range(count):
        replicas = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
        isr = data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
        leader = data.draw(st.sampled_from([*isr, -1]))
        adding = replicas[:1] if data.draw(st.booleans()) else ()
        changes = number if family.one_epoch else number + data.draw(st.integers(0, 3))
        op = PartitionsSet.one(topic_id, number, replicas, isr, leader, number, changes, adding=adding)
        c.image.replay(c.image.next_offset, op)
    damaged = data.draw(st.sets(st.tuples(st.sampled_from(ids), st.integers(0, count)), max_size=6))
    for one in {id for id, _ in damaged}:
        c.soft.unreadable[one] = frozenset((topic_id, number) for id, number in damaged if id == one)


def written(c, family, change):
    """A change as {number: what is written}."""
    if change is None:
        return {}
    row = change.row
    now = Epochs(c.image.leader_epoch(row), c.image.partition_epoch(row))
    epochs = family.next_epochs(now, leadership_moves=change.leader != c.image.leader(row))
    return {c.image.number(row): (set(change.isr), change.leader, epochs)}


def in_block(block):
    return {one.number: (set(one.isr), one.leader, Epochs(one.leader_epoch, one.partition_epoch)) for one in block}


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_compiled_pass_equals_its_twin(data):
    brokers = data.draw(st.integers(1, 6))
    c = Cluster(brokers=brokers, unclean_default=data.draw(st.booleans()))
    ids = list(range(1, brokers + 3))  # two of them are not registered
    family = data.draw(st.sampled_from([DRAFTS, RELEASED]))
    topic_id = b"\x07" * 16
    drawn(data, c, topic_id, family, ids)
    given_up = data.draw(st.dictionaries(st.sampled_from(ids), st.booleans(), min_size=1, max_size=4))
    for broker, give_up in given_up.items():
        heartbeat_leases.revoke(c.soft, broker, "test", give_up=give_up)
    step = data.draw(st.integers(1, 5))
    found, row = {}, 0
    while row >= 0:
        usable = c.soft.usable(c.image).ids
        aside = fencing_passes._unreadable_rows(c.state, given_up)
        judges = None if any(given_up.values()) else lambda topic: unclean_allowed(c.state, topic)
        block, judged, row, _ = departures(c.image, tuple(given_up), usable, row, step, family.one_epoch, aside, judges)
        found |= in_block(block)
        for one in judged:
            found |= written(c, family, leave(c.state, one, given_up))
    expected = {}
    for one in c.image.topic_partitions(c.image.topic("t")):
        expected |= written(c, family, leave(c.state, one, given_up))
    assert found == expected


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_compiled_elections_equal_their_twin(data):
    brokers = data.draw(st.integers(1, 6))
    unclean = data.draw(st.booleans())
    c = Cluster(brokers=brokers, unclean_default=unclean)
    family = data.draw(st.sampled_from([DRAFTS, RELEASED]))
    drawn(data, c, b"\x07" * 16, family, list(range(1, brokers + 3)))
    step = data.draw(st.integers(1, 5))
    found, row = {}, 0
    while row >= 0:
        aside = partial(fencing_passes._is_unreadable, c.state)
        block, judged, row, _ = clean_elections.elections(
            c.image, c.soft.usable(c.image).ids, row, c.image.row_end, step, lambda topic: unclean, aside
        )
        found |= in_block(block)
        for one in judged:
            found |= written(c, family, fencing_passes._found(c.state, one))
    expected = {}
    for one in c.image.topic_partitions(c.image.topic("t")):
        expected |= written(c, family, fencing_passes._found(c.state, one))
    assert found == expected


# ---- leases


def test_r631_145_a_lease_ends_after_exactly_one_period():
    c = Cluster(brokers=1)
    c.later(19_999)
    assert heartbeat_leases.expired(c.soft, c.now) == []
    c.later(1)
    assert heartbeat_leases.expired(c.soft, c.now) == [1]
    c.beat(1)
    c.later(5_000)
    c.beat(1)  # one period from now, whatever was left
    c.later(19_999)
    assert heartbeat_leases.expired(c.soft, c.now) == []
    c.later(1)
    assert heartbeat_leases.expired(c.soft, c.now) == [1]


def another_controller(c, lease_ms):
    """A new active controller with another lease period takes over."""
    c.soft = Soft()
    c.soft.commits.begin(c.mono_ms, c.image.next_offset)
    c.options = c.options._replace(lease=(lease_ms, lease_ms))
    heartbeat_leases.take_over(c.soft, c.image, c.now, lease_ms, c.options.grace_ms)


def test_a_shorter_lease_on_a_new_controller_counts_for_leases_that_it_gives():
    c = Cluster(brokers=2)
    grace_ms = c.options.grace_ms
    another_controller(c, 6_000)
    c.later(20_000 + grace_ms - 1)
    assert heartbeat_leases.expired(c.soft, c.now) == [], "they hold leases of 20 s"
    c.beat(2)
    c.later(1)
    assert heartbeat_leases.expired(c.soft, c.now) == [1]
    c.later(5_998)
    assert heartbeat_leases.expired(c.soft, c.now) == [1]
    c.later(1)
    assert heartbeat_leases.expired(c.soft, c.now) == [1, 2], "and this one gives 6 s"


def test_the_length_of_a_lease_stands_in_the_log_for_the_controller_after_the_next():
    c = Cluster(brokers=1)
    c.topic("t", (1,))
    assert c.image.broker(1).lease_ms == 20_000
    another_controller(c, 6_000)
    c.later(1_000)
    c.beat(1)
    assert c.ops == [] and c.image.broker(1).lease_ms == 20_000, "the lease of 20 s may still run"
    another_controller(c, 6_000)
    c.later(20_000 + c.options.grace_ms - 1)
    assert heartbeat_leases.expired(c.soft, c.now) == []
    c.beat(1)
    assert c.ops == []
    c.later(1)
    c.beat(1)
    assert c.image.broker(1).lease_ms == 6_000, "now it has ended"
    another_controller(c, 30_000)
    c.beat(1)
    assert c.image.broker(1).lease_ms == 30_000 and c.result.seen is None, "nobody hears of a longer one before"
    another_controller(c, 40_000)
    c.beat(1, target=SHUTDOWN)
    assert c.image.broker(1).lease_ms == 40_000


def test_time_that_stood_still_is_given_back():
    c = Cluster(brokers=1)
    due = c.mono_ms + 500
    c.later(30_000)
    assert heartbeat_leases.credit(c.soft, due, c.now) == 29_500
    assert heartbeat_leases.expired(c.soft, c.now) == []
    assert heartbeat_leases.credit(c.soft, c.mono_ms - 100, c.now) == 0


def test_a_second_reason_to_go_begins_anew_only_if_more_is_given_up():
    c = Cluster(brokers=1)
    heartbeat_leases.revoke(c.soft, 1, "first")
    c.soft.leaving[1] = c.soft.leaving[1]._replace(from_row=5, around=True)
    heartbeat_leases.revoke(c.soft, 1, "second", newcomer=True)
    assert c.soft.leaving[1] == ("first", True, False, 5, True)
    heartbeat_leases.revoke(c.soft, 1, "third", give_up=True)
    assert c.soft.leaving[1] == ("first", True, True, -1, False)


# ---- ElectLeaders


def elect(c, kind_of, *partitions, everything=False):
    kind = message("ElectLeadersRequest")
    named = None if everything else [kind.TopicPartitions(topic=t, partitions=list(p)) for t, *p in partitions]
    reply = c.run(elect_leaders, kind(election_type=kind_of, topic_partitions=named))
    if reply.error_code:
        return reply.error_code
    return {(r.topic, p.partition_id): p.error_code for r in reply.replica_election_results for p in r.partition_result}


def test_r631_073_preferred_leaders():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2), (2, 1), (1, 3))
    gone(c, 1)
    assert elect(c, 0, ("t", 0, 1, 9), ("x", 0)) == {("t", 0): 80, ("t", 1): 84, ("t", 9): 3, ("x", 0): 3}
    c.join(1)
    assert elect(c, 0, ("t", 0)) == {("t", 0): 80}  # not in the ISR yet
    kind = message("AlterIsrRequest")
    entry = kind.PartitionData(partition_id=0, leader=2, leader_epoch=1, isr=[1, 2], current_zk_version=1)
    topic = kind.TopicData(topic="t", partitions=[entry])
    c.run(alter_isr, kind(broker_id=2, broker_epoch=c.epochs[2], topics=[topic]))
    assert elect(c, 0, everything=True) == {("t", 0): 0, ("t", 2): 80}
    assert c.partition("t") == ((1, 2), 1, 3)


def test_unclean_elections_by_request():
    c = Cluster(brokers=2)
    c.topic("t", (1,), (2,))
    c.topic("u", (1, 2))
    gone(c, 1)
    assert elect(c, 1, ("t", 0, 1), ("u", 0)) == {("t", 0): 83, ("t", 1): 84, ("u", 0): 84}
    gone(c, 2)
    c.join(1)
    assert c.partition("u")[:2] == ((2,), -1)
    assert elect(c, 1, ("u", 0)) == {("u", 0): 0}
    assert c.partition("u")[:2] == ((1,), 1)
    assert elect(c, 7, ("t", 0)) == 42


@pytest.mark.parametrize("level", [1, 2])
def test_r631_083_both_levels_have_the_same_effect(level):
    c = Cluster(level=level, brokers=2)
    c.topic("t", (1, 2))
    gone(c, 1)
    assert c.partition("t") == ((2,), 2, 1) and c.image.broker(1) is None
    assert isinstance(c.image.broker(2), BrokerSet)


@pytest.mark.parametrize("stopped", [False, True])
def test_a31_what_ends_a_registration_names_its_epoch(stopped):
    c = Cluster(level=1, brokers=2)
    epoch = c.epochs[1]
    if stopped:
        c.beat(1, target=SHUTDOWN)
    else:
        gone(c, 1)
    assert c.ops == [BrokerGone(1, epoch)]
    body = decode_exact("v19:BrokerRecord", 0, drafts.DIALECTS[1].record(c.ops[0])[2:])
    assert (body.broker_id, body.broker_epoch, body.end_points) == (1, epoch, [])


def test_preferred_replicas_get_their_leaderships_back_in_slices(monkeypatch):
    c = Cluster(brokers=3)
    c.topic("t", *[(1, 2, 3)] * 5, (2, 3, 1))
    heartbeat_leases.revoke(c.soft, 1, "gone")
    c.settle()
    assert [c.partition("t", number)[1] for number in range(6)] == [2] * 6
    assert c.apply(rebalance(c.state, 0)) == -1 and c.ops == []  # 1 is not in sync, and not there
    c.join(1)
    for number in range(5):
        row = c.image.partition(c.image.topic("t"), number)
        c.image.replay(
            c.image.next_offset,
            PartitionsChanged.one(
                c.image.topic_id(c.image.topic("t")), number, [1, 2, 3], 2, *[c.image.partition_epoch(row) + 1] * 2
            ),
        )
    monkeypatch.setattr("actors.controller.partitions.elect_leaders.ROWS_AT_ONCE", 2)
    row, slices = 0, 0
    while row >= 0:
        row = c.apply(rebalance(c.state, row))
        slices += 1
    assert slices >= 3
    assert [c.partition("t", number)[1] for number in range(6)] == [1, 1, 1, 1, 1, 2]
    assert c.apply(rebalance(c.state, 0)) is not None and c.ops == []
