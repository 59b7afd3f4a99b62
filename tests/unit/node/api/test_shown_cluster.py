"""What an active controller answers clients of brokers in ZooKeeper mode, which take it for one of those."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.coordinators.java_hash import java_hash
from actors.broker.lifecycle.recently_fenced import RecentlyFenced
from actors.controller.principals.quotas import alter_client_quotas
from actors.controller.producer_ids import BLOCK, give_producer_id
from actors.metadata.ops import BrokerSet, EndPoint, PartitionsSet, TopicSet
from actors.node.runtime.answers import Close, Sliced
from actors.node.runtime.calls import Call, Listener
from actors.settings.listeners import ListenerConfig
from actors.wire.messages import decode_exact, encode, message
from tests.served import TABLE
from tests.unit.controller.cluster import Cluster

GROUPS = b"g" * 16
CALL = Call(1, Listener.BRIDGE, "PLAINTEXT", 0, 0, None, "h", "User:ANONYMOUS", memoryview(b""))


class Controller:
    """The context of a controller that drives brokers 1 and 2; the second is not there."""

    def __init__(self) -> None:
        self.cluster = cluster = Cluster()
        for op in (
            BrokerSet(1, 100, endpoints=(EndPoint("PLAINTEXT", "h1", 9092),), zookeeper=True),
            TopicSet("t", b"t" * 16),
            PartitionsSet(b"t" * 16, [0, 1], [[1, 2], [2, 1]], [[1], [2]], leader=[1, 2]),
            TopicSet("__consumer_offsets", GROUPS),
            PartitionsSet(GROUPS, range(5), [[1]] * 5, [[1]] * 5),
        ):
            cluster.image.replay(cluster.image.next_offset, op)
        self.submitted: list[tuple[Any, Any]] = []
        cluster.soft.zookeeper_epoch = 7
        role = SimpleNamespace(
            active=True,
            soft=cluster.soft,
            image=cluster.image,
            pusher=SimpleNamespace(image=cluster.image),
            submit=lambda operation, request, call: self.submitted.append((operation, request)),
        )
        may = SimpleNamespace(
            enabled=False, allowed=lambda *a: True, shown=lambda *a: True, allowed_some=lambda *a: True
        )
        config = SimpleNamespace(
            controller_id=3001,
            bridge_endpoints=(ListenerConfig("PLAINTEXT", "c", 9192, "PLAINTEXT", "bridge"),),
            value=lambda name: True,
        )
        runtime = SimpleNamespace(now=cluster.now)
        self.context: Any = SimpleNamespace(
            role=role, authorizer=may, config=config, runtime=runtime, cluster_id="c", image=cluster.image
        )

    def ask(self, key: int, request: Any, version: int) -> Any:
        """The answer, through its bytes; its slices are run."""
        call = CALL._replace(api_key=key, api_version=version)
        answer = TABLE[Listener.BRIDGE, key].handler(self.context, request, call)
        while isinstance(answer, Sliced):
            answer = answer.again()
        if isinstance(answer, Close) or answer is None:
            return answer
        return decode_exact(type(answer.reply), version, encode(answer.reply, version))


def test_metadata_names_the_brokers_and_the_controller_itself() -> None:
    reply = Controller().ask(3, message("MetadataRequest")(topics=None), 12)
    assert [(one.node_id, one.host, one.port) for one in reply.brokers] == [(1, "h1", 9092), (3001, "c", 9192)]
    assert reply.controller_id == 3001
    groups, topic = reply.topics
    assert (groups.name, len(groups.partitions)) == ("__consumer_offsets", 5)
    assert [(one.error_code, one.leader_id) for one in topic.partitions] == [(0, 1), (5, -1)]
    assert topic.partitions[0].offline_replicas == [2]


@pytest.mark.parametrize("listener", ["PLAINTEXT", "INTERNAL"])
@pytest.mark.parametrize("key", [3, 60])
def test_a_broker_of_rayft_names_the_controller_where_its_clients_reach_it(key: int, listener: str) -> None:
    controller = Controller()
    driver = BrokerSet(3001, -1, endpoints=(EndPoint("PLAINTEXT", "c", 9192),))
    cache = SimpleNamespace(image=controller.cluster.image, me=1)
    context: Any = SimpleNamespace(
        **vars(controller.context),
        cache=cache,
        availability=SimpleNamespace(serving=True),
        recently_fenced=RecentlyFenced(),
        suspected_leaders=SimpleNamespace(now=lambda now_ms: ()),
        driving=SimpleNamespace(controller=driver),
        cluster=SimpleNamespace(unfenced={}),
    )
    request = message("MetadataRequest")(topics=[]) if key == 3 else message("DescribeClusterRequest")()
    call = CALL._replace(
        listener=Listener.CLIENT, listener_name=listener, api_key=key, api_version=0 if key > 3 else 12
    )
    answer = TABLE[Listener.CLIENT, key].handler(context, request, call)
    while isinstance(answer, Sliced):
        answer = answer.again()
    reply = answer.reply
    ids = [one.node_id if key == 3 else one.broker_id for one in reply.brokers]
    assert (ids, reply.controller_id) == (([1, 3001], 3001) if listener == "PLAINTEXT" else ([], 1))


def test_a_topic_that_a_client_names_first_is_begun() -> None:
    controller = Controller()
    kind = message("MetadataRequest")
    asked = [kind.MetadataRequestTopic(name=name) for name in ("new", "t")]
    reply = controller.ask(3, kind(topics=asked, allow_auto_topic_creation=True), 12)
    assert [(one.name, one.error_code) for one in reply.topics] == [("new", 3), ("t", 0)]
    ((_, made),) = controller.submitted
    assert [topic.name for topic in made.topics] == ["new"]


@pytest.mark.parametrize("group", ["g", "another", "\u00e9t\u00e9"])
def test_a_groups_coordinator_leads_the_partition_that_kafka_has_for_it(group: str) -> None:
    controller = Controller()
    image, number = controller.cluster.image, abs(java_hash(group)) % 5
    for other in set(range(5)) - {number}:  # the others are led by nobody
        epoch = image.leader_epoch(0) + 1
        image.replay(image.next_offset, PartitionsSet.one(GROUPS, other, [2], [2], -1, epoch, epoch))
    reply = controller.ask(10, message("FindCoordinatorRequest")(key=group, key_type=0), 3)
    assert (reply.error_code, reply.node_id, reply.host, reply.port) == (0, 1, "h1", 9092)
    reply = controller.ask(10, message("FindCoordinatorRequest")(key="x", key_type=1), 3)
    assert reply.error_code == 15, "the coordinators' topic is made by the brokers"


def test_a_controller_that_drives_nobody_shows_nothing() -> None:
    controller = Controller()
    controller.cluster.soft.zookeeper_epoch = None
    without = message("InitProducerIdRequest")(transactional_id=None)
    for key, asked in ((3, "Metadata"), (10, "FindCoordinator"), (22, without), (60, "DescribeCluster")):
        request = message(f"{asked}Request")() if isinstance(asked, str) else asked
        assert isinstance(controller.ask(key, request, 0), Close)


def test_ids_of_producers_come_from_a_block_of_the_controllers_own() -> None:
    controller = Controller()
    assert controller.ask(22, message("InitProducerIdRequest")(transactional_id=None), 1) is None
    assert controller.submitted[0][0] is give_producer_id
    assert controller.ask(22, message("InitProducerIdRequest")(transactional_id="x"), 1).error_code == 16
    cluster = controller.cluster
    end = cluster.image.next_offset
    given = [cluster.run(give_producer_id, None).producer_id for _ in range(BLOCK + 1)]
    assert given == list(range(BLOCK + 1)) and cluster.image.next_offset == end + 2, "one record a block"
    assert cluster.image.next_producer_id == 2 * BLOCK
    assert cluster.result.seen == end + 2, "the block has to be committed"


def test_what_every_broker_is_asked_for_a_controller_has_none_of() -> None:
    controller = Controller()
    assert not controller.ask(16, message("ListGroupsRequest")(), 4).groups
    assert not controller.ask(66, message("ListTransactionsRequest")(), 0).transaction_states
    assert not controller.ask(35, message("DescribeLogDirsRequest")(), 4).results


def test_quotas_are_shown_as_the_metadata_has_them() -> None:
    controller = Controller()
    kind = message("AlterClientQuotasRequest")
    entry = kind.EntryData(
        entity=[kind.EntityData(entity_type="user", entity_name="u")],
        ops=[kind.OpData(key="producer_byte_rate", value=1000.0)],
    )
    controller.cluster.run(alter_client_quotas, kind(entries=[entry]))
    (shown,) = controller.ask(48, message("DescribeClientQuotasRequest")(), 1).entries
    assert [(one.entity_type, one.entity_name) for one in shown.entity] == [("user", "u")]
    assert [(one.key, one.value) for one in shown.values] == [("producer_byte_rate", 1000.0)]
