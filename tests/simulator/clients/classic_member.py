"""A classic member of a group whose other members come and go with the protocol of KIP-848, so that the group changes
its form.

It is an eager consumer: it lets go of all partitions before it joins anew. What it uses is told to the history, with
the time until which no other member may be given it: a member that does not join anew in time is dropped after the
rebalance timeout.
"""

import struct

from tests.simulator.clients.member import REBALANCE_MS, Member


class ClassicMember(Member):
    """One member of `group`, which reads `topic` and says so in its metadata."""

    def metadata(self) -> bytes:
        """A subscription in the form of Kafka's consumers, version 0."""
        name = self.topic.encode()
        return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)

    async def run(self) -> None:
        """Be a member until the client stops."""
        client, history = self.client, self.client.history
        while not client.stopping:
            asked_us = client.world.time_us
            numbers = await self._join()
            if numbers is None:
                await client.sleep(100)
                continue
            self._using = self.member_id
            for number in numbers:
                history.owns(self.group, self.topic, number, self._using, client.world.time_us)
            self._heard(asked_us)
            await self._read(numbers)
            history.left(self.group, self.topic, self._using)
            if not client.random.randrange(12):
                await self._leave()

    async def _beat(self) -> bool:
        asked_us = self.client.world.time_us
        goes_on, answered = await super()._beat(), self._coordinator is not None
        if goes_on and answered:
            self._heard(asked_us)
        self.client.history.counts["heartbeats of classic members"] += 1
        return goes_on

    def _heard(self, asked_us: int) -> None:
        self.client.history.alive(self.group, self.topic, self._using, self._coordinator, asked_us, REBALANCE_MS)
