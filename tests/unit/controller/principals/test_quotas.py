"""AlterClientQuotas (KIP-546): what is legal, what is written; and what changes of topics cost (KIP-599)."""

import math
from typing import Any

import pytest

from actors.controller.mutation_quota import Mutations
from actors.controller.partitions.partitions import create_partitions
from actors.controller.partitions.topics import create_topics, delete_topics
from actors.controller.portions import QUOTAS
from actors.controller.principals import quotas
from actors.controller.principals.quotas import alter_client_quotas
from actors.metadata.ops import EntityGone, EntitySet
from actors.quotas.levels import NAME_CHARACTERS_MAX
from actors.quotas.rates import Window
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster

KIND = message("AlterClientQuotasRequest")
Ops = list[tuple[str, float | None]]


def entry(entity: list[tuple[str, str | None]], ops: Ops) -> Any:
    return KIND.EntryData(
        entity=[KIND.EntityData(entity_type=type, entity_name=name) for type, name in entity],
        ops=[KIND.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def alter(cluster: Cluster, *entries: Any, validate_only: bool = False) -> list[tuple[int, str | None]]:
    reply = cluster.run(alter_client_quotas, KIND(entries=list(entries), validate_only=validate_only))
    return [(one.error_code, one.error_message) for one in reply.entries]


USER = [("user", "a")]
BYTES: Ops = [("producer_byte_rate", 1024.0)]


@pytest.mark.parametrize(
    ("entity", "ops", "said"),
    [
        (USER, BYTES, None),
        ([("user", None), ("client-id", "c")], BYTES, None),
        ([("ip", "::1")], [("connection_creation_rate", 1.0)], None),
        ([("ip", "localhost")], [("connection_creation_rate", 1.0)], "is not a valid IP"),
        ([], BYTES, "empty client quota entity"),
        ([("group", "g")], BYTES, "Unhandled client quota entity type: group"),
        ([("user", "")], BYTES, "Empty user not supported"),
        ([("user", "x" * (NAME_CHARACTERS_MAX + 1))], BYTES, "characters at most"),
        ([("ip", "::1"), ("user", "a")], BYTES, "Invalid quota entity combination"),
        (USER, [("connection_creation_rate", 1.0)], "Invalid configuration key connection_creation_rate"),
        (USER, [("producer_byte_rate", 0.0)], "must be greater than 0"),
        (USER, [("request_percentage", math.nan)], "must be greater than 0"),
        (USER, [("request_percentage", math.inf)], "too large for a DOUBLE"),
        (USER, [("producer_byte_rate", 1e19)], "too large for a LONG"),
        ([("ip", None)], [("connection_creation_rate", 3e9)], "too large for a INT"),
        (USER, [("consumer_byte_rate", 1.5)], "cannot be a fractional value"),
        (USER, [("request_percentage", 1.5)], None),
        (USER, [*BYTES, *BYTES], "Duplicate quota key producer_byte_rate"),
        (USER, [("no_such", None)], None),
    ],
)
def test_what_is_legal(entity: list[tuple[str, str | None]], ops: Ops, said: str | None) -> None:
    cluster = Cluster(brokers=1)
    ((code, text),) = alter(cluster, entry(entity, ops))
    assert (code, text) == (0, None) if said is None else code == 42 and said in (text or "")
    assert said is None or not cluster.ops


def test_all_changes_of_an_entity_are_made_or_none() -> None:
    cluster = Cluster(brokers=1)
    results = alter(cluster, entry(USER, [*BYTES, ("no_such", 1.0)]), entry([("user", "b")], BYTES))
    assert [code for code, _ in results] == [42, 0]
    assert [op.key for op in cluster.ops] == [((("user", "b"),), "producer_byte_rate")]


def test_only_what_changes_is_written_and_the_order_of_an_entity_means_nothing() -> None:
    cluster = Cluster(brokers=1)
    both: list[tuple[str, str | None]] = [("user", "a"), ("client-id", None)]
    alter(cluster, entry(both, BYTES))
    assert [type(op) for op in cluster.ops] == [EntitySet]
    alter(cluster, entry(both[::-1], BYTES))
    assert not cluster.ops
    alter(cluster, entry(both[::-1], [("producer_byte_rate", None), ("consumer_byte_rate", None)]))
    assert [type(op) for op in cluster.ops] == [EntityGone]
    assert not list(cluster.image.every("quota"))


def test_what_is_only_validated_is_not_written() -> None:
    cluster = Cluster(brokers=1)
    assert alter(cluster, entry(USER, BYTES), validate_only=True) == [(0, None)] and not cluster.ops


def test_an_entity_twice_is_told_and_its_first_changes_count_as_with_apache_kafka() -> None:
    cluster = Cluster(brokers=1)
    ((code, text),) = alter(cluster, entry(USER, BYTES), entry(USER, [("producer_byte_rate", 7.0)]))
    assert code == 42 and "Ignoring duplicate entity" in (text or "")
    assert [dict(op.fields)["value"] for op in cluster.ops] == [1024.0]


def test_the_number_of_quotas_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "QUOTAS_MAX", 3)
    cluster = Cluster(brokers=1)
    results = alter(cluster, *(entry([("user", str(n))], BYTES) for n in range(5)))
    assert [code for code, _ in results] == [0, 0, 0, 44, 44]
    assert alter(cluster, entry([("user", "0")], [("producer_byte_rate", 5.0)])) == [(0, None)], (
        "a change needs no room"
    )
    assert alter(cluster, entry([("user", "0")], [("producer_byte_rate", None)]))[0][0] == 0
    assert alter(cluster, entry([("user", "9")], BYTES)) == [(0, None)]


def test_a_long_request_is_cut_and_an_entity_that_is_there_twice_stays_together() -> None:
    cluster = Cluster(brokers=1)
    entries = [entry([("user", str(n))], BYTES) for n in range(120)] + [entry([("user", "0")], BYTES)]
    request = KIND(entries=entries)
    assert QUOTAS.is_long(request, cluster.image)
    portions = [portion for portion in QUOTAS.portions(request, cluster.image) if portion is not None]
    assert len(portions) == 3
    names = [[one.entity[0].entity_name for one in portion.entries] for portion in portions]
    assert names[0].count("0") == 2 and sum(map(len, names)) == 121


def test_creating_growing_and_deleting_cost_partitions() -> None:
    cluster = Cluster(brokers=1)
    alter(cluster, entry([("client-id", "c")], [("controller_mutation_rate", 10.0)]))
    mutations = Mutations()

    def quota(strict: bool = True) -> Any:
        found = mutations.quota(
            lambda: cluster.image.every("quota"), Window(1, 1000), "User:x", "c", cluster.mono_ms, strict=strict
        )
        assert found is not None
        return found

    def tokens() -> float:
        ((_, account),) = mutations.newest(1, cluster.mono_ms)
        return account.measure.refill(account.bound, cluster.mono_ms)

    def run(operation: Any, request: Any, charge: Any) -> Any:
        return cluster.run(lambda *rest: operation(*rest, charge=charge), request)

    creation, growth, deletion = (
        message("CreateTopicsRequest"), message("CreatePartitionsRequest"), message("DeleteTopicsRequest"),
    )  # fmt: skip
    topic = creation.CreatableTopic(name="t", num_partitions=4, replication_factor=1)
    run(create_topics, creation(topics=[topic]), quota().charge)
    assert tokens() == 6
    more = growth.CreatePartitionsTopic(name="t", count=7, assignments=None)
    assert run(create_partitions, growth(topics=[more], validate_only=True), quota().charge).results[0].error_code == 0
    assert tokens() == 3, "a request that is only validated is charged too"
    assert run(delete_topics, deletion(topic_names=["t"]), quota().charge).responses[0].error_code == 0
    assert tokens() == -1
    refused = quota()
    again = creation.CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    assert run(create_topics, creation(topics=[again]), refused.charge).topics[0].error_code == 89
    assert (refused.throttle_ms, tokens()) == (100, -1)
    late = quota(strict=False)
    assert run(create_topics, creation(topics=[again]), late.charge).topics[0].error_code == 0
    assert (late.throttle_ms, tokens()) == (200, -2)


def test_who_has_no_quota_is_not_charged() -> None:
    mutations = Mutations()
    assert mutations.quota(list, Window(1, 1000), "User:x", "c", 0, strict=True) is None
