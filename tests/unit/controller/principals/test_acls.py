"""Access rules: which may be created, which a filter deletes, and that the image takes both back."""

import random
from typing import Any

import pytest

from actors.authorization.access_rules import Filter, Rule
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.controller.portions import LOOKED_AT_ONCE
from actors.controller.principals.acls import KIND, RULES_GONE, create_acls, delete_acls
from actors.metadata.image import RULE_FIELDS
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster

READ = Rule(Resource.TOPIC, "orders", Pattern.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
ANYTHING = (Resource.ANY, None, Pattern.ANY, None, None, Operation.ANY, Permission.ANY)


def create(c: Cluster, *rules: Rule) -> list[tuple[int, str | None]]:
    request = message("CreateAclsRequest")
    kind = request.AclCreation
    creations = [
        kind(
            resource_type=rule.resource,
            resource_name=rule.name,
            resource_pattern_type=rule.pattern,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    reply = c.run(create_acls, request(creations=creations))
    return [(result.error_code, result.error_message) for result in reply.results]


def delete(c: Cluster, *filters: tuple[object, ...]) -> list[tuple[int, list[Rule]]]:
    request = message("DeleteAclsRequest")
    names = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    meant = [request.DeleteAclsFilter(**dict(zip(names, one, strict=True))) for one in filters]
    reply = c.run(delete_acls, request(filters=meant))
    return [
        (result.error_code, [Rule(*(getattr(acl, name) for name in RULE_FIELDS)) for acl in result.matching_acls])
        for result in reply.filter_results
    ]


def test_a_rule_is_stored_once_and_found_in_the_image() -> None:
    c = Cluster(brokers=1)
    before = c.image.next_offset
    assert create(c, READ, READ) == [(0, None), (0, None)]
    assert create(c, READ) == [(0, None)]
    assert c.image.next_offset == before + 1, "one record for one rule, however often it is created"
    assert list(c.image.rules) == [READ]
    assert c.image.rules.decide("User:alice", "h", Operation.READ, Resource.TOPIC, "orders") is True


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("resource", 0, "resourceType UNKNOWN"),
        ("resource", 1, "resourceType ANY"),
        ("name", "", "name should not be empty"),
        ("pattern", 1, "patternType ANY"),
        ("pattern", 2, "patternType MATCH"),
        ("pattern", 9, "patternType UNKNOWN"),
        ("operation", 1, "operationType ANY"),
        ("operation", 77, "operationType UNKNOWN"),
        ("permission", 1, "permissionType ANY"),
        ("principal", "alice", "no colon"),
        ("resource", 4, "kafka-cluster"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_and_the_others_are_stored(field: str, value: object, word: str) -> None:
    c = Cluster(brokers=1)
    other = READ._replace(name="other")
    (code, text), fine = create(c, READ._replace(**{field: value}), other)  # type: ignore[arg-type]
    assert code == 42 and text is not None and word in text
    assert fine == (0, None) and list(c.image.rules) == [other]


def test_filters_delete_what_they_find_and_all_report_it() -> None:
    c = Cluster(brokers=1)
    prefixed = READ._replace(name="ord", pattern=int(Pattern.PREFIXED))
    anywhere = READ._replace(name="*", operation=int(Operation.WRITE))
    create(c, READ, prefixed, anywhere)
    of_orders = (Resource.TOPIC, "orders", Pattern.MATCH, None, None, Operation.ANY, Permission.ANY)
    of_alice = (Resource.ANY, None, Pattern.ANY, "User:alice", None, Operation.READ, Permission.ANY)
    assert delete(c, (0, *ANYTHING[1:]), of_orders, of_alice) == [
        (42, []),
        (0, [READ, prefixed, anywhere]),
        (0, [READ, prefixed]),
    ]
    assert not len(c.image.rules) and not c.image.entities_of("acl")
    assert delete(c, ANYTHING) == [(0, [])]


def test_what_is_not_committed_is_taken_back() -> None:
    c = Cluster(brokers=1)
    create(c, READ)
    c.image.commit(c.image.next_offset)
    here = c.image.next_offset
    delete(c, ANYTHING)
    create(c, READ._replace(name="other"))
    c.image.undo(here)
    assert list(c.image.rules) == [READ] and len(c.image.entities_of("acl")) == 1
    assert c.image.rules.decide("User:alice", "h", Operation.READ, Resource.TOPIC, "other") is None


def entry(filter: Filter) -> Any:
    names = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter")
    return message("DeleteAclsRequest").DeleteAclsFilter(
        **dict(zip((*names, "operation", "permission_type"), filter, strict=True))
    )


def test_exact_filters_look_at_the_rules_of_their_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Cluster(brokers=1)
    create(c, *(READ._replace(name=f"t{number}", principal=f"User:u{number % 7}") for number in range(3_000)))
    looked = 0
    finds = Filter.finds

    def counted(self: Filter, rule: Rule) -> bool:
        nonlocal looked
        looked += 1
        return finds(self, rule)

    monkeypatch.setattr(Filter, "finds", counted)
    exact = [(Resource.TOPIC, f"t{number}", Pattern.LITERAL, None, None, Operation.ANY, Permission.ANY)
             for number in range(500)]  # fmt: skip
    assert [len(rules) for _, rules in delete(c, *exact)] == [1] * 500
    assert looked == 500
    assert (
        len(delete(c, (Resource.GROUP, None, Pattern.ANY, "User:u1", None, Operation.ANY, Permission.ANY))[0][1]) == 0
    )
    assert looked == 500, "nobody of that name has a rule for a group"


@pytest.mark.parametrize("field", ["resource", "name", "pattern", "principal"])
def test_the_index_finds_what_a_look_at_all_rules_finds(field: str) -> None:
    c, choose = Cluster(brokers=1), random.Random(field)
    names = ["a", "ab", "abc", "b", "*", "ba"]
    for _ in range(120):
        create(c, READ._replace(
            resource=choose.choice((2, 3)), name=choose.choice(names), pattern=choose.choice((3, 4)),
            principal=choose.choice(("User:alice", "User:bob", "User:*")), operation=choose.choice((3, 4, 8)),
        ))  # fmt: skip
    index = c.image.rules
    for _ in range(300):
        filter = Filter(
            choose.choice((1, 2, 3)), choose.choice((None, *names)), choose.choice((1, 2, 3, 4)),
            choose.choice((None, "User:alice", "User:carol")), choose.choice((None, "*")), choose.choice((1, 3)), 1,
        )  # fmt: skip
        every = {rule for rule in index if filter.finds(rule)}
        assert {rule for _, rule in index.found(filter)} == every
    for rule in list(index):
        index.put((KIND, tuple(rule)), None)
    assert not index._of_name and not index._of_principal


def test_no_portion_looks_at_more_rules_than_fit_in_a_slice() -> None:
    c = Cluster(brokers=1)
    rules = [READ._replace(name=f"t{number}") for number in range(3 * LOOKED_AT_ONCE)]
    create(c, *rules)
    wide = Filter(*ANYTHING)  # type: ignore[arg-type]
    none = wide._replace(host="10.0.0.1")
    request = message("DeleteAclsRequest")(filters=[entry(one) for one in (none, wide, none, wide)])
    assert RULES_GONE.is_long(request, c.image)
    assert not RULES_GONE.is_long(message("DeleteAclsRequest")(filters=[entry(wide._replace(name="t1"))]), c.image)
    pauses, portions = 0, []
    for portion in RULES_GONE.portions(request, c.image):
        if portion is None:
            pauses += 1
        else:
            portions.append(portion)
    assert pauses >= 4 * 3
    replies = [c.run(delete_acls, portion) for portion in portions]
    found = [len(result.matching_acls) for reply in replies for result in reply.filter_results]
    assert found == [0, len(rules), 0, 0], "what the first one has deleted is not there for the second"
    assert not len(c.image.rules)
