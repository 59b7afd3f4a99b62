"""An access rule, and a filter that finds rules.

This file alone decides which rules may be stored and which rules a filter finds. KIP-140 (CreateAcls, DescribeAcls,
DeleteAcls), KIP-290 (patterns).
"""

from typing import NamedTuple

from actors.authorization.resources import CLUSTER_NAME, WILDCARD, Operation, Pattern, Permission, Resource


class Rule(NamedTuple):
    """One access rule, with Kafka's numbers. The fields are in the order of the key under which it is stored."""

    resource: int
    name: str
    pattern: int
    principal: str
    """`Type:name`, as in `User:alice`"""
    host: str
    """An address, or `*`"""
    operation: int
    permission: int


class BadRule(ValueError):
    """A rule or a filter has no meaning. The message says why."""


def checked(rule: Rule) -> Rule:
    """The rule that was passed in. Raises BadRule for one that must not be stored."""
    if rule.resource not in set(Resource) - {Resource.ANY}:
        raise BadRule(f"Invalid resourceType {_word(Resource, rule.resource)}")
    if not rule.name:
        raise BadRule("Resource name should not be empty")
    if rule.resource == Resource.CLUSTER and rule.name != CLUSTER_NAME:
        raise BadRule(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if rule.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise BadRule(f"Invalid patternType {_word(Pattern, rule.pattern)}")
    if rule.operation not in set(Operation) - {Operation.ANY}:
        raise BadRule(f"Invalid operationType {_word(Operation, rule.operation)}")
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        raise BadRule(f"Invalid permissionType {_word(Permission, rule.permission)}")
    if ":" not in rule.principal:
        raise BadRule(f"Could not parse principal from `{rule.principal}`: no colon between its type and its name")
    return rule


class Filter(NamedTuple):
    """Which rules a request means. None, and the ANY of a field, match every value."""

    resource: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def finds(self, rule: Rule) -> bool:
        """Whether the filter means that rule."""
        return (
            self.resource in (Resource.ANY, rule.resource)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._finds_name(rule)
        )

    def _finds_name(self, rule: Rule) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, rule.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != Pattern.MATCH:
            return self.name == rule.name
        if rule.pattern == Pattern.PREFIXED:
            return self.name.startswith(rule.name)
        return rule.name in (self.name, WILDCARD)


def checked_filter(filter: Filter) -> Filter:
    """The filter that was passed in. Raises BadRule for numbers without a meaning."""
    for field, kind, value in (
        ("resourceType", Resource, filter.resource),
        ("patternType", Pattern, filter.pattern),
        ("operation", Operation, filter.operation),
        ("permissionType", Permission, filter.permission),
    ):
        if value not in set(kind):
            raise BadRule(f"The filter has an unknown {field}: {value}")
    return filter


def _word(kind: type[Resource] | type[Pattern] | type[Operation] | type[Permission], value: int) -> str:
    return kind(value).name if value in set(kind) else "UNKNOWN"
