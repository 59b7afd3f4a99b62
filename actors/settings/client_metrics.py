"""Settings of a subscription to metrics of clients (KIP-714): a CLIENT_METRICS config resource."""

from collections.abc import Mapping
from typing import NamedTuple

from actors.settings.keys import INT, LIST, Check, ConfigKey, between, key

CLIENT_METRICS = "client metrics"
_MATCHES = (
    "client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
)  # fmt: skip
_PATTERNS = Check(
    "name=pattern pairs, the names out of " + ", ".join(_MATCHES),
    lambda value: all(part.partition("=")[0].strip() in _MATCHES and part.partition("=")[2].strip() for part in value),
)
_ROWS = (
    key("interval.ms", INT, 300_000, between(100, 3_600_000),
        "How often a client pushes.", CLIENT_METRICS, (), False),
    key("match", LIST, (), _PATTERNS,
        "Which clients are asked: those of which each attribute named matches.", CLIENT_METRICS, (), False),
    key("metrics", LIST, (), None,
        "What they push: metrics whose names begin so, * for all.", CLIENT_METRICS, (), False),
)  # fmt: skip
CLIENT_METRICS_CONFIGS: dict[str, ConfigKey] = {row.name: row for row in _ROWS}


class SubscriptionSettings(NamedTuple):
    """The settings of a subscription: a CLIENT_METRICS resource (KIP-714)."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[str, ...]


def subscription_settings(given: Mapping[str, str]) -> SubscriptionSettings:
    """The settings of a subscription as they were set, with defaults where nothing was set, or something that is not
    allowed here."""
    values = {
        name: row.parse(given[name]) if name in given and row.allows(given[name]) else row.default
        for name, row in CLIENT_METRICS_CONFIGS.items()
    }
    return SubscriptionSettings(values["metrics"], values["interval.ms"], values["match"])
