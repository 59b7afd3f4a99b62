"""The rates of the replication throttles, as the metadata has them now (KIP-73).

What a rate holds back is decided in `broker/replication/replication_throttle.py`; which replicas count, the topics'
settings say.
"""

from actors.broker.replication.partition import Cluster
from actors.node.roles.broker.metadata_cache import MetadataCache

LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


class Throttles:
    """Keeps both throttles of a broker at the rates of its settings."""

    def __init__(self, cache: MetadataCache, cluster: Cluster) -> None:
        self._cache = cache
        self._cluster = cluster
        self.configure()

    def configure(self) -> None:
        """Take over settings of this broker, or of all brokers, that may have changed."""
        self._cluster.leader_throttle.limit(self._cache.value(LEADER))
        self._cluster.follower_throttle.limit(self._cache.value(FOLLOWER))
