"""The cleaner of whole brokers: how fast it is, when it stops, what it sets aside, and what metrics tell of it."""

from typing import Any

import pytest

from actors.broker.log.truncation import truncate_to
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.numbers import numbers
from tests.simulator.one_topic import DIRECTORY, OneTopic
from tests.unit.broker.log import transactions
from tests.unit.broker.log.logs import content

COMPACT = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}
CONFIG = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.io.buffer.size": "4096",
    "log.segment.delete.delay.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}


def write(t: OneTopic, count: int, keys: int = 5) -> None:
    for number in range(count):
        kind = message("ProduceRequest")
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        builder.append(b"k%d" % (number % keys), b"v%d" % number + bytes(40))
        partition = kind.PartitionProduceData(index=0, records=builder.build())
        data = kind.TopicProduceData(name="t", partition_data=[partition])
        reply = t.call("Produce", 12, kind(acks=-1, timeout_ms=3000, topic_data=[data]))
        assert reply.responses[0].partition_responses[0].error_code == 0


def change(t: OneTopic, kind_of: int, name: str, **values: str) -> None:
    kind = message("IncrementalAlterConfigsRequest")
    configs = [
        kind.AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]
    resource = kind.AlterConfigsResource(resource_type=kind_of, resource_name=name, configs=configs)
    reply = t.client.call("b1", "IncrementalAlterConfigs", 1, kind(resources=[resource]))
    assert reply.responses[0].error_code == 0, reply.responses[0].error_message
    t.world.run_for(300)


def slow(t: OneTopic, bytes_per_second: int) -> None:
    change(t, 4, "", **{"log_cleaner_io_max_bytes_per_second": str(bytes_per_second)})


def gauges(t: OneTopic, broker: int) -> dict[str, float]:
    node: Any = t.cluster.brokers[broker].node
    return numbers(node.metrics())


def cleaner(t: OneTopic, broker: int) -> Any:
    node = t.cluster.brokers[broker].node
    assert node is not None and node.broker is not None
    return node.broker.cleaner


