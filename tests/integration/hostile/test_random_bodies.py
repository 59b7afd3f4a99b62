"""Random bodies for every API of the controllers' and the clients' listeners of real nodes.

No handler fails, no node ends, no broker is fenced, the quorum keeps its leader and its epoch, and a topic can be
created. The test of the same name in virtual time sends more, to every listener; here sockets and disks are real.
Before the fixes one of these bodies, EndQuorumEpoch with the largest epoch, ended all controllers.
"""

import contextlib
import random
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from actors.node.api import handlers as rpc
from actors.node.quorum.files import TOPIC_ID, TOPICS
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import message
from tests.integration.answers.dialogue import Broker, Closed
from tests.integration.hostile.scene import Address, Scene
from tests.served import TABLE
from tests.unit.wire.generator import INTEGERS, NOTHING, random_message

TRIES, QUORUM_TRIES = 3, 60
"""Bodies for each version of each API; and for the voters' APIs, where few bodies name the one topic and its one
partition."""
QUORUM = frozenset({"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot"})
PATIENCE_S = 0.3
NEVER = frozenset({"UnregisterBroker", "BrokerHeartbeat", "AlterConfigs", "IncrementalAlterConfigs", "UpdateFeatures"})
"""APIs that may fence a broker or change the cluster if an id or a name is right by chance. BrokerHeartbeat of a new id
registers a broker."""
IDS = frozenset({"leader_id", "replica_id", "broker_id", "controller_id"})


def pick(field: Any, rng: random.Random) -> Any:
    """Extremes and small numbers; ids that no node has; names of the metadata topic."""
    if field.attribute in ("timeout_ms", "max_wait_ms"):
        return rng.choice((-1, 0, 10))
    if field.attribute in ("partition_index", "partition") and rng.random() < 0.8:
        return 0
    if field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        near = () if field.attribute in IDS else (1, 2, 3, 1000)
        return rng.choice([one for one in (low, low + 1, -1, 0, high - 1, high, *near) if low <= one <= high])
    if field.type == "string":
        return rng.choice(("", "none", *TOPICS.values(), *TOPICS.values(), "x" * 300))
    return rng.choice((bytes(16), TOPIC_ID, TOPIC_ID, b"s" * 16)) if field.type == "uuid" else NOTHING


def mistreat(address: Address, listener: Listener, rng: random.Random) -> int:
    """Send random bodies for all APIs of a listener. Returns the number of requests."""
    peer, count = Broker(address, PATIENCE_S), 0
    for kind, key in sorted(TABLE, key=lambda row: row[1]):
        api = TABLE[kind, key]
        if kind is not listener or api.name in NEVER:
            continue
        body_of = message(f"v28:{api.name}Request" if framing.is_draft(api.name) else f"{api.name}Request")
        tries = QUORUM_TRIES if api.name in QUORUM and kind is Listener.CONTROLLER else TRIES
        for version in api.versions:
            for _ in range(tries):
                body = random_message(body_of, version, rng, pick)
                with contextlib.suppress(Closed, WireError):
                    peer.ask(api.name, version, body, silent=api.name == "Produce" and body.acks == 0)
                    count += 1
    peer.close()
    return count


@pytest.mark.timeout(300)
def test_random_bodies_break_no_real_node(whole: Scene) -> None:
    rpc.load()
    cluster, rng = whole.cluster, random.Random(11)
    before = cluster.quorum()
    answered: list[int] = []

    def attack() -> None:
        answered.append(mistreat(cluster.address(before.leader_id), Listener.CONTROLLER, rng))
        follower = next(id for id in cluster.controller_ids if id != before.leader_id)
        answered.append(mistreat(cluster.address(follower), Listener.CONTROLLER, rng))
        answered.append(mistreat(whole.brokers()[0], Listener.CLIENT, rng))

    cost = whole.measured(attack, settle_s=3)

    assert min(answered) > 100, answered
    assert not cost.lost and not cost.broken, (cost, cost.lost, cost.broken)
    after = cluster.quorum()
    assert (after.leader_id, after.leader_epoch) == (before.leader_id, before.leader_epoch)
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("after", 1, 3)], request_timeout=20)["after"].result(30)
    producer = Producer(servers | {"acks": "all"})
    producer.produce("after", b"x")
    assert producer.flush(30) == 0
