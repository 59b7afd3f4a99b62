"""Clients that send requests without waiting for answers: each request sees the effect of those before it on its
connection.

Some clients write and then read what they wrote, while links between brokers are slow or cut. Others send hundreds of
tiny requests on many connections at once. Every answer comes in its turn, and every broker serves at the end.
"""

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from actors.node.net.connections import Connections
from actors.node.net.request_queue import TurnsOfConnections
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.checkers.hooks import Violation
from tests.simulator.cluster import Client
from tests.simulator.coordinated import Coordinated

ROUNDS = 25
CROWD, TINY = 20, 60
LATEST = -1


class Impatient:
    """One cluster, one client that writes and then reads on one connection, and many other clients."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"{seed}-order")
        self.scene = Coordinated(seed)
        self.world = self.scene.world
        self.group = f"b{self.scene.coordinator('g')}"
        self.leader = self._leader()
        self.compared = 0
        """The number of pairs in which both answers were without error."""

    def run(self) -> None:
        """Run the clients under disturbances. Raises Violation."""
        asked = [self._commit_and_fetch, self._produce_and_list]
        for number in range(ROUNDS):
            self._disturb()
            for ask in asked:
                ask(number)
            if number % 8 == 0:
                self._crowd()
            self.world.run_for(self.random.randint(1, 300))
        self.world.partitions.clear()
        self.world.slow_us.clear()
        self.world.run_for(15_000)
        assert self.compared > ROUNDS
        assert not self.world.errors
        assert all(one.node.broker.availability.serving for one in self.scene.cluster.brokers.values())

    def _disturb(self) -> None:
        """Make links between brokers slow, and now and then cut one."""
        self.world.slow_us.clear()
        self.world.partitions.clear()
        names = [broker.name for broker in self.scene.cluster.brokers.values()]
        for a in names:
            for b in names:
                if a != b and self.random.random() < 0.4:
                    self.world.slow_us[a, b] = self.random.randrange(50_000)
                elif a != b and self.random.random() < 0.05:
                    self.world.partitions[a, b] = None

    def _pair(
        self, target: str, write: tuple[str, int, Any], read: tuple[str, int, Any], judge: Callable[[Any, Any], None]
    ) -> None:
        """Send both requests at once. `judge` gets both replies."""
        replies: list[Any] = []

        def came(reply: Any) -> None:
            replies.append(reply)
            if len(replies) == 2 and None not in replies:
                judge(*replies)

        self.scene.client.ask(target, *write, came)
        self.scene.client.ask(target, *read, came)

    def _commit_and_fetch(self, number: int) -> None:
        kind, other = message("OffsetCommitRequest"), message("OffsetFetchRequest")
        partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        topic = kind.OffsetCommitRequestTopic(name="t", partitions=[partition])
        write = kind(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
        asked = other.OffsetFetchRequestTopic(name="t", partition_indexes=[0])

        def judge(wrote: Any, read: Any) -> None:
            if not wrote.topics[0].partitions[0].error_code and not read.error_code:
                self._compare("OffsetFetch", read.topics[0].partitions[0].committed_offset, number)

        self._pair(
            self.group, ("OffsetCommit", 7, write), ("OffsetFetch", 7, other(group_id="g", topics=[asked])), judge
        )

    def _produce_and_list(self, number: int) -> None:
        kind, other = message("ProduceRequest"), message("ListOffsetsRequest")
        builder = Builder(timestamp_ms=1_600_000_000_000)
        builder.append(None, b"%d" % number)
        data = kind.PartitionProduceData(index=0, records=builder.build())
        write = kind(acks=-1, timeout_ms=5_000, topic_data=[kind.TopicProduceData(name="t", partition_data=[data])])
        asked = other.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        read = other(replica_id=-1, topics=[other.ListOffsetsTopic(name="t", partitions=[asked])])

        def judge(wrote: Any, told: Any) -> None:
            appended, found = wrote.responses[0].partition_responses[0], told.topics[0].partitions[0]
            if not appended.error_code and not found.error_code:
                self._compare("ListOffsets", found.offset, appended.base_offset + 1)

        self._pair(self.leader, ("Produce", 9, write), ("ListOffsets", 5, read), judge)

    def _compare(self, name: str, read: int, wrote: int) -> None:
        self.compared += 1
        if read < wrote:
            raise Violation("requests_see_earlier_ones", f"{name} answers {read} behind an answer for {wrote}")

    def _crowd(self) -> None:
        """Tiny requests on many connections, all at once, to a broker and to the active controller."""
        active = self.scene.cluster.active()
        request = message("ApiVersionsRequest")(client_software_name="c", client_software_version="1")
        for number in range(CROWD):
            client = Client(self.world, f"crowd{number}")
            target = active.name if active is not None and number % 2 else self.leader
            came: list[int] = []
            for place in range(TINY):

                def answered(reply: Any, place: int = place, came: list[int] = came) -> None:
                    if reply is not None and (came or [-1])[-1] != place - 1:
                        raise Violation("answers_in_order", f"answer {place} comes behind {came[-1:]}")
                    came.append(place)

                client.ask(target, "ApiVersions", 3, request, answered)

    def _leader(self) -> str:
        kind = message("MetadataRequest")
        reply = self.scene.ask("Metadata", 9, kind(topics=[kind.MetadataRequestTopic(name="t")]))
        return f"b{reply.topics[0].partitions[0].leader_id}"


@pytest.mark.parametrize("seed", range(1, 5))
def test_requests_of_a_connection_see_what_earlier_ones_did(seed: int) -> None:
    Impatient(seed).run()


def no_request_waits() -> Any:
    """A read starts while the write before it is under way."""
    return patch.object(Connections, "behind", lambda connections, slot: False)


def the_newest_request_first() -> Any:
    """The newest request runs first, as if the queue were a stack."""
    put = TurnsOfConnections.put

    def stacked(line: TurnsOfConnections, item: Any) -> None:
        put(line, item)
        items = line._queues[item[0]].items
        items.rotate(1)

    return patch.object(TurnsOfConnections, "put", stacked)


@pytest.mark.parametrize("mistake", [no_request_waits, the_newest_request_first])
def test_a_planted_mistake_is_found(mistake: Callable[[], Any]) -> None:
    with mistake(), pytest.raises(Violation):
        for seed in range(1, 5):
            Impatient(seed).run()
