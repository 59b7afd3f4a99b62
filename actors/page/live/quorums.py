"""The quorum and the brokers of a running cluster, asked every second or so.

This file alone decides how often, and when silence becomes a sentence: within ANSWER_S of the question, so that a quorum
without a leader is told within two seconds.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from actors.client.errors import ClientError
from actors.client.operations.cluster import Cluster, describe_cluster, describe_quorum
from actors.host.client.asynchronous import Kafka
from actors.page.verdict import Asked

EVERY_S = 1.0
ANSWER_S = 1.5
"""How long the quorum may take to answer, s."""


class Quorums:
    """The last answers, and the task that asks."""

    def __init__(self, kafka: Kafka, on_change: Callable[[], None]) -> None:
        self._kafka = kafka
        self._on_change = on_change
        self.asked = Asked(None, "")
        self.cluster: Cluster | None = None
        self.cluster_id = ""
        """The id of the cluster that answered first; empty: none has yet."""
        self.answered_ms = 0
        """The wall clock time of the last answer, ms; 0: none yet."""

    async def watch(self) -> None:
        """Ask again and again, until the task is cancelled."""
        while True:
            before = self.asked
            await self._ask()
            if before != self.asked:
                self._on_change()
            await asyncio.sleep(EVERY_S)

    async def _ask(self) -> None:
        try:
            quorum = await self._kafka.run(describe_quorum(), ANSWER_S)
        except ClientError as error:
            self.asked = Asked(None, f"the quorum of controllers does not answer: {error}")
            return
        self.asked, self.answered_ms = Asked(quorum, ""), int(time.time() * 1000)
        with suppress(ClientError):  # that a node is gone is seen in the metadata
            self.cluster = await self._kafka.run(describe_cluster(), ANSWER_S)
            self.cluster_id = self.cluster_id or self.cluster.id or ""
