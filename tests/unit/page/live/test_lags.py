"""The lag of a group while a leader is away: it is not known, and no sum of the others is told for it. And what is said of
groups that stand still."""

import asyncio
from typing import Any

import pytest

from actors.client.client import Client
from actors.client.errors import ClientError
from actors.client.operations.groups import Listed
from actors.page.live import lags as module
from actors.page.live.lags import COUNTED_MAX, Behind, Lags
from actors.page.routes.groups import lag_over_time
from actors.why.explanations import explain
from actors.why.facts import ClusterFacts, GroupFacts
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


def of(leaders: list[int]) -> tuple[list[int], Lags]:
    """The leaders of two partitions of which the group g has read to 4, to be changed; and the page's look at groups."""
    world = cluster(leaders)
    for one in world.servers.values():
        one.answers |= {
            "ListGroups": listed, "FindCoordinator": coordinator, "OffsetFetch": committed, "DescribeGroups": described,
        }  # fmt: skip
    return leaders, Lags(Kafka(world))  # type: ignore[arg-type]


@pytest.mark.parametrize(("leaders", "lag"), [([1, 2], 10), ([1, -1], None)])
def test_a_lag_is_that_of_all_partitions_or_not_known(leaders: list[int], lag: int | None) -> None:
    _, lags = of(leaders)
    asyncio.run(lags._round())
    assert lags.groups["g"].lag == lag and lags.groups["g"].partitions == 2 and not lags.problem
    assert len(lags.keys("g")) == (2 if lag is not None else 1), "the partitions that are known have their series"


def test_a_sum_over_time_does_not_fall_where_a_partition_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders, lags = of([1, 2])
    now_s = 1_000_000
    monkeypatch.setattr(module.time, "time", lambda: now_s)
    for now_s in range(1_000_000, 1_000_060, 5):
        leaders[1] = 2 if now_s < 1_000_040 else -1
        lags._kafka.world.now_us += 300_000_000  # type: ignore[attr-defined]
        asyncio.run(lags._round())
    told = lag_over_time(lags, "g", is_day=False)
    assert told["total"] == [10.0] * 8 + [None] * 4
    assert told["partitions"] == {"t-0": [5.0] * 12, "t-1": [5.0] * 8 + [None] * 4}
    assert told["per_s"] == pytest.approx(0) and lags.trend("g").per_s == pytest.approx(0)  # type: ignore[union-attr]


def test_a_group_whose_members_were_not_counted_is_not_said_to_have_none() -> None:
    class Silent:
        async def run(self, steps: Any, timeout_s: float) -> Any:
            raise ClientError("it does not answer")

    lags = Lags(Silent())  # type: ignore[arg-type]
    states = {"a": "Stable", "b": "Empty", "c": "Stable"}
    lags.groups = {name: Behind(Listed(name, "classic", state, "consumer", 1), 5, 1) for name, state in states.items()}
    counted = [
        asyncio.run(lags._counted(at, GroupFacts(name, 0, 5, ("t-0",), 60_000)))
        for at, name in ((0, "a"), (1, "b"), (COUNTED_MAX, "c"))
    ]
    causes = [one.cause for one in explain(ClusterFacts(1_000_000, {}, {}, groups=tuple(counted)))]
    assert causes == ["", "it has no members", ""]


def test_groups_that_are_not_told_any_more_do_not_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    lags = Lags(None)  # type: ignore[arg-type]
    lags.standing = (GroupFacts("g", 1, 5, ("t-0",), 60_000),)

    async def fails() -> None:
        raise ClientError("nobody answers")

    async def once() -> None:
        watching = asyncio.create_task(lags.watch())
        await lags.ready()
        watching.cancel()

    monkeypatch.setattr(lags, "_round", fails)
    asyncio.run(once())
    assert lags.standing == () and lags.problem == "groups cannot be told: nobody answers"


def test_a_clock_that_jumps_ahead_makes_no_group_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    _, lags = of([1, 2])
    for now_s in (1_000_000, 1_003_600, 1_003_605):
        monkeypatch.setattr(module.time, "time", lambda now_s=now_s: now_s)
        asyncio.run(lags._round())
    assert lags.standing == ()


def test_the_partitions_with_the_most_lag_are_told_first_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, lags = of([1, 2])
    count = 10_000
    lags._keys = {"g": [("g", "t", number) for number in range(count)]}
    lags.samples.add(1_000, {key: float(key[2] % 7) for key in lags.keys("g")})
    asked: list[int] = []
    line = lags.samples.line
    monkeypatch.setattr(lags.samples, "line", lambda keys, *of: asked.append(len(keys)) or line(keys, *of))
    told = lag_over_time(lags, "g", is_day=False)
    assert list(told["partitions"])[:3] == ["t-6", "t-13", "t-20"] and told["left_out"] == count - 200
    assert told["partitions"]["t-6"] == [6.0] and len(asked) == 201, "not one look for each of them"


def test_a_trend_is_judged_once_a_round_however_many_pages_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    _, lags = of([1, 2])
    asyncio.run(lags._round())
    judged: list[str] = []
    monkeypatch.setattr(lags, "_judged", lambda group: judged.append(group))
    for _ in range(100):
        lags.trend("g")
    assert judged == ["g"]
    asyncio.run(lags._round())
    lags.trend("g")
    assert judged == ["g", "g"]
    for _ in range(2):
        lags.trend("a name that somebody has made up")
    assert len(judged) == 4 and len(lags._trends) == 1, "what nobody has is not kept"


def test_a_page_is_told_as_many_partitions_as_it_draws() -> None:
    _, lags = of([1, 2])
    lags._keys = {"g": [("g", "t", number) for number in range(50)]}
    lags.samples.add(1_000, {key: float(key[2]) for key in lags.keys("g")})
    told = lag_over_time(lags, "g", False, 4)
    assert list(told["partitions"]) == ["t-49", "t-48", "t-47", "t-46"] and told["left_out"] == 46
