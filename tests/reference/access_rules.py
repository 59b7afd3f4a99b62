"""What access rules allow, rule by rule and without an index: `actors.authorization.decisions` must agree."""

from collections.abc import Iterable

from actors.authorization.access_rules import Rule

ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3


def is_of(rule: Rule, resource: int, name: str) -> bool:
    if rule.resource != resource:
        return False
    return name.startswith(rule.name) if rule.pattern == PREFIXED else rule.name in (name, "*")


def fits(rule: Rule, principal: str, host: str, operation: int) -> bool:
    operations = {ALL, operation}
    if rule.permission == ALLOW and operation == DESCRIBE:
        operations |= {READ, WRITE, DELETE, ALTER}
    if rule.permission == ALLOW and operation == DESCRIBE_CONFIGS:
        operations |= {ALTER_CONFIGS}
    return rule.principal in (principal, "User:*") and rule.host in (host, "*") and rule.operation in operations


def decide(rules: Iterable[Rule], principal: str, host: str, operation: int, resource: int, name: str) -> bool | None:
    of_resource = [rule for rule in rules if is_of(rule, resource, name)]
    if not of_resource:
        return None
    fitting = [rule for rule in of_resource if fits(rule, principal, host, operation)]
    return bool(fitting) and all(rule.permission == ALLOW for rule in fitting)


def allows_some(rules: Iterable[Rule], principal: str, host: str, operation: int, resource: int) -> bool:
    fitting = [
        rule
        for rule in rules
        if rule.resource == resource
        and rule.principal in (principal, "User:*")
        and rule.host in (host, "*")
        and rule.operation in (ALL, operation)
    ]
    denied = [rule for rule in fitting if rule.permission == DENY]
    if any(rule.pattern == LITERAL and rule.name == "*" for rule in denied):
        return False

    def survives(rule: Rule) -> bool:
        if rule.pattern == LITERAL and rule.name == "*":
            return True
        for no in denied:
            if no.pattern == PREFIXED and rule.name.startswith(no.name):
                return False
            if no.pattern == LITERAL == rule.pattern and no.name == rule.name:
                return False
        return True

    return any(survives(rule) for rule in fitting if rule.permission == ALLOW)
