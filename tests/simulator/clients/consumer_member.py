"""A member of a consumer group of KIP-848: does what the coordinator says, reads, and commits offsets in its epoch.

It lets go of a partition at once, and tells so with its next heartbeat. What it may use is told to the history, with the
time until which its session lasts at least: until then nobody else may be given it.
"""

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.clients.member import Member
from tests.simulator.clients.process import Client

BEAT, COMMIT = 1, 9
GROUP = "consumers"
SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 6_000, 1_000, 20_000
CONFIG = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.assignment.interval.ms": "500",
}
GONE = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
)
"""The member gives up everything and joins anew."""
ELSEWHERE = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))


class ConsumerMember(Member):
    """One member of `group`, which reads `topic`."""

    def __init__(self, client: Client, group: str, topic: str, partitions: int) -> None:
        super().__init__(client, group, topic, partitions)
        self.member_id = client.name
        self.epoch = 0
        self.offsets: dict[int, int] = {}
        """Partition -> where it reads. Its keys are what it has."""
        self._sure = False
        """Whether the coordinator's last answer has arrived."""
        self._told: list[int] = []
        """What it last said that it has, and was heard. It says so again when that is something else, as clients do."""
        self._topic_id = b""

    async def run(self) -> None:
        """Be a member until the client stops."""
        client = self.client
        while not client.stopping:
            await client.learn(self.topic)
            if await self._heartbeat():
                for number in list(self.offsets):
                    await self._progress(number, self.offsets)
                if self.offsets and client.random.randrange(2):
                    await self._commit_now()
            if self.epoch and not client.random.randrange(25):
                await self._go()
            await client.sleep(client.random.randint(HEARTBEAT_MS // 2, HEARTBEAT_MS))

    async def _heartbeat(self) -> bool:
        """Send one heartbeat. Returns whether it was answered."""
        kind = message("ConsumerGroupHeartbeatRequest")
        full = not self._sure or self.epoch == 0
        has = sorted(self.offsets)
        owned = None
        if full or has != self._told:
            owned = [kind.TopicPartitions(topic_id=self._topic_id, partitions=has)] if has else []
        request = kind(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, topic_partitions=owned,
            rebalance_timeout_ms=REBALANCE_MS if full else -1, subscribed_topic_names=[self.topic] if full else None,
        )  # fmt: skip
        self._sure = False
        asked_us = self.client.world.time_us
        reply = await self._ask("ConsumerGroupHeartbeat", BEAT, request, HEARTBEAT_MS * 2)
        if reply is None:
            return False
        if reply.error_code:
            if reply.error_code in ELSEWHERE:
                self._coordinator = None
            if reply.error_code in GONE:
                self._drop()
            return False
        self._sure, self._told, self.epoch = True, has, reply.member_epoch
        history, name, at = self.client.history, (self.group, self.topic), self._coordinator
        history.counts["heartbeats of consumer groups"] += 1
        if reply.assignment is not None:
            for one in reply.assignment.topic_partitions:
                self._topic_id = bytes(one.topic_id)
            given = {n for one in reply.assignment.topic_partitions for n in one.partitions}
            for number in [number for number in self.offsets if number not in given]:
                del self.offsets[number]
                history.released(*name, number, self.member_id)
            news = sorted(given - self.offsets.keys())
            for number in news:
                history.owns(*name, number, self.member_id, self.client.world.time_us)
            found = await self._offsets(news) if news else {}
            if found is None:
                # Without offsets it must not begin: it asks for everything again.
                for number in news:
                    history.released(*name, number, self.member_id)
                self._sure = False
                return False
            self.offsets |= found
        history.alive(*name, self.member_id, at, asked_us, SESSION_MS)
        return True

    async def _commit_now(self) -> None:
        kind = message("OffsetCommitRequest")
        told, history = dict(self.offsets), self.client.history
        for number, offset in told.items():
            history.commits(self.group, self.topic, number, offset)
        parts = [kind.OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                 for number, offset in told.items()]  # fmt: skip
        request = kind(group_id=self.group, generation_id_or_member_epoch=self.epoch, member_id=self.member_id,
                       topics=[kind.OffsetCommitRequestTopic(name=self.topic, partitions=parts)])  # fmt: skip
        reply = await self._ask("OffsetCommit", COMMIT, request)
        if reply is None:
            return
        for one in reply.topics[0].partitions:
            if one.error_code:
                if one.error_code in ELSEWHERE:
                    self._coordinator = None
            else:
                history.committed(self.group, self.topic, one.partition_index, told[one.partition_index])
                history.counts["offsets committed by members of consumer groups"] += 1

    async def _go(self) -> None:
        """Leave, and come back later."""
        self.offsets, leaving = {}, self.epoch
        self.client.history.left(self.group, self.topic, self.member_id)
        request = message("ConsumerGroupHeartbeatRequest")(
            group_id=self.group, member_id=self.member_id, member_epoch=-1
        )
        if await self._ask("ConsumerGroupHeartbeat", BEAT, request) is not None and leaving:
            self._drop()
        await self.client.sleep(self.client.random.randint(100, 3_000))

    def _drop(self) -> None:
        self.epoch, self.offsets = 0, {}
        self.client.history.left(self.group, self.topic, self.member_id)
