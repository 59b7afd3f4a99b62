"""Small things that the tests of the log share: batches, settings, a log with its virtual disk."""

from dataclasses import replace
from typing import Any

from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import Appended, Flush, PartitionLog, Unsettled
from actors.broker.log.recovery import Recovered, recover
from actors.broker.log.retention import Retained, retain, synced
from actors.broker.log.segment import Job
from actors.ports import Sync
from actors.settings.topics import TopicSettings, topic_settings
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk

DIRECTORY = "topic-0"


def settings(**changes: Any) -> TopicSettings:
    """Kafka's defaults, changed."""
    return replace(topic_settings({}, lambda name: (False, _DEFAULTS[name].default)), **changes)


def build(count: int = 1, size: int = 10, timestamp_ms: int = 1_000, **header: Any) -> bytearray:
    """A batch of `count` records with values of `size` bytes."""
    builder = batch.Builder(timestamp_ms=timestamp_ms, **header)
    for _ in range(count):
        builder.append(b"key", bytes(size), timestamp_ms)
    return builder.build()


def put(log: PartitionLog, data: bytearray, epoch: int = 0, now_ms: int = 1_000) -> Appended:
    """Append as a leader does whose clients send again what was refused until a cut is durable."""
    accepted = batch.accept(data, 0, len(data), log.log_end_offset, epoch, now_ms=now_ms)
    try:
        return log.append(data, accepted.headers, now_ms)
    except Unsettled:
        flush(log)
    return log.append(data, accepted.headers, now_ms)


def sync(log: PartitionLog, wanted: Flush) -> None:
    """What a host does for the caller of `flush`."""
    assert isinstance(log.disk, VirtualDisk)
    log.disk.sync(Sync(0, wanted.files, wanted.replacements))


def flush(log: PartitionLog) -> None:
    """Flush and sync at once."""
    wanted = log.flush()
    sync(log, wanted)
    log.flushed(wanted)


def stop(log: PartitionLog) -> None:
    """A clean stop."""
    wanted = log.close()
    sync(log, wanted)
    log.flushed(wanted)
    log.release()


def reopen(log: PartitionLog, *, clean: bool = False, **changes: Any) -> Recovered:
    """Open what is on the disk now, as a new process would."""
    arguments: dict[str, Any] = {"recovery_point": log.recovery_point, "log_start_offset": log.log_start_offset}
    return recover(log.disk, log.directory, log.settings, clean=clean, **{**arguments, **changes})


def retained(log: PartitionLog, now_ms: int, high_watermark: int) -> Retained:
    """What goes in checks of retention until nothing has to be done first."""
    deleted, jobs = 0, list[Job]()
    while True:
        result = retain(log, now_ms, high_watermark)
        deleted += result.deleted
        jobs += result.jobs
        if not result.warm and not result.behind and not result.more:
            return result._replace(deleted=deleted, jobs=jobs)
        prepare(log, result)


def prepare(log: PartitionLog, result: Retained) -> None:
    """Do what has to be done before the next check."""
    assert isinstance(log.disk, VirtualDisk)
    for job in result.warm:
        job()
    log.disk.sync(Sync(0, [segment.log for segment in result.behind], []))
    synced(result.behind)


def new(indexes: IndexCache | None = None, **changes: Any) -> PartitionLog:
    """An empty log on a disk of its own."""
    return PartitionLog(VirtualDisk(), DIRECTORY, settings(**changes), bytes(range(16)), indexes=indexes)


def content(log: PartitionLog, offset: int | None = None, upper: int = 1 << 62, bytes_max: int = 1 << 20) -> bytes:
    """Everything from `offset` on, read as a consumer reads."""
    parts = []
    offset = log.log_start_offset if offset is None else offset
    while offset < log.log_end_offset:
        found = log.read(offset, bytes_max, upper)
        if found is None:
            found = log.cold_read(offset, bytes_max, upper)()
        if not found.data:
            break
        parts.append(bytes(found.data))
        offset = found.next_offset
    return b"".join(parts)


def offsets(data: bytes) -> list[int]:
    """Base offsets of the batches."""
    return [header.base_offset for header in batch.headers(data)]


def _defaults() -> dict[str, Any]:
    from actors.settings.nodes import BROKER_CONFIGS

    return dict(BROKER_CONFIGS)


_DEFAULTS = _defaults()
