"""Every field of fixed size into which something goes that grows: what happens when it is full.

The fields are listed from the schemas, by their names; a new one fails the test until it has a row. `WRAPS` and `REFUSED`
name the test that runs it over its end, `LIMITED` what keeps it below its end, `TOLD` that a client or another node has
chosen it, so that it is only handed on, `ENDLESS` why time does not suffice.
"""

import re
from pathlib import Path

import pytest

from actors.wire.messages import FOLDERS, message, names
from actors.wire.schema import Struct

TESTS = Path(__file__).parents[2]
GROWS = re.compile(
    r"epoch|generation|sequence|offset|producer_id|correlation|zk_version|position|delivery_count|delivery_complete"
    r"|lag$|watermark|session_id|subscription_id|throttle_time"
)
INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}

CORRELATION = "WRAPS unit/node/net/test_channels.py::test_correlation_ids_begin_again_behind_the_largest_int32"
SESSION = (
    "WRAPS unit/broker/replication/test_fetch_sessions.py::test_the_epoch_of_a_session_behind_the_last_one_is_the_first"
)
SHARED = (
    "WRAPS unit/node/roles/broker/groups/share/test_share_partitions.py::"
    "test_the_epoch_of_a_share_session_behind_the_last_one_is_the_first"
)
GENERATION = "WRAPS unit/broker/groups/test_epochs.py::test_the_generation_behind_the_last_one_is_the_first"
ENDPOINTS = "WRAPS unit/broker/groups/test_epochs.py::test_the_epoch_of_endpoints_behind_the_last_one_is_the_first"
GROUP = (
    "REFUSED unit/broker/groups/test_epochs.py::"
    "test_a_group_that_has_used_up_its_epochs_says_what_to_do_and_lets_its_members_go"
)
SHARE_GROUP = "REFUSED unit/broker/groups/test_epochs.py::test_a_share_group_that_has_used_up_its_epochs_does_so_too"
QUORUM = "REFUSED unit/node/quorum/test_strangers.py::test_a_voter_that_comes_to_the_last_epoch_stops_with_the_sentence"
PRODUCER = "WRAPS transcripts/transactions/epochs_used_up.txt::init a pid=1001 epoch=32766"
SEQUENCE = "WRAPS unit/broker/log/producers/test_producers.py::test_sequences_wrap"
OFFSET = "ENDLESS 2^63 records: 10 million a second take 29,000 years"
METADATA_OFFSET = "ENDLESS an offset of the metadata log: 2^63 records"
PRODUCER_ID = "ENDLESS 2^63 producer ids, given out in blocks of 1,000 by committed records"
PARTITION = (
    "ENDLESS 2^31 committed changes of one partition, by nodes or who has ALTER on the cluster: 10 a second, 6 years"
)
SNAPSHOT = "ENDLESS 2^31 snapshots of one share partition, each of 500 committed updates: 1,000 a second, 34 years"
CLIENTS = "TOLD"

