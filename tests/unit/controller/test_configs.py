"""Settings and features: which change is legal."""

import json
import time
from pathlib import Path

import pytest

from actors.controller import configs as configs_module
from actors.controller.configs import alter_configs, incremental_alter_configs, unclean_allowed, without_effect
from actors.controller.features import update_features
from actors.controller.partitions.partitions import create_partitions
from actors.controller.snapshots import report
from actors.metadata.ops import ConfigSet, FeatureSet
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(c, *changes, kind=TOPIC, name="t", validate_only=False):
    request = message("IncrementalAlterConfigsRequest")
    configs = [request.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes]
    resource = request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    reply = c.run(incremental_alter_configs, request(resources=[resource], validate_only=validate_only))
    return reply.responses[0].error_code


def replace(c, **values):
    request = message("AlterConfigsRequest")
    configs = [request.AlterableConfig(name=n.replace("_", "."), value=v) for n, v in values.items()]
    resource = request.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=configs)
    return c.run(alter_configs, request(resources=[resource])).responses[0].error_code


def cluster():
    c = Cluster(brokers=1)
    c.topic("t")
    return c


def test_set_delete_append_subtract():
    c = cluster()
    assert alter(c, ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact,delete,compact")) == 0
    assert c.image.config(TOPIC, "t") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert alter(c, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert c.image.config(TOPIC, "t") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize("changes, fields, code", [
    ([("no.such", SET, "1")], {}, 40),
    ([("retention.ms", SET, "soon")], {}, 40),
    ([("retention.ms", SET, None)], {}, 42),
    ([("retention.ms", APPEND, "1")], {}, 40),
    ([("retention.ms", 9, "1")], {}, 42),
    ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], {}, 42),
    ([("cleanup.policy", SUBTRACT, "delete")], {}, 0),  # nothing left: every record is kept
    ([("cleanup.policy", SET, "")], {}, 0),
    ([("cleanup.policy", SET, "squash")], {}, 40),
    ([("retention.ms", SET, "1")], dict(name="x"), 3),
    ([("retention.ms", SET, "1")], dict(name="a/b"), 17),
    ([("retention.ms", SET, "1")], dict(name=""), 42),
    ([("log.retention.ms", SET, "1")], dict(kind=BROKER, name="one"), 42),
    ([("log.retention.ms", SET, "soon")], dict(kind=BROKER, name=""), 40),
    ([("broker.id", SET, "1")], dict(kind=BROKER, name="1"), 42),
    ([("control.plane.listener.name", SET, "CP")], dict(kind=BROKER, name="1"), 42),  # R291-43
    ([("control.plane.listener.name", SET, "CP")], dict(kind=BROKER, name=""), 42),
    ([("listeners", SET, "PLAINTEXT://:1")], dict(kind=BROKER, name="1"), 42),
    ([("max.connections", SET, "1")], dict(kind=BROKER, name=""), 0),
    ([("max.connections.per.ip", SET, "1")], dict(kind=BROKER, name="1"), 0),
    ([("max.connections.per.ip.overrides", SET, "127.0.0.1:1")], dict(kind=BROKER, name="1"), 42),
    ([("producer.id.expiration.ms", SET, "1")], dict(kind=BROKER, name=""), 0),
    ([("producer.id.expiration.check.interval.ms", SET, "1")], dict(kind=BROKER, name=""), 42),
    ([("ssl.truststore.type", SET, "PKCS12")], dict(kind=BROKER, name="1"), 42),
    ([("ssl.client.auth", SET, "required")], dict(kind=BROKER, name="1"), 0),
    ([("ssl.client.auth", SET, "required")], dict(kind=BROKER, name=""), 42),
    ([("sasl.kerberos.min.time.before.relogin", SET, "58000")], dict(kind=BROKER, name="1"), 0),
    ([("sasl.kerberos.min.time.before.relogin", SET, "soon")], dict(kind=BROKER, name="1"), 40),
    ([("sasl.kerberos.min.time.before.relogin", SET, "58000")], dict(kind=BROKER, name=""), 42),
    ([("config.providers", SET, "x")], dict(kind=BROKER, name=""), 0),
    ([("metric.reporters", SET, "x")], dict(kind=BROKER, name="1"), 42),
    ([("listener.name.internal.ssl.truststore.type", SET, "PKCS12")], dict(kind=BROKER, name="1"), 0),
    ([("listener.name.internal.ssl.truststore.type", SET, "PKCS12")], dict(kind=BROKER, name=""), 42),
    ([("listener.name.internal.plain.sasl.jaas.config", SET, "x")], dict(kind=BROKER, name=""), 42),
    ([("listener.name.internal.max.connections", SET, "9")], dict(kind=BROKER, name=""), 0),
    ([("num.io.threads", SET, "1")], dict(kind=BROKER, name=""), 0),
    ([("broker.session.timeout.ms", SET, "9000")], dict(kind=BROKER, name=""), 42),  # another name of a node's setting
    ([("log.retention.ms", SET, "1")], dict(kind=BROKER, name=""), 0),
    ([("log.retention.ms", SET, "1")], dict(kind=BROKER, name="1"), 0),
    ([("a.client.s.own", SET, "1")], dict(kind=BROKER, name="1"), 0),
    ([("a.client.s.own", SET, "1")], dict(kind=BROKER, name="1001"), 0),  # a controller
    ([("a.client.s.own", SET, "1")], dict(kind=BROKER, name="7"), 102),
    ([("interval.ms", SET, "100")], dict(kind=METRICS, name="s"), 0),
    ([("interval.ms", SET, "99")], dict(kind=METRICS, name="s"), 42),
    ([("interval.ms", SET, "soon")], dict(kind=METRICS, name="s"), 40),
    ([("match", SET, "client_id=a.*")], dict(kind=METRICS, name="s"), 0),
    ([("match", APPEND, "client_id=a.*")], dict(kind=METRICS, name="s"), 40),
    ([("match", SET, "client=a")], dict(kind=METRICS, name="s"), 40),
    ([("metrics", SET, "a,b")], dict(kind=METRICS, name="s"), 0),
    ([("metric", SET, "a,b")], dict(kind=METRICS, name="s"), 42),
    ([("metrics", SET, "a,b")], dict(kind=METRICS, name=""), 42),
    ([("metrics", SET, "a,b")], dict(kind=METRICS, name="s" * 250), 42),
    ([("a.client.s.own", SET, "1")], dict(kind=BROKER, name="7" * 11), 42),
    ([("x", SET, "1")], dict(kind=8, name="1"), 42),
])  # fmt: skip
def test_what_is_legal(changes, fields, code):
    c = cluster()
    assert alter(c, *changes, **fields) == code
    assert bool(c.ops) == (code == 0)


GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "dynamic_settings.json"
OTHERWISE = {"log.cleaner.enable", "max.connections.per.ip.overrides"}
"""Where a broker of rayft does more, or less, while it runs."""


def test_settings_of_brokers_are_taken_and_refused_as_by_apache_kafka():
    """Of one broker and of all of them, among them those that nothing here reads: Kerberos, tiered storage, reporters."""
    c, wrong, taken = cluster(), [], 0
    for name, theirs in json.loads(GOLDEN.read_text()).items():
        if name == "names" or ": " in name or name in OTHERWISE:
            continue
        for title, broker in (("broker", "1"), ("all brokers", "")):
            code = alter(c, (name, SET, theirs["value"]), kind=BROKER, name=broker, validate_only=True)
            taken += not code
            if code != theirs[title]["error"]:
                wrong.append((name, title, theirs[title]["error"], code))
    assert not wrong and taken > 130


def test_what_is_kept_for_one_broker_and_takes_no_effect_is_told():
    told = without_effect(ConfigSet(BROKER, "1", "ssl.client.auth", "required"))
    assert told is not None and "ssl.client.auth of broker 1" in told and "properties file" in told
    assert without_effect(ConfigSet(BROKER, "1", "ssl.client.auth", None)) is None
    assert without_effect(ConfigSet(BROKER, "1", "log.retention.ms", "1")) is None
    assert without_effect(ConfigSet(BROKER, "1", "sasl.kerberos.kinit.cmd", "x")) is None, "nothing is expected of it"


