"""Which decisions about rights are told in the log."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.authorization.access_rules import Rule
from actors.authorization.decisions import RuleIndex
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.node.api.security.authorizer import Authorizer
from actors.node.runtime.calls import Refusals
from actors.settings.node_config import node_config

CALL: Any = SimpleNamespace(principal="User:alice", client_host="192.0.2.9", api_key=0, forwarded=False, refusals=None)
DENIED = "User:alice is denied READ from 192.0.2.9 on TOPIC:orders (API 0)"
ALLOWED = "User:alice is allowed WRITE from 192.0.2.9 on TOPIC:orders (API 0)"


def made(tmp_path: Any, *more: Rule, **given: str) -> tuple[Authorizer, list[str]]:
    """An authorizer by which alice may write to orders and nothing else, and the lines of its log."""
    config = node_config(
        {
            "process.roles": "broker", "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092",
            "controller.connect": "127.0.0.1:9093", "log.dirs": str(tmp_path),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            **{name.replace("_", "."): value for name, value in given.items()},
        }
    )  # fmt: skip
    rules = RuleIndex()
    rule = Rule(Resource.TOPIC, "orders", Pattern.LITERAL, "User:alice", "*", Operation.WRITE, Permission.ALLOW)
    for one in (rule, *more):
        rules.put(one, one)
    lines: list[str] = []
    told = SimpleNamespace(of_principal=lambda write, source, text: write(text))
    runtime: Any = SimpleNamespace(log=SimpleNamespace(info=lines.append), peer_lines=told)
    return Authorizer(runtime, config, lambda: rules), lines


@pytest.mark.parametrize("tells", [False, True])
def test_what_is_denied_is_told_and_what_is_allowed_where_that_is_asked_for(tmp_path: Any, tells: bool) -> None:
    may, lines = made(tmp_path, rayft_authorizer_log_allowed=str(tells).lower())
    assert may.allowed(CALL, Operation.WRITE, Resource.TOPIC, "orders")
    assert not may.allowed(CALL, Operation.READ, Resource.TOPIC, "orders")
    assert lines == [ALLOWED] * tells + [DENIED]


@pytest.mark.parametrize("tells", [False, True])
def test_what_is_left_out_of_a_list_is_not_told(tmp_path: Any, tells: bool) -> None:
    may, lines = made(tmp_path, rayft_authorizer_log_allowed=str(tells).lower())
    assert may.shown(CALL, Operation.WRITE, Resource.TOPIC, "orders")
    assert not may.shown(CALL, Operation.READ, Resource.TOPIC, "orders")
    assert may.operations(CALL, Resource.TOPIC, "orders") == 1 << Operation.WRITE | 1 << Operation.DESCRIBE
    assert lines == [ALLOWED] * tells


def test_without_an_authorizer_nothing_is_told(tmp_path: Any) -> None:
    may, lines = made(tmp_path, authorizer_class_name="", rayft_authorizer_log_allowed="true")
    assert may.allowed(CALL, Operation.READ, Resource.TOPIC, "orders") and may.shown(
        CALL, Operation.READ, Resource.TOPIC
    )
    assert lines == []


def node_rule(who: str, permission: Permission, operation: Operation = Operation.CLUSTER_ACTION) -> Rule:
    return Rule(Resource.CLUSTER, "kafka-cluster", Pattern.LITERAL, who, "*", operation, permission)


NODE = "User:rayft-node-1"
ALLOW, DENY = Permission.ALLOW, Permission.DENY


@pytest.mark.parametrize(
    ("users", "rules", "let_in"),
    [
        ("", [], False),
        (f"User:boss; {NODE} ", [], True),
        (NODE, [node_rule(NODE, DENY)], False),
        (NODE, [node_rule(NODE, DENY, Operation.ALL)], False),
        (NODE, [node_rule("User:*", DENY)], True),
        (NODE, [node_rule("User:rayft-node-11", DENY)], True),
        ("", [node_rule(NODE, ALLOW)], True),
        ("", [node_rule(NODE, ALLOW), node_rule(NODE, DENY)], False),
        ("", [node_rule("User:rayft-node-11", ALLOW)], False),
    ],
)
def test_a_node_is_let_in_by_name_and_shut_out_by_a_rule(
    tmp_path: Any, users: str, rules: list[Rule], let_in: bool
) -> None:
    may, _ = made(tmp_path, *rules, super_users=users)
    call = SimpleNamespace(principal=NODE, client_host="192.0.2.9", api_key=0, forwarded=False, refusals=None)
    for operation, resource in (
        (Operation.CLUSTER_ACTION, Resource.CLUSTER),
        (Operation.DESCRIBE, Resource.CLUSTER),
        (Operation.DESCRIBE, Resource.TOPIC),
        (Operation.CREATE, Resource.TOPIC),
    ):
        name = "kafka-cluster" if resource is Resource.CLUSTER else "payments"
        assert may.allowed(call, operation, resource, name) is let_in, operation
    for operation, resource in (
        (Operation.ALTER, Resource.CLUSTER), (Operation.WRITE, Resource.TOPIC), (Operation.READ, Resource.TOPIC),
    ):  # fmt: skip
        assert not may.allowed(call, operation, resource, "kafka-cluster"), operation
    shut_out = any(rule.permission == DENY and rule.principal == NODE for rule in rules)
    assert may.shuts_out(NODE, "192.0.2.9") is shut_out
    passed_on = SimpleNamespace(principal=NODE, client_host="192.0.2.9", api_key=0, forwarded=True, refusals=None)
    assert not may.allowed(passed_on, Operation.DESCRIBE, Resource.TOPIC, "payments")


def test_who_is_shut_out_has_not_the_right_of_its_other_rules(tmp_path: Any) -> None:
    write = Rule(Resource.TOPIC, "orders", Pattern.LITERAL, NODE, "*", Operation.WRITE, ALLOW)
    call = SimpleNamespace(principal=NODE, client_host="192.0.2.9", api_key=0, forwarded=False, refusals=None)
    may, _ = made(tmp_path, write)
    assert may.allowed(call, Operation.WRITE, Resource.TOPIC, "orders")
    assert may.allowed_some(call, Operation.WRITE, Resource.TOPIC)
    may, _ = made(tmp_path, write, node_rule(NODE, DENY))
    assert not may.allowed(call, Operation.WRITE, Resource.TOPIC, "orders")
    assert not may.allowed_some(call, Operation.WRITE, Resource.TOPIC)


def test_all_that_a_request_is_denied_is_one_line(tmp_path: Any) -> None:
    may, lines = made(tmp_path)
    for denied, more, rest in (
        (1, False, ""),
        (3, False, ""),
        (9, False, " and 6 more"),
        (9, True, " and at least 6 more"),
    ):
        call = SimpleNamespace(**vars(CALL) | {"refusals": Refusals()})
        for number in range(denied):
            assert not may.allowed(call, Operation.READ, Resource.TOPIC, f"t{number}")
        assert not lines, "the line comes at the end of the step"
        may.tell(call.refusals, more=more)
        assert not may.allowed(call, Operation.WRITE, Resource.TOPIC, "later"), "in a later step"
        may.tell(call.refusals)
        named = ", ".join(f"TOPIC:t{number}" for number in range(min(denied, 3)))
        assert lines == [f"User:alice is denied READ from 192.0.2.9 on {named}{rest} (API 0)"]
        lines.clear()


def test_other_operations_are_named_beside_the_first(tmp_path: Any) -> None:
    may, lines = made(tmp_path)
    call = SimpleNamespace(**vars(CALL) | {"refusals": Refusals()})
    assert not may.allowed(call, Operation.READ, Resource.GROUP, "g\n2026-01-01 INFO all is well")
    assert not may.allowed(call, Operation.DESCRIBE, Resource.CLUSTER)
    may.tell(call.refusals)
    group = repr("g\n2026-01-01 INFO all is well")
    assert lines == [
        f"User:alice is denied READ from 192.0.2.9 on GROUP:{group}, DESCRIBE on CLUSTER:kafka-cluster (API 0)"
    ]
