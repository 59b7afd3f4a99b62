"""DescribeClientQuotas and DescribeUserScramCredentials at one broker, from its own replay."""

from typing import Any

import pytest

from actors.metadata import ops
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab

KIND = message("DescribeClientQuotasRequest")
EXACT, DEFAULT, ANY_NAME = range(3)
ENTITIES: list[tuple[tuple[str, str | None], ...]] = [
    (("user", "a"),),
    (("client-id", "c"), ("user", "a")),
    (("client-id", None), ("user", "a")),
    (("client-id", "c"),),
    (("user", None),),
    (("ip", "10.0.0.1"),),
]


def quota(entity: tuple[tuple[str, str | None], ...], key: str = "producer_byte_rate", value: float = 1.0) -> Any:
    fields = (("entity", entity), ("key", key), ("value", value), ("remove", False))
    return ops.EntitySet("quota", (entity, key), fields)


@pytest.fixture(scope="module")
def lab() -> Lab:
    lab = Lab(1)
    lab.commit(*(quota(entity) for entity in ENTITIES), quota(ENTITIES[0], "request_percentage", 2.5))
    return lab


def ask(lab: Lab, components: list[tuple[str, int, str | None]], strict: bool = False) -> Any:
    parts = [KIND.ComponentData(entity_type=type, match_type=how, match=match) for type, how, match in components]
    return lab.call(1, "DescribeClientQuotas", 1, KIND(components=parts, strict=strict)).reply


def found(reply: Any) -> set[int]:
    assert reply.error_code == 0
    return {
        ENTITIES.index(tuple((part.entity_type, part.entity_name) for part in entry.entity)) for entry in reply.entries
    }


@pytest.mark.parametrize(
    ("components", "all", "strict"),
    [
        ([], {0, 1, 2, 3, 4, 5}, set()),
        ([("user", EXACT, "a")], {0, 1, 2}, {0}),
        ([("user", DEFAULT, None)], {4}, {4}),
        ([("user", ANY_NAME, None)], {0, 1, 2, 4}, {0, 4}),
        ([("user", EXACT, "a"), ("client-id", ANY_NAME, None)], {1, 2}, {1, 2}),
        ([("user", ANY_NAME, None), ("client-id", DEFAULT, None)], {2}, {2}),
        ([("client-id", EXACT, "c")], {1, 3}, {3}),
        ([("ip", ANY_NAME, None)], {5}, {5}),
        ([("user", EXACT, "nobody")], set(), set()),
    ],
)
def test_filters(lab: Lab, components: list[tuple[str, int, str | None]], all: set[int], strict: set[int]) -> None:
    assert found(ask(lab, components)) == all
    assert found(ask(lab, components, strict=True)) == strict


def test_all_values_of_an_entity_are_in_one_entry(lab: Lab) -> None:
    (entry,) = ask(lab, [("user", EXACT, "a")], strict=True).entries
    assert {value.key: value.value for value in entry.values} == {"producer_byte_rate": 1.0, "request_percentage": 2.5}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], 42), ([("group", EXACT, "a")], 35), ([("user", 7, None)], 42), ([("user", EXACT, None)], 42),
        ([("user", DEFAULT, "a")], 42), ([("user", ANY_NAME, "a")], 42), ([("user", EXACT, "a"), ("user", EXACT, "b")], 42),
        ([("ip", ANY_NAME, None), ("user", EXACT, "a")], 42),
    ],
)  # fmt: skip
def test_a_filter_that_means_nothing_is_refused(
    lab: Lab, components: list[tuple[str, int, str | None]], code: int
) -> None:
    reply = ask(lab, components)
    assert reply.error_code == code and reply.error_message and reply.entries is None


def test_ten_thousand_quotas_are_looked_through_in_slices() -> None:
    lab = Lab(1)
    lab.commit(*(quota((("user", str(n)),)) for n in range(2000)))
    before = lab.slices
    assert len(ask(lab, []).entries) == 2000 and lab.slices - before >= 5


def test_credentials_are_told_by_user() -> None:
    lab, kind = Lab(1), message("DescribeUserScramCredentialsRequest")
    fields: tuple[tuple[str, object], ...] = (
        ("name", "a"), ("mechanism", 1), ("salt", b"s"), ("stored_key", b"k"), ("server_key", b"k"), ("iterations", 4096),
    )  # fmt: skip
    lab.commit(ops.EntitySet("scram", ("a", 1), fields))

    def told(*names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
        users = [kind.UserName(name=name) for name in names] or None
        reply = lab.call(1, "DescribeUserScramCredentials", 0, kind(users=users)).reply
        return [
            (one.user, one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
            for one in reply.results
        ]

    assert told() == told("a") == [("a", 0, [(1, 4096)])]
    assert told("a", "b", "b") == [("a", 0, [(1, 4096)]), ("b", 92, [])]
    assert told("c") == [("c", 91, [])]
