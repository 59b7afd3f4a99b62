"""What is read of groups whose members may be anybody."""

import struct
from typing import Any

from actors.client.operations import groups
from actors.client.operations.groups import classic_assignment
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
