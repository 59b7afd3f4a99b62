"""The decision table of heartbeats (A19) and the rules around it."""

from typing import Any

import pytest

from actors.controller.brokers import heartbeat_leases
from actors.controller.brokers.controlled_shutdown import controlled_shutdown, moved_key
from actors.controller.brokers.registration import DECISIONS, broker_heartbeat
from actors.metadata.ops import BrokerGone, BrokerSet, FeatureSet, PartitionsChanged
from actors.wire.messages import message
from tests.unit.controller.cluster import ACTIVE, FENCED, LISTENER, SHUTDOWN, Cluster

INITIAL, UNKNOWN = 1, 0
OTHER = b"\x77" * 16


def told(reply):
    return reply.error_code, reply.next_state, reply.broker_epoch


def test_r631_128_the_epoch_is_the_offset_of_the_broker_record():
    c = Cluster()
    offset = c.image.next_offset
    reply = c.beat(1, -1, lease_start_time_ms=1_600_000_000_000)
    assert told(reply) == (0, ACTIVE, offset)
    assert reply.lease_end_time_ms == 1_600_000_020_000 and reply.active_controller_id == 1001  # R631-142, R631-199
    assert isinstance(c.ops[0], BrokerSet) and c.ops[0].epoch == offset
    assert c.result.seen is None  # held until its own record is committed


def test_r631_144_level_1_grants_ten_intervals():
    c = Cluster(level=1)
    assert c.beat(1, -1, lease_start_time_ms=1_600_000_000_000).lease_end_time_ms == 1_600_000_030_000


def test_r631_148_a_renewal_appends_nothing():
    c = Cluster(brokers=1)
    end = c.image.next_offset
    for _ in range(1000):
        c.later(20)
        assert told(c.beat(1)) == (0, ACTIVE, c.epochs[1])
    assert c.image.next_offset == end and c.result.seen == c.epochs[1] + 1


def test_r631_130_epochs_grow():
    c = Cluster(brokers=1)
    seen = [c.epochs[1]]
    for _ in range(5):
        c.later(60_000)
        c.expire()
        c.beat(1)
        c.settle()
        seen.append(c.epochs[1])
    assert seen == sorted(set(seen))  # R631-185: never the old one


MALFORMED = [
    dict(target=0),
    dict(target=1),
    dict(target=5),
    dict(target=-3),
    dict(broker=-1),
    dict(epoch=-2),
    dict(listeners=[LISTENER, LISTENER]),
    dict(listeners=[]),
    dict(listeners=[("", "h", 1, 0)]),
    dict(listeners=[("A", "h", 1, 9)]),
]


@pytest.mark.parametrize("fields", MALFORMED)
def test_a14_malformed_is_42_and_orders_nothing(fields):
    c = Cluster(brokers=1)
    reply = c.beat(**({"broker": 1, "epoch": c.epochs[1]} | fields))
    assert (reply.error_code, reply.next_state, reply.broker_epoch, reply.lease_end_time_ms) == (42, UNKNOWN, -1, 0)
    assert c.ops == [] and 1 in c.soft.leases


@pytest.mark.parametrize("level, state, epoch", [(1, FENCED, 0), (2, INITIAL, -1)])
@pytest.mark.parametrize(
    "code, fields",
    [
        (104, dict(cluster_id="other")),
        (101, dict(broker=1002)),  # R631-028
        (35, dict(features="none")),
        (0, dict(cur_metadata_offset=-1)),  # R631-131
    ],
)
def test_a18_a_refused_newcomer(level, state, epoch, code, fields):
    c = Cluster(level=level)
    if fields.get("features"):
        feature = message("v28:BrokerHeartbeatRequest").Feature
        fields = dict(features=[feature(name="metadata.format", min_supported_version=3, max_supported_version=4)])
    reply = c.beat(**({"broker": 7, "epoch": -1} | fields))
    assert told(reply) == (code, state, epoch) and reply.lease_end_time_ms == 0
    assert c.ops == [] and not c.soft.leases


