"""The lag of a group while a leader is away: it is not known, and no sum of the others is told for it."""

import asyncio
from typing import Any

import pytest

from actors.client.client import Client
from actors.page.live.lags import Lags
from tests.unit.client.operations.test_leaders import cluster
from tests.unit.client.servers import World
from tests.unit.command.by_address.test_exporter import committed, coordinator, described, listed


class Kafka:
    """A client of a world of servers, for one who awaits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client: Client = world.client

    async def run(self, steps: Any, timeout_s: float) -> Any:
        """What an operation returns."""
        return self.world.run(steps, int(timeout_s * 1000))


@pytest.mark.parametrize(("leaders", "lag"), [([1, 2], 10), ([1, -1], None)])
def test_a_lag_is_that_of_all_partitions_or_not_known(leaders: list[int], lag: int | None) -> None:
    world = cluster(leaders)
    for one in world.servers.values():
        one.answers |= {
            "ListGroups": listed, "FindCoordinator": coordinator, "OffsetFetch": committed, "DescribeGroups": described,
        }  # fmt: skip
    lags = Lags(Kafka(world))  # type: ignore[arg-type]
    asyncio.run(lags._round())
    assert lags.groups["g"].lag == lag and lags.groups["g"].partitions == 2 and not lags.problem
    assert len(lags.keys("g")) == (2 if lag is not None else 1), "the partitions that are known have their series"
