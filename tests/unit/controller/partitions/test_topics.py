"""CreateTopics, DeleteTopics, CreatePartitions: what is legal, what comes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controller.configs import incremental_alter_configs
from actors.controller.partitions.partitions import create_partitions
from actors.controller.partitions.placement import Placement
from actors.controller.partitions.topics import create_topics, delete_topics, partitions_asked, refuse_topics
from actors.controller.soft_state import Usable
from actors.metadata.image import Image
from actors.metadata.ops import ConfigSet, PartitionsSet, TopicGone, TopicSet
from actors.metadata.topic_names import name_error
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster, Seeded


def test_a_topic_is_one_group_of_records():
    c = Cluster(brokers=3)
    reply = c.topic("t", num_partitions=4, replication_factor=2, configs={"retention.ms": "5"})
    assert (reply.error_code, reply.num_partitions, reply.replication_factor) == (0, 4, 2)
    assert [type(op) for op in c.ops] == [TopicSet, PartitionsSet, ConfigSet] and c.result.atomic
    assert c.image.topic_id(c.image.topic("t")) == reply.topic_id
    for number in range(4):
        isr, leader, epoch = c.partition("t", number)
        assert (len(isr), leader, epoch) == (2, isr[0], 0)


def test_a_topic_without_numbers_has_those_of_the_controllers_settings():
    for brokers in (1, 2, 5):
        reply = Cluster(brokers=brokers).topic("t")
        assert (reply.error_code, reply.num_partitions, reply.replication_factor) == (0, 1, 1)
    reply = Cluster(brokers=3, replicas_default=2, partitions_default=7).topic("t")
    assert (reply.num_partitions, reply.replication_factor) == (7, 2)


def test_internal_settings_come_back_where_the_topic_names_them():
    c = Cluster(brokers=1, topic_defaults=(("retention.ms", "1", 5), ("segment.bytes", "9", 5)))
    shown = {one.name: (one.value, one.config_source) for one in c.topic("t").configs}
    assert shown == {"retention.ms": ("1", 5), "segment.bytes": ("9", 5)}
    configs = c.topic("u", configs={"internal.segment.bytes": "1000", "segment.bytes": "2000000"}).configs
    assert [(one.name, one.value, one.config_source) for one in configs] == [
        ("internal.segment.bytes", "1000", 1),
        ("retention.ms", "1", 5),
        ("segment.bytes", "2000000", 1),
    ]


@pytest.mark.parametrize(
    "name, code",
    [
        ("", 17),
        (".", 17),
        ("..", 17),
        ("a b", 17),
        ("ä", 17),
        ("a/b", 17),
        ("x" * 250, 17),
        ("a\n", 17),
        ("x" * 249, 0),
        ("__internal", 0),
        ("__cluster_metadata", 42),
        ("__kafka_metadata", 42),
        ("A-z_0.9", 0),
    ],
)
def test_names(name, code):
    assert Cluster(brokers=1).topic(name).error_code == code


@given(st.text(max_size=260))
def test_names_are_judged_without_surprise(name):
    legal = (
        0 < len(name) <= 249
        and name not in (".", "..")
        and all(ch.isascii() and (ch.isalnum() or ch in "._-") for ch in name)
    )
    assert (name_error(name) is None) == legal


@pytest.mark.parametrize(
    "first, second", [("a.b", "a_b"), ("a_b.c", "a.b_c"), (".".join("abcdefghijkl"), "_".join("abcdefghijkl"))]
)
def test_dots_and_underscores_collide(first, second):
    c = Cluster(brokers=1)
    assert c.topic(first).error_code == 0
    refused = c.topic(second)
    assert refused.error_code == 17 and first in refused.error_message
    c.run(delete_topics, message("DeleteTopicsRequest")(topic_names=[first]))
    assert c.topic(second).error_code == 0


def test_r631_097_a_topic_that_exists_uncommitted_is_a_duplicate():
    c = Cluster(brokers=1)
    c.held = 1
    c.topic("t")
    end = c.image.next_offset
    assert c.topic("t").error_code == 36
    assert c.image.next_offset == end and c.result.seen is None  # R631-101: waits for what it reveals


@pytest.mark.parametrize(
    "fields, code",
    [
        (dict(num_partitions=0), 37),
        (dict(num_partitions=-2), 37),
        (dict(replication_factor=0), 38),
        (dict(replication_factor=-2), 38),
        (dict(replication_factor=4), 38),
        (dict(num_partitions=100_001), 44),
        (dict(configs={"no.such": "1"}), 40),
        (dict(configs={"retention.ms": "soon"}), 40),
        (dict(configs={"retention.ms": None}), 40),
    ],
)
def test_refusals(fields, code):
    c = Cluster(brokers=3)
    reply = c.topic("t", **fields)
    assert reply.error_code == code and reply.error_message and reply.configs == []
    assert c.ops == [] and c.image.topic("t") == -1


@pytest.mark.parametrize(
    "assignment, code",
    [
        ([(1, 2), (2, 3)], 0),
        ([(1, 1)], 39),
        ([(9,)], 39),
        ([()], 39),
        ([(1,), (1, 2)], 39),
    ],
)
def test_manual_assignments(assignment, code):
    c = Cluster(brokers=3)
    assert c.topic("t", *assignment).error_code == code
    if code == 0:
        rows = c.image.topic_partitions(c.image.topic("t"))
        assert [c.image.replicas(row) for row in rows] == assignment


def test_manual_assignments_beside_numbers_are_refused():
    c = Cluster(brokers=3)
    assert c.topic("t", (1,), num_partitions=1).error_code == 42
    assert c.topic("t", (1,), replication_factor=1).error_code == 42
    kind = message("CreateTopicsRequest")
    entries = [kind.CreatableReplicaAssignment(partition_index=i, broker_ids=[1]) for i in (0, 2)]
    topic = kind.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=entries)
    assert c.run(create_topics, kind(topics=[topic])).topics[0].error_code == 39


def test_topics_of_a_request_are_judged_one_by_one():
    c = Cluster(brokers=1)
    kind = message("CreateTopicsRequest")
    names = ["a", "b", "b", "c.d", "c_d", "b", ""]
    topics = [kind.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    reply = c.run(create_topics, kind(topics=topics))
    assert {r.name: r.error_code for r in reply.topics} == {"a": 0, "b": 42, "c.d": 0, "c_d": 17, "": 17}
    assert len(reply.topics) == 5 and c.image.topic_count == 2


def test_a_refused_topic_stands_in_nobodys_way():
    c = Cluster(brokers=1)
    kind = message("CreateTopicsRequest")
    topics = [kind.CreatableTopic(name=n, num_partitions=p, replication_factor=1) for n, p in (("a.b", 0), ("a_b", 1))]
    reply = c.run(create_topics, kind(topics=topics))
    assert [result.error_code for result in reply.topics] == [37, 0]


def test_what_is_set_for_all_brokers_is_in_effect_for_a_new_topic():
    defaults = (("retention.ms", "604800000", 5), ("segment.bytes", "1073741824", 5))
    c = Cluster(brokers=1, topic_defaults=defaults)

    def told(name, **fields):
        return {one.name: (one.value, one.config_source) for one in c.topic(name, **fields).configs}

    assert told("a") == {"retention.ms": ("604800000", 5), "segment.bytes": ("1073741824", 5)}
    c.image.replay(c.image.next_offset, ConfigSet(4, "", "log.retention.ms", "5000"))
    assert told("b") == {"retention.ms": ("5000", 3), "segment.bytes": ("1073741824", 5)}
    assert told("c", configs={"retention.ms": "6"})["retention.ms"] == ("6", 1)
    c.image.replay(c.image.next_offset, ConfigSet(4, "", "log.retention.ms", None))
    assert told("d")["retention.ms"] == ("604800000", 5)
    c.image.replay(c.image.next_offset, ConfigSet(4, "", "log.retention.ms", "0"))
    assert told("e")["retention.ms"] == ("604800000", 5), "recorded before it was refused"


def test_validate_only_writes_nothing():
    c = Cluster(brokers=1)
    reply = c.topic("t", num_partitions=3, replication_factor=1, validate_only=True)
    assert (reply.error_code, reply.num_partitions) == (0, 3) and c.ops == [] and c.image.topic("t") == -1


def test_one_request_makes_ten_thousand_partitions_at_most():
    c = Cluster(brokers=3)
    kind = message("CreateTopicsRequest")
    topics = [kind.CreatableTopic(name=f"t{i}", num_partitions=6000, replication_factor=3) for i in range(2)]
    topics.append(kind.CreatableTopic(name="small", num_partitions=4000, replication_factor=3))
    reply = c.run(create_topics, kind(topics=topics))
    assert [(one.name, one.error_code) for one in reply.topics] == [("t0", 0), ("t1", 44), ("small", 0)]
    assert partitions_asked(kind(topics=topics), 1) == 16000
    reply = c.run(refuse_topics, kind(topics=topics))
    assert [one.error_code for one in reply.topics] == [44, 44, 44] and c.ops == []


def test_a_name_with_two_hundred_dots_is_compared_with_one_look(monkeypatch):
    c = Cluster(brokers=1)
    name = "x" + "._" * 100
    assert c.topic(name, num_partitions=1, replication_factor=1).error_code == 0
    looked = []
    look = Image.topic
    monkeypatch.setattr(Image, "topic", lambda image, name: looked.append(name) or look(image, name))
    other = "x" + "_." * 100
    reply = c.topic(other, num_partitions=1, replication_factor=1)
    assert (reply.error_code, name in reply.error_message) == (17, True)
    assert len(looked) < 5
    monkeypatch.undo()
    assert c.topic("x" + "__" * 100, num_partitions=1, replication_factor=1).error_code == 17
    delete = message("DeleteTopicsRequest")
    c.run(delete_topics, delete(topics=[delete.DeleteTopicState(name=name)]))
    assert c.topic(other, num_partitions=1, replication_factor=1).error_code == 0
    c.image.check()


def test_r631_163_fenced_and_leaving_brokers_get_nothing():
    c = Cluster(brokers=3)
    c.later(60_000)
    c.beat(1)
    c.beat(2)
    c.expire()
    for number in range(20):
        c.topic(f"t{number}", num_partitions=1, replication_factor=2)
        assert set(c.partition(f"t{number}")[0]) == {1, 2}
    assert c.topic("u", (1, 3)).error_code == 39


def test_r631_163_a_broker_that_is_being_stopped_gets_nothing():
    c = Cluster(brokers=3)
    c.topic("t", (3, 1))
    c.beat(3, target=4)
    assert 3 in c.soft.stopping and c.image.broker(3) is not None
    for number in range(20):
        c.topic(f"t{number}", num_partitions=1, replication_factor=2)
        assert set(c.partition(f"t{number}")[0]) == {1, 2}


def test_delete_by_name_and_id():
    c = Cluster(brokers=1)
    ids = [c.topic(name).topic_id for name in "abcd"]
    kind = message("DeleteTopicsRequest")
    state = kind.DeleteTopicState
    wanted = [
        state(name="a"),
        state(topic_id=ids[1]),
        state(name="c"),
        state(topic_id=ids[2]),
        state(name="x"),
        state(topic_id=b"\1" * 16),
        state(),
        state(name="d", topic_id=ids[3]),
    ]
    reply = c.run(delete_topics, kind(topics=wanted))
    assert [r.error_code for r in reply.responses] == [0, 0, 42, 3, 100, 42, 42], "who is named twice is answered once"
    assert c.ops == [TopicGone(ids[0], "a"), TopicGone(ids[1], "b")], "level 1 writes the name too"
    assert (reply.responses[1].name, reply.responses[0].topic_id) == ("b", ids[0])
    assert [c.image.topic_name(row) for row in c.image.topics()] == ["c", "d"]
    assert c.topic("a").topic_id != ids[0]


def test_deletion_can_be_forbidden():
    c = Cluster(brokers=1, delete_topics=False)
    c.topic("a")
    reply = c.run(delete_topics, message("DeleteTopicsRequest")(topic_names=["a"]))
    assert reply.responses[0].error_code == 73 and c.image.topic_count == 1


def grow(c, count, assignments=None, name="t", validate_only=False):
    kind = message("CreatePartitionsRequest")
    chosen = None if assignments is None else [kind.CreatePartitionsAssignment(broker_ids=list(a)) for a in assignments]
    topics = [kind.CreatePartitionsTopic(name=name, count=count, assignments=chosen)]
    return c.run(create_partitions, kind(topics=topics, validate_only=validate_only)).results[0].error_code


def test_a_request_adds_no_more_partitions_than_may_be_created_at_once():
    c = Cluster(brokers=1)
    for name in "abc":
        c.topic(name)
    kind = message("CreatePartitionsRequest")
    topics = [kind.CreatePartitionsTopic(name=name, count=6_001, assignments=None) for name in "abc"]
    reply = c.run(create_partitions, kind(topics=topics, validate_only=True))
    assert [result.error_code for result in reply.results] == [0, 44, 44]


def test_create_partitions():
    c = Cluster(brokers=3)
    c.topic("t", (1, 2), (2, 3))
    assert [grow(c, 2), grow(c, 1), grow(c, 3, name="x"), grow(c, 3, []), grow(c, 3, [(1,)]), grow(c, 3, [(1, 9)])] == [
        37,
        37,
        3,
        39,
        39,
        39,
    ]
    assert grow(c, 4, validate_only=True) == 0 and c.image.partition_count(c.image.topic("t")) == 2
    assert grow(c, 3, [(3, 1)]) == 0 and c.partition("t", 2) == ((3, 1), 3, 0)
    assert grow(c, 9) == 0
    assert all(len(c.partition("t", number)[0]) == 2 for number in range(9))


@given(st.integers(1, 12), st.integers(0, 4), st.integers(1, 40), st.data())
def test_placement_is_even_and_spread_over_racks(brokers, racks, partitions, data):
    factor = data.draw(st.integers(1, brokers))
    where = [(id, f"r{id % racks}" if racks else None) for id in range(brokers)]
    placed = Placement(Usable(frozenset(range(brokers)), tuple(where)), Seeded(partitions)).place(partitions, factor)
    racks_there = len({rack for _, rack in where})
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({where[id][1] for id in replicas}) == min(factor, racks_there)
    led = [sum(replicas[0] == id for replicas in placed) for id in range(brokers)]
    assert max(led) - min(led) <= 1


def test_followers_of_a_broker_are_many():
    placed = Placement(Usable(frozenset(range(6)), tuple((id, None) for id in range(6))), Seeded()).place(60, 2)
    assert {len({b for a, b in placed if a == id}) for id in range(6)} == {5}


@pytest.mark.parametrize("name", ["__kafka_metadata", "__cluster_metadata"])
def test_r631_049_the_metadata_topic_is_nobodys_to_make_change_or_delete(name):
    c = Cluster(brokers=1)
    assert c.topic(name).error_code == 42
    kind = message("DeleteTopicsRequest")
    assert c.run(delete_topics, kind(topics=[kind.DeleteTopicState(name=name)])).responses[0].error_code == 3
    kind = message("IncrementalAlterConfigsRequest")
    change = kind.AlterableConfig(name="retention.ms", config_operation=0, value="1")
    resource = kind.AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
    assert c.run(incremental_alter_configs, kind(resources=[resource])).responses[0].error_code == 3
