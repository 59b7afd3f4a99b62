"""The copy of a metadata log that grows while the disk has no room for it."""

import asyncio
import errno
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.arrow.metadata_copy import Copy
from actors.client.operations import tail
from actors.client.properties import client_config
from actors.host.client.asynchronous import Kafka
from actors.metadata.ops import ConfigSet
from actors.page.live import tail as module
from actors.page.live.tail import Tailed
from actors.wire.errors import ErrorCode
from tests.unit.arrow.controller import FETCH, Controller
from tests.unit.arrow.test_metadata_replay import snapshot
from tests.unit.replay import metadata_logs


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Let each write behind this size fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_copy_without_room_says_so_and_goes_on_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.02)
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    directory = metadata_logs.write(tmp_path, log)
    news: list[int] = []

    async def run(leader: Controller) -> None:
        async with Kafka(client_config({"bootstrap.servers": leader.address})) as kafka:
            tailed = Tailed(kafka)

            async def heard() -> None:
                news.append(recorded.extent().end)

            async def until_heard(count: int) -> None:
                async with asyncio.timeout(10):
                    while len(news) < count:
                        assert not following.done()
                        await asyncio.sleep(0.01)

            try:
                recorded = await tailed.begin()
                begun = recorded.extent().end
                (file,) = tailed.recorded.path.glob("*.log")  # type: ignore[union-attr]
                with no_file_longer_than(file.stat().st_size + 10):  # in the middle of the next batch
                    leader.log, leader.high_watermark = log, log[-1].last_offset + 1
                    following = asyncio.create_task(tailed.follow(heard))
                    await until_heard(1)
                    assert news == [begun] and "File too large" in tailed.problem and str(file.parent) in tailed.problem
                    await asyncio.sleep(0.2)
                    assert len(news) == 1, "it is told once"
                await until_heard(2)
                assert news[1:] == [log[-1].last_offset + 1] and not tailed.problem
                for name, table in replay.state(directory).items():
                    if name != "controllers":  # who leads is told by quorum-state too
                        assert recorded.table(name, recorded.moment("")).equals(table), name
                following.cancel()
            finally:
                tailed.close()

    with Controller(log[:3], "__kafka_metadata") as leader:
        asyncio.run(run(leader))


