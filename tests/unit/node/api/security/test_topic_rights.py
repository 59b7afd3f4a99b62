"""Who is shown which topics along their names, against the judge of single names."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.authorization.access_rules import Rule
from actors.authorization.resources import Operation, Resource
from actors.node.api.security.authorizer import NOT_ASKED
from actors.node.api.security.topic_rights import TopicRights
from fastpath.image.copy_on_write import Generations
from fastpath.image.name_order import NameOrder
from tests.unit.node.api.security.test_authorizer import made

NAMES = st.text("ab\U0010ffff", min_size=1, max_size=4)
PRINCIPALS = ["User:alice", "User:bob", "User:boss", "User:rayft-node-1"]
RULES = st.builds(
    Rule,
    st.sampled_from([2, 2, 2, 3, 4]),
    st.one_of(NAMES, st.sampled_from(["*", "kafka-cluster"])),
    st.sampled_from([3, 4]),
    st.sampled_from([*PRINCIPALS, "User:*"]),
    st.sampled_from(["*", "192.0.2.9", "192.0.2.8"]),
    st.integers(2, 11),
    st.sampled_from([2, 3, 3]),
)


def order_of(names: Any) -> NameOrder:
    order = NameOrder(Generations())
    for row, name in enumerate(names):
        order.put(name, row)
    return order


def call_of(principal: str) -> Any:
    return SimpleNamespace(principal=principal, client_host="192.0.2.9", api_key=0, forwarded=False, refusals=None)


def shown(rights: TopicRights, order: NameOrder) -> tuple[dict[str, int | None], int]:
    """What is said of each name, and how many runs that took."""
    found: dict[str, int | None] = {}
    runs, name = 0, ""
    while True:
        run, runs = rights.run(name, order), runs + 1
        for one, _ in order.following(name, 1000):
            if run.until is not None and one >= run.until:
                break
            found[one] = run.of(one)
        if run.until is None:
            return found, runs
        assert run.until > name, "a run ends behind its beginning"
        name = run.until


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(RULES, max_size=8),
    st.sets(NAMES, max_size=12),
    st.sampled_from(PRINCIPALS),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_a_run_says_of_each_name_what_the_judge_says(
    tmp_path: Path, rules: list[Rule], names: set[str], principal: str, asked: bool, tells: bool, is_open: bool
) -> None:
    may, _ = made(
        tmp_path,
        *rules,
        super_users="User:boss",
        rayft_authorizer_log_allowed=str(tells).lower(),
        allow_everyone_if_no_acl_found=str(is_open).lower(),
    )
    order, call = order_of(names), call_of(principal)
    found, runs = shown(TopicRights(may, call, asked), order)
    judged = {
        name: (may.operations(call, Resource.TOPIC, name) if asked else NOT_ASKED)
        if may.shown(call, Operation.DESCRIBE, Resource.TOPIC, name)
        else None
        for name in names
    }
    assert found == judged
    if not tells:
        assert runs <= 1 + 2 * len({rule.name for rule in rules if rule.resource == 2 and rule.pattern == 4})


def test_runs_are_as_many_as_prefixes_and_not_as_topics(tmp_path: Path) -> None:
    order = order_of(f"team-{team}.{number:04}" for team in "abc" for number in range(300))
    rules = [Rule(2, f"team-{team}.", 4, "User:alice", "*", 8, 3) for team in "bx"]
    may, _ = made(tmp_path, *rules)
    found, runs = shown(TopicRights(may, call_of("User:alice"), False), order)
    assert runs == 5 and {name for name, value in found.items() if value is not None} == {
        f"team-b.{number:04}" for number in range(300)
    }


@pytest.mark.parametrize("asked", [False, True])
def test_those_who_are_shown_the_same_share_and_others_do_not(tmp_path: Path, asked: bool) -> None:
    order = order_of(["a", "b"])
    may, _ = made(tmp_path, Rule(2, "a", 3, "User:bob", "*", 8, 3), super_users="User:boss;User:chief")

    def by(principal: str, asked: bool = asked) -> Any:
        return TopicRights(may, call_of(principal), asked).shared_by(order)

    assert by("User:boss") == by("User:chief")
    assert len({by("User:boss"), by("User:alice"), by("User:bob"), by("User:bob", not asked)}) == 4
    told, _ = made(tmp_path, rayft_authorizer_log_allowed="true")
    assert TopicRights(told, call_of("User:alice"), asked).shared_by(order) is None
    nobody, _ = made(tmp_path, authorizer_class_name="", rayft_authorizer_log_allowed="true")
    assert TopicRights(nobody, call_of("User:alice"), asked).shared_by(order) == by("User:boss")


def test_names_that_are_shown_are_told_one_by_one_where_that_is_asked_for(tmp_path: Path) -> None:
    may, lines = made(tmp_path, Rule(2, "b", 4, "User:alice", "*", 8, 3), rayft_authorizer_log_allowed="true")
    shown(TopicRights(may, call_of("User:alice"), False), order_of(["a", "b", "ba", "c"]))
    assert [line.partition("TOPIC:")[2] for line in lines] == ["b (API 0)", "ba (API 0)"]
