"""Worlds with access rules. The rules change while clients work, and impostors send what they have no right to; what must
be found there is in `test_planted.py`."""

from random import Random

import pytest

from actors.broker.replication.reading import RESTORER
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.checkers.claims import codes
from tests.simulator.checkers.denied import NobodyDoesWhatIsDenied
from tests.simulator.checkers.hooks import Hooks, Violation
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.clients.process import Client
from tests.simulator.clients.topics import create
from tests.simulator.cluster import OPERATOR, STOLEN, Cluster, node_principal
from tests.simulator.cluster import Client as Asker
from tests.simulator.history import History
from tests.simulator.impostors import ANYTHING, AS_A_NODE, NOBODIES, Draws, Impostors
from tests.simulator.planted.kinds import run
from tests.simulator.planted.worlds import WORLDS
from tests.simulator.world import World


class Guarded:
    """A cluster with an authorizer, a topic, and the checker; nothing happens in it."""

    def __init__(self) -> None:
        self.world = world = World(7)
        self.cluster = Cluster(world, guarded=True)
        self.hooks = Hooks()
        self.history = History(self.hooks)
        self.hooks.add([MetadataLog(self.hooks), NobodyDoesWhatIsDenied(self.cluster, self.history.counts)])
        world.turned.extend(self.hooks.turned)
        world.asked.extend(self.hooks.asked)
        world.answered.extend(self.hooks.answered)
        self.cluster.start()
        assert world.run_until(self.cluster.ready, 30_000)
        self.operator = self.client("operator", OPERATOR)
        self.operator.spawn(create(self.operator, "t0", 2, 3, {}))
        assert world.run_until(lambda: not self.operator.running, 30_000)
        world.run_for(2_000)

    def client(self, name: str, principal: str) -> Client:
        client = Client(self.world, name, list(self.world.processes)[-3:], self.history, Random(name))
        client.principal = principal
        return client

    def state(self) -> tuple[object, ...]:
        """What the cluster has in common, and how far every node has come with it."""
        processes = (*self.cluster.controllers.values(), *self.cluster.brokers.values())
        images = [process.image.next_offset for process in processes]
        return self.cluster.active(), *images, *(process.node.quorum.raft.epoch for process in processes)


def attacked(draws: dict[bool, Draws], *principals: str | None) -> None:
    """Every message of `draws` many times, to every node, under each principal."""
    g = Guarded()
    impostors = Impostors(g.world, g.cluster, Random(1))
    before = g.state()
    for _ in range(12):
        for process in (*g.cluster.controllers.values(), *g.cluster.brokers.values()):
            for draw in draws[process.name in {one.name for one in g.cluster.controllers.values()}]:
                for principal in principals:
                    for name, version, body in draw(impostors):
                        impostors._connection(process, principal).ask(name, version, body)
                    g.world.run_for(2)
        g.world.run_for(100)
    g.world.run_for(2_000)
    assert g.history.counts["refused"] > 200
    assert g.state() == before


def test_who_is_nobody_changes_nothing() -> None:
    """Not as a client, not as a node, not in an Envelope: the metadata log and the quorum stay as they are."""
    attacked(ANYTHING, *NOBODIES)


def test_the_certificate_of_one_node_is_not_good_for_another() -> None:
    attacked({True: AS_A_NODE[True][:7], False: AS_A_NODE[False]}, node_principal(STOLEN))


@pytest.mark.parametrize("version", [4, 11, 12, 13, 15, 17])
@pytest.mark.parametrize("replica", [-1, RESTORER, -3, -(1 << 31)])
def test_a_replica_id_below_zero_gives_no_right(version: int, replica: int) -> None:
    """Replica id -2 is a broker's that mends damage, and gives nobody else a right; others below zero are consumers'."""
    g = Guarded()
    active = g.cluster.active()
    assert active is not None
    image = active.node.controller.image
    row = image.topic_partitions(image.topic("t0"))[0]
    kind = message("FetchRequest")
    named = {"topic": "t0"} if version < 13 else {"topic_id": image.topic_id(image.topic("t0"))}
    state = {"replica_id": replica} if version < 15 else {"replica_state": kind.ReplicaState(replica_id=replica)}
    topic = kind.FetchTopic(partitions=[kind.FetchPartition(partition=image.number(row), fetch_offset=0)], **named)
    told = {}
    for place, principal in enumerate((*NOBODIES, OPERATOR, node_principal(1))):
        asker = Asker(g.world, f"asker{place}")
        asker.principal = principal
        request = kind(max_wait_ms=0, session_epoch=-1, topics=[topic], **state)
        reply = asker.call(f"b{image.leader(row)}", "Fetch", version, request)
        told[principal] = [one.error_code for found in reply.responses for one in found.partitions]
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert told == {key: [refused] for key in NOBODIES} | {
        OPERATOR: [0],
        node_principal(1): [0 if replica == RESTORER else refused],
    }


def test_a_change_that_nobody_was_allowed_to_ask_for_is_noticed() -> None:
    """The checker is told of no request at all."""
    g = Guarded()
    g.world.asked.clear()
    g.operator.spawn(create(g.operator, "t1", 1, 3, {}))
    with pytest.raises(Violation, match="changes_are_asked_for"):
        g.world.run_for(5_000)


def test_an_error_that_a_version_does_not_carry_is_not_read() -> None:
    """A default of the message would pass for an answer without errors."""
    kind = message("ElectLeadersResponse")
    assert list(codes(kind(), 0)) == [] and list(codes(kind(), 2)) == [0]


@pytest.mark.parametrize("seed", [1, 2])
def test_rules_change_and_everybody_copes(seed: int) -> None:
    result = run(WORLDS["guarded"], seed)
    assert result.ok, result.text
    assert result.counts["access rules changed"] > 100
    assert min(result.counts["done"], result.counts["refused"]) > 300
    assert result.counts["offsets committed"] and result.counts["topics deleted"]
