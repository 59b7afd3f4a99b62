"""What is read of groups whose members may be anybody."""

import struct

from actors.client.operations.groups import classic_assignment

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
