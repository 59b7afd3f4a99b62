"""Replication from other brokers: which leader is asked for what and when, and what an answer does here.

The rules of following are in `broker/replication/fetchers.py`. This file alone decides when a fetcher may ask (not
while what came before is synced, not without an address, not at the end of the process), and turns its outcome into
jobs and syncs.
"""

from typing import Any

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.replication.fetchers import Fetcher, FetchInFlight, FetchOutcome, Truncation
from actors.broker.replication.replicas import Replicas
from actors.broker.replication.suspected_leaders import SuspectedLeaders
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.replication.partition_effects import PartitionEffects
from actors.node.runtime.calls import Lane
from actors.node.runtime.runtime import Runtime

NO_ADDRESS_MS = 100
FAR_MS = 1 << 62
FETCH_VERSION = 17
FETCH_VERSIONS = range(12, FETCH_VERSION + 1)
"""The versions of Fetch in which leaders in ZooKeeper mode may be asked: from 12 on they tell where logs diverge
(KIP-595)."""


class Replication:
    """The fetchers of one broker, at work."""

    def __init__(
        self,
        runtime: Runtime,
        channels: Channels,
        cache: MetadataCache,
        replicas: Replicas,
        logs: LogManager,
        lifecycle: Lifecycle,
        suspected_leaders: SuspectedLeaders,
        partition_effects: PartitionEffects,
    ) -> None:
        self._runtime = runtime
        self._channels = channels
        self._cache = cache
        self._replicas = replicas
        self._logs = logs
        self._lifecycle = lifecycle
        self._suspected_leaders = suspected_leaders
        self._partition_effects = partition_effects
        self._listener = runtime.config.inter_broker_listener
        self._timeout_ms = runtime.config.value("replica.socket.timeout.ms") + replicas.limits.wait_ms
        self._retry_ms: dict[int, int] = {}
        """When to look again for the address of a source that has none."""
        self.due_ms = 0
        """When a fetcher has something to ask next, as of the end of the last turn."""

    def broker_changed(self, broker: int) -> None:
        """Note that a broker's registration has changed: it may have an address now."""
        self._retry_ms.pop(broker, None)

    def end_turn(self) -> None:
        """Ask each leader that is to be asked now."""
        now_ms, self.due_ms = self._runtime.now.mono_ms, FAR_MS
        for fetcher in self._replicas.fetchers.values():
            self.due_ms = min(self.due_ms, self._fetch(fetcher, now_ms))

    def _fetch(self, fetcher: Fetcher, now_ms: int) -> int:
        """Ask one broker for what is to be asked of it. Returns when there may be more."""
        if self._logs.closing or not len(fetcher) or self._partition_effects.syncs_from(fetcher.source):
            return FAR_MS
        retry_ms = self._retry_ms.get(fetcher.source, 0)
        if now_ms < retry_ms:
            return max(retry_ms, fetcher.deadline_ms(now_ms))
        if fetcher.broker_epoch < 0:
            fetcher.renew(self._lifecycle.epoch)
        due_ms = fetcher.deadline_ms(now_ms)
        if now_ms < due_ms:
            return due_ms
        endpoint = self._cache.endpoint(fetcher.source, self._listener)
        if endpoint is None:
            self._retry_ms[fetcher.source] = retry_ms = now_ms + NO_ADDRESS_MS
            return max(retry_ms, due_ms)
        question = fetcher.ask(now_ms)
        while question is not None:
            self._ask(fetcher, question, (endpoint.host, endpoint.port))
            question = fetcher.ask(now_ms)
        return max(fetcher.deadline_ms(now_ms), self._retry_ms.get(fetcher.source, 0))

    def _ask(self, fetcher: Fetcher, question: FetchInFlight, address: tuple[str, int]) -> None:
        def answered(reply: Any) -> None:
            if self._logs.closing:
                return  # the mark of a clean stop vouches for the logs as their last flush found them
            now_ms = self._runtime.now.mono_ms
            if isinstance(reply, ChannelError):
                self._suspected_leaders.lost(fetcher.source, now_ms)
                fetcher.lost(question, now_ms)
                return
            self._suspected_leaders.heard(fetcher.source)
            self._take(fetcher, fetcher.answered(question, reply, self._runtime.now))

        self._channels.peer(
            ("fetch", fetcher.source),
            address,
            "Fetch",
            question.request,
            answered,
            self._timeout_ms,
            FETCH_VERSION,
            lane=Lane.DATA,
            versions=self._cache.spoken(fetcher.source, FETCH_VERSIONS),
        )

    def _take(self, fetcher: Fetcher, outcome: FetchOutcome) -> None:
        for partition, error in outcome.failures:
            self._logs.failures.append_failed(self._replicas, partition, error)
        for disk, jobs in outcome.jobs.items():
            self._logs.retired.unlink(disk, jobs)
        for partition in outcome.grown:
            self._logs.written.add(partition)
        self._replicas.replicated(outcome)
        self._partition_effects.run()
        for cut in outcome.cuts:
            self._prepare(fetcher, cut)
        if outcome.flush:
            self._partition_effects.sync(list(outcome.flush), lambda: self._fetch(fetcher, self._runtime.now.mono_ms))
        else:
            self._fetch(fetcher, self._runtime.now.mono_ms)

    def _prepare(self, fetcher: Fetcher, cut: Truncation) -> None:
        def prepared(result: object) -> None:
            if not self._logs.closing:
                self._take(fetcher, fetcher.cut(cut, result, self._runtime.now))

        self._runtime.work(cut.job.__call__, prepared)
