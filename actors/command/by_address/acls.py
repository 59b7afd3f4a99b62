"""`rayft acl`, once it runs.

This file alone decides what a removal needs to be told twice: one that would leave no rule needs `--all`, unless it names
the only rule that there is. What it has removed is what the cluster says.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any

from actors.authorization.access_rules import Filter, Rule
from actors.authorization.resources import CLUSTER_NAME, Operation, Pattern, Permission, Resource
from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.operations import acls as operations
from actors.client.operations.acls import EVERY, word
from actors.command.by_address.connection import connected, wrong
from actors.command.output import listing
from actors.command.output.listing import TEXT, Listing
from actors.host.client.blocking import Kafka
from actors.wire.errors import ErrorCode

RULES = Listing(
    dict.fromkeys(("resource_type", "resource", "pattern", "principal", "host", "operation", "permission"), TEXT),
    trouble={"permission": lambda permission: permission == "deny"},
)
KINDS = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "group",
    Resource.TRANSACTIONAL_ID: "transactional-id",
    Resource.DELEGATION_TOKEN: "delegation-token",
    Resource.USER: "user",
}
ANYWHERE = "*"


def row(rule: Rule) -> dict[str, Any]:
    """A rule as people and programs see it."""
    return {
        "resource_type": word(Resource, rule.resource),
        "resource": rule.name,
        "pattern": word(Pattern, rule.pattern),
        "principal": rule.principal,
        "host": rule.host,
        "operation": word(Operation, rule.operation),
        "permission": word(Permission, rule.permission),
    }


def _show(rules: Iterable[Rule], how: str) -> None:
    listing.show([row(one) for one in rules], RULES, how)


def _run(kafka: Kafka, steps: Steps[Any]) -> Any:
    """Run an operation. Raises ClientError, with what to do where a cluster has no rules at all."""
    try:
        return kafka.run(steps)
    except ClientError as error:
        raise _explained(error) from None


def _explained(error: ClientError) -> ClientError:
    if error.code != ErrorCode.SECURITY_DISABLED:
        return error
    return ClientError("this cluster has no access rules: its nodes run without authorizer.class.name", error.code)


def _principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        wrong(f"{text!r} is no principal: write User:{name or (kind if not colon else 'alice')}")
    return text


def filter_of(options: argparse.Namespace) -> Filter:
    """The filter that the options of `list` and `remove` mean. Ends the command for words that mean nothing."""
    resource, name = _resource(options)
    if options.pattern == "match" and not name:
        wrong("--pattern match finds the rules for a name: write --topic NAME or another kind with its name")
    pattern = Pattern[options.pattern.upper()] if options.pattern else Pattern.ANY
    return Filter(
        resource,
        name,
        pattern,
        None if options.principal is None else _principal(options.principal),
        options.host,
        Operation[options.operation.upper()] if options.operation else Operation.ANY,
        Permission[options.permission.upper()] if options.permission else Permission.ANY,
    )


def _resource(options: argparse.Namespace) -> tuple[Resource, str | None]:
    if options.cluster:
        return Resource.CLUSTER, CLUSTER_NAME
    for kind, option in KINDS.items():
        name = getattr(options, option.replace("-", "_"))
        if name == "":  # a shell writes it for a variable that is not set, and it is not to mean all
            wrong(f"--{option} '' is no name: write --{option} NAME, or --{option} alone for all of the kind")
        if name is not None:
            return kind, None if name is True else name
    return Resource.ANY, None


def _list(options: argparse.Namespace) -> int:
    wanted = filter_of(options)
    if options.as_of is not None:
        from actors.command.by_address.metadata_log import moment

        found = [rule for rule in moment.rules(options) if wanted.finds(rule)]
    else:
        with connected(options) as kafka:
            found = _run(kafka, operations.describe(wanted))
    _show(found, options.output)
    return 0


def _new(options: argparse.Namespace) -> list[Rule]:
    """The rules that the options of `add` mean. Ends the command for words that mean nothing."""
    pattern = Pattern.PREFIXED if options.prefixed else Pattern.LITERAL
    places: list[tuple[Resource, str]] = []
    for kind, option in KINDS.items():
        for name in getattr(options, option.replace("-", "_")):
            if not name:
                wrong(f"--{option} needs a name: write --{option} NAME, or --{option} '*' for each")
            places.append((kind, name))
    if options.cluster:
        if options.prefixed:
            wrong("--cluster has one name, of which --prefixed means nothing: leave one of them out")
        places.append((Resource.CLUSTER, CLUSTER_NAME))
    if not places:
        wrong(f"a rule is for something: write {', '.join(f'--{one} NAME' for one in KINDS.values())} or --cluster")
    permission = Permission.DENY if options.deny else Permission.ALLOW
    return [
        Rule(kind, name, pattern, _principal(principal), host, Operation[operation.upper()], permission)
        for kind, name in places
        for principal in options.principal
        for host in options.host or [ANYWHERE]
        for operation in options.operation
    ]


def _add(options: argparse.Namespace) -> int:
    wanted = sorted(_new(options))
    with connected(options) as kafka:
        outcomes = _run(kafka, operations.create(wanted))
    _show([rule for rule, error in outcomes.items() if error is None], options.output)
    return _refused(error for error in outcomes.values() if error is not None)


def _refused(errors: Iterable[ClientError]) -> int:
    """Tell each reason once. Returns the exit code."""
    told = dict.fromkeys(str(_explained(error)) for error in errors)
    for sentence in told:
        print(f"rayft: {sentence}", file=sys.stderr)
    return 1 if told else 0


def _remove(options: argparse.Namespace) -> int:
    wanted = filter_of(options)
    if wanted == EVERY and not options.all:
        wrong("this removes every rule of the cluster: name those that are meant, as in --topic NAME, or write --all")
    with connected(options) as kafka:
        found = _run(kafka, operations.describe(wanted))
        if not found:
            raise ClientError("no rule is like that: rayft acl list shows all")
        if not options.all and len(found) > 1 and found == _run(kafka, operations.describe()):
            raise ClientError(f"these are all {len(found)} rules of the cluster: write --all if they are meant")
        removed = operations.RemovedRules(found, {}) if options.dry_run else _run(kafka, operations.delete(wanted))
    _show(removed.rules, options.output)
    return _refused(removed.left.values())


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {"list": _list, "add": _add, "remove": _remove}
