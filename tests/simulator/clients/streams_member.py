"""A member of a streams group (KIP-1071): runs the tasks that the coordinator gives it, and commits offsets in its epoch.

Its application has one subtopology, which reads a topic and keeps state, so that each task has a standby task in another
process. The member lets go of a task at once, and tells so with its next heartbeat. The history is told two things, with the
time until which the member's session lasts at least: which tasks are active at it, and which tasks its process has in which
role. The second is told like a topic of its own, whose owner is the member in a role: the state of a task is one directory.
"""

from typing import Any

from actors.wire.messages import message
from tests.simulator.clients.consumer_member import (
    ELSEWHERE,
    GONE,
    HEARTBEAT_MS,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerMember,
)
from tests.simulator.clients.process import Client

BEAT = 0
GROUP = "streams"
CHANGELOG = "streams-changelog"
PART = "0"
CONFIG = {
    "group.streams.min.session.timeout.ms": str(SESSION_MS),
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.streams.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.streams.assignment.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.num.standby.replicas": "1",
}


class StreamsMember(ConsumerMember):
    """One member of `group`, whose tasks read `topic`."""

    def __init__(self, client: Client, group: str, topic: str, partitions: int, process: str) -> None:
        super().__init__(client, group, topic, partitions)
        self.process = process
        self.copies: set[int] = set()
        """Partitions whose standby tasks it has."""

    async def _heartbeat(self) -> bool:
        """Send one heartbeat. Returns whether it was answered."""
        full = not self._sure or self.epoch == 0
        request = self._request(full)
        self._sure = False
        asked_us = self.client.world.time_us
        reply = await self._ask("StreamsGroupHeartbeat", BEAT, request, HEARTBEAT_MS * 2)
        if reply is None:
            return False
        if reply.error_code:
            if reply.error_code in ELSEWHERE:
                self._coordinator = None
            if reply.error_code in GONE:
                self._drop()
            return False
        self._sure, self.epoch, at = True, reply.member_epoch, self._coordinator
        self.client.history.counts["heartbeats of streams groups"] += 1
        if reply.active_tasks is not None:
            active, copies = _numbers(reply.active_tasks), _numbers(reply.standby_tasks)
            if not await self._take(active, copies):
                self._sure = False
                return False
        for name, member in self._names():
            self.client.history.alive(self.group, name, member, at, asked_us, SESSION_MS)
        return True

    def _request(self, full: bool) -> Any:
        kind = message("StreamsGroupHeartbeatRequest")

        def tasks(numbers: list[int]) -> list[Any]:
            return [kind.TaskIds(subtopology_id=PART, partitions=numbers)] if numbers else []

        part = kind.Subtopology(
            subtopology_id=PART, source_topics=[self.topic], state_changelog_topics=[kind.TopicInfo(name=CHANGELOG)]
        )
        first = self.epoch == 0
        return kind(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, process_id=self.process,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            topology=kind.Topology(epoch=0, subtopologies=[part]) if first else None,
            active_tasks=[] if first else tasks(sorted(self.offsets)),
            standby_tasks=[] if first else tasks(sorted(self.copies)), warmup_tasks=[],
        )  # fmt: skip

    async def _take(self, active: set[int], copies: set[int]) -> bool:
        """Let go of what is not given, and begin with what is new; whether that was possible."""
        history, now_us = self.client.history, self.client.world.time_us
        for number in [number for number in self.offsets if number not in active]:
            del self.offsets[number]
            history.released(self.group, self.topic, number, self.member_id)
            history.released(self.group, self.process, number, f"{self.member_id} active")
        for number in self.copies - copies:
            history.released(self.group, self.process, number, f"{self.member_id} standby")
        for number in sorted(copies - self.copies):
            history.owns(self.group, self.process, number, f"{self.member_id} standby", now_us)
        self.copies = copies
        news = sorted(active - self.offsets.keys())
        for number in news:
            history.owns(self.group, self.topic, number, self.member_id, now_us)
            history.owns(self.group, self.process, number, f"{self.member_id} active", now_us)
        found = await self._offsets(news) if news else {}
        if found is None:
            # Without offsets it must not begin: it asks for everything again.
            for number in news:
                history.released(self.group, self.topic, number, self.member_id)
                history.released(self.group, self.process, number, f"{self.member_id} active")
            return False
        self.offsets |= found
        return True

    def _names(self) -> list[tuple[str, str]]:
        """Under which names it owns something."""
        mine = [(self.process, f"{self.member_id} {role}") for role in ("active", "standby")]
        return [(self.topic, self.member_id), *mine]

    async def _go(self) -> None:
        """Leave, and come back later."""
        leaving = self.epoch
        self._let_go()
        request = message("StreamsGroupHeartbeatRequest")(
            group_id=self.group, member_id=self.member_id, member_epoch=-1
        )
        if await self._ask("StreamsGroupHeartbeat", BEAT, request) is not None and leaving:
            self._drop()
        await self.client.sleep(self.client.random.randint(100, 3_000))

    def _drop(self) -> None:
        self.epoch = 0
        self._let_go()

    def _let_go(self) -> None:
        self.offsets, self.copies = {}, set()
        for name, member in self._names():
            self.client.history.left(self.group, name, member)


def _numbers(tasks: Any) -> set[int]:
    return {number for one in tasks for number in one.partitions}
