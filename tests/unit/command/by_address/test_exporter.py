"""The page of a cluster's metrics while a part of it is away: what answers is on the page, what does not is absent."""

from typing import Any

import pytest

from actors.command.by_address.exporter import Exporter
from actors.wire.messages import message
from tests.unit.client.operations.test_leaders import cluster
from tests.unit.client.servers import Server, World


class Kafka:
    """A client of a world of servers, with the calls that an exporter makes."""

    def __init__(self, world: World) -> None:
        self.world = world

    def run(self, steps: Any, timeout_s: float) -> Any:
        """What an operation returns."""
        return self.wait(self.start(steps, timeout_s))

    def start(self, steps: Any, timeout_s: float) -> Any:
        """Begin an operation."""
        return self.world.client.start(steps, self.world.now_us, int(timeout_s * 1000))

    def wait(self, task: Any) -> Any:
        """Its result."""
        return self.world.wait(task)


def listed(server: Server, version: int, request: Any) -> Any:
    kind = message("ListGroupsResponse")
    one = kind.ListedGroup(group_id="g", protocol_type="consumer", group_state="Empty", group_type="classic")
    return kind(groups=[one] if server.host == "a" else [])


def coordinator(server: Server, version: int, request: Any) -> Any:
    kind = message("FindCoordinatorResponse")
    return kind(coordinators=[kind.Coordinator(key="g", node_id=1, host="a", port=1)])


def described(server: Server, version: int, request: Any) -> Any:
    kind = message("DescribeGroupsResponse")
    group = kind.DescribedGroup(
        group_id="g", error_code=0, group_state="Empty", protocol_type="consumer", protocol_data="", members=[]
    )
    return kind(groups=[group])


def committed(server: Server, version: int, request: Any) -> Any:
    kind = message("OffsetFetchResponse")
    rows = [
        kind.OffsetFetchResponsePartitions(
            partition_index=n, committed_offset=4, committed_leader_epoch=-1, metadata="", error_code=0
        )
        for n in (0, 1)
    ]
    topics = [kind.OffsetFetchResponseTopics(name="t", partitions=rows)]
    return kind(groups=[kind.OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=0)])


def page(world: World) -> dict[tuple[str, ...], Any]:
    for one in world.servers.values():
        one.answers |= {
            "ListGroups": listed,
            "FindCoordinator": coordinator,
            "OffsetFetch": committed,
            "DescribeGroups": described,
        }
    found = Exporter(Kafka(world)).samples()  # type: ignore[arg-type]
    return {(one.family.name.removeprefix("kafka_"), *one.labels): one.value for one in found}


def test_everything_is_there_where_all_answer() -> None:
    found = page(cluster([1, 2]))
    assert found["consumergroup_lag", "g", "t", "0"] == found["consumergroup_lag", "g", "t", "1"] == 5
    assert found["consumergroup_lag_sum", "g", "t"] == 10 and found["consumergroup_current_offset_sum", "g", "t"] == 8
    assert found["rayft_exporter_unanswered", "partitions"] == 0


@pytest.mark.parametrize(("leaders", "is_away"), [([1, -1], False), ([1, 2], True)])
def test_a_partition_that_does_not_answer_is_absent_and_takes_no_other_with_it(
    leaders: list[int], is_away: bool
) -> None:
    found = page(cluster(leaders, is_away))
    assert found["topic_partition_current_offset", "t", "0"] == found["topic_partition_oldest_offset", "t", "0"] == 9
    assert ("topic_partition_current_offset", "t", "1") not in found
    assert found["topic_partition_leader", "t", "1"] == leaders[1], "what the metadata says is there"
    assert found["consumergroup_lag", "g", "t", "0"] == 5 and ("consumergroup_lag", "g", "t", "1") not in found
    assert ("consumergroup_lag_sum", "g", "t") not in found, "it would be 5, and fall where a lag grows"
    assert found["consumergroup_current_offset_sum", "g", "t"] == 8
    assert found["rayft_exporter_unanswered", "partitions"] == 1
    assert found["rayft_exporter_unanswered", "brokers"] == int(is_away)
