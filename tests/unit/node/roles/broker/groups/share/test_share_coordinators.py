"""Share coordinators of a small cluster: asked over the wire, read by the next leader, with a log that is cut."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.metadata import ops
from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.roles.broker.groups.share.share_persister import StateBatch
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab

STATE_ID = b"\x08" * 16
KEY = SharePartitionKey("g", TOPIC_ID, 0)
PRUNE_MS = 5_000


def made(brokers: int = 2, **settings: str) -> Lab:
    """Broker 1 leads `__share_group_state`, which has one partition."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    found = Lab(brokers, {"share.coordinator.state.topic.num.partitions": "1"} | given)
    found.topic(list(range(1, brokers + 1)), SHARE_STATE_TOPIC, STATE_ID)
    found.topic([brokers], partitions=400)
    return found


def ask(found: Lab, begin: Callable[[Any, Callable[[Any], None]], None], broker: int = 2) -> Any:
    """What a share coordinator answers to that broker."""
    told: list[Any] = []
    begin(found.broker(broker).share_persister, told.append)
    for _ in range(40):
        if told:
            return told[0]
        found.pass_ms(50)
    raise AssertionError("not answered")


def initialize(found: Lab, key: SharePartitionKey = KEY, start: int = 0) -> ErrorCode:
    return ErrorCode(ask(found, lambda one, then: one.initialize(key, 0, start, then)).error_code)


def write(found: Lab, first: int, last: int, key: SharePartitionKey = KEY) -> ErrorCode:
    batches = [StateBatch(first, last, 2, 1)]
    return ErrorCode(ask(found, lambda one, then: one.write(key, 0, -1, -1, 3, batches, then)).error_code)


def read(found: Lab, key: SharePartitionKey = KEY, leader_epoch: int = -1) -> Any:
    return ask(found, lambda one, then: one.read(key, leader_epoch, then))


