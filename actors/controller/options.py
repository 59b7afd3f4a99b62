"""The controller's settings, typed once from the node's configuration, and what differs by `metadata.format`, as rows.

The drafts differ in policies, not only in records: A18, A45 and A46. Each difference is a column of `POLICIES`, never a
branch elsewhere.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from actors.authentication.delegation_tokens import TokenKey, token_key
from actors.quotas.rates import Window
from actors.settings.groups import GroupSettingLimits, limits
from actors.settings.node_config import NodeConfig
from actors.settings.topics import TOPIC_CONFIGS, inherited

INITIAL, FENCED = 1, 2


class FormatPolicy(NamedTuple):
    """What one level of `metadata.format` decides."""

    refused_state: int
    """NextState in the answer to a broker without an epoch that is refused (A18)."""
    refused_epoch: int
    """BrokerEpoch in that answer: 0 ends the broker's first phase, since no lease ever has epoch 0; -1 does not."""
    resign_to_snapshot: bool
    """Whether the active controller hands leadership over before it takes its own snapshot (R631-115, A46)."""
    spare_degraded: bool
    """Whether snapshots are rarer while losing one more voter would stop the quorum (R631-118, A45)."""


POLICIES: dict[int, FormatPolicy] = {
    1: FormatPolicy(FENCED, 0, True, True),
    2: FormatPolicy(INITIAL, -1, False, False),
}


class Options(NamedTuple):
    """The node's settings as the controller uses them."""

    cluster_id: str = ""
    heartbeat: tuple[int, int] = (3000, 2000)
    """Interval between two heartbeats in ms, at level 1 and 2 (A25)."""
    lease: tuple[int, int] = (30_000, 20_000)
    """Length of a lease in ms, at level 1 and 2 (R631-144, A25)."""
    grace_ms: int = 4000
    """Time in ms that is added to every lease at takeover, since a deposed leader may go on for so long without knowing
    (A22)."""
    partitions_default: int = 1
    replicas_default: int = 1
    delete_topics: bool = True
    unclean_default: bool = False
    rebalance_ms: int = 0
    """The interval at which preferred replicas get their leaderships back; 0: never."""
    snapshot_bytes: tuple[int, int] = (20 << 20, 200 << 20)
    """Bytes of log between two snapshots: normally, and while the quorum is degraded (A44, A45)."""
    snapshot_interval_ms: tuple[int, int] = (3_600_000, 36_000_000)
    mutation_window: Window = Window(11, 1000)
    """The samples of the quotas of changes: for how long a client may save up changes that its quota allows."""
    token_key: TokenKey | None = None
    """The cluster's key for delegation tokens; None: there are no delegation tokens."""
    token_lifetime_ms: int = 604_800_000
    """How long a token can be kept by renewing it, in ms from its creation."""
    token_expiry_ms: int = 86_400_000
    """How long a token is good when it is created or renewed."""
    token_sweep_ms: int = 3_600_000
    """The interval at which tokens whose time is over are removed."""
    pushes: bool = False
    """Whether brokers that do not pull the metadata log are told what changes."""
    topic_defaults: tuple[tuple[str, str | None, int], ...] = ()
    """(name, value as text, ConfigSource) of every topic setting that a topic does not override."""

    group_limits: Mapping[str, GroupSettingLimits] = MappingProxyType({})
    """A group's setting -> its bounds, and its value where a group has none."""

    def heartbeat_ms(self, level: int) -> int:
        """Interval between two heartbeats."""
        return self.heartbeat[level - 1]

    def lease_ms(self, level: int) -> int:
        """Length of a lease."""
        return self.lease[level - 1]


STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 4, 5
"""ConfigSource on the wire."""


def options(config: NodeConfig, cluster_id: str) -> Options:
    """Read a node's configuration."""

    def node(name: str) -> tuple[bool, Any]:
        return name in config.given, config.value(name)

    defaults = []
    for name, key in sorted(TOPIC_CONFIGS.items()):
        if name.startswith("internal."):
            continue
        given = any(synonym in config.given for synonym in key.synonyms)
        defaults.append((name, key.text(inherited(key, node)), STATIC_BROKER_CONFIG if given else DEFAULT_CONFIG))
    bytes_name, interval_name = (
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
    )
    return Options(
        cluster_id=cluster_id,
        heartbeat=(config.heartbeat_interval_ms(1), config.heartbeat_interval_ms(2)),
        lease=(config.lease_ms(1), config.lease_ms(2)),
        grace_ms=2 * config.value("controller.quorum.fetch.timeout.ms"),
        partitions_default=config.value("num.partitions"),
        replicas_default=config.value("default.replication.factor"),
        delete_topics=config.value("delete.topic.enable"),
        unclean_default=config.value("unclean.leader.election.enable"),
        rebalance_ms=1000 * config.value("leader.imbalance.check.interval.seconds")
        if config.value("auto.leader.rebalance.enable")
        else 0,
        snapshot_bytes=(config.value(bytes_name), config.value(bytes_name + ".degraded")),
        snapshot_interval_ms=(config.value(interval_name), config.value(interval_name + ".degraded")),
        mutation_window=Window(
            config.value("controller.quota.window.num"), 1000 * config.value("controller.quota.window.size.seconds")
        ),
        token_key=token_key(config.value("delegation.token.secret.key")),
        token_lifetime_ms=config.value("delegation.token.max.lifetime.ms"),
        token_expiry_ms=config.value("delegation.token.expiry.time.ms"),
        token_sweep_ms=config.value("delegation.token.expiry.check.interval.ms"),
        pushes=config.pushes,
        topic_defaults=tuple(defaults),
        group_limits=limits(config.value),
    )