FIELDS = {
    "assignment_epoch int32": GROUP,
    "assignment_epochs int32": GROUP,
    "applied_offset int64": OFFSET,
    "base_offset int64": OFFSET,
    "broker_epoch int64": METADATA_OFFSET,
    "committed_leader_epoch int32": CLIENTS,
    "committed_offset int64": CLIENTS,
    "controller_epoch int32": QUORUM,
    "coordinator_epoch int32": PARTITION,
    "correlation_id int32": CORRELATION,
    "cur_metadata_offset int64": METADATA_OFFSET,
    "current_leader_epoch int32": PARTITION,
    "current_metadata_offset int64": METADATA_OFFSET,
    "current_txn_first_offset int64": OFFSET,
    "current_txn_start_offset int64": OFFSET,
    "current_zk_version int32": PARTITION,
    "delivery_complete_count int32": "LIMITED by the records in flight of a share partition, 10,000 at most",
    "delivery_count int16": "LIMITED by group.share.delivery.count.limit, 10 at most",
    "end_offset int64": OFFSET,
    "endpoint_information_epoch int32": ENDPOINTS,
    "epoch int16": PRODUCER,
    "epoch int32": QUORUM,
    "epoch int64": METADATA_OFFSET,
    "fetch_offset int64": CLIENTS,
    "finalized_features_epoch int64": METADATA_OFFSET,
    "first_offset int64": OFFSET,
    "generation int32": GENERATION,
    "generation_id int32": GENERATION,
    "generation_id_or_member_epoch int32": GENERATION,
    "group_epoch int32": GROUP,
    "high_watermark int64": OFFSET,
    "isr_broker_epochs int64": METADATA_OFFSET,
    "lag int64": OFFSET,
    "acceptable_recovery_lag int32": "LIMITED it is a setting",
    "last_fetched_epoch int32": QUORUM,
    "last_offset int64": OFFSET,
    "last_offset_epoch int32": QUORUM,
    "last_sequence int32": SEQUENCE,
    "last_snapshot_offset int64": METADATA_OFFSET,
    "last_stable_offset int64": OFFSET,
    "leader_epoch int32": PARTITION,
    "log_end_offset int64": OFFSET,
    "log_start_offset int64": OFFSET,
    "low_watermark int64": OFFSET,
    "member_epoch int32": GROUP,
    "metadata_offset int64": METADATA_OFFSET,
    "next_producer_epoch int16": PRODUCER,
    "next_producer_id int64": PRODUCER_ID,
    "offset int64": OFFSET,
    "offset_delta int32": "LIMITED by the bytes of a batch: a record takes 7 at least",
    "offset_lag int64": OFFSET,
    "ongoing_txn_producer_epoch int16": PRODUCER,
    "ongoing_txn_producer_id int64": PRODUCER_ID,
    "partition_epoch int32": PARTITION,
    "position int64": "LIMITED by the size of a snapshot",
    "previous_broker_epoch int64": METADATA_OFFSET,
    "previous_member_epoch int32": GROUP,
    "previous_producer_id int64": PRODUCER_ID,
    "producer_epoch int16": PRODUCER,
    "producer_epoch int32": PRODUCER,
    "producer_id int64": PRODUCER_ID,
    "producer_id_filters int64": CLIENTS,
    "producer_id_len int32": "LIMITED a block has 1,000",
    "producer_id_start int64": PRODUCER_ID,
    "replica_epoch int32": QUORUM,
    "replica_epoch int64": METADATA_OFFSET,
    "session_epoch int32": SESSION,
    "session_id int32": "LIMITED it is drawn at random",
    "share_session_epoch int32": SHARED,
    "snapshot_epoch int32": SNAPSHOT,
    "start_offset int64": OFFSET,
    "state_epoch int32": SHARE_GROUP,
    "subscription_id int32": "LIMITED it is a checksum",
    "task_offset_interval_ms int32": "LIMITED it is a setting",
    "throttle_time_ms int32": "LIMITED by THROTTLE_MS_MAX",
    "topology_epoch int32": CLIENTS,
    "v3_and_below_producer_epoch int16": CLIENTS,
    "v3_and_below_producer_id int64": CLIENTS,
    "validated_topology_epoch int32": CLIENTS,
    "zk_version int32": PARTITION,
}


def growing() -> set[str]:
    """What the schemas have, as attribute and type."""
    found: set[str] = set()

    def walk(struct: Struct) -> None:
        for field in struct.fields:
            if field.type in INTEGERS and GROWS.search(field.attribute):
                found.add(f"{field.attribute} {field.type}")
            if field.struct is not None:
                walk(field.struct)

    for prefix in FOLDERS:
        for name in names(prefix):
            walk(message(name).__struct__)
    return found


def test_every_field_that_something_grows_into_has_a_rule() -> None:
    assert growing() == FIELDS.keys()


@pytest.mark.parametrize("rule", sorted(set(FIELDS.values())))
def test_a_rule_says_why_or_which_test_shows_it(rule: str) -> None:
    word, _, rest = rule.partition(" ")
    assert word in ("WRAPS", "REFUSED", "LIMITED", "TOLD", "ENDLESS")
    assert rest or word == "TOLD"
    if word in ("WRAPS", "REFUSED"):
        path, _, name = rest.partition("::")
        assert name, "a test by name"
        text = (TESTS / path).read_text()
        assert (name if path.endswith(".txt") else f"def {name}(") in text