def test_what_is_appended_must_fit_into_a_string():
    c, name = cluster(), "leader.replication.throttled.replicas"
    first, second = (",".join(f"{number}:1" for number in range(start, start + 3500)) for start in (10_000, 20_000))
    assert alter(c, (name, SET, first)) == 0
    assert alter(c, (name, APPEND, second)) == 40
    assert c.image.config(TOPIC, "t") == {name: first}
    assert alter(c, ("retention.ms", SET, "5")) == 0


def test_a_refusal_says_what_to_do_and_removing_is_never_refused():
    c = cluster()
    request = message("IncrementalAlterConfigsRequest")
    change = request.AlterableConfig(name="num.partitions", config_operation=SET, value="9")
    resource = request.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[change])
    (reply,) = c.run(incremental_alter_configs, request(resources=[resource])).responses
    assert reply.error_message == (
        "Cannot update these configs dynamically: [num.partitions], since it is read at start only. Change the node's "
        "properties file and start it again."
    )
    assert alter(c, ("num.partitions", DELETE, None), kind=BROKER, name="1") == 0


def test_validate_only_and_no_change_write_nothing():
    c = cluster()
    assert alter(c, ("no.such", DELETE, None)) == 0 and c.ops == []
    assert alter(c, ("retention.ms", SET, "5"), validate_only=True) == 0 and c.ops == []
    alter(c, ("retention.ms", SET, "5"))
    assert alter(c, ("retention.ms", SET, "5")) == 0 and c.ops == []


def test_a_resource_is_changed_as_a_whole_or_not():
    c = cluster()
    assert alter(c, ("retention.ms", SET, "5"), ("no.such", SET, "1")) == 40
    assert c.image.config(TOPIC, "t") == {}


def test_a_topic_that_would_compact_later_than_it_must_is_refused():
    """As Apache Kafka does, whether both bounds come at once or one after the other."""
    c, low, high = cluster(), "min.compaction.lag.ms", "max.compaction.lag.ms"
    assert alter(c, (low, SET, "100"), (high, SET, "50")) == 40
    assert alter(c, (low, SET, "100"), (high, SET, "100")) == 0
    assert alter(c, (high, SET, "50")) == 40
    assert replace(c, max_compaction_lag_ms="50") == 0, "the other bound goes with it"
    assert alter(c, (low, SET, "51")) == 40
    assert alter(c, (low, SET, "51"), (high, DELETE, None)) == 0
    reply = c.topic("u", num_partitions=1, replication_factor=1, configs={low: "100", high: "50"})
    assert reply.error_code == 40


def test_alter_configs_removes_what_it_does_not_name():
    c = cluster()
    assert replace(c, retention_ms="5", segment_bytes="1048576") == 0
    assert replace(c, segment_bytes="1048576") == 0
    assert c.image.config(TOPIC, "t") == {"segment.bytes": "1048576"}
    assert replace(c, segment_bytes=None) == 42


def test_a_resource_named_twice_is_refused():
    request = message("AlterConfigsRequest")
    resource = request.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])
    reply = cluster().run(alter_configs, request(resources=[resource, resource]))
    assert [r.error_code for r in reply.responses] == [42, 42]


