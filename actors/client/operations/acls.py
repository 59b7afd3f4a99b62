"""Access rules: which there are, and making and removing them. KIP-140, KIP-290.

Making a rule that is there changes nothing, so it is asked again when an answer was lost. Removing is not: the second
answer would not name what the first request has removed.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.authorization.access_rules import Filter, Rule
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.client.asks import AnyNode, Ask, Controller, Steps
from actors.client.errors import ClientError, refused
from actors.client.operations.each import decided, each
from actors.wire.messages import message

EVERY = Filter(Resource.ANY, None, Pattern.ANY, None, None, Operation.ANY, Permission.ANY)
"""The filter that finds every rule."""


class RemovedRules(NamedTuple):
    """What came of a removal."""

    rules: list[Rule]
    """The rules that are gone."""
    left: dict[Rule, ClientError]
    """The rules that were found and could not be removed, with the reason."""


def word(kind: type[Resource] | type[Pattern] | type[Operation] | type[Permission], number: int) -> str:
    """A number of a rule as people write it: `cluster_action`; one that only later releases know as a number."""
    return kind(number).name.lower() if number in set(kind) else str(number)


def named(rule: Rule) -> str:
    """A rule in words, for errors."""
    prefixed = "names that begin with " if rule.pattern == Pattern.PREFIXED else ""
    return (
        f"{word(Permission, rule.permission)} {rule.principal} {word(Operation, rule.operation)} on "
        f"{word(Resource, rule.resource)} {prefixed}{rule.name} from {rule.host}"
    )


def describe(filter: Filter = EVERY) -> Steps[list[Rule]]:
    """The rules that a filter finds, in order. Raises ClientError."""
    request = message("DescribeAclsRequest")(
        resource_type_filter=int(filter.resource),
        resource_name_filter=filter.name,
        pattern_type_filter=int(filter.pattern),
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=int(filter.operation),
        permission_type=int(filter.permission),
    )
    told = yield from decided(Ask(AnyNode(), "DescribeAcls", lambda version: request), lambda one: one.error_code)
    if told.error_code:
        raise refused("access rules", told.error_code, told.error_message)
    return sorted(
        Rule(of.resource_type, of.resource_name, of.pattern_type, *_who(one))
        for of in told.resources
        for one in of.acls
    )


def _who(told: Any) -> tuple[str, str, int, int]:
    return told.principal, told.host, told.operation, told.permission_type


def create(rules: Iterable[Rule]) -> Steps[dict[Rule, ClientError | None]]:
    """Make these rules. Returns each one's error or None. One that is there already counts as made."""
    kind = message("CreateAclsRequest")
    asked: list[Rule] = []

    def ask(some: list[Rule]) -> Ask:
        asked[:] = some
        creations = [
            kind.AclCreation(
                resource_type=int(one.resource),
                resource_name=one.name,
                resource_pattern_type=int(one.pattern),
                principal=one.principal,
                host=one.host,
                operation=int(one.operation),
                permission_type=int(one.permission),
            )
            for one in some
        ]
        return Ask(Controller(), "CreateAcls", lambda version: kind(creations=creations))

    def outcomes(reply: Any) -> Any:  # they come in the order of the request, without names
        for rule, one in zip(asked, reply.message.results, strict=False):
            yield rule, one.error_code, one.error_message

    return (yield from each("access rule", dict.fromkeys(rules), ask, outcomes, named=named))


def delete(filter: Filter) -> Steps[RemovedRules]:
    """Remove the rules that a filter finds. Raises ClientError if none could be looked for."""
    kind = message("DeleteAclsRequest")
    wanted = kind.DeleteAclsFilter(
        resource_type_filter=int(filter.resource),
        resource_name_filter=filter.name,
        pattern_type_filter=int(filter.pattern),
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=int(filter.operation),
        permission_type=int(filter.permission),
    )
    ask = Ask(Controller(), "DeleteAcls", lambda version: kind(filters=[wanted]), again=False)
    answer = yield from decided(ask, lambda one: one.filter_results[0].error_code if one.filter_results else 0)
    if len(answer.filter_results) != 1:
        raise ClientError("the answer to DeleteAcls does not say what became of the filter: rules may be gone or not")
    (told,) = answer.filter_results
    if told.error_code:
        raise refused("access rules", told.error_code, told.error_message)
    return _removed(told.matching_acls)


def _removed(found: Any) -> RemovedRules:
    removed = RemovedRules([], {})
    for one in found:
        rule = Rule(one.resource_type, one.resource_name, one.pattern_type, *_who(one))
        if one.error_code:
            removed.left[rule] = refused(f"access rule {named(rule)}", one.error_code, one.error_message)
        else:
            removed.rules.append(rule)
    removed.rules.sort()
    return removed