@pytest.mark.parametrize(
    "supported, code", [((0, 1), 0), ((1, 1), 0), ((1, 5), 0), ((2, 5), 35), ((0, 0), 35), (None, 35)]
)
def test_a16_a_newcomer_supports_each_level_that_is_finalized(supported, code):
    c = Cluster()
    c.image.replay(c.image.next_offset, FeatureSet("group.version", 1))
    c.image.replay(c.image.next_offset, FeatureSet("share.version", 0))
    feature = message("v28:BrokerHeartbeatRequest").Feature
    features = [feature(name="metadata.format", min_supported_version=1, max_supported_version=2)]
    if supported is not None:
        low, high = supported
        features.append(feature(name="group.version", min_supported_version=low, max_supported_version=high))
    assert c.beat(7, -1, features=features).error_code == code


def test_r631_176_level_1_the_first_phase_ends_with_the_first_answer():
    c = Cluster(level=1, brokers=1)
    refused = c.beat(1, -1, cur_metadata_offset=-1, incarnation_id=OTHER)
    assert refused.broker_epoch == 0
    assert told(c.beat(1, 0, incarnation_id=OTHER)) == (77, FENCED, -1)


def test_r631_177_level_2_a_refused_newcomer_still_wins():
    c = Cluster(brokers=1)
    old = c.epochs[1]
    assert c.beat(1, -1, cur_metadata_offset=-1, incarnation_id=OTHER).next_state == INITIAL
    assert c.soft.leases[1].epoch == old  # a stale newcomer does not disturb the holder
    assert told(c.beat(1, -1, incarnation_id=OTHER))[:2] == (0, ACTIVE) and c.epochs[1] > old


def test_a17_what_the_predecessor_of_a_stale_newcomer_had_is_not_relied_on():
    """The newcomer may have lost its disk: no leadership is given to the lease of the process before it."""
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3))
    c.topic("alone", (1,))
    given = bytes([1]) * 16
    old = c.epochs[1]
    c.beat(1, old, incarnation_id=given)
    assert c.beat(1, -1, cur_metadata_offset=-1, incarnation_id=OTHER).next_state == INITIAL
    c.settle()
    assert c.partition("t") == ((2, 3), 2, 1)
    assert c.partition("alone")[:2] == ((1,), -1)
    assert c.soft.leases[1].epoch == old and 1 not in c.soft.usable(c.image).ids
    assert c.beat(1, old, incarnation_id=given).next_state == ACTIVE  # the holder is alive
    c.settle()
    assert 1 in c.soft.usable(c.image).ids and c.partition("alone")[:2] == ((1,), 1)


def test_r631_175_new_process_wins():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3))
    old = c.epochs[1]
    reply = c.beat(1, -1, incarnation_id=OTHER)
    assert told(reply)[:2] == (0, ACTIVE) and reply.broker_epoch > old
    kinds = [type(op) for op in c.ops]
    assert kinds == [PartitionsChanged, BrokerGone, BrokerSet]  # R631-181, A20: ISRs first
    assert c.partition("t") == ((2, 3), 2, 1)
    assert told(c.beat(1, old)) == (77, FENCED, -1)  # R631-178
    c.later(60_000)
    c.beat(2)
    c.beat(3)
    c.expire()
    again = c.beat(1, old)
    assert told(again)[:2] == (0, ACTIVE) and again.broker_epoch > reply.broker_epoch  # R631-180


def test_a15_a_retry_with_the_newest_incarnation_gets_the_same_epoch():
    c = Cluster()
    first = c.beat(1, -1, incarnation_id=OTHER)
    again = c.beat(1, -1, incarnation_id=OTHER)
    assert again.broker_epoch == first.broker_epoch and c.ops == []


