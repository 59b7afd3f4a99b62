"""The transaction coordinator in its host: its settings, and where markers go.

The rules of transactions are in `broker/transactions/`. This file alone decides which level of `transaction.version` holds:
the finalized one.
"""

from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.broker.transactions.coordinator import IDS_BYTES_MAX, Coordinator, TransactionSettings
from actors.broker.transactions.producer_ids import ProducerIds
from actors.metadata.features import TRANSACTION_VERSION
from actors.metadata.topic_names import TRANSACTIONS_TOPIC
from actors.node.net.channels import Channels
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.coordinators.coordinator_host import CoordinatorHost
from actors.node.roles.broker.coordinators.coordinator_loading import Loadings
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.replication.appends import Appends
from actors.node.roles.broker.transactions.transaction_markers import TransactionMarkers
from actors.node.runtime.runtime import Runtime
from actors.ports import Now


class TransactionCoordinator(CoordinatorHost[Coordinator]):
    """The coordinator of the transactional ids whose partition of `__transaction_state` this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        channels: Channels,
        cache: MetadataCache,
        replicas: Replicas,
        appends: Appends,
        loadings: Loadings,
        producer_ids: ProducerIds,
    ) -> None:
        value = runtime.config.value
        machine = Coordinator(
            TransactionSettings.of(value),
            producer_ids.take,
            lambda: cache.image.feature(TRANSACTION_VERSION),
        )
        super().__init__(runtime, requests, cache, replicas, appends, loadings, TRANSACTIONS_TOPIC, machine)
        runtime.ledger.owner("TransactionalIds", lambda: machine.bytes, f"{IDS_BYTES_MAX >> 20} MiB")
        self.markers = TransactionMarkers(runtime, channels, cache, machine, self.drain)

    def tick(self, now: Now) -> None:
        """Handle what is due: transactions that are over their time, and ids that have expired."""
        self.machine.tick(now)
        self.drain()

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due."""
        return self.machine.deadline_ms()

    # ---- what it does besides

    def loaded(self, partition: Partition, epoch: int) -> None:
        """Let a partition serve: all that the log says is in the machine."""
        self.machine.loaded(partition.number, epoch)
        self._runtime.log.info(f"loaded the transactions of {partition!r}")

    def carry_out(self) -> bool:
        """Send the markers of the transactions that were ended."""
        endings = self.machine.endings
        if not endings:
            return False
        self.machine.endings = []
        for ending in endings:
            self.markers.begin(ending)
        self.markers.send()
        return True
