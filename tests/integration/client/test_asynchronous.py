"""The client on asyncio, against both kinds of broker."""

import asyncio
from typing import Any

import pytest

from actors.client.errors import ClientError, NotInTime
from actors.client.operations import offsets, topics
from actors.client.operations.fetching import Fetched, Fetcher
from actors.client.operations.producing import Producer
from actors.host.client.asynchronous import connect
from tests.integration.arrow.test_write import made
from tests.integration.client.batches import batch, values

pytestmark = pytest.mark.timeout(120)


def test_operations_run_at_the_same_time(kafka: Any, name: str) -> None:
    async def main() -> None:
        async with connect(kafka.bootstrap_servers) as client:
            await client.run(topics.create([topics.NewTopic(name, 3, 3)]))
            fetcher = Fetcher(client.config, {(name, n): 0 for n in range(3)})
            found: list[bytes] = []

            async def read() -> None:
                while len(found) < 30:
                    for one in await client.run(fetcher.fetch()):
                        assert isinstance(one, Fetched)
                        found.extend(values(one))

            async def write() -> None:
                producer = Producer(client.config)
                for n in range(30):
                    await client.run(producer.send([((name, n % 3), batch(b"%d" % n + bytes(200_000)))]))

            await asyncio.gather(read(), write())
            assert sorted(found) == sorted(b"%d" % n + bytes(200_000) for n in range(30))
            ends = await client.run(offsets.list_offsets([(name, 0)]))
            assert ends[name, 0].offset == 10

    asyncio.run(main())


def test_a_cancelled_operation_is_given_up_and_a_closed_client_says_so(kafka: Any, name: str) -> None:
    made(kafka, name, 1)

    async def main() -> None:
        client = connect(kafka.bootstrap_servers)
        fetcher = Fetcher(client.config, {(name, 0): 0})
        waiting = asyncio.create_task(client.run(fetcher.fetch()))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await client.run(topics.describe([name]))
        left = asyncio.create_task(client.run(fetcher.fetch()))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientError, match="closed"):
            await left
        with pytest.raises(ClientError, match="closed"):
            await client.run(topics.describe())

    asyncio.run(main())


def test_nobody_there() -> None:
    async def main() -> None:
        async with connect("127.0.0.1:1") as client:
            with pytest.raises(NotInTime, match=r"nothing listens there \(connection refused\)"):
                await client.run(topics.describe(), timeout_s=0.5)

    asyncio.run(main())