def batches(result: Any) -> list[tuple[int, int, int, int]]:
    assert result.error_code == ErrorCode.NONE, result.error_message
    return [(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in result.state_batches]


def test_what_was_written_is_read_by_who_leads_next() -> None:
    found = made()
    assert initialize(found) is ErrorCode.NONE
    assert write(found, 0, 4) is ErrorCode.NONE
    assert batches(read(found)) == [(0, 4, 2, 1)]
    found.crash(1)
    found.change([2], 2, topic_id=STATE_ID)
    found.settle()
    assert batches(read(found)) == [(0, 4, 2, 1)]
    assert write(found, 7, 7) is ErrorCode.NONE
    assert batches(read(found)) == [(0, 4, 2, 1), (7, 7, 2, 1)]


def test_who_has_a_damaged_log_coordinates_nothing_and_another_member_goes_on() -> None:
    """A record that says something else would give out again what is done, or lose what is not."""
    found = made()
    assert initialize(found) is ErrorCode.NONE and write(found, 0, 4) is ErrorCode.NONE
    log = found.partition(2, 0, SHARE_STATE_TOPIC).log
    log.disk.corrupt(log.active.path(".log"), 80)
    found.change([1, 2], 2, topic_id=STATE_ID)
    found.settle()
    assert found.partition(2, 0, SHARE_STATE_TOPIC).unreadable
    assert any("needs another coordinator" in line for line in found.nodes[2].log.lines)
    kind = message("ReadShareGroupStateRequest")
    part = kind.PartitionData(partition=0, leader_epoch=-1)
    request = kind(group_id="g", topics=[kind.ReadStateData(topic_id=TOPIC_ID, partitions=[part])])
    pending = found.call(2, "ReadShareGroupState", 0, request)
    found.settle()
    (result,) = pending.reply.results[0].partitions
    assert (
        result.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        and not result.state_batches
    )
    found.change([1], 1, topic_id=STATE_ID)
    found.settle()
    assert batches(read(found)) == [(0, 4, 2, 1)]


def test_a_summary_tells_epochs_and_offsets() -> None:
    found = made()
    initialize(found, start=5)
    read(found, leader_epoch=3)
    kind = message("WriteShareGroupStateRequest")
    part = kind.PartitionData(
        partition=0, state_epoch=0, leader_epoch=3, start_offset=-1, delivery_complete_count=3, state_batches=[]
    )
    found.call(
        1,
        "WriteShareGroupState",
        1,
        kind(group_id="g", topics=[kind.WriteStateData(topic_id=TOPIC_ID, partitions=[part])]),
    )
    request = message("ReadShareGroupStateSummaryRequest")
    place = request.ReadStateSummaryData(topic_id=TOPIC_ID, partitions=[request.PartitionData(partition=0)])
    for version, count in ((0, -1), (1, 3)):
        pending = found.call(1, "ReadShareGroupStateSummary", version, request(group_id="g", topics=[place]))
        found.settle()
        (result,) = pending.reply.results[0].partitions
        assert (result.leader_epoch, result.start_offset, result.delivery_complete_count) == (3, 5, count)


def test_the_state_of_a_deleted_topic_is_removed() -> None:
    found = made()
    initialize(found)
    assert found.broker(1).share_state.machine.shards[0].entries
    found.commit(ops.TopicGone(TOPIC_ID))
    found.settle()
    assert not found.broker(1).share_state.machine.shards[0].entries


def test_what_is_not_needed_is_deleted_from_the_log() -> None:
    settings = {
        "share_coordinator_state_topic_prune_interval_ms": str(PRUNE_MS),
        "share_coordinator_snapshot_update_records_per_snapshot": "2",
    }
    found = made(**settings)
    initialize(found)
    for number in range(7):
        write(found, number, number)
    log = found.partition(1, 0, SHARE_STATE_TOPIC).log
    assert (log.log_start_offset, log.log_end_offset) == (0, 8)
    found.pass_ms(2 * PRUNE_MS)
    assert log.log_start_offset == 6
    found.crash(1)
    found.change([2], 2, topic_id=STATE_ID)
    found.settle()
    assert batches(read(found)) == [(0, 6, 2, 1)]


@pytest.mark.parametrize("odd", ["no group", "no partition"])
def test_a_request_that_says_nothing_is_answered_with_nothing(odd: str) -> None:
    found = made()
    kind = message("DeleteShareGroupStateRequest")
    parts = [] if odd == "no partition" else [kind.PartitionData(partition=0)]
    request = kind(
        group_id="" if odd == "no group" else "g", topics=[kind.DeleteStateData(topic_id=TOPIC_ID, partitions=parts)]
    )
    pending = found.call(1, "DeleteShareGroupState", 0, request)
    assert pending.done and pending.reply.results == []


def test_a_long_request_is_begun_in_slices_and_answered_once() -> None:
    found = made()
    kind = message("InitializeShareGroupStateRequest")
    parts = [kind.PartitionData(partition=number, state_epoch=0, start_offset=number) for number in range(400)]
    request = kind(group_id="g", topics=[kind.InitializeStateData(topic_id=TOPIC_ID, partitions=parts)])
    before = found.slices
    pending = found.call(1, "InitializeShareGroupState", 0, request)
    found.settle()
    assert found.slices > before
    results = pending.reply.results[0].partitions
    assert [one.partition for one in results] == list(range(400)) and not any(one.error_code for one in results)


def test_a_broker_that_does_not_lead_says_so() -> None:
    found = made()
    kind = message("ReadShareGroupStateRequest")
    request = kind(
        group_id="g",
        topics=[kind.ReadStateData(topic_id=TOPIC_ID, partitions=[kind.PartitionData(partition=0, leader_epoch=0)])],
    )
    pending = found.call(2, "ReadShareGroupState", 0, request)
    (result,) = pending.reply.results[0].partitions
    assert result.error_code == ErrorCode.NOT_COORDINATOR and result.error_message


@pytest.mark.parametrize(
    ("key", "version", "code"),
    [
        (KEY.coordinator_key, 6, ErrorCode.NONE),
        ("a:b:" + KEY.coordinator_key, 6, ErrorCode.NONE),
        (KEY.coordinator_key, 5, ErrorCode.INVALID_REQUEST),
        ("g", 6, ErrorCode.INVALID_REQUEST),
        (" :" + KEY.coordinator_key[2:], 6, ErrorCode.INVALID_REQUEST),
        (KEY.coordinator_key[:-1] + "x", 6, ErrorCode.INVALID_REQUEST),
        ("g:short:0", 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_share_coordinator_of_a_share_partition_is_found(key: str, version: int, code: ErrorCode) -> None:
    found = made()
    request = message("FindCoordinatorRequest")(key_type=2, coordinator_keys=[key])
    (one,) = found.call(2, "FindCoordinator", version, request).reply.coordinators
    assert one.error_code == code and (one.node_id == 1) is (code is ErrorCode.NONE)


def test_the_topic_is_made_when_it_is_first_asked_for() -> None:
    found = Lab(1, {"share.coordinator.state.topic.num.partitions": "1"})
    request = message("FindCoordinatorRequest")(key_type=2, coordinator_keys=[KEY.coordinator_key])
    (one,) = found.call(1, "FindCoordinator", 6, request).reply.coordinators
    assert one.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    found.settle()
    ((*_, made_of),) = [one for one in found.asked if one[1] == "CreateTopics"]
    (topic,) = made_of.topics
    assert topic.name == SHARE_STATE_TOPIC and topic.num_partitions == 1
    assert {one.name: one.value for one in topic.configs} == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }
    (one,) = found.call(1, "FindCoordinator", 6, request).reply.coordinators
    assert one.error_code == ErrorCode.NONE