def test_a15_who_did_not_hear_of_its_new_epoch_is_told_it_again():
    """The answer went with the controller that gave it. The next ones keep the lease alive: refused for three lease periods,
    the process would take its own lease for a rival's, and stop for good."""
    c = Cluster(brokers=2)
    old = c.beat(1, -1, incarnation_id=OTHER).broker_epoch
    c.settle()
    c.later(60_000)
    c.beat(2)
    c.expire()
    assert c.image.broker(1) is None
    new = c.beat(1, old, incarnation_id=OTHER).broker_epoch
    assert new > old
    c.settle()
    assert told(c.beat(1, old, incarnation_id=bytes([9]) * 16)) == (77, FENCED, -1)
    assert told(c.beat(1, old, incarnation_id=OTHER)) == (0, ACTIVE, new) and c.ops == []


def test_without_incarnation_each_first_heartbeat_is_a_new_process():
    c = Cluster()
    first = c.beat(1, -1)
    assert c.beat(1, -1).broker_epoch > first.broker_epoch


def test_design_6_a_proven_clean_stop_keeps_isrs_and_leaderships():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    old = c.epochs[1]
    reply = c.beat(1, -1, incarnation_id=OTHER, previous_broker_epoch=old)
    assert reply.broker_epoch > old and [type(op) for op in c.ops] == [BrokerSet]
    assert c.partition("t") == ((1, 2), 1, 0)


def test_design_6_a_stop_is_not_proven_by_who_comes_back_without_one_of_its_directories():
    here, gone, new = (bytes([n]) * 16 for n in (1, 2, 3))
    for directories, kept in ([here, gone, new], True), ([here], False), ([here, new], False):
        c = Cluster(brokers=2)
        c.beat(1, log_dirs=[here, gone])
        c.settle()
        c.topic("t", (1, 2))
        old = c.epochs[1]
        c.beat(1, -1, incarnation_id=OTHER, previous_broker_epoch=old, log_dirs=directories)
        c.settle()
        isr, leader, _ = c.partition("t")
        assert (isr, leader) == (((1, 2), 1) if kept else ((2,), 2))


def test_design_6_a_crash_raises_the_epoch_even_of_a_sole_member():
    c = Cluster(brokers=1)
    c.topic("t", (1,))
    c.beat(1, -1, incarnation_id=OTHER, previous_broker_epoch=12345)
    c.settle()
    isr, leader, epoch = c.partition("t")
    assert (isr, leader) == ((1,), 1) and epoch > 0


def test_a19_5_an_epoch_of_the_past_without_a_live_lease_is_restored():
    c = Cluster(brokers=2)
    c.later(60_000)
    c.beat(2)
    c.expire()
    assert c.image.broker(1) is None  # A31
    assert told(c.beat(1))[:2] == (0, ACTIVE) and c.image.broker(1) is not None


def test_a19_6_an_epoch_from_the_future_is_refused():
    c = Cluster()
    assert told(c.beat(1, c.image.next_offset)) == (77, FENCED, -1)


@pytest.mark.parametrize("target", [FENCED, SHUTDOWN])
def test_a19_fenced_and_shutdown_register_nobody(target):
    c = Cluster(brokers=1)
    assert told(c.beat(1, -1, target, incarnation_id=OTHER)) == (0, target, -1)
    assert told(c.beat(2, -1, target)) == (0, target, -1)
    assert told(c.beat(1, 1, target, incarnation_id=OTHER))[:2] == (0, target)
    assert c.ops == [] and 1 in c.soft.leases


def returned(c: Cluster, broker: int) -> Any:
    """A process that has fenced itself says so, and asks for a lease again."""
    me = bytes([broker]) * 16
    assert told(c.beat(broker, target=FENCED, incarnation_id=me)) == (0, FENCED, -1)
    c.settle()
    return c.beat(broker, incarnation_id=me)


def test_a23_target_fenced_gives_the_lease_up_and_a_new_epoch_is_all_it_costs():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    old = c.epochs[1]
    reply = returned(c, 1)
    assert reply.next_state == ACTIVE and reply.broker_epoch > old
    assert c.image.broker(1).epoch == reply.broker_epoch and c.partition("t") == ((1, 2), 1, 0)
    assert told(c.beat(1, old, incarnation_id=bytes([9]) * 16)) == (77, FENCED, -1)
    assert c.beat(1, incarnation_id=bytes([1]) * 16).broker_epoch == reply.broker_epoch


