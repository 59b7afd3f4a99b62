"""Authorizers for tests that put one into a node's contexts."""

from typing import Any

from actors.node.runtime.calls import Call
from tests.served import TABLE


class Refuses:
    """Refuses everyone for these APIs; without names for all APIs. `asked` lists the APIs that it was asked about."""

    enabled = True

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[str] = []

    def allowed(self, call: Call, *what: Any) -> bool:
        name = TABLE[call.listener, call.api_key].name
        self.asked.append(name)
        return bool(self.names) and name not in self.names

    shown = allowed
    allowed_some = allowed

    def operations(self, call: Call, *what: Any) -> int:
        return 0

    def looked(self, *what: Any) -> int:
        return 0
