"""Two-phase commit (KIP-939) with processes that are killed with -9 between prepare and commit, and Apache Kafka's tool."""

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors.client.errors import ClientError
from actors.client.operations import topics
from actors.client.operations.transactions import Completed, Prepared, complete, end_kept, keep
from actors.command.by_address import health
from actors.host.client.blocking import Kafka, connect
from tests.integration.answers.dialogue import Dialogue
from tests.integration.conftest import everywhere
from tests.integration.transactions import preparing
from tests.integration.transactions.test_java import transactions

ROOT = Path(__file__).parents[3]
ON = {"transaction.two.phase.commit.enable": "true"}
CONFIG = ON | {
    "registration.lease.timeout.ms": "6000",
    "registration.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
COMMITTED = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
ROUNDS = 12
PARTITIONS = 3


def prepare(servers: str, id: str, topic: str, partitions: int, value: str) -> str:
    """The text of a transaction that a process has prepared, which was then killed with -9."""
    command = [
        sys.executable,
        "-m",
        "tests.integration.transactions.preparing",
        servers,
        id,
        topic,
        str(partitions),
        value,
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            text = process.stdout.readline().strip()
        finally:
            process.kill()
    return text


def read(servers: str, topic: str) -> Counter[str]:
    """What a reader of committed records sees, up to the last stable offsets."""
    table = rayft.read(servers, [topic], config=COMMITTED).read_all()
    return Counter(bytes(value).decode() for value in table["value"].to_pylist())


def test_a_producer_that_was_killed_is_followed_by_one_that_ends_what_it_has_prepared(name: str) -> None:
    with rayft.Cluster(controllers=1, brokers=1, config=ON) as cluster:
        servers = cluster.bootstrap_servers
        with connect(servers) as kafka:
            kafka.run(topics.create([topics.NewTopic(name, 2, 1)]))
            everywhere(cluster, name, 2)
            first = Prepared.of(prepare(servers, name, name, 2, "first"))
            taken = kafka.run(keep(name))
            assert taken.open == first and read(servers, name) == {}
            assert kafka.run(complete(name, first)) is Completed.COMMITTED
            with pytest.raises(ClientError, match=r"another client has taken it over"):
                kafka.run(end_kept(taken, False))
            assert kafka.run(complete(name, first)) is Completed.NOTHING
            with connect(servers, preparing.CONFIG | {"transactional.id": name}) as alive:
                second = preparing.prepared(alive, name, 2, "second", age_s=3600)
            (found,) = health._look(kafka).explanations
            assert (
                found.kind == "prepared"
                and f"transactional id {name} takes part in a two-phase commit" in found.sentence
            )
            assert "forceTerminateTransaction" in found.command and not found.is_fault
            assert second != first and kafka.run(complete(name, first)) is Completed.ABORTED
            assert read(servers, name) == {"first": 2}


@pytest.mark.slow
def test_kafka_transactions_shows_it_finds_nothing_that_hangs_and_ends_it(java: Any, name: str) -> None:
    with rayft.Cluster(controllers=1, brokers=1, config=ON) as cluster:
        servers = cluster.bootstrap_servers
        with connect(servers) as kafka:
            kafka.run(topics.create([topics.NewTopic(name, 1, 1)]))
            everywhere(cluster, name, 1)
            prepared = Prepared.of(prepare(servers, name, name, 1, "x"))
            kafka.run(keep(name))
            time.sleep(2)

            def row(*arguments: str) -> list[str]:
                lines = transactions(java, cluster, *arguments).splitlines()
                return next(line.split() for line in lines if str(prepared.producer_id) in line.split())

            listed = row("list")
            assert listed[0] == name and listed[2:] == [str(prepared.producer_id), "Ongoing"]
            described = row("describe", "--transactional-id", name)
            assert described[1:6] == [
                name, str(prepared.producer_id), str(prepared.producer_epoch), "Ongoing", str(2**31 - 1)
            ] and described[-1] == f"{name}-0"  # fmt: skip
            shown = row("describe-producers", "--topic", name, "--partition", "0")
            assert shown[:2] == [str(prepared.producer_id), str(prepared.producer_epoch)] and shown[-1] == "0"
            hanging = transactions(java, cluster, "find-hanging", "--broker-id", str(cluster.broker_ids[0]),
                                   "--max-transaction-timeout", "0")  # fmt: skip
            assert str(prepared.producer_id) not in hanging
            transactions(java, cluster, "forceTerminateTransaction", "--transactionalId", name)
            assert kafka.run(complete(name, prepared)) is Completed.NOTHING and read(servers, name) == {}


class Rounds:
    """Transactions that are prepared, and decided upon elsewhere: here, in a dictionary that outlives everybody."""

    def __init__(self, cluster: "rayft.Cluster", kafka: Kafka, topic: str, seed: int) -> None:
        self.cluster, self.kafka, self.topic = cluster, kafka, topic
        self.random = random.Random(seed)
        self.decided: dict[str, bool] = {}
        """Value of the records -> whether they are committed."""

    def play(self, number: int) -> None:
        """One transaction whose producer dies, and others with it before and while its successor ends it."""
        choose, cluster, id = self.random, self.cluster, f"{self.topic}-id-{self.random.randrange(2)}"
        value = f"{number}"
        text = prepare(cluster.bootstrap_servers, id, self.topic, PARTITIONS, value)
        commit = self.decided[value] = choose.random() < 0.6
        for broker in cluster.broker_ids:
            cluster.wait_ready(broker)
        killed = self._victims(id), [one for one in cluster.broker_ids if choose.random() < 0.4]
        self._kill(killed[0])
        self.kafka.run(keep(id), 60_000)
        self._kill(killed[1])
        print(f"{number}: {text} {'commit' if commit else 'abort'}, killed {killed[0]}, then {killed[1]}")
        if choose.random() < 0.3:
            time.sleep(choose.uniform(0, 4))
        outcome = self.kafka.run(complete(id, Prepared.of(text) if commit else None), 60_000)
        assert outcome is (Completed.COMMITTED if commit else Completed.ABORTED), (number, outcome)

    def _kill(self, victims: list[int]) -> None:
        for victim in victims:
            with contextlib.suppress(KeyError):  # it has not come back yet
                self.cluster.kill(victim)

    def _victims(self, id: str) -> list[int]:
        """Some of those that have to do with the transaction."""
        dialogue = Dialogue(self.cluster.bootstrap_servers)
        try:
            coordinator = dialogue.coordinator(id, transactions=True)
            leader = dialogue.leader(self.topic, self.random.randrange(PARTITIONS))
        finally:
            dialogue.close()
        return {
            "nobody": [], "coordinator": [coordinator], "leader": [leader],
            "both": sorted({coordinator, leader}), "everybody": list(self.cluster.broker_ids),
        }[self.random.choice(("nobody", "coordinator", "leader", "both", "everybody"))]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", [939])
def test_what_was_decided_becomes_of_it_whoever_is_killed_between_prepare_and_commit(name: str, seed: int) -> None:
    with rayft.Cluster(controllers=1, brokers=3, config=CONFIG) as cluster:
        with connect(cluster.bootstrap_servers) as kafka:
            kafka.run(topics.create([topics.NewTopic(name, PARTITIONS, 3)]))
            everywhere(cluster, name, PARTITIONS)
            rounds = Rounds(cluster, kafka, name, seed)
            for number in range(ROUNDS):
                rounds.play(number)
        for broker in cluster.broker_ids:
            cluster.wait_ready(broker)
        wanted = {value: PARTITIONS for value, commit in rounds.decided.items() if commit}
        until_s = time.monotonic() + 60
        while read(cluster.bootstrap_servers, name) != wanted:
            assert time.monotonic() < until_s, (read(cluster.bootstrap_servers, name), wanted)
            time.sleep(1)
    print(f"{len(wanted)} committed, {len(rounds.decided) - len(wanted)} aborted, none otherwise")