def test_a23_brokers_that_return_one_behind_the_other_leave_no_isr_to_the_one_that_does_not():
    """After a time without a quorum all have fenced themselves, and one of them lies without power."""
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3))
    c.later(1000)
    assert returned(c, 2).next_state == returned(c, 3).next_state == ACTIVE
    c.later(c.options.lease_ms(2) - 1000)
    c.expire()
    assert c.partition("t") == ((2, 3), 2, 1)


def test_a23_who_gives_its_lease_up_and_does_not_return_is_fenced_when_it_ends():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    c.later(1000)
    c.beat(1, target=FENCED, incarnation_id=bytes([1]) * 16)
    c.beat(2)
    c.settle()
    assert c.partition("t")[0] == (1, 2)
    c.later(c.options.lease_ms(2) - 1000)
    c.expire()
    assert c.partition("t") == ((2,), 2, 1) and c.image.broker(1) is None


def test_a23_a_process_without_an_id_gives_up_its_place_in_the_isr():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    assert told(c.beat(1, target=FENCED)) == (0, FENCED, -1)
    c.settle()
    assert c.partition("t") == ((2,), 2, 1) and c.image.broker(1) is None


def test_a20_a_new_process_takes_the_id_of_one_that_gave_its_lease_up():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    c.beat(1, target=FENCED, incarnation_id=bytes([1]) * 16)
    assert c.beat(1, -1, incarnation_id=OTHER).next_state == ACTIVE
    assert c.partition("t") == ((2,), 2, 1)


def test_a28_changed_listeners_are_recorded_under_the_same_epoch():
    c = Cluster(brokers=1)
    reply = c.beat(1, listeners=[("PLAINTEXT", "elsewhere", 40000, 0)])
    assert reply.broker_epoch == c.epochs[1] and c.result.seen is None
    assert c.image.broker(1).epoch == c.epochs[1] and c.image.broker(1).endpoints[0].host == "elsewhere"


def committed() -> Cluster:
    """Three seconds old; what is before offset 50 is committed just now."""
    c = Cluster(brokers=2)
    c.later(3000)
    c.held = 50
    c.soft.commits.note(c.mono_ms, 50, 60_000)
    return c


def test_a17_staleness_by_time():
    c = committed()
    here = c.mono_ms
    c.later(1000)
    assert c.beat(3, -1, cur_metadata_offset=10).next_state == ACTIVE  # what was committed two seconds ago
    c.mono_ms = here + 2500
    assert c.beat(4, -1, cur_metadata_offset=10).next_state == INITIAL
    assert c.beat(4, -1, cur_metadata_offset=49).next_state == ACTIVE
    c.beat(1)
    c.beat(2)
    c.mono_ms = here + 19_000
    assert c.beat(1, cur_metadata_offset=10).next_state == ACTIVE
    c.mono_ms = here + 21_000
    ends_ms = c.soft.leases[1].expires_ms
    assert told(c.beat(1, cur_metadata_offset=10)) == (0, FENCED, -1)
    assert c.soft.leases[1].expires_ms == ends_ms and 1 not in c.soft.leaving  # it may not have heard
    assert told(c.beat(1, target=FENCED)) == (0, FENCED, -1)
    assert 1 in c.soft.leaving  # R631-160: it has


def test_a17_who_is_refused_without_hearing_it_and_catches_up_was_never_fenced():
    c = committed()
    c.mono_ms += 19_000
    c.beat(1, cur_metadata_offset=10)
    c.mono_ms += 2000
    assert c.beat(1, cur_metadata_offset=10).next_state == FENCED
    assert told(c.beat(1, cur_metadata_offset=60)) == (0, ACTIVE, c.epochs[1])
    c.beat(1, target=FENCED, incarnation_id=bytes([1]) * 16)
    assert 1 not in c.soft.leaving  # A23: later, and by itself


