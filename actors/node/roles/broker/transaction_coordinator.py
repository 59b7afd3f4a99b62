"""The transaction coordinator in its host: its settings, its partitions, and where markers go.

The rules of transactions are in `broker/transactions/`. This file alone decides where a transactional id is found (the topic
itself says it; the configuration only until it exists), and which level of `transaction.version` holds: the finalized one.
"""

from collections.abc import Callable
from typing import Any

from actors.broker.partition import Partition
from actors.broker.producer_ids import ProducerIds
from actors.broker.replicas import Replicas
from actors.broker.transactions.coordinator import Coordinator, Settings
from actors.metadata.features import TRANSACTION_VERSION
from actors.metadata.topic_names import TRANSACTIONS_TOPIC
from actors.node.net.channels import Channels
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.appends import Appends
from actors.node.roles.broker.coordinator_host import CoordinatorHost
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.transaction_markers import TransactionMarkers
from actors.node.runtime.answers import Answer
from actors.node.runtime.runtime import Runtime
from actors.ports import Now


class TransactionCoordinator:
    """Transactional ids whose partition of `__transaction_state` this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        channels: Channels,
        cache: MetadataCache,
        replicas: Replicas,
        appends: Appends,
        producer_ids: ProducerIds,
    ) -> None:
        value = runtime.config.value
        self._runtime = runtime
        self._cache = cache
        self.machine = Coordinator(
            Settings(
                partitions=value("transaction.state.log.num.partitions"),
                timeout_ms_max=value("transaction.max.timeout.ms"),
                expiration_ms=value("transactional.id.expiration.ms"),
                abort_interval_ms=value("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
                expire_interval_ms=value("transaction.remove.expired.transaction.cleanup.interval.ms"),
            ),
            producer_ids.take,
            lambda: cache.image.feature(TRANSACTION_VERSION),
        )
        self._host = CoordinatorHost(runtime, requests, replicas, appends, TRANSACTIONS_TOPIC, self.machine, self)
        self.markers = TransactionMarkers(runtime, channels, cache, self.machine, self._host.drain)

    # ---- hooks of the broker

    def became_leader(self, topic: str, partition: int, epoch: int) -> None:
        """This broker leads a partition in a new epoch."""
        if topic == TRANSACTIONS_TOPIC:
            self.count_partitions()
            self._host.gain(partition, epoch)

    def resigned(self, topic: str, partition: int) -> None:
        """It leads it no more."""
        if topic == TRANSACTIONS_TOPIC:
            self._host.lost(partition)

    def count_partitions(self) -> None:
        """The image has moved: the topic itself says where an id is found; the configuration, only until it exists."""
        image = self._cache.image
        topic = image.topic(TRANSACTIONS_TOPIC)
        for partition, epoch in self.machine.resized(len(image.topic_partitions(topic)) if topic >= 0 else None):
            self._host.gain(partition, epoch)
        self._host.drain()

    def tick(self, now: Now) -> None:
        """Time."""
        self.machine.tick(now)
        self._host.drain()

    def deadline_ms(self) -> int:
        """When `tick` is due."""
        return self.machine.deadline_ms()

    # ---- for the handlers

    def ask(self, connection: int, begin: Callable[[int], None], reply: Callable[[Any], Any]) -> Answer:
        """Hand a request to the machine; answer when its verdict comes, if the connection still is there then."""
        return self._host.ask(connection, begin, reply)

    # ---- hooks of the host

    def loaded(self, partition: Partition, epoch: int) -> None:
        """All that the log says is in the machine."""
        self.machine.loaded(partition.number, epoch)
        self._runtime.log.info(f"loaded the transactions of {partition!r}")

    def unloaded(self, number: int) -> None:
        """A partition is led no more, or in a new epoch: its markers are dropped as their turn comes."""

    def committed(self, number: int, size: int) -> None:
        """So many bytes of a partition are committed."""

    def pending(self) -> bool:
        """Whether markers are to be written."""
        return bool(self.machine.endings)

    def carry_out(self) -> None:
        """Send them."""
        endings, self.machine.endings = self.machine.endings, []
        for ending in endings:
            self.markers.begin(ending)
        self.markers.send()
