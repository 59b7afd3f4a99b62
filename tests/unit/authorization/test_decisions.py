"""The index of access rules against its slow twin, and Kafka's rules one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.authorization.access_rules import Rule
from actors.authorization.decisions import RuleIndex
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from tests.reference import access_rules

NAMES = ["a", "ab", "abc", "b", "*", "a*"]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:*"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]

RULES = st.builds(
    Rule,
    st.sampled_from([2, 3]),
    st.sampled_from(NAMES),
    st.sampled_from([3, 4]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.integers(2, 15),
    st.sampled_from([2, 3]),
)


def asked(index: RuleIndex, rules: list[Rule]) -> None:
    for principal in ("User:alice", "User:carol"):
        for host in ("10.0.0.1", "10.0.0.3"):
            for operation in range(3, 16):
                assert index.allows_some(principal, host, operation, 2) == access_rules.allows_some(
                    rules, principal, host, operation, 2
                )
                for name in ("a", "abc", "b", "*", "c"):
                    assert index.decide(principal, host, operation, 2, name) == access_rules.decide(
                        rules, principal, host, operation, 2, name
                    ), (principal, host, Operation(operation), name)


@given(st.lists(RULES, max_size=12), st.data())
def test_the_index_decides_as_its_twin_after_every_change(rules: list[Rule], data: st.DataObject) -> None:
    index = RuleIndex()
    for number, rule in enumerate(rules):
        index.put(number, rule)
    asked(index, rules)
    gone = data.draw(st.sets(st.sampled_from(range(len(rules)))) if rules else st.just(set()))
    for number in sorted(gone):
        index.put(number, None)
    left = [rule for number, rule in enumerate(rules) if number not in gone]
    asked(index, left)
    assert sorted(index) == sorted(left) and len(index) == len(left)
    for number in range(len(rules)):
        index.put(number, None)
    # Nothing stays of a rule that is gone.
    assert index.__dict__ == RuleIndex().__dict__


def rule(
    permission: Permission, operation: Operation, name: str = "orders", pattern: Pattern = Pattern.LITERAL
) -> Rule:
    return Rule(Resource.TOPIC, name, pattern, "User:alice", "*", operation, permission)


ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


@pytest.mark.parametrize(
    ("rules", "operation", "verdict"),
    [
        ([], READ, None),
        ([rule(ALLOW, WRITE)], READ, False),
        ([rule(ALLOW, READ)], READ, True),
        ([rule(ALLOW, READ)], DESCRIBE, True),
        ([rule(ALLOW, DESCRIBE)], READ, False),
        ([rule(ALLOW, Operation.ALL), rule(DENY, READ)], READ, False),
        ([rule(ALLOW, Operation.ALL), rule(DENY, READ)], DESCRIBE, True),
        ([rule(ALLOW, Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, True),
        ([rule(ALLOW, READ, "*")], READ, True),
        ([rule(ALLOW, READ, "ord", Pattern.PREFIXED)], READ, True),
        ([rule(ALLOW, READ), rule(DENY, Operation.ALL, "o", Pattern.PREFIXED)], READ, False),
        ([rule(ALLOW, READ, "ord")], READ, None),
        ([rule(ALLOW, READ, "orders2", Pattern.PREFIXED)], READ, None),
    ],
)
def test_what_the_rules_of_a_resource_allow(rules: list[Rule], operation: Operation, verdict: bool | None) -> None:
    index = RuleIndex()
    for number, one in enumerate(rules):
        index.put(number, one)
    assert index.decide("User:alice", "10.0.0.1", operation, Resource.TOPIC, "orders") is verdict