def test_a17_an_overtaken_heartbeat_takes_nothing_back():
    """One that was stuck on a lost connection arrives behind a newer one, by which its process holds a lease."""
    c = committed()
    c.mono_ms += 21_000
    c.beat(1, cur_metadata_offset=60)
    assert c.beat(1, cur_metadata_offset=10).next_state == ACTIVE
    assert 1 in c.soft.leases and 1 not in c.soft.leaving


def test_a17_nobody_is_expelled_for_staleness_in_the_first_lease_period():
    c = Cluster(brokers=1)
    c.soft.commits.begin(c.mono_ms, 1000)
    assert c.beat(1, cur_metadata_offset=0).next_state == ACTIVE
    assert c.beat(2, -1, cur_metadata_offset=0).next_state == INITIAL  # entry: what was committed at takeover


def test_r631_170_a_broker_without_a_lease_may_stop_at_once():
    c = Cluster(brokers=1)
    c.later(60_000)
    c.expire()
    assert told(c.beat(1, target=SHUTDOWN)) == (0, SHUTDOWN, -1)


def test_r631_166_to_169_controlled_shutdown():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3), (2, 1, 3))
    c.held = c.image.next_offset
    reply = c.beat(1, target=SHUTDOWN)
    assert told(reply) == (0, ACTIVE, c.epochs[1]) and reply.lease_end_time_ms == 25_000  # R631-168
    c.settle()
    assert c.partition("t", 0) == ((2, 3), 2, 1) and c.partition("t", 1) == ((2, 3), 2, 1)
    assert told(c.beat(1, target=SHUTDOWN))[1] == ACTIVE  # R631-167: the moves are not committed
    c.held = None
    c.beat(2)
    c.beat(3)
    assert c.beat(1, target=SHUTDOWN).next_state == SHUTDOWN
    assert [type(op) for op in c.ops] == [BrokerGone] and c.image.broker(1) is None


def test_r291_62_a_broker_that_wants_to_be_told_is_refused_where_nobody_tells_and_is_no_broker_before_it_is_told():
    c = Cluster()
    reply = c.beat(1, -1, legacy=True)
    assert (reply.error_code, reply.broker_epoch) == (102, -1) and c.ops == [] and c.image.broker(1) is None
    c = Cluster(pushes=True)
    for _ in range(3):
        reply = c.beat(1, -1, legacy=True, incarnation_id=b"i" * 16, cur_metadata_offset=1 << 40)
        assert (reply.error_code, reply.next_state) == (0, INITIAL) and c.ops == []  # what it says of itself is no word
    c.soft.legacy[1].told = c.image.next_offset
    assert c.beat(1, -1, legacy=True, incarnation_id=b"i" * 16, cur_metadata_offset=-1).next_state == ACTIVE
    assert c.image.broker(1) is not None


def test_r291_72_a_legacy_broker_is_told_each_partition_that_it_still_leads():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3), (2, 1, 3), (1, 3, 2))
    c.topic("u", (1, 2))
    request = message("ControlledShutdownRequest")(broker_id=1, broker_epoch=c.epochs[1])

    def left() -> set[tuple[str, int]]:
        reply = c.run(controlled_shutdown, request)
        assert reply.error_code == 0
        return {(one.topic_name, one.partition_index) for one in reply.remaining_partitions}

    assert left() == {("t", 0), ("t", 2), ("u", 0)} and c.result.wait == moved_key(1)
    c.settle()
    assert left() == set() and c.result.wait is None


def test_r631_167_an_answer_to_who_stops_waits_for_the_longer_lease_that_it_grants():
    """The next controller has to know how long it may serve."""
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    c.options = c.options._replace(lease=(60_000, 60_000))
    first = c.image.next_offset
    c.beat(1, target=SHUTDOWN)
    assert [type(op) for op in c.ops] == [BrokerSet] and c.ops[0].lease_ms == 60_000
    for _ in range(2):
        assert c.result.seen == first + 1
        c.beat(1, target=SHUTDOWN)
        assert c.ops == []


