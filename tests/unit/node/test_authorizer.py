"""Which decisions about rights are told in the log."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.authorization.index import RuleIndex
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.authorization.rules import Rule
from actors.config import node_config
from actors.node.api.authorizer import Authorizer

CALL: Any = SimpleNamespace(principal="User:alice", client_host="192.0.2.9", api_key=0)
DENIED = "User:alice is denied READ from 192.0.2.9 on TOPIC:orders (API 0)"
ALLOWED = "User:alice is allowed WRITE from 192.0.2.9 on TOPIC:orders (API 0)"


def made(tmp_path: Any, **given: str) -> tuple[Authorizer, list[str]]:
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
    rules.put(rule, rule)
    lines: list[str] = []
    runtime: Any = SimpleNamespace(log=SimpleNamespace(info=lines.append))
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
