"""The copy of a metadata log that grows while the disk has no room for it."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors import replay
from actors.client.properties import client_config
from actors.host.client.asynchronous import Kafka
from actors.page.live import tail as module
from actors.page.live.tail import Tailed
from tests.unit.arrow.controller import Controller
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
