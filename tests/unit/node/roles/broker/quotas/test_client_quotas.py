"""What a request is charged, and who waits for it (KIP-124)."""

from typing import Any

import pytest

from actors.node.roles.broker.quotas.client_quotas import ClientQuotas


@pytest.mark.parametrize(("account", "enforced", "wait_ms"), [(None, True, 0), ("a", False, 0), ("a", True, 500)])
def test_who_has_no_quota_and_who_is_only_charged_does_not_wait(
    account: Any, enforced: bool, wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Produce without an answer (acks=0) is charged; what its client asks next waits."""
    quotas: Any = ClientQuotas.__new__(ClientQuotas)
    monkeypatch.setattr(ClientQuotas, "_account", lambda self, key, call: account)
    monkeypatch.setattr(ClientQuotas, "_charge", lambda self, account, amount: 500)
    quotas.spent_ns = lambda: 1
    quotas.window = type("Window", (), {"sample_ms": 1_000})
    assert quotas.worked(None, enforced=enforced) == wait_ms
