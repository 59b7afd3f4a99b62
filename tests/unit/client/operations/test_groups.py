"""What is read of groups whose members may be anybody."""

import struct
from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.operations import groups
from actors.client.operations.groups import classic_assignment
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.servers import Server, World

ONE = struct.pack(">h1sii", 1, b"a", 1, 0)


def assignment(topics: int, *written: bytes) -> bytes:
    return struct.pack(">hi", 0, topics) + b"".join(written)


def test_the_partitions_of_a_classic_member() -> None:
    two = struct.pack(">h1s3i", 1, b"b", 2, 5, 7)
    assert classic_assignment(assignment(2, ONE, two) + struct.pack(">i", -1)) == {"a": [0], "b": [5, 7]}
    assert classic_assignment(b"") == classic_assignment(assignment(-1, ONE)) == {}


def test_a_name_of_a_negative_size_is_the_end_of_what_is_read() -> None:
    """With -6 the next name would begin where this one has, two thousand million times."""
    assert classic_assignment(assignment((1 << 31) - 1, ONE, struct.pack(">h", -6), bytes(8))) == {"a": [0]}


def test_many_offsets_are_committed_by_requests_whose_batch_a_topic_takes() -> None:
    asked: list[list[int]] = []

    def commit(server: Server, version: int, request: Any) -> Any:
        asked.append([one.partition_index for one in request.topics[0].partitions])
        kind = message("OffsetCommitResponse")
        rows = [
            kind.OffsetCommitResponsePartition(partition_index=one, error_code=16 if one == 2999 and answers else 0)
            for one in asked[-1]
        ]
        if 2999 in asked[-1]:
            answers.clear()
        return kind(topics=[kind.OffsetCommitResponseTopic(name="t" * 240, partitions=rows)])

    def coordinator(server: Server, version: int, request: Any) -> Any:
        kind = message("FindCoordinatorResponse")
        return kind(coordinators=[kind.Coordinator(key="g" * 200, node_id=1, host="h1", port=1)])

    answers = [1]
    world = World(Server("h1", 1, {"OffsetCommit": commit, "FindCoordinator": coordinator}))
    told = world.run(groups.commit("g" * 200, {("t" * 240, n): n for n in range(4500)}))
    assert told == {("t" * 240, n): None for n in range(4500)}
    assert max(map(len, asked)) * (200 + 240) < 1 << 20, "the default of max.message.bytes"
    assert {n for some in asked for n in some} == set(range(4500))
    assert sum(map(len, asked)) == 4500 + len(asked[2]), "only what was refused is asked again"
    assert [list(groups.portions("g", {("t", 0): "x" * (1 << 20), ("t", 1): ""}))] == [[[("t", 0)], [("t", 1)]]]
    assert list(groups.portions("g", {})) == []


def of_coordinator(server: Server, version: int, request: Any) -> Any:
    """Everybody's coordinator, but that of `secret`."""
    kind = message("FindCoordinatorResponse")
    rows = [
        kind.Coordinator(key=one, node_id=1, host="h1", port=1, error_code=30 if one == "secret" else 0)
        for one in request.coordinator_keys
    ]
    return kind(coordinators=rows)


def test_what_was_committed_is_told_when_a_later_request_fails() -> None:
    """The coordinator moves behind the second request, and by then the user may not look for it any more."""
    asked = 0

    def commit(server: Server, version: int, request: Any) -> Any:
        nonlocal asked
        asked += 1
        code = 0 if asked < 3 else int(ErrorCode.NOT_COORDINATOR)
        kind = message("OffsetCommitResponse")
        rows = [
            kind.OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in request.topics[0].partitions
        ]
        return kind(topics=[kind.OffsetCommitResponseTopic(name="t" * 240, partitions=rows)])

    def coordinator(server: Server, version: int, request: Any) -> Any:
        kind = message("FindCoordinatorResponse")
        code = int(ErrorCode.GROUP_AUTHORIZATION_FAILED) if asked else 0
        return kind(coordinators=[kind.Coordinator(key="g" * 200, node_id=1, host="h1", port=1, error_code=code)])

    world = World(Server("h1", 1, {"OffsetCommit": commit, "FindCoordinator": coordinator}))
    told = world.run(groups.commit("g" * 200, {("t" * 240, n): n for n in range(4500)}))
    refused = {part for part, error in told.items() if error is not None}
    assert len(told) == 4500 and 0 < len(refused) < 4500 - 1000
    assert refused == {("t" * 240, n) for n in range(4500 - len(refused), 4500)}, "what was not committed, and no other"
    with pytest.raises(ClientError, match="no permission"):
        world.run(groups.commit("g" * 200, {("t" * 240, 0): 0}))


def test_a_group_that_may_not_be_deleted_keeps_no_other() -> None:
    deleted: list[str] = []

    def delete(server: Server, version: int, request: Any) -> Any:
        deleted.extend(request.groups_names)
        kind = message("DeleteGroupsResponse")
        return kind(results=[kind.DeletableGroupResult(group_id=one, error_code=0) for one in request.groups_names])

    world = World(Server("h1", 1, {"DeleteGroups": delete, "FindCoordinator": of_coordinator}))
    told = world.run(groups.delete(["a", "secret", "b"]))
    assert deleted == ["a", "b"] and {name: error is None for name, error in told.items()} == {
        "a": True, "secret": False, "b": True,
    }  # fmt: skip
    assert "GROUP_AUTHORIZATION_FAILED" in str(told["secret"])