class Refusing(Controller):
    """A leader that may say no, or nothing."""

    code = 0
    is_silent = False
    refused = 0

    def _fetch(self, server: Any, version: int, request: Any) -> Any:
        if self.is_silent:
            return None
        if self.code:
            self.refused += 1
            return FETCH(error_code=self.code)
        return super()._fetch(server, version, request)


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_log_that_is_given_no_longer_is_told(monkeypatch: pytest.MonkeyPatch, is_silent: bool) -> None:
    """A right that was taken away: a page that went on as if nothing had happened would show an old state for days."""
    monkeypatch.setattr(module, "AGAIN_S", 0.02)
    monkeypatch.setattr(module, "REFUSED_S", 0.02, raising=False)
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    told: list[str] = []

    async def run(leader: Refusing) -> None:
        settings = {"bootstrap.servers": leader.address, "default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
        async with Kafka(client_config(settings)) as kafka:
            tailed = Tailed(kafka)

            async def heard() -> None:
                told.append(tailed.problem)

            try:
                await tailed.begin()
                following = asyncio.create_task(tailed.follow(heard))
                leader.is_silent, leader.code = is_silent, 0 if is_silent else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                async with asyncio.timeout(10):
                    while not told or (leader.refused < 5 and not is_silent):
                        await asyncio.sleep(0.01)
                assert len(told) == 1 and told[0].startswith("The metadata log is read no further")
                assert is_silent or "CLUSTER_ACTION" in told[0]
                leader.is_silent, leader.code = False, 0
                async with asyncio.timeout(10):
                    while told[-1]:
                        await asyncio.sleep(0.01)
                following.cancel()
            finally:
                tailed.close()

    with Refusing(log, "__kafka_metadata") as leader:
        asyncio.run(run(leader))


class Cluster(Controller):
    """A leader that refuses a request in the name of another cluster, as released controllers do."""

    cluster_id = "cluster"

    def _fetch(self, server: Any, version: int, request: Any) -> Any:
        if request.cluster_id not in (None, self.cluster_id):
            return FETCH(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        return super()._fetch(server, version, request)


def test_the_log_of_another_cluster_at_the_same_address_is_not_taken_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster that was made anew: its log fits by offset and epoch, as both have had one leader."""
    monkeypatch.setattr(module, "AGAIN_S", 0.02)
    monkeypatch.setattr(module, "REFUSED_S", 0.02)
    log = metadata_logs.batches(metadata_logs.ops(), 2)

    async def run(leader: Cluster) -> None:
        async with Kafka(client_config({"bootstrap.servers": leader.address})) as kafka:
            tailed = Tailed(kafka)

            async def heard() -> None:
                pass

            try:
                recorded = await tailed.begin()
                before = recorded.extent().end
                leader.cluster_id = "another"
                leader.log, leader.high_watermark = log, log[-1].last_offset + 1
                following = asyncio.create_task(tailed.follow(heard))
                async with asyncio.timeout(5):
                    while not tailed.problem and recorded.extent().end == before:
                        await asyncio.sleep(0.01)
                following.cancel()
                assert recorded.extent().end == before and "INCONSISTENT_CLUSTER_ID" in tailed.problem
            finally:
                tailed.close()

    with Cluster(log[:3], "__kafka_metadata") as leader:
        leader.epoch = log[-1].epoch
        asyncio.run(run(leader))


def test_a_newer_snapshot_that_is_not_whole_gives_its_room_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full of it, and so the log that it should have made shorter grew no more."""
    monkeypatch.setattr(module, "COPY_BYTES_MAX", 8_000)
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1_000)
    monkeypatch.setattr(module, "AGAIN_S", 0.02)
    monkeypatch.setattr(tail, "SLICE_BYTES", 200)
    ops = [*metadata_logs.ops(), *(ConfigSet(2, "orders", "retention.ms", str(number)) for number in range(200))]
    log = metadata_logs.batches(ops, 1)
    take, full = Copy.take, 0

    def without_room(copy: Copy, event: Any) -> None:
        nonlocal full
        if list(copy.path.glob("*.marking")) and full < 3:
            full += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        take(copy, event)

    monkeypatch.setattr(Copy, "take", without_room)

    async def run(leader: Controller) -> None:
        async with Kafka(client_config({"bootstrap.servers": leader.address})) as kafka:
            tailed = Tailed(kafka)

            async def heard() -> None:
                pass

            try:
                recorded = await tailed.begin()
                following = asyncio.create_task(tailed.follow(heard))
                for at in range(20, len(log)):
                    end = leader.high_watermark = log[at].last_offset + 1
                    async with asyncio.timeout(10):
                        while recorded.extent().end < end:
                            assert full < 2 or not list(tailed._copy.path.glob("*.marking")) or not tailed.problem
                            assert not following.done()
                            await asyncio.sleep(0.002)
                assert full == 3 and not tailed.problem
                following.cancel()
            finally:
                tailed.close()

    with Controller(log, "__kafka_metadata") as leader:
        leader.snapshots = [snapshot(metadata_logs.write(tmp_path, log), log[10].last_offset + 1)]
        leader.high_watermark = log[20].last_offset + 1
        asyncio.run(run(leader))


def test_a_copy_that_is_closed_is_read_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page ended only when all of it was read."""
    begun, ended = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, *_: object, on_progress: Callable[[int], None] = lambda _: None) -> None:
            begun.set()
            try:
                for _ in range(200):
                    on_progress(1)
                    time.sleep(0.01)
            except InterruptedError:
                ended.set()

    monkeypatch.setattr(module, "Recorded", Slow)
    log = metadata_logs.batches(metadata_logs.ops(), 2)

    async def run(leader: Controller) -> None:
        async with Kafka(client_config({"bootstrap.servers": leader.address})) as kafka:
            tailed = Tailed(kafka)
            beginning = asyncio.create_task(tailed.begin())
            await asyncio.to_thread(begun.wait, 10)
            beginning.cancel()
            tailed.close()

    with Controller(log, "__kafka_metadata") as leader:
        leader.high_watermark = log[-1].last_offset + 1
        asyncio.run(run(leader))
    assert ended.is_set()


def test_a_copy_that_grows_for_long_stays_within_its_bound_and_keeps_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grew without an end: 17 MB a day of a controller at which nothing happens."""
    bound, segment = 40_000, 4_000
    monkeypatch.setattr(module, "COPY_BYTES_MAX", bound)
    monkeypatch.setattr(module, "SEGMENT_BYTES", segment)
    monkeypatch.setattr(tail, "SLICE_BYTES", 3_000)
    ops = [*metadata_logs.ops(), *(ConfigSet(2, "orders", "retention.ms", str(number)) for number in range(1_200))]
    log = metadata_logs.batches(ops, 1)
    directory = metadata_logs.write(tmp_path, log)
    begins: list[int] = []

    async def run(leader: Controller) -> None:
        async with Kafka(client_config({"bootstrap.servers": leader.address})) as kafka:
            tailed = Tailed(kafka)

            async def heard() -> None:
                pass

            try:
                recorded = await tailed.begin()
                following = asyncio.create_task(tailed.follow(heard))
                for at in range(20, len(log), 10):
                    end = leader.high_watermark = log[at].last_offset + 1
                    if at % 50 == 0:
                        leader.snapshots = [snapshot(directory, log[at - 5].last_offset + 1)]
                    async with asyncio.timeout(20):
                        while recorded.extent().end < end:
                            assert not following.done()
                            await asyncio.sleep(0.002)
                    assert tailed._copy.bytes < bound * 1.5 + 2 * segment + 2 * len(leader.snapshots[0].data), at
                    begins.append(recorded.extent().begin)
                    if begins[-1] and begins[-1] != begins[-2]:
                        log_bytes = sum(len(one.data) for one in log if begins[-1] <= one.base_offset < end)
                        assert log_bytes > bound // 2, "not all of the past is lost at once"
                        for offset in (begins[-1], (begins[-1] + end) // 2, end):
                            moment = recorded.moment(str(offset))
                            for name, table in replay.state(directory, offset).items():
                                if name != "controllers":
                                    assert recorded.table(name, moment).equals(table), (name, offset)
                        with pytest.raises(ValueError, match="the history begins at offset"):
                            recorded.moment(str(begins[-1] - 1))
                following.cancel()
            finally:
                tailed.close()

    with Controller(log, "__kafka_metadata") as leader:
        leader.snapshots = [snapshot(directory, log[10].last_offset + 1)]
        leader.high_watermark = log[20].last_offset + 1
        asyncio.run(run(leader))
    assert begins == sorted(begins) and len(set(begins)) > 2, "it was cut more than once"


def test_a_snapshot_behind_which_nothing_was_written_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that was cut off while the leader deleted its log showed what was before as now, until the next record."""
    monkeypatch.setattr(tail, "SLICE_BYTES", 100)
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    directory = metadata_logs.write(tmp_path, log)

    async def run(leader: Controller) -> None:
        async with Kafka(client_config({"bootstrap.servers": leader.address})) as kafka:
            tailed, told = Tailed(kafka), asyncio.Event()

            async def heard() -> None:
                told.set()

            try:
                recorded, end = await tailed.begin(), log[-1].last_offset + 1
                leader.log, leader.high_watermark = list(log), end
                leader.snapshots = [snapshot(directory, end)]
                leader.delete(end)
                following = asyncio.create_task(tailed.follow(heard))
                await asyncio.wait_for(told.wait(), 5)
                following.cancel()
                assert (recorded.extent().begin, recorded.extent().end) == (end, end) and not tailed.problem
                for name, table in replay.state(directory).items():
                    if name != "controllers":
                        assert recorded.table(name, recorded.moment("")).equals(table), name
            finally:
                tailed.close()

    with Controller(log[:3], "__kafka_metadata") as leader:
        leader.epoch = log[-1].epoch
        asyncio.run(run(leader))
