"""Client quotas in a whole cluster in virtual time: which client waits and how long, that others do not, and that
quotas outlive their controllers (KIP-13, 124, 219, 257, 599, 612)."""

from collections.abc import Mapping
from typing import Any

import pytest

from actors.metadata.ops import EntitySet
from actors.node.net.request_channel import MUTE_LOOK_MS
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.numbers import numbers
from tests.simulator.cluster import Client
from tests.simulator.one_topic import OneTopic
from tests.unit.node.net.test_request_channel import Lab, versions

RATE = 10_000
LATER_MS = 1500


class Scene:
    """One topic, and clients whose client ids are their names."""

    def __init__(self, config: Mapping[str, str] | None = None) -> None:
        self.t = OneTopic(settings={}, config=config)
        self.world = self.t.world
        self.clients: dict[str, Client] = {}

    def client(self, name: str) -> Client:
        if name not in self.clients:
            self.clients[name] = Client(self.world, name)
        return self.clients[name]

    def now_ms(self) -> int:
        return int(self.world.time_us // 1000)

    def alter(self, key: str, value: float | None, **entity: str | None) -> Any:
        """Set a quota, or remove it, and wait until all brokers know; the answer's entry."""
        kind = message("AlterClientQuotasRequest")
        parts = [kind.EntityData(entity_type=type.replace("_", "-"), entity_name=name) for type, name in entity.items()]
        op = kind.OpData(key=key, value=value or 0.0, remove=value is None)
        request = kind(entries=[kind.EntryData(entity=parts, ops=[op])])
        reply = self.client("admin").call("b1", "AlterClientQuotas", 1, request)
        assert reply is not None
        self.world.run_for(LATER_MS)
        return reply.entries[0]

    def shown(self, broker: int = 1) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
        """All quotas, as a broker describes them."""
        reply = self.client("admin").call(
            f"b{broker}", "DescribeClientQuotas", 1, message("DescribeClientQuotasRequest")()
        )
        assert reply.error_code == 0
        return {
            tuple((part.entity_type, part.entity_name) for part in entry.entity): {
                value.key: value.value for value in entry.values
            }
            for entry in reply.entries
        }

    def produce_request(self, size: int, acks: int = -1) -> Any:
        kind = message("ProduceRequest")
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        builder.append(None, bytes(size))
        partition = kind.PartitionProduceData(index=0, records=builder.build())
        data = kind.TopicProduceData(name="t", partition_data=[partition])
        return kind(acks=acks, timeout_ms=3000, topic_data=[data])

    def produce(self, name: str, size: int, wait_ms: int = 60_000) -> tuple[int, int]:
        """Send one batch. Returns (throttle time, how long the answer took), in ms."""
        began = self.now_ms()
        reply = self.client(name).call(f"b{self.t.leader}", "Produce", 9, self.produce_request(size), wait_ms)
        assert reply.responses[0].partition_responses[0].error_code == 0
        return reply.throttle_time_ms, self.now_ms() - began

    def fetch(self, name: str, offset: int = 0, bytes_max: int = 1 << 20, **session: int) -> Any:
        kind = message("FetchRequest")
        wanted = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
        topic_id = self.t.image.topic_id(self.t.image.topic("t"))
        topics = [kind.FetchTopic(topic_id=topic_id, partitions=[wanted])]
        if session.get("session_epoch", -1) > 0:
            topics = []
        session = {"session_id": 0, "session_epoch": -1, **session}
        request = kind(max_wait_ms=0, max_bytes=bytes_max, topics=topics, **session)
        return self.client(name).call(f"b{self.t.leader}", "Fetch", 16, request, 600_000)


def records_of(reply: Any) -> bytes:
    return b"".join(bytes(part.records) for topic in reply.responses for part in topic.partitions)


def test_a_client_over_its_quota_waits_and_another_one_does_not() -> None:
    scene = Scene()
    assert scene.alter("producer_byte_rate", RATE, client_id="loud").error_code == 0
    began, sent = scene.now_ms(), 0
    scene.produce("loud", 1000)
    while scene.now_ms() - began < 60_000:
        scene.produce("loud", 20_000)
        sent += 20_000
        assert scene.produce("quiet", 20_000)[0] == 0
        assert scene.produce("quiet", 20_000)[1] < 100, "it is not muted either"
    spent = (scene.now_ms() - began) / 1000
    assert RATE * 0.9 < sent / spent < RATE * 1.35, "the first ten seconds may be used at once"


def test_the_answer_leaves_at_once_and_what_comes_after_it_waits_for_the_throttle_time() -> None:
    scene = Scene()
    scene.alter("producer_byte_rate", RATE, client_id="loud")
    throttle_ms, took_ms = scene.produce("loud", 300_000)
    assert 19_000 < throttle_ms < 21_000 and took_ms < 100
    connection = next(
        one
        for one in scene.t.cluster.brokers[scene.t.leader].node.requests.connections.all()  # type: ignore[union-attr]
        if one.muted
    )
    assert connection.paused, "nothing more is read of it"
    _, took_ms = scene.produce("loud", 1)
    assert throttle_ms - 200 < took_ms < throttle_ms + 200
    assert not connection.muted and not connection.paused


def test_requests_under_way_are_answered_while_their_connection_is_muted_and_those_behind_wait() -> None:
    scene = Scene()
    scene.alter("producer_byte_rate", RATE, client_id="loud")
    client, leader, came = scene.client("loud"), f"b{scene.t.leader}", list[tuple[int, int]]()
    for number in range(40):
        client.ask(
            leader,
            "Produce",
            9,
            scene.produce_request(5000),
            lambda _, number=number: came.append((number, scene.now_ms())),
        )
    began = scene.now_ms()
    scene.world.run_for(2_000)
    early = len(came)
    assert 16 < early < 40, "what the first ten seconds allow, and what had begun when they were used up"
    assert scene.world.run_until(lambda: len(came) == 40, 120_000)
    assert [number for number, _ in came] == list(range(40))
    assert came[-1][1] - began > 5_000


def test_acks_0_counts_and_mutes_although_nothing_is_answered() -> None:
    scene = Scene()
    scene.alter("producer_byte_rate", RATE, client_id="loud")
    leader = f"b{scene.t.leader}"
    scene.client("loud").ask(leader, "Produce", 9, scene.produce_request(300_000, acks=0), lambda _: None)
    began = scene.now_ms()
    request = message("ApiVersionsRequest")(client_software_name="c", client_software_version="1")
    scene.client("loud").call(leader, "ApiVersions", 3, request)
    assert scene.now_ms() - began > 15_000


def test_what_was_sent_without_acknowledgement_is_appended_although_the_muted_peer_has_left() -> None:
    scene = Scene()
    scene.alter("producer_byte_rate", RATE, client_id="loud")
    client, leader = scene.client("loud"), scene.t.leader
    for _ in range(5):
        client.ask(f"b{leader}", "Produce", 9, scene.produce_request(100_000, acks=0), lambda _: None)
    scene.world.run_for(1_000)
    before = scene.t.log(leader).log_end_offset
    assert before < 5
    for link in list(client.peers.values()):
        link.close(client)
    scene.world.run_for(100_000)
    assert scene.t.log(leader).log_end_offset == 5


def test_a_long_mute_ends_in_time_and_one_whose_peer_left_is_forgotten_soon() -> None:
    scene = Scene()
    scene.alter("producer_byte_rate", 1000, client_id="loud")
    throttle_ms, _ = scene.produce("loud", 200_000)
    assert throttle_ms > 2 * MUTE_LOOK_MS
    _, took_ms = scene.produce("loud", 1, 400_000)
    assert throttle_ms - 300 < took_ms < throttle_ms + 300


def test_a_fetch_over_the_quota_is_empty_and_its_session_goes_on() -> None:
    scene = Scene()
    for _ in range(12):
        scene.produce("writer", 10_000)
    scene.alter("consumer_byte_rate", RATE, client_id="reader")
    opened = scene.fetch("reader", session_epoch=0)
    assert opened.session_id and opened.throttle_time_ms == 0
    got = len(records_of(opened))
    assert 50_000 < got <= RATE * 10, "no more at once than the quota of the window"
    empty = scene.fetch("reader", session_id=opened.session_id, session_epoch=1)
    assert empty.throttle_time_ms > 0 and not empty.responses
    assert (empty.error_code, empty.session_id) == (0, opened.session_id)
    began = scene.now_ms()
    again = scene.fetch("reader", session_id=opened.session_id, session_epoch=2)
    assert scene.now_ms() - began >= empty.throttle_time_ms - 10
    assert again.error_code == 0 and (again.throttle_time_ms > 0 or records_of(again))
    assert scene.fetch("other").throttle_time_ms == 0


def test_a_session_that_would_begin_over_the_quota_does_not() -> None:
    scene = Scene()
    for _ in range(12):
        scene.produce("writer", 10_000)
    scene.alter("consumer_byte_rate", RATE, client_id="reader")
    assert records_of(scene.fetch("reader"))
    sessions = scene.t.cluster.brokers[scene.t.leader].node.broker.sessions  # type: ignore[union-attr]
    before = len(sessions._by_id)
    refused = scene.fetch("reader", session_epoch=0)
    assert refused.throttle_time_ms > 0 and refused.session_id == 0 and not refused.responses
    assert len(sessions._by_id) == before


def test_a_consumer_reads_at_its_quota_and_a_batch_beyond_the_window_does_not_stop_it_for_ever() -> None:
    scene = Scene()
    for _ in range(6):
        scene.produce("writer", 100_000)
    scene.produce("writer", 500_000)
    scene.produce("writer", 10)
    scene.alter("consumer_byte_rate", 20_000, client_id="reader")
    began, offset, got = scene.now_ms(), 0, 0
    for _ in range(100):
        reply = scene.fetch("reader", offset)
        data = records_of(reply)
        got += len(data)
        if data:
            offset = max(header.last_offset for header in batches.headers(data)) + 1
        if offset == 8:
            break
    assert offset == 8 and got > 1_100_000
    assert 30_000 < scene.now_ms() - began < 120_000


def test_replication_is_not_charged() -> None:
    scene = Scene()
    for key in ("producer_byte_rate", "consumer_byte_rate"):
        scene.alter(key, 1000, user=None)
    scene.alter("request_percentage", 0.001, user=None)
    scene.produce("writer", 200_000)
    scene.world.run_for(1_000)
    ends = {scene.t.log(id).log_end_offset for id in (1, 2, 3)}
    assert ends == {1}, "acks=all was answered, and followers have it"
    assert all(process.node.broker.availability.serving for process in scene.t.cluster.brokers.values())  # type: ignore[union-attr]


def test_time_is_charged_too_and_waits_are_a_second_at_most() -> None:
    scene = Scene()
    scene.alter("request_percentage", 0.0001, client_id="busy")
    began, waits = scene.now_ms(), []
    for _ in range(10):
        waits.append(scene.produce("busy", 10)[0])
    assert max(waits) == 1000 and scene.now_ms() - began > 5_000
    reply = scene.client("busy").call("b1", "Metadata", 9, message("MetadataRequest")(topics=None), 5_000)
    assert reply.throttle_time_ms > 0, "every API has its throttle time"
    assert scene.produce("idle", 10)[0] == 0


def test_quotas_change_while_clients_run() -> None:
    scene = Scene()
    scene.produce("loud", 100_000)
    broker = scene.t.cluster.brokers[scene.t.leader].node.broker  # type: ignore[union-attr]
    assert not broker.quotas.active
    scene.alter("producer_byte_rate", 1000, client_id=None)
    assert broker.quotas.active and scene.produce("loud", 50_000)[0] > 0
    scene.alter("producer_byte_rate", 1e6, client_id="loud")
    scene.world.run_for(60_000)
    assert scene.produce("loud", 50_000)[0] == 0, "the quota of its name counts more than the default"
    scene.alter("producer_byte_rate", None, client_id="loud")
    assert scene.produce("loud", 50_000)[0] > 0
    scene.world.run_for(60_000)
    scene.alter("producer_byte_rate", None, client_id=None)
    assert not broker.quotas.active and scene.produce("loud", 500_000)[0] == 0 and scene.shown() == {}


def test_quotas_outlive_the_active_controller_a_broker_and_a_snapshot() -> None:
    scene = Scene(config={"metadata.log.max.record.bytes.between.snapshots": "200"})
    scene.alter("producer_byte_rate", RATE, client_id="loud", user=None)
    scene.alter("connection_creation_rate", 1000, ip="127.0.0.1")
    wanted = {
        (("client-id", "loud"), ("user", None)): {"producer_byte_rate": RATE},
        (("ip", "127.0.0.1"),): {"connection_creation_rate": 1000},
    }
    assert scene.shown() == wanted
    active = scene.t.cluster.active()
    assert active is not None
    active.crash()
    scene.world.run_for(3_000)
    assert scene.t.cluster.active() is not active
    active.start()
    scene.t.stop(2)
    scene.t.cluster.brokers[2].start()
    scene.t.until(scene.t.cluster.ready)
    for broker in (1, 2, 3):
        assert scene.shown(broker) == wanted
    assert scene.produce("loud", 300_000)[0] > 0
    scene.alter("producer_byte_rate", None, client_id="loud", user=None)
    assert scene.shown() == {key: value for key, value in wanted.items() if key[0][0] == "ip"}


def topic_request(name: str, partitions: int) -> Any:
    kind = message("CreateTopicsRequest")
    return kind(
        topics=[kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=5000
    )


def made(scene: Scene, client: str, version: int, name: str, partitions: int) -> tuple[int, int]:
    reply = scene.client(client).call("b1", "CreateTopics", version, topic_request(name, partitions), 100_000)
    return reply.topics[0].error_code, reply.throttle_time_ms


def test_changes_of_topics_are_limited_strictly_or_by_waiting() -> None:
    scene = Scene()
    scene.alter("controller_mutation_rate", 1.0, client_id="maker")
    assert made(scene, "maker", 7, "a", 21) == (0, 0), "a full bucket, and more than it has"
    code, throttle_ms = made(scene, "maker", 7, "b", 1)
    assert code == 89 and 9_000 < throttle_ms <= 10_000
    assert made(scene, "other", 7, "c", 1) == (0, 0)
    began = scene.now_ms()
    code, waits_ms = made(scene, "maker", 5, "d", 1)
    assert scene.now_ms() - began >= throttle_ms - 50, "the broker has muted the client that was refused"
    assert code == 0, "an old client waits instead of being refused"
    assert waits_ms <= 1_100
    began = scene.now_ms()
    made(scene, "maker", 5, "e", 5)
    began = scene.now_ms()
    code, _ = made(scene, "maker", 5, "f", 1)
    assert code == 0 and scene.now_ms() - began > 3_000


def test_a_new_active_controller_begins_with_full_buckets_and_keeps_the_quota() -> None:
    scene = Scene()
    scene.alter("controller_mutation_rate", 0.1, client_id="maker")
    assert made(scene, "maker", 7, "a", 5) == (0, 0)
    active = scene.t.cluster.active()
    assert active is not None
    active.crash()
    scene.world.run_for(3_000)
    assert made(scene, "maker", 7, "b", 5) == (0, 0)
    assert made(scene, "maker", 7, "c", 1)[0] == 89


@pytest.mark.parametrize("host", ["127.0.0.1", None])
def test_an_address_that_connects_too_often_is_kept_waiting_and_closed(host: str | None) -> None:
    scene = Scene()
    scene.alter("connection_creation_rate", 2, ip=host)
    node: Any = scene.t.cluster.brokers[1].node
    now = scene.t.cluster.brokers[1].now
    taken, turned_away = [], []
    for conn in range(50_000, 50_040):
        node.connected(conn, "PLAINTEXT", "127.0.0.1")
        (taken if node.requests.connections.get(conn) is not None else turned_away).append(conn)
    assert len(taken) <= 20 and turned_away
    assert not node.received(turned_away[0], memoryview(bytes(20))), "nothing is read of it"
    node.closed(turned_away[1], False)
    began, closed = now(), list[int]()
    while now().mono_ms < began.mono_ms + 1_500:
        closed += node.turn(now(), 1 << 40).close
        scene.world.run_for(100)
    assert not set(closed) - set(turned_away[:1] + turned_away[2:])
    assert not node.requests._delayed
    for conn in taken:
        node.closed(conn, False)
    scene.world.run_for(30_000)
    node.connected(60_000, "PLAINTEXT", "127.0.0.1")
    assert node.requests.connections.get(60_000) is not None, "after a while it may connect again"


def test_without_an_address_quota_nobody_is_turned_away() -> None:
    scene = Scene()
    scene.alter("connection_creation_rate", 1, ip="10.1.2.3")
    node: Any = scene.t.cluster.brokers[1].node
    for conn in range(50_000, 50_100):
        node.connected(conn, "PLAINTEXT", "127.0.0.1")
        assert node.requests.connections.get(conn) is not None
    scene.alter("connection_creation_rate", None, ip="10.1.2.3")
    assert node.requests.delay_of is None


def test_metrics_show_who_was_charged_last_and_how_long_they_waited() -> None:
    scene = Scene()
    scene.alter("producer_byte_rate", RATE, client_id=None)
    scene.alter("controller_mutation_rate", 1.0, client_id="a,b=c")
    throttle_ms, _ = scene.produce("a,b=c", 300_000)
    made(scene, "a,b=c", 7, "many", 30)
    for number in range(150):
        scene.produce(f"other-{number}", 10)
    leader, active = scene.t.cluster.brokers[scene.t.leader].node, scene.t.cluster.active()
    assert leader is not None and active is not None and active.node is not None
    found = numbers((*leader.metrics(), *active.node.metrics()))
    produce = {name for name in found if name.startswith('kafka_server_produce_byte_rate{user="",client_id="')}
    assert len(produce) == 100 and 'kafka_server_produce_byte_rate{user="",client_id="other-149"}' in produce
    assert found['kafka_server_controllermutation_tokens{user="",client_id="a,b=c"}'] < 0
    scene.produce("a,b=c", 10)
    found = numbers(leader.metrics())
    of = '{user="",client_id="a,b=c"}'
    assert found["kafka_server_produce_byte_rate" + of] > 0
    assert 0 < found["kafka_server_produce_throttle_time" + of] <= throttle_ms


def test_quotas_are_read_anew_when_a_quota_has_changed_and_not_for_each_user_rule_or_token() -> None:
    """Reading them looks at all that the metadata has of these, and what is known of each client is looked up again."""
    scene = Scene()
    scene.alter("producer_byte_rate", RATE, client_id="a")
    broker = scene.t.cluster.brokers[scene.t.leader].node.broker  # type: ignore[union-attr]
    assert broker is not None
    known, kind = broker.quotas.limits, message("AlterUserScramCredentialsRequest")
    upsertion = kind.ScramCredentialUpsertion(
        name="u", mechanism=1, iterations=4096, salt=b"s" * 20, salted_password=b"p" * 32
    )
    reply = scene.client("admin").call("b1", "AlterUserScramCredentials", 0, kind(deletions=[], upsertions=[upsertion]))
    assert [one.error_code for one in reply.results] == [0]
    scene.world.run_for(LATER_MS)
    assert broker.cache.image.count("scram") == 1 and broker.quotas.limits is known
    scene.alter("producer_byte_rate", 2 * RATE, client_id="a")
    assert broker.quotas.limits is not known


def test_a_control_plane_is_not_charged() -> None:
    lab = Lab()
    node = lab.node
    everybody, key, image = (("user", None),), "request_percentage", node.broker.cache.image
    fields = (("entity", everybody), ("key", key), ("value", 1e-9), ("remove", False))
    image.replay(image.next_offset, EntitySet("quota", (everybody, key), fields))
    node.broker.quotas.changed()
    node.broker.quotas.refresh()
    assert node.broker.quotas.active
    control, client = lab.connect("CP"), lab.connect("PLAINTEXT")
    for conn in (control, client):
        for _ in range(5):
            lab.send(conn, "ApiVersions", 3, versions())
    answered = lab.answered(lab.turn())
    assert answered.count(control) == 5 and answered.count(client) < 5


@pytest.mark.parametrize("quota", [None, 1.0])
def test_topics_that_are_made_because_a_client_names_them_are_charged_to_it(quota: float | None) -> None:
    """Topics that a client causes by naming them are charged to it as if it had asked for them: what it owes is
    refused, and another client's are made."""
    scene = Scene({"num.partitions": "10"})
    if quota is not None:
        assert scene.alter("controller_mutation_rate", quota, client_id="loud").error_code == 0
    kind = message("MetadataRequest")

    def made(name: str, topics: list[str]) -> int:
        request = kind(topics=[kind.MetadataRequestTopic(name=one) for one in topics], allow_auto_topic_creation=True)
        for _ in range(3):
            reply = scene.client(name).call("b1", "Metadata", 9, request)
            scene.world.run_for(500)
        return sum(topic.error_code == 0 for topic in reply.topics)

    assert made("loud", [f"loud-{number}" for number in range(20)]) == (20 if quota is None else 2)
    assert made("quiet", [f"quiet-{number}" for number in range(20)]) == 20
    told = [line for line in scene.world.lines if "is not made" in line]
    assert len(told) <= 3 * 4, "a few lines for a request"