def temporary(t: OneTopic, broker: int) -> list[str]:
    names = t.cluster.brokers[broker].disk.names(DIRECTORY)
    return [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_every_replica_cleans_and_unlinks() -> None:
    t = OneTopic(settings=COMPACT, config=CONFIG)
    write(t, 60)
    t.world.run_for(3_000)
    for broker in t.cluster.brokers:
        log = t.log(broker)
        assert log.cleaned_offset == log.segments[-1].base_offset > 40 and not temporary(t, broker)
        assert b"t 0 %d" % log.cleaned_offset in bytes(
            t.cluster.brokers[broker].disk.files["cleaner-offset-checkpoint"].data
        )
        node: Any = t.cluster.brokers[broker].node
        assert 0 < node.broker.cleaner.stats.map_used_ratio < 1
        found = gauges(t, broker)
        assert (
            0 < found["kafka_log_logcleaner_cleaner_recopy_percent"] < 100
            and found[f'kafka_log_logcleanermanager_uncleanable_partitions_count{{logDirectory="b{broker}:data"}}'] == 0
        )
    latest = {offset: value for offset, value in t.read().items() if offset >= 55}
    assert len(latest) == 5


def test_a_log_with_aborted_transactions_is_cleaned() -> None:
    t = OneTopic(settings=COMPACT, config=CONFIG)
    write(t, 3)
    log = t.log(t.leader)
    transactions.write(log, 9, 0, epoch=0)
    first = log.log_end_offset - 1
    transactions.end(log, 9, False)
    write(t, 60)
    t.world.run_for(3_000)
    for broker in t.cluster.brokers:
        log = t.log(broker)
        assert log.cleaned_offset == log.segments[-1].base_offset > 40 and not temporary(t, broker)
        assert [one.base_offset for one in log.aborted.segments] == [0]
        assert transactions.aborted(log, 0, log.log_end_offset) == [(9, first)]
        assert first not in [one.base_offset for one in batches.headers(content(log)) if one.count]


def test_bytes_a_second_are_kept_to() -> None:
    t = OneTopic(settings=COMPACT, config=CONFIG | {"log.cleaner.enable": "false"})
    write(t, 120, keys=120)
    size = sum(segment.size for segment in t.log(1).segments[:-1])
    slow(t, size // 2)
    change(t, 4, "", log_cleaner_enable="true")
    begun = t.world.time_us
    t.until(lambda: t.log(1).cleaned_offset > 0)
    # Read twice and written once at half of it a second; the last segment is not waited for.
    assert 4_500_000 < t.world.time_us - begun < 7_000_000


def test_a_sync_of_a_cleaning_that_fails_is_final() -> None:
    """A broker stops over such a sync, since it cannot know what of the new segment is on the disk, and the old ones
    may be gone."""
    t = OneTopic(settings=COMPACT, config=CONFIG | {"log.cleaner.io.max.bytes.per.second": "3000"})
    write(t, 120, keys=120)
    t.until(lambda: bool(cleaner(t, 1)._running) and bool(temporary(t, 1)))
    broker = t.cluster.brokers[1]
    broker.disk.sync_fails = lambda path: path.startswith(DIRECTORY) and ".log" in path
    t.until(lambda: broker.disk.failed_syncs > 0)
    t.world.run_for(50)
    assert broker.stopped_with is not None and "cannot be made durable" in broker.stopped_with[1]


@pytest.mark.parametrize("how", ["topic deleted", "switched off", "not compacted any more", "broker stops"])
def test_a_cleaning_that_is_not_wanted_any_more_ends(how: str) -> None:
    t = OneTopic(settings=COMPACT, config=CONFIG | {"log.cleaner.io.max.bytes.per.second": "3000"})
    write(t, 120, keys=120)
    t.until(lambda: bool(cleaner(t, 1)._running) and bool(temporary(t, 1)))
    if how == "topic deleted":
        t.drop()
    elif how == "switched off":
        change(t, 4, "", log_cleaner_enable="false")
    elif how == "not compacted any more":
        change(t, 2, "t", cleanup_policy="delete")
    else:
        t.stop(1)
        t.cluster.brokers[1].start()
        t.until(lambda: t.isr == {1, 2, 3})
    t.world.run_for(3_000)
    assert not t.world.errors
    if how != "broker stops":
        assert not cleaner(t, 1)._running
        assert not [name for name in t.cluster.brokers[1].disk.files if ".cleaned" in name]
    if how != "topic deleted":
        assert len(t.read()) == 120


def test_a_cut_ends_a_cleaning_and_the_next_one_goes_on() -> None:
    t = OneTopic([1, 2, 3], COMPACT, CONFIG | {"log.cleaner.io.max.bytes.per.second": "3000"})
    write(t, 60, keys=60)
    t.until(lambda: bool(cleaner(t, 2)._running))
    running = next(iter(cleaner(t, 2)._running.values()))
    log = t.log(2)
    truncate_to(log, log.log_end_offset - 1)
    assert running.cleaning.outdated
    t.until(lambda: running not in cleaner(t, 2)._running.values())
    slow(t, 1 << 30)
    t.until(lambda: t.log(2).cleaned_offset > 0)


def test_retention_ends_a_cleaning_and_sets_nothing_aside() -> None:
    """With compact,delete the oldest segments may go while the cleaner reads them."""
    config = CONFIG | {"log.cleaner.io.max.bytes.per.second": "3000", "log.retention.check.interval.ms": "1000"}
    t = OneTopic(settings=COMPACT | {"cleanup.policy": "compact,delete"}, config=config)
    write(t, 120, keys=120)
    t.until(lambda: bool(cleaner(t, 1)._running) and bool(temporary(t, 1)))
    slow(t, 100)
    change(t, 2, "t", retention_bytes="500")
    t.until(lambda: t.log(1).log_start_offset == t.log(1).segments[-1].base_offset > 0)
    slow(t, 1_000_000)
    change(t, 2, "t", retention_bytes="-1")
    write(t, 120, keys=120)
    t.until(lambda: t.log(1).cleaned_offset >= 120, 200_000)
    assert not t.world.errors and not any(cleaner(t, broker).uncleanable for broker in t.cluster.brokers)


def test_what_is_damaged_is_set_aside_and_told_once() -> None:
    t = OneTopic(settings=COMPACT, config=CONFIG | {"log.cleaner.enable": "false"})
    write(t, 60)
    follower = next(broker for broker in t.cluster.brokers if broker != t.leader)
    segment = t.log(follower).segments[1]
    t.cluster.brokers[follower].disk.corrupt(segment.path(".log"), 70)
    t.world.errors.clear()
    change(t, 4, "", log_cleaner_enable="true")
    t.world.run_for(3_000)
    told = [line for line in t.world.errors if "cannot be cleaned" in line]
    assert len(told) == 1 and told[0].startswith(
        f"b{follower}: t-0 cannot be cleaned and grows from now on: {segment.path('.log')}"
    )
    path = f'{{logDirectory="b{follower}:data"}}'
    assert gauges(t, follower)[f"kafka_log_logcleanermanager_uncleanable_partitions_count{path}"] == 1
    assert gauges(t, follower)[f"kafka_log_logcleanermanager_uncleanable_bytes{path}"] == t.log(follower).size
    assert t.log(follower).cleaned_offset == 0 < t.log(t.leader).cleaned_offset


def test_a_full_disk_passes() -> None:
    t = OneTopic(settings=COMPACT, config=CONFIG | {"log.cleaner.io.max.bytes.per.second": "3000"})
    write(t, 120, keys=120)
    t.until(lambda: bool(cleaner(t, 1)._running))
    disk = t.cluster.brokers[1].disk
    disk.room = 0
    t.until(lambda: not cleaner(t, 1)._running)
    assert cleaner(t, 1)._resting and not cleaner(t, 1).uncleanable
    disk.room = None
    slow(t, 1 << 30)
    t.until(lambda: t.log(1).cleaned_offset > 0)
    t.world.run_for(1_000)
    assert not temporary(t, 1)


def test_records_of_a_compacted_topic_are_not_deleted() -> None:
    """POLICY_VIOLATION, as long as it is not to be deleted from too."""
    t = OneTopic(settings=COMPACT, config=CONFIG)
    write(t, 60)
    kind = message("DeleteRecordsRequest")
    wanted = kind.DeleteRecordsPartition(partition_index=0, offset=10)
    request = kind(topics=[kind.DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=3000)
    assert t.call("DeleteRecords", 2, request).topics[0].partitions[0].error_code == 44
    change(t, 2, "t", cleanup_policy="compact,delete")
    t.delete_records(10)
    assert min(t.read()) >= 10
