"""A member of a consumer group (classic protocol): joins, shares the partitions of a topic, reads, and commits offsets.

The leader of the group assigns partitions round-robin to the members in order of their ids. A member never commits an
offset lower than the one with which it began, so the committed offset of a group may only rise.

A member with an instance id (KIP-345) does not leave: its process ends and begins again, and remembers nothing. What it
says of itself is what it remembers, as with Java's consumers: the partitions that it had, and since which generation.
"""

import struct
from typing import Any

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.clients.consumer import earliest, fetch
from tests.simulator.clients.process import Client

FIND, JOIN, SYNC, BEAT, LEAVE, COMMIT, FETCH = 4, 9, 5, 4, 5, 8, 8
SESSION_MS, REBALANCE_MS = 6_000, 3_000
PAUSE_MS = (300, 2_000)
"""The time between two commits."""
LOST = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID))


def written(topic: str, numbers: list[int]) -> bytes:
    """An assignment in the form of Kafka's consumers, version 0."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si{len(numbers)}ii", 0, 1, len(name), name, len(numbers), *numbers, -1)


def read(data: bytes) -> list[int]:
    """The partitions of an assignment."""
    if not int.from_bytes(data[2:6], "big"):
        return []
    size = int.from_bytes(data[6:8], "big")
    count = int.from_bytes(data[8 + size : 12 + size], "big")
    return list(struct.unpack_from(f">{count}i", data, 12 + size))


class Member:
    """One member of `group`, which reads `topic`."""

    def __init__(self, client: Client, group: str, topic: str, partitions: int, instance: str | None = None) -> None:
        self.client = client
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []
        self._coordinator: str | None = None

    def metadata(self) -> bytes:
        """What it says of itself to the others. Without an instance id that is nothing, since its leader knows what all of
        them read; with one it is a subscription in version 3."""
        if self.instance is None:
            return b"\0\0"
        topic = struct.pack(">h", len(self.topic)) + self.topic.encode()
        owned = struct.pack(f">i{len(self.owned)}i", len(self.owned), *self.owned)
        had = struct.pack(">i", 1) + topic + owned if self.owned else struct.pack(">i", 0)
        return struct.pack(">hi", 3, 1) + topic + struct.pack(">i", -1) + had + struct.pack(">ih", self.generation, -1)

    async def run(self) -> None:
        """Be a member until the client stops."""
        client = self.client
        while not client.stopping:
            numbers = await self._join()
            if numbers is None:
                await client.sleep(100)
                continue
            self.owned = numbers
            await self._read(numbers)
            if not client.random.randrange(8):
                await (self._leave() if self.instance is None else self._restart())

    async def _ask(self, name: str, version: int, request: Any, timeout_ms: int = 8_000) -> Any:
        """Ask the coordinator of the group, which is looked up if it is not known; None: no answer."""
        client = self.client
        if self._coordinator is None:
            find = message("FindCoordinatorRequest")(key_type=0, coordinator_keys=[self.group])
            reply = await client.ask(client.any_broker(), "FindCoordinator", FIND, find)
            if reply is None or reply.coordinators[0].error_code:
                await client.sleep(100)
                return None
            self._coordinator = reply.coordinators[0].host
        reply = await client.ask(self._coordinator, name, version, request, timeout_ms)
        if reply is None:
            self._coordinator = None
        return reply

    def _moved(self, code: int) -> None:
        """Handle an error that more than one answer can have."""
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinator = None
        if code in LOST:
            self.member_id, self.generation, self.owned = "", -1, []

    async def _join(self) -> list[int] | None:
        kind = message("JoinGroupRequest")
        protocol = kind.JoinGroupRequestProtocol(name="range", metadata=self.metadata())
        join = kind(group_id=self.group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS,
                    member_id=self.member_id, group_instance_id=self.instance, protocol_type="consumer",
                    protocols=[protocol])  # fmt: skip
        reply = await self._ask("JoinGroup", JOIN, join)
        if reply is None:
            return None
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            return None
        if reply.error_code:
            self._moved(reply.error_code)
            return None
        self.member_id, self.generation = reply.member_id, reply.generation_id
        kind = message("SyncGroupRequest")
        shares = []
        if reply.leader == reply.member_id and not reply.skip_assignment:
            members = sorted(member.member_id for member in reply.members)
            for place, member in enumerate(members):
                numbers = list(range(place, self.partitions, len(members)))
                shares.append(
                    kind.SyncGroupRequestAssignment(member_id=member, assignment=written(self.topic, numbers))
                )
        sync = kind(group_id=self.group, generation_id=self.generation, member_id=self.member_id,
                    group_instance_id=self.instance, protocol_type="consumer", protocol_name="range",
                    assignments=shares)  # fmt: skip
        reply = await self._ask("SyncGroup", SYNC, sync)
        if reply is None:
            return None
        if reply.error_code:
            self._moved(reply.error_code)
            return None
        return read(bytes(reply.assignment))

    async def _offsets(self, numbers: list[int]) -> dict[int, int] | None:
        history = self.client.history
        floors = {number: history.floor(self.group, self.topic, number) for number in numbers}
        kind = message("OffsetFetchRequest")
        topics = [kind.OffsetFetchRequestTopics(name=self.topic, partition_indexes=numbers)]
        request = kind(groups=[kind.OffsetFetchRequestGroup(group_id=self.group, topics=topics)])
        reply = await self._ask("OffsetFetch", FETCH, request)
        if reply is None:
            return None
        group = reply.groups[0]
        if group.error_code:
            self._moved(group.error_code)
            return None
        found = {}
        for partition in group.topics[0].partitions:
            if partition.error_code:
                return None
            number, offset = partition.partition_index, partition.committed_offset
            history.fetched(self.group, self.topic, number, offset, floors[number])
            found[number] = max(offset, 0)
        return found

    async def _read(self, numbers: list[int]) -> None:
        """Read and commit until the group rebalances."""
        client = self.client
        offsets = await self._offsets(numbers) if numbers else {}
        while offsets is not None and not client.stopping:
            if not await self._beat():
                return
            for number in numbers:
                await self._progress(number, offsets)
            if numbers and not await self._commit(offsets):
                return
            await client.sleep(client.random.randint(*PAUSE_MS))

    async def _progress(self, number: int, offsets: dict[int, int]) -> None:
        client, key = self.client, (self.topic, number)
        if key not in client.leaders and not (await client.learn(self.topic) and key in client.leaders):
            return
        topic_id = client.topic_ids[self.topic]
        error, records = await fetch(client, self.topic, topic_id, number, offsets[number], wait_ms=0)
        for record in records:
            assert record.value is not None
            client.history.consumed(client.name, topic_id, number, record.offset, record.value, offsets[number])
            offsets[number] = record.offset + 1
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            offsets[number] = max(offsets[number], await earliest(client, *key))
        elif error != ErrorCode.NONE:
            client.leaders.pop(key, None)

    async def _beat(self) -> bool:
        request = message("HeartbeatRequest")(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        reply = await self._ask("Heartbeat", BEAT, request)
        if reply is None:
            return True
        self._moved(reply.error_code)
        return reply.error_code not in (*LOST, ErrorCode.REBALANCE_IN_PROGRESS)

    async def _commit(self, offsets: dict[int, int]) -> bool:
        kind = message("OffsetCommitRequest")
        told = dict(offsets)
        partitions = [kind.OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                      for number, offset in told.items()]  # fmt: skip
        for number, offset in told.items():
            self.client.history.commits(self.group, self.topic, number, offset)
        request = kind(group_id=self.group, generation_id_or_member_epoch=self.generation, member_id=self.member_id,
                       group_instance_id=self.instance,
                       topics=[kind.OffsetCommitRequestTopic(name=self.topic, partitions=partitions)])  # fmt: skip
        reply = await self._ask("OffsetCommit", COMMIT, request)
        if reply is None:
            return True
        for partition in reply.topics[0].partitions:
            if partition.error_code:
                self._moved(partition.error_code)
                if partition.error_code in (*LOST, ErrorCode.REBALANCE_IN_PROGRESS):
                    return False
                continue
            self.client.history.committed(self.group, self.topic, partition.partition_index,
                                          told[partition.partition_index])  # fmt: skip
        return True

    async def _restart(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, []
        await self.client.sleep(self.client.random.randint(100, 2_000))

    async def _leave(self) -> None:
        kind = message("LeaveGroupRequest")
        request = kind(group_id=self.group, members=[kind.MemberIdentity(member_id=self.member_id)])
        if await self._ask("LeaveGroup", LEAVE, request) is not None:
            self.member_id, self.generation, self.owned = "", -1, []
        await self.client.sleep(self.client.random.randint(100, 2_000))
