"""Mistakes of the partition log: repeated batches, crashes, and truncations."""

from collections.abc import Sequence
from typing import Any

from actors.broker.log import log as log_of
from actors.broker.log import recovery, retention, truncation
from actors.broker.log.leader_epochs import EpochCache
from actors.broker.log.log import PartitionLog
from actors.broker.log.producers import producers
from actors.broker.log.producers.producers import Producers
from actors.broker.replication import reading
from actors.broker.replication.partition import Assignment, Became, Partition
from actors.node.roles.broker.log import log_loader
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.log.log_retention import LogRetention
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from actors.node.runtime.runtime import Runtime
from actors.ports import DiskFailed, SyncClass
from fastpath.records import batch as batches
from fastpath.records.batch import Header
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake()
def duplicate_producer_batch_appended() -> Sequence[Patch]:
    """Sequence numbers are stored but not checked."""
    return [instead(Producers, "check", lambda producers, header: None)]


@mistake()
def sequence_check_lost_on_leader_change() -> Sequence[Patch]:
    """A new leader knows no producer: a batch that the old leader had stored is stored again."""
    apply = Partition.apply

    def forgetful(partition: Partition, assignment: Assignment, mono_ms: int) -> tuple[Became, Any]:
        part, row = apply(partition, assignment, mono_ms)
        if part is Became.LEADER:
            partition.log.producers.clear()
        return part, row

    return [instead(Partition, "apply", forgetful)]


@mistake("moving")
def sequences_of_a_cut_tail_remembered() -> Sequence[Patch]:
    """Truncated batches still count as stored: a repetition is acknowledged and never written."""
    return [
        instead(Producers, "truncate", lambda producers, offset: True),
        *(
            instead(place, "rebuild_producers", lambda log, now_ms=-1, otherwise=0, indexed=None: otherwise)
            for place in (truncation, recovery)
        ),
        instead(truncation, "_take_prepared", lambda log, prepared: None),
    ]


@mistake("pipelined")
def one_batch_of_a_producer_remembered() -> Sequence[Patch]:
    """A partition remembers only the last batch of a producer, so that it does not know the others of five when they
    are sent again."""
    return [instead(producers, "BATCHES_KEPT", 1)]


@mistake("pipelined")
def sequence_gap_taken() -> Sequence[Patch]:
    """A batch is accepted although the one before it was refused."""

    def lenient(known: Producers, header: Header) -> Any:
        try:
            return check(known, header)
        except producers.OutOfOrderSequence:
            return None

    check = Producers.check
    return [instead(Producers, "check", lenient)]


@mistake("pipelined")
def snapshot_with_last_batches_only() -> Sequence[Patch]:
    """A clean restart forgets all but the last batch of each producer."""
    snapshot = Producers.snapshot

    def short(known: Producers) -> bytes:
        kept = Producers.parse(snapshot(known))
        for producer in kept.by_id.values():
            producer.batches = producer.batches[-1:]
        return snapshot(kept)

    return [instead(Producers, "snapshot", short)]


@mistake("quiet")
def producers_not_rebuilt_at_the_start() -> Sequence[Patch]:
    """A restarted replica remembers the producers of its last snapshot only."""
    rebuild = truncation.rebuild_producers

    def shallow(log: PartitionLog, now_ms: int = -1, otherwise: int = 0, indexed: Any = None) -> int:
        with instead(truncation, "learn", lambda *args, **more: None):
            return rebuild(log, now_ms, otherwise)

    return [instead(place, "rebuild_producers", shallow) for place in (truncation, recovery)]


@mistake()
def log_recovery_keeps_a_torn_batch() -> Sequence[Patch]:
    """Every start is treated as one after a clean stop: what a power cut left of the tail is trusted."""
    recover = log_loader.recover

    def believing(*args: Any, clean: bool, **more: Any) -> Any:
        return recover(*args, clean=True, **more)

    return [instead(log_loader, "recover", believing)]


@mistake("rotten")
def replicated_batch_not_verified() -> Sequence[Patch]:
    """Checksums are not verified: a leader sends what its disk holds, and a follower accepts it."""
    return [
        instead(log_of, "verify", lambda data, position: batches.header(data, position)),
        instead(reading, "_verify", lambda partition, entry, records: None),
    ]


@mistake("moving")
def cut_forgets_the_epochs() -> Sequence[Patch]:
    """A truncated log still claims the epochs of the batches that were removed."""
    return [instead(EpochCache, "truncate_end", lambda epochs, offset: None)]


@mistake("recreated")
def deleted_topics_log_taken_up_again() -> Sequence[Patch]:
    """A recreated topic finds the files of the deleted topic of its name."""
    from actors.broker.log.directories.directory import PartitionDirectory

    return [
        instead(PartitionDirectory, "topic_id", None),
        instead(LogManager, "delete", lambda logs, partition: None),
    ]


