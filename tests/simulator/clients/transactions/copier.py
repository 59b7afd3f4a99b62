"""A client that consumes, transforms and produces (KIP-98, KIP-447): it reads committed records of one topic, and
writes one record for each to another topic, in a transaction with the offset behind what it has read.

Several clients may have one transactional id and one group, as a process and its successor that know nothing of each other.
"""

from actors.wire.messages import message
from tests.simulator.clients.transactions.committed_reader import fetch_committed, find
from tests.simulator.clients.transactions.transactional import GiveUp, Late, Transactional

RECORDS_MAX = 4
"""Records that one transaction copies at most."""


class Copier(Transactional):
    """Copies every partition of its input. A copy is `name:topic:partition:input partition:input offset`."""

    async def run(self, topic: str) -> None:
        """Transactions, until the client stops. `topic`: the input."""
        client, random = self.client, self.client.random
        while not client.stopping:
            try:
                await self._init()
                positions = {part: max(0, offset) for part, offset in (await self.offsets(topic)).items()}
                while not client.stopping:
                    if not await self._copy(topic, positions):
                        await client.sleep(random.randint(1, self.plan.pause_ms))
            except (GiveUp, Late):
                # Fenced by the other one, for instance, which may go on for a while.
                await client.sleep(random.choice((50, 500, 500, 12_000)))

    async def _copy(self, topic: str, positions: dict[int, int]) -> bool:
        """Copy in one transaction. False: there is nothing to copy."""
        client, random = self.client, self.client.random
        partition = random.randrange(len(positions))
        if not await find(client, topic, partition):
            return False
        page = await fetch_committed(client, topic, partition, positions[partition], wait_ms=1)
        if page.error:
            client.leaders.pop((topic, partition), None)
        records = page.records[:RECORDS_MAX]
        if not records:
            positions[partition] = page.next_offset
            return False
        behind = page.next_offset if len(records) == len(page.records) else records[-1].offset + 1
        name = self._begins()
        part = self.plan.output, random.randrange(self.plan.topics[self.plan.output])
        self.told.records[name] = {part: len(records)}
        await self._write(part, name, [f"{partition}:{one.offset}" for one in records])
        await self._commit_offset(topic, partition, behind)
        if not random.randrange(12):  # it stops for a while, and goes on as if nothing had been
            await client.sleep(random.choice((1_000, 15_000)))
        commit = random.randrange(5) > 0
        await self._end(name, commit)
        if commit:
            positions[partition] = behind
        return True

    async def offsets(self, topic: str) -> dict[int, int]:
        """The group's offset of each partition of the input."""
        kind = message("OffsetFetchRequest")
        count = self.plan.topics[topic]
        topics = [kind.OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(count)))]
        request = kind(groups=[kind.OffsetFetchRequestGroup(group_id=self.group, topics=topics)], require_stable=True)
        reply = await self._ask(
            0, "OffsetFetch", 8, request,
            lambda reply: reply.groups[0].error_code
            or max(one.error_code for one in reply.groups[0].topics[0].partitions),
        )  # fmt: skip
        return {one.partition_index: one.committed_offset for one in reply.groups[0].topics[0].partitions}