class Name(str):
    """A name that counts how often names are compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def resources():
    kind = message("IncrementalAlterConfigsRequest")
    named = [
        kind.AlterConfigsResource(resource_type=TOPIC, resource_name=Name(f"t{i}"), configs=[]) for i in range(300)
    ]
    return incremental_alter_configs, kind(resources=named)


def growths():
    kind = message("CreatePartitionsRequest")
    return create_partitions, kind(topics=[kind.CreatePartitionsTopic(name=Name(f"t{i}"), count=3) for i in range(300)])


def features():
    kind = message("UpdateFeaturesRequest")
    keys = [kind.FeatureUpdateKey(feature=Name(f"f{i}"), max_version_level=0, upgrade_type=1) for i in range(300)]
    return update_features, kind(feature_updates=keys)


@pytest.mark.parametrize("named", [resources, growths, features])
def test_looking_for_what_is_named_twice_costs_what_the_request_asks_for(named):
    """A request of 100 MB names millions: compared pair by pair they would stop the controller for hours."""
    Name.compared = 0
    cluster().run(*named())
    assert Name.compared < 300 * 20


def test_a_broker_keeps_no_more_settings_than_the_image_can_copy():
    c = cluster()
    for first, code in ((0, 0), (600, 44), (0, 0)):
        assert alter(c, *((f"own.{n}", SET, "1") for n in range(first, first + 600)), kind=BROKER, name="") == code
    assert len(c.image.config(BROKER, "")) == 600
    both = [*((f"own.{n}", DELETE, None) for n in range(400)), *((f"new.{n}", SET, "1") for n in range(800))]
    assert alter(c, *both, kind=BROKER, name="") == 0
    assert len(c.image.config(BROKER, "")) == 1000


def test_a_request_changes_no_more_settings_than_a_batch_should_hold():
    kind = message("IncrementalAlterConfigsRequest")
    configs = [kind.AlterableConfig(name=f"own.{n}", config_operation=SET, value="1") for n in range(1000)]
    named = [
        kind.AlterConfigsResource(resource_type=BROKER, resource_name=f"{n + 1}", configs=configs) for n in range(11)
    ]
    c = Cluster(brokers=11)
    reply = c.run(incremental_alter_configs, kind(resources=named))
    assert [one.error_code for one in reply.responses] == [0] * 10 + [44]
    assert len(c.ops) == 10_000


def test_subscriptions_to_metrics_are_bounded_and_can_be_given_up():
    kind = message("IncrementalAlterConfigsRequest")
    configs = [kind.AlterableConfig(name="metrics", config_operation=SET, value="a")]
    named = [
        kind.AlterConfigsResource(resource_type=METRICS, resource_name=f"s{n}", configs=configs) for n in range(101)
    ]
    c = cluster()
    codes = [one.error_code for one in c.run(incremental_alter_configs, kind(resources=named)).responses]
    assert codes == [0] * 100 + [44]
    assert alter(c, ("metrics", SET, "b"), kind=METRICS, name="s7") == 0
    assert alter(c, ("metrics", SET, "b"), kind=METRICS, name="another") == 44
    assert alter(c, ("metrics", DELETE, None), kind=METRICS, name="s7") == 0
    assert alter(c, ("metrics", SET, "b"), kind=METRICS, name="another") == 0


def test_settings_of_a_broker_that_has_left_can_be_changed_and_removed():
    c = Cluster(brokers=2)
    assert alter(c, ("own", SET, "1"), ("other", SET, "1"), kind=BROKER, name="2") == 0
    c.later(60_000)
    c.expire()
    assert c.image.broker(2) is None
    assert alter(c, ("own", SET, "2"), ("other", DELETE, None), kind=BROKER, name="2") == 0
    assert alter(c, ("own", DELETE, None), kind=BROKER, name="2") == 0
    assert alter(c, ("own", SET, "2"), kind=BROKER, name="2") == 102


def test_long_lists_are_appended_to_and_subtracted_from_in_a_moment():
    """Throttled replicas are one list for a whole topic."""
    name, many = "follower.replication.throttled.replicas", 2_000
    here, there = (",".join(f"{number}:{broker}" for number in range(many)) for broker in (1, 2))
    c = cluster()
    began = time.process_time()
    assert alter(c, (name, SET, here)) == 0
    for _ in range(50):
        assert alter(c, (name, APPEND, there)) == 0
        assert c.image.config(TOPIC, "t")[name] == f"{here},{there}"
        assert alter(c, (name, SUBTRACT, there)) == 0
        assert c.image.config(TOPIC, "t")[name] == here
    assert time.process_time() - began < 2.0


def test_unclean_by_topic_then_all_brokers_then_the_node():
    c = cluster()
    topic = c.image.topic("t")
    assert not unclean_allowed(c.state, topic)
    alter(c, ("unclean.leader.election.enable", SET, "true"), kind=BROKER, name="")
    assert unclean_allowed(c.state, topic)
    alter(c, ("unclean.leader.election.enable", SET, "false"))
    assert not unclean_allowed(c.state, topic)
    node = Cluster(brokers=1, unclean_default=True)
    node.topic("t")
    assert unclean_allowed(node.state, node.image.topic("t"))


# ---- features


def update(c, *updates, validate_only=False):
    kind = message("UpdateFeaturesRequest")
    request = kind(
        feature_updates=[kind.FeatureUpdateKey(feature=f, max_version_level=v, upgrade_type=t) for f, v, t in updates],
        validate_only=validate_only,
    )
    return c.run(update_features, request)


def upgradable():
    c = Cluster(level=1, brokers=2)
    for id in (1002, 1003):
        report(c.state, id, -1, (("metadata.format", 1, 2),), c.now)
    return c


def test_r631_217_from_1_to_2():
    c = upgradable()
    assert update(c, ("metadata.format", 2, 1), validate_only=True).error_code == 0 and c.ops == []
    assert update(c, ("metadata.format", 2, 1)).error_code == 0
    assert c.ops == [FeatureSet("metadata.format", 2)] and c.state.level == 2
    assert update(c, ("metadata.format", 2, 1)).error_code == 0 and c.ops == []


def test_levels_of_one_request_change_together_or_not_at_all():
    c = upgradable()
    reply = update(c, ("metadata.format", 2, 1), ("group.version", 9, 1))
    assert [one.error_code for one in reply.results] == [95, 95] and reply.error_code == 95
    assert c.ops == [] and c.state.level == 1


def test_who_only_asks_whether_levels_could_change_changes_none():
    c = upgradable()
    reply = update(c, ("metadata.format", 2, 1), validate_only=True)
    assert reply.error_code == 0 and c.ops == [] and c.state.level == 1


@pytest.mark.parametrize("upgrade_type", [1, 2, 3])
def test_r631_218_never_back(upgrade_type):
    c = upgradable()
    assert update(c, ("metadata.format", 2, 1)).error_code == 0
    reply = update(c, ("metadata.format", 1, upgrade_type))
    assert reply.error_code == 95 and reply.error_message and c.ops == []


def test_the_transaction_version_goes_up_and_down_where_everybody_supports_it():
    c = upgradable()
    assert "Broker 1" in update(c, ("transaction.version", 2, 1)).error_message and c.ops == []
    c = Cluster(level=2, brokers=1)
    feature = message("v28:BrokerHeartbeatRequest").Feature
    both = (("metadata.format", 1, 2), ("transaction.version", 0, 2))
    c.beat(
        1, features=[feature(name=n, min_supported_version=low, max_supported_version=high) for n, low, high in both]
    )
    for id in (1002, 1003):
        report(c.state, id, -1, both, c.now)
    assert update(c, ("transaction.version", 3, 1)).error_code == 95
    assert update(c, ("transaction.version", 2, 1)).error_code == 0
    assert c.ops == [FeatureSet("transaction.version", 2)]
    assert update(c, ("transaction.version", 0, 1)).error_code == 95 and c.ops == []
    assert update(c, ("transaction.version", 0, 2)).error_code == 0
    assert c.ops == [FeatureSet("transaction.version", 0)]


@pytest.mark.parametrize("feature, level, upgrade_type, code", [
    ("metadata.format", 3, 1, 95), ("metadata.format", -1, 1, 95), ("no.such", 1, 1, 95), ("metadata.format", 2, 9, 42),
    ("no.such", 0, 1, 0), ("metadata.format", 0, 2, 95),
])  # fmt: skip
def test_r631_219_steps_that_do_not_exist(feature, level, upgrade_type, code):
    assert update(upgradable(), (feature, level, upgrade_type)).error_code == code


def test_r631_219_a_level_above_2_is_refused_also_where_everybody_says_that_it_supports_it():
    c = Cluster(level=2, brokers=1)
    feature = message("v28:BrokerHeartbeatRequest").Feature
    c.beat(1, features=[feature(name="metadata.format", min_supported_version=1, max_supported_version=3)])
    for id in (1002, 1003):
        report(c.state, id, -1, (("metadata.format", 1, 3),), c.now)
    reply = update(c, ("metadata.format", 3, 1))
    assert reply.error_code == 95 and "only supports versions 1-2" in reply.error_message and c.ops == []


def test_r631_091_everybody_must_support_the_level():
    c = Cluster(level=1, brokers=2)
    assert "Controller 1002" in update(c, ("metadata.format", 2, 1)).error_message
    c = upgradable()
    kind = message("v28:BrokerHeartbeatRequest")
    old = [kind.Feature(name="metadata.format", min_supported_version=1, max_supported_version=1)]
    c.beat(2, features=old)
    assert "Broker 2" in update(c, ("metadata.format", 2, 1)).error_message
    c.beat(2)
    report(c.state, 1003, -1, (("metadata.format", 1, 1),), c.now)
    assert "Controller 1003" in update(c, ("metadata.format", 2, 1)).error_message and c.ops == []


def test_r631_091_a_broker_that_does_not_name_a_feature_has_none_of_its_levels():
    c = upgradable()  # its brokers name metadata.format alone
    assert "Broker 1 only supports versions 0-0" in update(c, ("share.version", 1, 1)).error_message and c.ops == []


def test_r631_091_nor_has_a_controller():
    c = upgradable()
    kind = message("v28:BrokerHeartbeatRequest")
    for id in (1, 2):
        named = (("metadata.format", 1, 2), ("share.version", 0, 1))
        c.beat(
            id,
            features=[
                kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in named
            ],
        )
    refused = update(c, ("share.version", 1, 1)).error_message
    assert "Controller 1002 only supports versions 0-0" in refused and c.ops == []
    for id in (1002, 1003):
        report(c.state, id, -1, named, c.now)
    assert update(c, ("share.version", 1, 1)).error_code == 0 and c.ops == [FeatureSet("share.version", 1)]


def test_all_updates_or_none():
    c = upgradable()
    reply = update(c, ("metadata.format", 2, 1), ("no.such", 3, 1))
    assert [r.error_code for r in reply.results] == [95, 95] and reply.error_code == 95 and c.ops == []
    assert update(c, ("metadata.format", 2, 1), ("metadata.format", 2, 1)).error_code == 42


@pytest.mark.parametrize("name, code", [("1", 0), ("01", 42), ("0001", 42), ("00", 42), ("", 0), ("2", 102)])
def test_a_broker_has_one_name(name, code):
    c = cluster()
    assert alter(c, ("own", SET, "1"), kind=BROKER, name=name) == code


def test_what_an_earlier_release_took_under_another_name_of_a_broker_can_be_removed():
    c = cluster()
    c.image.replay(c.image.next_offset, ConfigSet(BROKER, "01", "own", "1"))
    assert alter(c, ("own", DELETE, None), kind=BROKER, name="01") == 0
    assert c.image.config(BROKER, "01") == {} and alter(c, ("own", SET, "1"), kind=BROKER, name="01") == 42


def test_what_a_request_changes_is_bounded_in_bytes():
    c = cluster()
    kind = message("IncrementalAlterConfigsRequest")
    configs = [kind.AlterableConfig(name=f"n{n}", config_operation=SET, value="é" * 16_000) for n in range(200)]
    brokers = [
        kind.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs) for name in ("", "1")
    ]
    first, second = c.run(incremental_alter_configs, kind(resources=brokers)).responses
    assert (first.error_code, second.error_code) == (44, 44) and "4194304 bytes" in first.error_message
    configs = configs[:100]
    brokers = [
        kind.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs) for name in ("", "1")
    ]
    assert [one.error_code for one in c.run(incremental_alter_configs, kind(resources=brokers)).responses] == [0, 44]
    assert len(c.image.config(BROKER, "")) == 100 and not c.image.config(BROKER, "1")


def test_groups_are_counted_without_a_look_at_other_resources(monkeypatch):
    c = cluster()
    monkeypatch.setitem(configs_module.RESOURCES_MAX, GROUP, (3, "three"))
    kind = message("IncrementalAlterConfigsRequest")

    def ask(value, *names):
        operation = DELETE if value is None else SET
        setting = kind.AlterableConfig(name="consumer.session.timeout.ms", config_operation=operation, value=value)
        groups = [kind.AlterConfigsResource(resource_type=GROUP, resource_name=one, configs=[setting]) for one in names]
        return [one.error_code for one in c.run(incremental_alter_configs, kind(resources=groups)).responses]

    assert ask("45000", "a", "b", "c", "d") == [0, 0, 0, 44] and c.image.count(GROUP) == 3
    assert ask("46000", "a", "d") == [0, 44]
    here = c.image.next_offset
    assert ask(None, "b", "c") == [0, 0] and c.image.count(GROUP) == 1
    assert ask("45000", "d") == [0] and c.image.count(GROUP) == 2
    c.image.undo(here)
    assert c.image.count(GROUP) == 3 and ask("45000", "d") == [44]
    c.image.check()