@mistake("quiet")
def clean_stop_without_a_flush() -> Sequence[Patch]:
    """The mark of a clean stop is written but the logs are not flushed: it promises what the disk does not hold."""
    sync = LogManager.close

    def hasty(logs: Any, replicas: Any, broker_epoch: int, then: Any) -> None:
        runtime = logs._runtime
        original = runtime.sync

        def marks_only(files: Any, replacements: Any, done: Any, runs: Any = ()) -> None:
            original([], replacements, done, runs=[run._replace(files=[]) for run in runs])

        runtime.sync = marks_only
        try:
            sync(logs, replicas, broker_epoch, then)
        finally:
            del runtime.sync

    return [instead(LogManager, "close", hasty)]


@mistake("general")
def error_of_a_run_swallowed() -> Sequence[Patch]:
    """Of logs that are made durable beside each other one could not be, and all of them count as durable."""
    sync = Runtime.sync

    def forgiving(
        runtime: Any, files: Any, replacements: Any, then: Any, kind: Any = SyncClass.DATA, runs: Any = ()
    ) -> None:
        def told(result: Any) -> None:
            then(None if runs and isinstance(result, DiskFailed) else result)

        sync(runtime, files, replacements, told, kind, runs)

    return [instead(Runtime, "sync", forgiving)]


@mistake("reassigned")
def files_of_a_replica_that_moved_away_kept() -> Sequence[Patch]:
    """A broker that has no replica any more leaves the directory where it is, under its name."""
    drop = MetadataApplier.drop

    def only_deleted(applier: MetadataApplier, partition: Partition) -> None:
        if applier._logs._cache.image.topic_by_id(partition.topic_id) < 0:
            drop(applier, partition)
        else:
            applier._replicas.remove(partition)

    return [instead(MetadataApplier, "drop", only_deleted)]


@mistake("purged")
def batch_that_the_log_begins_inside_refused() -> Sequence[Patch]:
    """A follower that must begin inside a batch waits for one that begins at its log start."""
    return [instead(PartitionLog, "begins_inside", lambda log, data, leader_log_start: None)]


@mistake("purged")
def whole_segment_deleted_with_its_first_records() -> Sequence[Patch]:
    """A client that deletes some records of a segment deletes all of them."""
    delete = PartitionLog.delete_records

    def generous(log: PartitionLog, offset: int) -> None:
        bases = [segment.base_offset for segment in log.segments if segment.base_offset > offset]
        delete(log, min([*bases, max(offset, log.log_end_offset)]))

    return [instead(PartitionLog, "delete_records", generous)]


@mistake("purged")
def epoch_of_a_cut_batch_not_known() -> Sequence[Patch]:
    """The table of epochs begins with the log, and a batch that began before it is treated as damaged."""

    def verify(partition: Partition, entry: Any, records: Any) -> None:
        header = batches.header(records)
        if header.epoch != EpochCache.epoch_at(partition.log.epochs, header.base_offset):
            raise reading._damaged(partition, entry, "it is of another epoch")

    return [instead(reading, "_verify", verify)]


@mistake()
def batch_between_two_others_not_stored() -> Sequence[Patch]:
    """A follower that gets three batches at once stores only the first and the last."""
    append = PartitionLog.append_fetched

    def gappy(log: PartitionLog, data: Any, now_ms: int, **more: Any) -> Any:
        headers = batches.headers(data)
        if len(headers) > 2:
            second = headers[1].position
            data = bytes(data[:second]) + bytes(data[second + headers[1].size :])
        return append(log, data, now_ms, **more)

    return [instead(PartitionLog, "append_fetched", gappy)]


@mistake("idle")
def segment_gone_in_front_of_a_file_that_may_be_lost() -> Sequence[Patch]:
    """A log of which all is too old loses its last segment before the empty one is durable: behind a power cut it begins at
    0."""

    def delete(log: PartitionLog, count: int, now_ms: int) -> Any:
        if count < len(log.segments):
            return retention.drop_segments(log, count), []
        jobs = retention.drop_segments(log, count - 1)
        log.roll(now_ms)
        return jobs + retention.drop_segments(log, 1), []

    return [instead(retention, "_delete", delete)]


@mistake("idle")
def producers_gone_with_the_last_records() -> Sequence[Patch]:
    """The last records of a log go before it is durable what their producers have sent: behind a power cut the next batch is
    refused."""

    def sync(checks: LogRetention, replicas: Any, partition: Partition, log: PartitionLog, behind: Any) -> None:
        checks._sync(partition, log, behind)

    return [instead(LogRetention, "_flush", sync)]