def test_r631_171_a_sole_member_does_not_block_the_shutdown():
    c = Cluster(brokers=2)
    c.topic("t", (1,))
    c.beat(1, target=SHUTDOWN)
    c.settle()
    assert c.partition("t") == ((1,), -1, 1)
    assert c.beat(1, target=SHUTDOWN).next_state == ACTIVE
    c.beat(2)
    assert c.beat(1, target=SHUTDOWN).next_state == SHUTDOWN
    c.join(1)
    assert c.partition("t")[:2] == ((1,), 1)


def test_a50_the_active_brokers_must_have_heard_of_the_moves():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    behind = c.image.next_offset - 1
    c.beat(2)
    c.beat(1, target=SHUTDOWN)
    c.settle()
    assert c.beat(1, target=SHUTDOWN).next_state == ACTIVE
    c.beat(2, cur_metadata_offset=behind)
    assert c.beat(1, target=SHUTDOWN).next_state == ACTIVE
    c.later(20_000)
    assert c.beat(1, target=SHUTDOWN).next_state == SHUTDOWN  # or one lease period has passed


def test_a_broker_that_stops_gets_nothing_new():
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    c.beat(1, target=SHUTDOWN)
    assert c.topic("u", num_partitions=1, replication_factor=2).error_code == 38
    c.beat(1)  # it has changed its mind
    assert c.topic("u", num_partitions=1, replication_factor=2).error_code == 0


def test_tag_7_unreadable_partitions_are_left():
    kind = message("v28:BrokerHeartbeatRequest")
    c = Cluster(brokers=2)
    c.topic("t", (1, 2), (2, 1))
    c.topic("u", (1,))
    topics = [
        kind.UnreadableTopic(topic_id=c.image.topic_id(c.image.topic("t")), partitions=[0, 9]),
        kind.UnreadableTopic(topic_id=c.image.topic_id(c.image.topic("u")), partitions=[0]),
    ]
    c.beat(1, unreadable=topics)
    assert [c.partition("t", n) for n in range(2)] == [((2,), 2, 1), ((2, 1), 2, 0)]
    assert c.partition("u") == ((1,), -1, 1)


def test_the_old_process_cannot_come_back_while_the_newcomer_waits():
    c = Cluster(brokers=1)
    heartbeat_leases.revoke(c.soft, 1, "taken", newcomer=True)
    kind = message("v28:BrokerHeartbeatRequest")
    request = kind(
        target_state=ACTIVE,
        broker_id=1,
        broker_epoch=c.epochs[1],
        cur_metadata_offset=99,
        listeners=[kind.Listener(name="P", host="h", port=1)],
    )
    reply = broker_heartbeat(c.state, request, c.now, c.random).reply
    assert told(reply) == (77, FENCED, -1)


def test_the_old_process_cannot_come_back_once_the_newcomer_has_begun_to_take_the_id():
    """The removal of the old registration is an operation of its own. What the old process says until then is refused."""
    c = Cluster(brokers=1)
    old = c.epochs[1]
    kind = message("v28:BrokerHeartbeatRequest")

    def beat(epoch, incarnation):
        request = kind(
            target_state=ACTIVE,
            broker_id=1,
            broker_epoch=epoch,
            incarnation_id=incarnation,
            cur_metadata_offset=99,
            listeners=[kind.Listener(name="P", host="h", port=1)],
        )
        return broker_heartbeat(c.state, request, c.now, c.random)

    assert beat(-1, OTHER).wait is not None
    assert told(beat(old, bytes([1]) * 16).reply) == (77, FENCED, -1)
    assert c.soft.leaving[1].newcomer, "so it is until the removal is done"


def test_every_row_of_the_table_is_named_once():
    names = [name for name, _, _ in DECISIONS]
    assert len(set(names)) == len(names)
