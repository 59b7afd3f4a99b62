"""Stories of KIP-890's races: a producer, the leader of its partition and the coordinator of its transactions, each a
process of a simulated cluster, and messages between them that are late."""

from pathlib import Path
from typing import Any

import pytest

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World
from tests.transcripts.driver import play, stories

CONTROL, TRANSACTIONAL = 0x20, 0x10
TRANSACTION = 1
CONFIG = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


class Races:
    """The commands of these stories. `b` is the broker that leads t-0, `c` the one that coordinates. Every request has
    a connection of its own, so that a late one does not hold up the next."""

    def __init__(self) -> None:
        self.clients = 0
        self.waiting: dict[str, list[Any]] = {}

    def commands(self) -> dict[str, Any]:
        names = ("cluster", "init", "add", "produce", "end", "late", "answer", "wait", "log", "slow", "fast")
        return {name: getattr(self, name) for name in names}

    def cluster(self, version: str) -> str:
        """A cluster of that transaction.version, with a topic t of one partition."""
        self.world = World(1)
        self.nodes = Cluster(self.world, config=CONFIG, transaction_version=int(version))
        self.nodes.start()
        assert self.world.run_until(self.nodes.ready, 30_000)
        find = message("FindCoordinatorRequest")(key_type=TRANSACTION, coordinator_keys=["x"])
        self.c = ""
        while not self.c:
            found = self._client().call("b1", "FindCoordinator", 4, find).coordinators[0]
            self.c = "" if found.error_code else found.host
            self.world.run_for(500)
        others = [id for id in (1, 2, 3) if f"b{id}" != self.c]
        self.b = f"b{others[0]}"
        kind = message("CreateTopicsRequest")
        where = [kind.CreatableReplicaAssignment(partition_index=0, broker_ids=[*others, int(self.c[1:])])]
        topic = kind.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=where)
        assert not self._client().call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code
        self.world.run_for(1_000)
        return ""

    # ---- requests

    def init(self, id: str) -> str:
        request = message("InitProducerIdRequest")(transactional_id=id, transaction_timeout_ms=60_000)
        while True:
            reply = self._client().call(self.c, "InitProducerId", 5, request)
            if reply.error_code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                self.id = reply.producer_id
                return f"epoch {reply.producer_epoch}"
            self.world.run_for(100)

    def add(self, id: str, epoch: str) -> str:
        """AddPartitionsToTxn of a client that adds by itself."""
        kind = message("AddPartitionsToTxnRequest")
        request = kind(
            v3_and_below_transactional_id=id, v3_and_below_producer_id=self.id, v3_and_below_producer_epoch=int(epoch),
            v3_and_below_topics=[kind.AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )  # fmt: skip
        reply = self._client().call(self.c, "AddPartitionsToTxn", 3, request)
        return _name(reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def produce(self, id: str, epoch: str, sequence: str, value: str, v: str = "12") -> str:
        """A batch of one record."""
        name, version, request = self._batch(id, epoch, sequence, value, v)
        return _produced(self._client().call(self.b, name, version, request))

    def late(self, name: str, id: str, epoch: str, sequence: str, value: str, v: str = "12", ms: str = "2000") -> str:
        """A batch that the network delivers so much later, or with ms=0 at once; `answer name` says what came of it."""
        client, box = self._client(), list[Any]()
        self.waiting[name] = box
        self.world.slow_us[client.name, self.b] = int(ms) * 1000
        api, version, request = self._batch(id, epoch, sequence, value, v)
        client.ask(self.b, api, version, request, box.append)
        self.world.run_for(20)
        return ""

    def answer(self, name: str) -> str:
        box = self.waiting.pop(name)
        assert self.world.run_until(lambda: bool(box), 40_000)
        return _produced(box[0])

    def end(self, id: str, epoch: str, how: str, v: str = "5") -> str:
        kind = message("EndTxnRequest")
        request = kind(
            transactional_id=id, producer_id=self.id, producer_epoch=int(epoch), committed=how == "commit"
        )  # fmt: skip
        reply = self._client().call(self.c, "EndTxn", int(v), request)
        if reply.error_code or int(v) < 5:
            return _name(reply.error_code)
        return f"epoch {reply.producer_epoch}"

    # ---- time and the network

    def wait(self, ms: str) -> str:
        self.world.run_for(int(ms))
        return ""

    def slow(self, ms: str) -> str:
        """What the coordinator sends to the leader from now on is so late."""
        self.world.slow_us[self.c, self.b] = int(ms) * 1000
        return ""

    def fast(self) -> str:
        """What it sends from now on is not, and overtakes what it has sent on other connections."""
        self.world.slow_us.pop((self.c, self.b))
        return ""

    # ---- what is seen

    def log(self) -> str:
        """What the leader has, and up to where readers of committed records read."""
        partition = self.nodes.brokers[int(self.b[1:])].node.broker.replicas.get("t", 0)
        log, lines = partition.log, []
        read = log.read(0, 1 << 20, log.log_end_offset)
        for header in batches.headers(read.data if read is not None else b""):
            record = next(iter(batches.records(read.data, header.position)))
            what = (
                ("commit" if record.key[3] else "abort") if header.attributes & CONTROL else record.value.decode()
            )  # fmt: skip
            lines.append(f"{header.base_offset} {what} epoch {header.producer_epoch}")
        return "\n".join([*lines, f"stable {partition.last_stable_offset} of {log.log_end_offset}"])

    # ---- inside

    def _client(self) -> Client:
        self.clients += 1
        return Client(self.world, f"client{self.clients}")

    def _batch(self, id: str, epoch: str, sequence: str, value: str, v: str) -> tuple[str, int, Any]:
        builder = batches.Builder(
            attributes=TRANSACTIONAL, producer_id=self.id, producer_epoch=int(epoch), base_sequence=int(sequence),
            timestamp_ms=1_600_000_000_000,
        )  # fmt: skip
        builder.append(None, value.encode())
        kind = message("ProduceRequest")
        topic = kind.TopicProduceData(
            name="t", partition_data=[kind.PartitionProduceData(index=0, records=builder.build())]
        )
        return "Produce", int(v), kind(transactional_id=id, acks=-1, timeout_ms=3_000, topic_data=[topic])


def _name(code: int) -> str:
    return ErrorCode(code).name


def _produced(reply: Any) -> str:
    if reply is None:
        return "the connection was lost"
    answer = reply.responses[0].partition_responses[0]
    return _name(answer.error_code) if answer.error_code else f"written at {answer.base_offset}"


@pytest.mark.parametrize("story", stories("races"), ids=lambda path: path.stem)
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Races().commands(), rewrite)
