"""What a consumer group subscribes to, read out of what its clients sent."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from actors.broker.groups.classic.state import Group, Member
from actors.broker.groups.classic.subscriptions import subscribed


def group(*metadata: bytes, kind: str = "consumer", protocol: str | None = "range") -> Group:
    found = Group("g")
    for number, data in enumerate(metadata):
        found.add(Member(f"m{number}", None, "", "", 1, 1, kind, [("range", data)]))
    found.protocol = protocol
    return found


def named(version: int, *topics: str, user: bytes = b"\xff\xff\xff\xff") -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return version.to_bytes(2, "big", signed=True) + len(topics).to_bytes(4, "big") + names + user


def test_all_that_any_member_names() -> None:
    assert subscribed(group(named(-1, "a"))) == {"a"}, "whatever the version is"
    newer = named(3, "c", user=b"\0\0\0\2ab") + b"\0\0\0\0\0\0\0\7\0\4rack"
    assert subscribed(group(named(0, "a", "b"), named(0), newer)) == {"a", "b", "c"}
    assert subscribed(group()) == frozenset()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0\0\0\0\1",
        named(0, "a")[:-1],
        named(0, "a", user=b""),
        named(0, "a", user=b"\0\0\0\5ab"),
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\x7f\xff\xff\xff\0\1a",
        b"\0\0\0\0\0\1\xff\xff\0\0\0\0",
    ],
)
def test_one_member_that_cannot_be_read_hides_all(data: bytes) -> None:
    assert subscribed(group(named(0, "a"), data)) is None


def test_of_other_kinds_and_of_a_group_that_has_not_chosen_yet_nothing_is_known() -> None:
    assert subscribed(group(named(0, "a"), kind="connect")) is None
    assert subscribed(group(named(0, "a"), protocol=None)) is None


@given(st.binary(max_size=60))
def test_no_bytes_break_it(data: bytes) -> None:
    found = subscribed(group(data))
    assert found is None or all(isinstance(topic, str) for topic in found)
