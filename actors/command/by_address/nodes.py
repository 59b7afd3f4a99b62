"""`rayft status` by address: the nodes of a cluster as its brokers tell of them.

A broker that Metadata names is active. One that only follows the metadata log is fenced, and one that only has replicas is
down. An observer that has no replicas is a controller without a vote. Process ids and certificates are known only where
the cluster is on this machine (`--dir`).
"""

from typing import Any

from actors.client.errors import ClientError
from actors.client.metadata import Broker, Topic
from actors.client.operations import cluster as operations
from actors.client.operations import topics
from actors.client.operations.cluster import Cluster, Quorum, Replica
from actors.host.client.blocking import Kafka

NO_QUORUM = Quorum(-1, -1, -1, [], [], {})
CAUGHT_UP_MS = 10_000
"""How long ago a voter may have fetched last to count as following, ms."""
ANSWER_S = 12.0
"""How long each answer may take, s."""


def state(kafka: Kafka) -> dict[str, Any]:
    """The state of a cluster with the keys of `status --json`, those of processes left out. Raises ClientError."""
    cluster = kafka.run(operations.describe_cluster(), ANSWER_S)
    found = kafka.run(topics.describe(), ANSWER_S)
    try:
        quorum = kafka.run(operations.describe_quorum(), ANSWER_S)
        why = None
    except ClientError as error:
        quorum, why = NO_QUORUM, str(error)
    return described(cluster, found, quorum) | ({"quorum_unknown": why} if why is not None else {})


def again(kafka: Kafka, before: dict[str, Any]) -> dict[str, Any]:
    """The state once more. Where nobody answers it is the one before, with the reason."""
    try:
        return state(kafka)
    except ClientError as error:
        return before | {"no_answer": str(error)}


def described(cluster: Cluster, found: dict[str, Topic], quorum: Quorum) -> dict[str, Any]:
    """The state, out of what brokers have told."""
    parts = [part for topic in found.values() for part in topic.partitions.values()]
    replicas = {broker for part in parts for broker in part.replicas}
    followers = [*quorum.voters, *quorum.observers]
    end = max((one.log_end_offset for one in followers), default=-1)
    lags = {one.id: end - one.log_end_offset for one in followers if one.log_end_offset >= 0}
    voters = {one.id for one in quorum.voters}
    others = [one for one in quorum.observers if one.id not in replicas and one.id not in cluster.brokers]
    ids = sorted({*cluster.brokers, *replicas})
    return {
        "cluster_id": cluster.id,
        "leader_id": quorum.leader,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "controllers": [_controller(one, quorum, voters, lags) for one in [*quorum.voters, *others]],
        "brokers": [_broker(id, cluster.brokers.get(id), id in lags, lags.get(id)) for id in ids],
        "topics": len(found),
        "partitions": len(parts),
        "under_replicated_partitions": sum(len(one.isr) < len(one.replicas) for one in parts),
        "offline_partitions": sum(one.leader < 0 for one in parts),
    }


def _controller(one: Replica, quorum: Quorum, voters: set[int], lags: dict[int, int]) -> dict[str, Any]:
    _, host, port = next(iter(quorum.nodes.get(one.id, ())), ("", None, None))
    if one.id == quorum.leader:
        state = "leader"
    elif one.id not in voters:
        state = "observer"
    else:
        state = "follower" if _follows(one, quorum) else "down"
    return {"id": one.id, "host": host, "port": port, "state": state, "pid": None, "lag": lags.get(one.id)}


def _follows(one: Replica, quorum: Quorum) -> bool:
    """Whether a voter has fetched lately. Before Kafka 3.3 nothing is told, and it counts as following."""
    leader = next((other for other in quorum.voters if other.id == quorum.leader), None)
    if leader is None or leader.last_fetch_ms < 0:
        return True
    return one.last_fetch_ms >= 0 and leader.last_fetch_ms - one.last_fetch_ms < CAUGHT_UP_MS


def _broker(id: int, address: Broker | None, follows: bool, lag: int | None) -> dict[str, Any]:
    state = "active" if address is not None else "fenced" if follows else "down"
    host, port = (address.host, address.port) if address is not None else (None, None)
    return {"id": id, "host": host, "port": port, "state": state, "pid": None, "lag": lag}
