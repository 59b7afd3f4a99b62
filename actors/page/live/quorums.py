"""The quorum and the brokers of a running cluster, asked again and again.

This file alone decides how often, and when silence becomes a sentence: ANSWER_S after a question, which is asked EVERY_S
after the answer before it, so that a quorum without a leader is told within two seconds. Brokers that have no such request,
as in ZooKeeper mode, or may not answer it here are not silent: then nothing is known of the quorum, which is no fault.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from actors.client.errors import ClientError, NotInTime, Unspoken
from actors.client.operations.cluster import Cluster, describe_cluster, describe_quorum
from actors.host.client.asynchronous import Kafka
from actors.page.verdict import Asked
from actors.wire.errors import ErrorCode

EVERY_S = 0.5
CLUSTER_S = 2.0
"""How often brokers are asked for their addresses and the cluster's id, s."""
OFFSETS_S = 0.9
"""How often it is told at most that nothing but offsets and times has changed, s."""
ANSWER_S = 1.3
"""How long the quorum may take to answer, s."""
UNTOLD = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})
"""The codes of a broker that answers, and does not tell the quorum."""


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
        self.silent = asyncio.Event()
        """Set once a question has had no answer."""
        self._cluster_due_s = 0.0

    async def watch(self) -> None:
        """Ask again and again, until the task is cancelled."""
        told, due_s = self.asked, 0.0
        while True:
            await self._ask()
            if _said(told) != _said(self.asked) or (told != self.asked and time.monotonic() >= due_s):
                told, due_s = self.asked, time.monotonic() + OFFSETS_S
                self._on_change()
            await asyncio.sleep(EVERY_S)

    async def _ask(self) -> None:
        try:
            self.asked = Asked(await self._kafka.run(describe_quorum(), ANSWER_S), "")
        except ClientError as error:
            if not isinstance(error, Unspoken) and error.code not in UNTOLD:
                self.asked = Asked(None, f"the quorum of controllers does not answer: {error}")
                if isinstance(error, NotInTime):
                    self.silent.set()
                return
            self.asked = Asked(None, "", unseen=str(error))
        self.answered_ms = int(time.time() * 1000)
        if time.monotonic() < self._cluster_due_s:
            return
        self._cluster_due_s = time.monotonic() + CLUSTER_S
        with suppress(ClientError):  # that a node is gone is seen in the metadata
            self.cluster = await self._kafka.run(describe_cluster(), ANSWER_S)
            self.cluster_id = self.cluster_id or self.cluster.id or ""


def _said(asked: Asked) -> tuple[object, ...]:
    """What is told at once when it changes."""
    quorum = asked.quorum
    leads = (quorum.leader, quorum.leader_epoch, len(quorum.voters)) if quorum is not None else ()
    return asked.problem, asked.unseen, *leads
