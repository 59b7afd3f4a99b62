"""What a broker lists of itself: resources that have settings, and the directories of its replicas."""

from typing import Any

import pytest

from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab


def listed(lab: Lab, version: int, *types: int) -> list[tuple[int, str]]:
    reply = lab.call(
        1, "ListConfigResources", version, message("ListConfigResourcesRequest")(resource_types=list(types))
    ).reply
    assert reply is not None and reply.error_code == 0
    return [(one.resource_type, one.resource_name) for one in reply.config_resources]


def test_resources_are_listed_by_type() -> None:
    lab = Lab(2)
    lab.topic([1])
    assert listed(lab, 1) == [(8, "1"), (8, "2"), (4, "1"), (4, "2"), (2, "t")]
    assert listed(lab, 1, 2) == [(2, "t")]
    assert listed(lab, 1, 16, 32) == []
    assert listed(lab, 0) == [], "version 0 asks for client metrics"
    refused = lab.call(1, "ListConfigResources", 1, message("ListConfigResourcesRequest")(resource_types=[3])).reply
    assert refused is not None and refused.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_settings_that_are_asked_for_many_times_are_told_once() -> None:
    """Ten bytes of a request would be five thousand of its answer, and a request may have a hundred million."""
    lab = Lab(1)
    lab.topic([1])
    kind: Any = message("DescribeConfigsRequest")
    names: list[list[str] | None] = [None, [], ["retention.ms"], ["retention.ms"], ["segment.ms"]]
    resources = [
        kind.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=keys)
        for keys in names * 1000
    ]
    reply = lab.call(1, "DescribeConfigs", 4, kind(resources=resources)).reply
    assert reply is not None
    assert [len(result.configs) for result in reply.results] == [33, 1, 1]


def test_a_recorded_value_that_is_refused_by_now_is_none() -> None:
    """A cluster's metadata outlives the release that wrote it: its brokers must start, and show what is to be removed."""
    lab = Lab(1)
    lab.topic([1])
    lab.commit(ops.ConfigSet(4, "", "log.retention.ms", "0"))
    assert lab.partition(1).settings.retention_ms == 604_800_000
    kind: Any = message("DescribeConfigsRequest")
    resources = [
        kind.DescribeConfigsResource(resource_type=which, resource_name=name, configuration_keys=None)
        for which, name in ((2, "t"), (4, ""))
    ]
    reply = lab.call(1, "DescribeConfigs", 4, kind(resources=resources)).reply
    assert reply is not None
    topic, brokers = ({one.name: one.value for one in result.configs} for result in reply.results)
    assert topic["retention.ms"] == "604800000" and brokers == {"log.retention.ms": "0"}


def test_a_setting_that_nobody_reads_is_shown_where_it_is_kept() -> None:
    """Apache Kafka's kafka-configs removes nothing that it was not shown. Its value may be a secret."""
    lab = Lab(1)
    lab.commit(ops.ConfigSet(4, "", "a.setting.of.ones.own", "1000"))
    lab.commit(ops.ConfigSet(4, "1", "some.plugin.password", "x"))
    kind: Any = message("DescribeConfigsRequest")
    resources = [
        kind.DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=None) for name in ("", "1")
    ]
    reply = lab.call(1, "DescribeConfigs", 4, kind(resources=resources, include_synonyms=True)).reply
    assert reply is not None
    brokers, one = (
        {
            entry.name: (entry.value, entry.config_source, entry.is_sensitive, [s.source for s in entry.synonyms])
            for entry in result.configs
        }
        for result in reply.results
    )
    assert brokers == {"a.setting.of.ones.own": (None, 3, True, [3])}
    assert one["a.setting.of.ones.own"] == (None, 3, True, [3])
    assert one["some.plugin.password"] == (None, 2, True, [2])


def move(lab: Lab, path: str, topic: str, number: int) -> int:
    kind: Any = message("AlterReplicaLogDirsRequest")
    topics = [kind.AlterReplicaLogDirTopic(name=topic, partitions=[number])]
    request = kind(dirs=[kind.AlterReplicaLogDir(path=path, topics=topics)])
    reply = lab.call(1, "AlterReplicaLogDirs", 2, request).reply
    assert reply is not None
    return int(reply.results[0].partitions[0].error_code)


def test_a_replica_stays_in_the_directory_where_it_is() -> None:
    lab = Lab(2)
    lab.topic([1])
    lab.topic([2], name="elsewhere", topic_id=bytes(15) + b"\7")
    ((path, _),) = lab.broker(1).logs.directories.paths()
    assert move(lab, path, "t", 0) == ErrorCode.NONE
    assert move(lab, path + "-none", "t", 0) == ErrorCode.LOG_DIR_NOT_FOUND
    assert move(lab, path, "t", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(lab, path, "none", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(lab, path, "elsewhere", 0) == ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.mark.parametrize("who", [1, 2])
def test_a_full_directory_is_told_of_once_and_so_is_its_room(who: int) -> None:
    """Of the leader and of the follower; an append that is small enough to pass in between is no news."""
    lab = Lab(2)
    lab.topic([1, 2])
    lab.disks[who].room = 100
    for _ in range(5):
        lab.produce(1, b"." * 1000, timeout_ms=100)
        lab.produce(1, b"a", timeout_ms=100)
        lab.pass_ms(1000)

    def lines(words: str) -> list[str]:
        return [line for line in lab.nodes[who].log.lines if words in line]

    assert len(lines("room")) == 1
    assert lines("no append to /d is taken until there is room: ")
    lab.disks[who].room = None
    for _ in range(20):
        lab.produce(1, b"b", timeout_ms=100)
        lab.pass_ms(1000)
    assert len(lines("room")) == 2
    assert lines("there is room in /d again")
