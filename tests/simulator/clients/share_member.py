"""The membership of a share group's member (KIP-932): it joins, heartbeats, leaves and comes back, and says what is its own.

Its records are taken by a `ShareConsumer`, on connections of its own, as in Apache Kafka's client. Now and then it is silent
until its session is over, hangs up on its coordinator before the answer is there, or speaks in an epoch in which nobody is
any more. The checker hears what it asks and what it is told.
"""

from collections.abc import Mapping
from typing import Any

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.checkers.share_members import ShareMembers
from tests.simulator.clients.member import Member
from tests.simulator.clients.process import Client
from tests.simulator.clients.share_consumer import CONFIG as CONSUMER_CONFIG
from tests.simulator.clients.share_consumer import GROUP, ShareConsumer

BEAT, ALTER, GROUP_RESOURCE = 1, 1, 32
SESSION_MS, HEARTBEAT_MS = 6_000, 1_000
SILENT_MS = (SESSION_MS, 2 * SESSION_MS)
OVERTAKEN_MS = 15_000
LEFT, FAR_EPOCH = -1, 1 << 20
CONFIG = {
    **CONSUMER_CONFIG,
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.share.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.share.assignment.interval.ms": "500",
}
GONE = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND))
"""The member gives up everything and joins anew."""
ELSEWHERE = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))


async def begin_at_the_start(client: Client) -> None:
    """Let the group begin every partition at its first record. Repeat until that is said."""
    kind = message("IncrementalAlterConfigsRequest")
    given = kind.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = kind.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[given])
    while True:
        reply = await client.ask(
            client.any_broker(), "IncrementalAlterConfigs", ALTER, kind(resources=[resource], validate_only=False)
        )
        if reply is not None and not reply.responses[0].error_code:
            return
        await client.sleep(100)


class ShareMember(Member):
    """A member of a share group. `consumer` takes the records of what it is given."""

    def __init__(
        self, client: Client, topics: Mapping[str, int], consumer: ShareConsumer, checker: ShareMembers
    ) -> None:
        super().__init__(client, GROUP, "", sum(topics.values()))
        self.member_id = consumer.client.name
        self.topics = sorted(topics)
        self.consumer = consumer
        self.checker = checker
        self.epoch = 0
        self._sure = False
        """Whether the coordinator's last answer has arrived."""
        self._old: list[int] = []
        """Epochs that it was told since it joined."""
        consumer.mine = frozenset()

    async def run(self) -> None:
        """Be a member until the client stops; then it is silent."""
        client, random = self.client, self.client.random
        while not client.stopping:
            soon_ms = await self._heartbeat()
            chance = random.randrange(40)
            if self.epoch and chance == 0:
                await self._go()
            elif self.epoch and chance == 1:
                await client.sleep(random.randint(*SILENT_MS))
            elif chance in (2, 3):
                await self._speak_out_of_turn(early=chance == 3)
            await client.sleep(min(soon_ms, random.randint(HEARTBEAT_MS // 2, HEARTBEAT_MS)))

    # ---- one heartbeat

    async def _heartbeat(self) -> int:
        """Send one heartbeat. Returns in how many ms the next one is wanted."""
        client, checker, sent = self.client, self.checker, self.epoch
        full = sent == 0 or not self._sure
        self._sure = False
        asked_us = client.world.time_us
        if client.random.randrange(50) == 0 and self._coordinator is not None:
            hangs_up, at = client.random.randint(1, 40), self._coordinator
            client.world.after(hangs_up * 1000, lambda: client.hang_up(at))
        reply = await self._ask("ShareGroupHeartbeat", BEAT, self._request(sent, full=full), 2 * HEARTBEAT_MS)
        if reply is None:
            checker.unanswered(self.member_id)
            return HEARTBEAT_MS
        code, at = reply.error_code, self._coordinator
        if code:
            checker.refused(self.member_id, sent, code, at)
            if code in ELSEWHERE:
                self._coordinator = None
            if code in GONE:
                self._drop()
            return HEARTBEAT_MS // 2
        given = None
        if reply.assignment is not None:
            given = frozenset(
                (bytes(one.topic_id), n) for one in reply.assignment.topic_partitions for n in one.partitions
            )
        checker.answered(self.member_id, sent, reply.member_epoch, given, at, asked_us, SESSION_MS, full=full)
        client.history.counts["heartbeats of share groups"] += 1
        if reply.member_epoch != self.epoch:
            self._old.append(reply.member_epoch)
        self._sure, self.epoch = True, reply.member_epoch
        if given is not None:
            self.consumer.mine = given
        return max(1, reply.heartbeat_interval_ms)

    def _request(self, epoch: int, *, full: bool) -> Any:
        return message("ShareGroupHeartbeatRequest")(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=self.topics if full else None,
        )

    # ---- what else it does

    async def _speak_out_of_turn(self, *, early: bool) -> None:
        """A heartbeat in an epoch that is over, or that has not begun: it is refused, and changes nothing."""
        if early:
            epoch = self.epoch + FAR_EPOCH
        elif len(self._old) >= 3:
            epoch = self._old[-3]
        else:
            return
        reply = await self._ask("ShareGroupHeartbeat", BEAT, self._request(epoch, full=False), 2 * HEARTBEAT_MS)
        if reply is not None and not reply.error_code:
            self.checker.accepted_out_of_turn(self.member_id, epoch, reply.member_epoch, self._coordinator)
        elif reply is not None:
            self.client.history.counts["heartbeats of share groups out of turn"] += 1

    async def _go(self) -> None:
        """Leave, and come back later."""
        epoch, old = self.epoch, self._old
        self.checker.leaves(self.member_id)
        reply = await self._ask("ShareGroupHeartbeat", BEAT, self._request(LEFT, full=False))
        self._drop()
        # Without an answer it may still be on its way, and would end the next membership.
        await self.client.sleep(self.client.random.randint(100, 3_000) if reply is not None else OVERTAKEN_MS)
        if reply is not None and not reply.error_code and old:
            self.client.history.counts["members that left share groups"] += 1
            reply = await self._ask("ShareGroupHeartbeat", BEAT, self._request(epoch, full=False), 2 * HEARTBEAT_MS)
            if reply is not None and not reply.error_code:
                self.checker.known_after_it_left(self.member_id, epoch, self._coordinator)

    def _drop(self) -> None:
        self.epoch, self._old, self.consumer.mine = 0, [], frozenset()
        self.checker.leaves(self.member_id)
