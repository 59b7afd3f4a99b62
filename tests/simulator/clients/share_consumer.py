"""A member of a share group (KIP-932): acquires records of every broker that leads some, and says what becomes of them.

Most records it accepts. Some it gives back, rejects, keeps for longer, or keeps until their lock ends. Now and then it ends
a session, or its connection. The checker hears what it asks and what it is told.
"""

from collections.abc import Mapping
from typing import Any

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.checkers.shared_records import Key, SharedRecords
from tests.simulator.clients.process import Client

GROUP = "sharers"
LOCK_MS = 3_000
DELIVERY_LIMIT = 10
CONFIG = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": str(DELIVERY_LIMIT),
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.prune.interval.ms": "2000",
}
FETCH, ACKNOWLEDGE, FIND, SHARE_KEY = 2, 2, 6, 2
ALL_LEFT = 1_000
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
SAID = (ACCEPT,) * 14 + (RELEASE,) * 2 + (REJECT, RENEW, 0, 0)
"""The acknowledgements of some records, one of which is drawn; 0: none is sent, until the lock ends."""

Run = tuple[Key, int, int, int]
"""Partition, first offset, last offset, delivery count."""


class ShareConsumer:
    """One member of the group, at all brokers."""

    def __init__(self, client: Client, topics: Mapping[str, int], checker: SharedRecords) -> None:
        self.client = client
        self.topics = topics
        self.checker = checker
        self.only_accepts = False
        """Whether the client is the one that finishes the work of all."""
        self.mine: frozenset[Key] | None = None
        """What its group coordinator has given it; None: it is no member, and takes what there is."""

    def begin(self) -> None:
        """A task for each broker."""
        for broker in self.client.brokers:
            self.client.spawn(self._serve(broker))

    async def initialize(self) -> None:
        """Begin the group at every partition's start, as the group coordinator does when it gives members partitions."""
        kind = message("InitializeShareGroupStateRequest")
        while not await self.client.learn(*self.topics):
            await self.client.sleep(100)
        for topic, count in self.topics.items():
            for number in range(count):
                topic_id = self.client.topic_ids[topic]
                part = kind.PartitionData(partition=number, state_epoch=0, start_offset=0)
                data = kind.InitializeStateData(topic_id=topic_id, partitions=[part])
                request = kind(group_id=GROUP, topics=[data])
                while not await self._initialized(SharePartitionKey(GROUP, topic_id, number), request):
                    await self.client.sleep(100)

    async def _initialized(self, key: SharePartitionKey, request: Any) -> bool:
        client = self.client
        find = message("FindCoordinatorRequest")(key_type=SHARE_KEY, coordinator_keys=[key.coordinator_key])
        reply = await client.ask(client.any_broker(), "FindCoordinator", FIND, find)
        if reply is None or reply.coordinators[0].error_code:
            return False
        reply = await client.ask(reply.coordinators[0].host, "InitializeShareGroupState", 0, request)
        return reply is not None and not reply.results[0].partitions[0].error_code

    # ---- one session

    async def _serve(self, broker: str) -> None:
        """Session after session with one broker, until the client stops."""
        client = self.client
        while not client.stopping:
            await client.learn(*self.topics)
            await self._session(broker)
            self.checker.gone(self._member(broker))
            await client.sleep(client.random.randint(50, 400))

    def _member(self, broker: str) -> str:
        """The name of the client's session at a broker. A member of a group has one id at all of them."""
        name = f"{self.client.name}@{broker}"
        if self.mine is not None:
            self.checker.ids[name] = self.client.name
        return name

    async def _session(self, broker: str) -> None:
        """Fetch and acknowledge until something is wrong with the session, or the member wants another one."""
        client, epoch = self.client, 0
        has: list[Run] = []
        wanted: list[Key] = []
        while not client.stopping:
            led = [key for key in self._partitions() if client.leaders.get((key[0], key[2])) == broker]
            if not led:
                return
            chance = client.random.randrange(100)
            if epoch and not self.only_accepts and chance < 3:
                client.hang_up(broker)
                return
            ends = epoch > 0 and not self.only_accepts and chance < 6
            said, has = self._choose(has)
            alone = epoch > 0 and (ends or client.random.randrange(3) == 0)
            if alone:
                ok = await self._acknowledge(broker, -1 if ends else epoch, said)
            else:
                before, wanted = wanted, [(topic_id, number) for _, topic_id, number in led]
                gone = [key for key in dict.fromkeys((*before, *(run[0] for run, _ in said))) if key not in wanted]
                ok = await self._fetch(broker, epoch, wanted, gone, said, has)
            if not ok or ends:
                return
            epoch += 1
            await client.sleep(client.random.randint(0, 200))

    def _partitions(self) -> list[tuple[str, bytes, int]]:
        ids = self.client.topic_ids
        return [
            (topic, ids[topic], number)
            for topic, count in self.topics.items()
            if topic in ids
            for number in range(count)
            if self.mine is None or (ids[topic], number) in self.mine
        ]

    def _choose(self, has: list[Run]) -> tuple[list[tuple[Run, int]], list[Run]]:
        """(the acknowledgements that are sent now, the records that are kept)."""
        said, kept, random = [], [], self.client.random
        for key, first, last, count in sorted(has):
            middle = random.randint(first, last) if random.randrange(3) == 0 else last
            for begin, end in ((first, middle), (middle + 1, last)):
                if begin > end:
                    continue
                word = ACCEPT if self.only_accepts else random.choice(SAID)
                if word == RENEW:
                    kept.append((key, begin, end, count))
                elif word:
                    said.append(((key, begin, end, count), word))
        return said, kept

    def _batches(self, kind: Any, said: list[tuple[Run, int]]) -> dict[Key, list[Any]]:
        found: dict[Key, list[Any]] = {}
        for (key, first, last, _), word in said:
            batch = kind.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[word])
            found.setdefault(key, []).append(batch)
        return found

    async def _fetch(
        self, broker: str, epoch: int, named: list[Key], gone: list[Key], said: list[tuple[Run, int]], has: list[Run]
    ) -> bool:
        """Fetch from a broker once. `gone`: partitions that are fetched no more, of which records may still be
        acknowledged."""
        client, kind, member = self.client, message("ShareFetchRequest"), self._member(broker)
        acks = self._batches(kind, said)
        topics: dict[bytes, list[Any]] = {}
        for key in dict.fromkeys((*named, *acks)):
            part = kind.FetchPartition(partition_index=key[1], acknowledgement_batches=acks.get(key, []))
            topics.setdefault(key[0], []).append(part)
        self._says(member, said)
        finishes = self.only_accepts and self.mine is not None  # nobody may have been given anything for a minute
        request = kind(
            group_id=GROUP, member_id=member, share_session_epoch=epoch, max_wait_ms=client.random.choice((0, 300, 900)),
            min_bytes=1, max_bytes=1 << 16,
            max_records=ALL_LEFT if finishes else client.random.choice((1, 5, 50)), batch_size=10,
            share_acquire_mode=client.random.randrange(2),
            topics=[kind.FetchTopic(topic_id=id, partitions=parts) for id, parts in topics.items()],
            forgotten_topics_data=[kind.ForgottenTopic(topic_id=id, partitions=[number]) for id, number in gone],
        )  # fmt: skip
        asked_us = client.world.time_us
        reply = await client.ask(broker, "ShareFetch", FETCH, request, 4_000)
        if reply is None or reply.error_code:
            return False
        codes: dict[Key, int] = {}
        for topic in reply.responses:
            for one in topic.partitions:
                key = bytes(topic.topic_id), one.partition_index
                codes[key] = one.acknowledge_error_code
                for run in one.acquired_records:
                    first, last, count = run.first_offset, run.last_offset, run.delivery_count
                    self.checker.acquired(member, broker, key, first, last, count, asked_us, LOCK_MS)
                    client.history.counts["records acquired by share groups"] += last - first + 1
                    has.append((key, first, last, count))
                self._consume(key, one)
        self._heard(said, codes)
        return all(not one.error_code for topic in reply.responses for one in topic.partitions)

    def _consume(self, key: Key, data: Any) -> None:
        """Check that acquired records are the ones committed at their offsets."""
        records = bytes(data.records or b"")
        offsets = {offset for run in data.acquired_records for offset in range(run.first_offset, run.last_offset + 1)}
        for header in batches.headers(records):
            batches.verify(records, header.position)
            for record in batches.records(records, header.position):
                if record.offset in offsets and record.value is not None:
                    self.client.history.consumed(self.client.name, *key, record.offset, record.value, record.offset)

    async def _acknowledge(self, broker: str, epoch: int, said: list[tuple[Run, int]]) -> bool:
        client, kind, member = self.client, message("ShareAcknowledgeRequest"), self._member(broker)
        topics: dict[bytes, list[Any]] = {}
        for key, found in self._batches(kind, said).items():
            part = kind.AcknowledgePartition(partition_index=key[1], acknowledgement_batches=found)
            topics.setdefault(key[0], []).append(part)
        self._says(member, said)
        if epoch < 0:
            self.checker.gone(member)
        request = kind(
            group_id=GROUP, member_id=member, share_session_epoch=epoch,
            topics=[kind.AcknowledgeTopic(topic_id=id, partitions=parts) for id, parts in topics.items()],
        )  # fmt: skip
        reply = await client.ask(broker, "ShareAcknowledge", ACKNOWLEDGE, request, 4_000)
        if reply is None or reply.error_code:
            return False
        codes = {
            (bytes(topic.topic_id), one.partition_index): one.error_code
            for topic in reply.responses
            for one in topic.partitions
        }
        self._heard(said, codes)
        return True

    def _says(self, member: str, said: list[tuple[Run, int]]) -> None:
        for (key, first, last, _), word in said:
            self.checker.says(member, key, first, last, final=word in (ACCEPT, REJECT))

    def _heard(self, said: list[tuple[Run, int]], codes: dict[Key, int]) -> None:
        """What an answer says of what was said."""
        for (key, first, last, count), word in said:
            if codes.get(key, ErrorCode.UNKNOWN_SERVER_ERROR) != ErrorCode.NONE:
                continue
            self.client.history.counts["share acknowledgements that hold"] += 1
            if word == RELEASE:
                self.checker.released(key, first, last, count)
            else:
                self.checker.done(key, first, last)
