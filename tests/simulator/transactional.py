"""Worlds with transactions: producers beside the other clients, brokers that fail, and what committed readers see.

What must hold: a transaction whose commit was confirmed is seen whole and once, in each of its partitions and in its group's
offsets; of one whose abort was confirmed nothing is seen; one of which nobody was told is seen whole or not at all; and some
time after the faults no transaction is open any more. `python -m tests.simulator.transactional SEED` replays a world.
"""

import random
import sys
from collections.abc import Sequence
from typing import Any

from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Client
from tests.simulator.clients.topics import create
from tests.simulator.clients.transactional import TIMEOUT_MS, Told, Transactional
from tests.simulator.simulation import Patch, Result, Simulation

CONTROL = 0x20
ENDED_MS = 6 * TIMEOUT_MS
"""Within that time of health no transaction is open: its timeout, the check for it, and the markers."""
CONFIG = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class TransactionalSimulation(Simulation):
    """One run of one seed, with transactions."""

    def __init__(self, seed: int, *, keep_log: bool = False) -> None:
        choose = random.Random(f"transactions {seed}")
        self.version = choose.choice((0, 2))
        super().__init__(seed, keep_log=keep_log)
        self.told = Told()
        self.partitions = {"x0": choose.choice((1, 2, 3)), "x1": choose.choice((1, 2))}
        self.producers = choose.choice((1, 2, 3))
        self.segment_bytes = choose.choice((1_000, 100_000))

    def _cluster(self) -> Any:
        cluster = super()._cluster()
        cluster.transaction_version = self.version
        return cluster

    def _config(self) -> dict[str, str]:
        return {**super()._config(), **CONFIG}

    def _create(self) -> None:
        super()._create()
        client = self._client("transactions creator")
        for topic, partitions in self.partitions.items():
            configs = {"min.insync.replicas": "2", "internal.segment.bytes": str(self.segment_bytes)}
            client.spawn(create(client, topic, partitions, 3, configs))
        if not self._until(lambda: client.running == 0, 30_000):
            raise Violation("liveness", "topics of a fresh cluster are not created after 30 s")

    def _work(self) -> None:
        super()._work()
        choose = random.Random(f"transactional work {self.seed}")
        for number in range(self.producers):
            producer = Transactional(
                self._client(f"tx{number}"), self.told, self.partitions, self.version, choose.choice((50, 300, 1_000))
            )
            producer.client.spawn(producer.run())

    def _read_back(self, topics: dict[str, int]) -> None:
        """All clients have stopped. What they have left open is over its time before the cluster is looked at as a quiet
        one."""
        super()._read_back(topics)
        reader = self._client("committed reader")
        seen: dict[tuple[str, int], list[str]] = {}
        for topic, partitions in self.partitions.items():
            for number in range(partitions):
                reader.spawn(self._read_committed(reader, topic, number, seen))
        if not self._until(lambda: reader.running == 0, ENDED_MS):
            raise Violation("no_open_transaction", f"transactions are open after {ENDED_MS} ms without faults")
        self._judge(seen)
        offsets: dict[str, int] = {}
        for group in self.told.offsets:
            reader.spawn(self._read_offset(reader, group, offsets))
        if not self._until(lambda: reader.running == 0, ENDED_MS):
            raise Violation("no_open_transaction", f"offsets are unstable after {ENDED_MS} ms without faults")
        for group, offset in offsets.items():
            self._judge_offset(group, offset)

    def _judge(self, seen: dict[tuple[str, int], list[str]]) -> None:
        counts: dict[str, dict[tuple[str, int], int]] = {}
        for part, names in seen.items():
            for name in names:
                places = counts.setdefault(name, {})
                places[part] = places.get(part, 0) + 1
        for name, places in counts.items():
            wanted = dict.fromkeys(self.told.parts[name], 1)
            if name in self.told.aborted:
                raise Violation("transactions_are_atomic", f"{name} was aborted, and committed readers see {places}")
            if places != wanted:
                raise Violation("transactions_are_atomic", f"{name} wrote {wanted}, committed readers see {places}")
        for name in self.told.committed:
            if name not in counts:
                raise Violation("transactions_are_atomic", f"{name} was committed, and committed readers see nothing")
        self.history.counts["transactions seen"] += len(counts)
        self._seen = set(counts)

    def _judge_offset(self, group: str, offset: int) -> None:
        told = self.told.offsets[group]
        floor = max((number for number, name in told.items() if name in self._seen), default=-1)
        if offset != floor:
            name = told.get(offset, "nothing")
            raise Violation(
                "transactional_offsets",
                f"{group} has offset {offset} of {name}; the last transaction with an offset that is seen has {floor}",
            )

    async def _read_committed(
        self, client: Client, topic: str, number: int, seen: dict[tuple[str, int], list[str]]
    ) -> None:
        offset, aborting = 0, set[int]()
        names = seen[topic, number] = []
        while True:
            if not await client.learn(topic) or (topic, number) not in client.leaders:
                await client.sleep(100)
                continue
            kind = message("FetchRequest")
            part = kind.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 16)
            request = kind(
                isolation_level=1, max_wait_ms=100, max_bytes=1 << 20, session_epoch=-1,
                topics=[kind.FetchTopic(topic_id=client.topic_ids[topic], partitions=[part])],
            )  # fmt: skip
            reply = await client.ask(client.leaders[topic, number], "Fetch", 16, request)
            if reply is None or reply.error_code or not reply.responses or reply.responses[0].partitions[0].error_code:
                await client.sleep(100)
                continue
            data = reply.responses[0].partitions[0]
            begins = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
            records = data.records or b""
            for header in batches.headers(records):
                while begins and begins[0][0] <= header.last_offset:
                    aborting.add(begins.pop(0)[1])
                if header.attributes & CONTROL:
                    aborting.discard(header.producer_id)
                elif header.producer_id not in aborting and header.last_offset >= offset:
                    names += [
                        (one.value or b"").decode().partition(":")[0]
                        for one in batches.records(records, header.position)
                    ]
                offset = max(offset, header.last_offset + 1)
            if offset >= data.high_watermark and data.last_stable_offset == data.high_watermark:
                return
            if not records:
                await client.sleep(200)

    async def _read_offset(self, client: Client, group: str, found: dict[str, int]) -> None:
        kind = message("OffsetFetchRequest")
        topic = next(iter(self.partitions))
        topics = [kind.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        request = kind(groups=[kind.OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
        find = message("FindCoordinatorRequest")(key_type=0, coordinator_keys=[group])
        while True:
            reply = await client.ask(client.any_broker(), "FindCoordinator", 4, find)
            if reply is not None and not reply.coordinators[0].error_code:
                reply = await client.ask(reply.coordinators[0].host, "OffsetFetch", 8, request)
                if reply is not None and not reply.groups[0].error_code:
                    part = reply.groups[0].topics[0].partitions[0]
                    if not part.error_code:
                        found[group] = part.committed_offset
                        return
            await client.sleep(200)


def simulate(seed: int, patches: Sequence[Patch] = (), *, keep_log: bool = False) -> Result:
    """Run one world with transactions, with the product changed by `patches` for as long as it runs."""
    undo = [patch() for patch in patches]
    try:
        return TransactionalSimulation(seed, keep_log=keep_log).run()
    finally:
        for function in reversed(undo):
            function()


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        found = simulate(number)
        print(f"seed {number}, digest {found.digest:08x}: {'ok' if found.ok else found.text} {dict(found.counts)}")
