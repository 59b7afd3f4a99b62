"""The access rules in /kafka-acl and /kafka-acl-extended, between znodes and ops.

This file alone decides which znode holds the rules of which resource. Rules of this file:

1. A znode holds all rules of one resource: of one kind, one name, and one pattern. With its last rule it goes.
2. Rules are sorted where they are written, so that the same rules give the same bytes.
3. rayft knows its own write again by the rules that it wrote, and not by the version of the znode: one that has gone and
   was made again has the same version and other rules.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from actors.authorization.access_rules import BadRule, Rule, checked
from actors.authorization.resources import Operation, Pattern, Permission
from actors.authorization.resources import Resource as Kind
from actors.bridge.znodes import (
    PREFIXED,
    PREFIXED_CHANGES,
    RULE_CHANGES,
    RULES,
    BadZnode,
    field,
    fields,
    shown,
    written,
)
from actors.controller.principals.acls import KIND
from actors.metadata.image import RULE_FIELDS, Image
from actors.metadata.ops import EntityGone, EntitySet, Op
from actors.ports.zookeeper import Znode, is_path

KINDS = {
    "Topic": Kind.TOPIC,
    "Group": Kind.GROUP,
    "Cluster": Kind.CLUSTER,
    "TransactionalId": Kind.TRANSACTIONAL_ID,
    "DelegationToken": Kind.DELEGATION_TOKEN,
    "User": Kind.USER,
}
KIND_NAMES = {int(kind): name for name, kind in KINDS.items()}
RULES_MAX = 100_000
"""The most rules of one resource."""


class Resource(NamedTuple):
    """What the rules of one znode are about."""

    kind: int
    name: str
    pattern: int


def path_of(resource: Resource) -> str:
    """The path of the znode with a resource's rules."""
    root = RULES if resource.pattern == Pattern.LITERAL else PREFIXED
    return f"{root}/{KIND_NAMES[resource.kind]}/{resource.name}"


def is_written(resource: Resource) -> bool:
    """Whether brokers in ZooKeeper mode can know the rules of a resource: its name is one part of a path."""
    return "/" not in resource.name and is_path(path_of(resource))


def changes_of(resource: Resource) -> str:
    """The folder of notifications about a resource's rules."""
    return RULE_CHANGES if resource.pattern == Pattern.LITERAL else PREFIXED_CHANGES


def key_of(resource: Resource) -> str:
    """The name of a resource in /rayft_bridge, which has to stay small whatever names there are."""
    return hashlib.sha256(path_of(resource).encode()).hexdigest()[:32]


def mark_of(found: frozenset[Rule]) -> int:
    """The number by which a set of rules is known again."""
    return int.from_bytes(hashlib.sha256(data(found)).digest()[:8])


def resource(path: str) -> Resource:
    """What a znode's rules are about. Raises BadZnode."""
    for root, pattern in ((PREFIXED, Pattern.PREFIXED), (RULES, Pattern.LITERAL)):
        if path.startswith(root + "/"):
            kind, _, name = path.removeprefix(root + "/").partition("/")
            if kind not in KINDS:
                raise BadZnode(path, f"has rules for a kind of resource that is not known: {shown(kind)}")
            return Resource(int(KINDS[kind]), name, int(pattern))
    raise BadZnode(path, "is not where access rules are")


def rules(path: str, znode: Znode | None) -> frozenset[Rule]:
    """The rules in a znode; none where there is no znode. Raises BadZnode."""
    if znode is None:
        return frozenset()
    about = resource(path)
    listed = field(path, fields(path, znode), "acls", list)
    if len(listed) > RULES_MAX:
        raise BadZnode(path, f"has {len(listed)} rules, and a resource has {RULES_MAX} at most")
    return frozenset(_rule(path, about, one) for one in listed)


def data(found: frozenset[Rule], by: str | None = None) -> bytes:
    """The content of the znode with these rules. `by` names its writer."""
    return written(
        version=1,
        **({} if by is None else {"by": by}),
        acls=[
            {
                "principal": one.principal,
                "permissionType": _word(Permission(one.permission).name),
                "operation": _word(Operation(one.operation).name),
                "host": one.host,
            }
            for one in sorted(found)
        ],
    )


def by_resource(image: Image) -> dict[Resource, frozenset[Rule]]:
    """The rules of the image, by their resource."""
    found: dict[Resource, set[Rule]] = defaultdict(set)
    for op in image.every(KIND):
        one = Rule(*op.key)  # type: ignore[arg-type]
        found[Resource(one.resource, one.name, one.pattern)].add(one)
    return {about: frozenset(some) for about, some in found.items()}


def resource_of(op: Op) -> Resource | None:
    """The resource whose rule an op changes; None: it changes no rule."""
    if not isinstance(op, EntitySet | EntityGone) or op.kind != KIND:
        return None
    one = Rule(*op.key)  # type: ignore[arg-type]
    return Resource(one.resource, one.name, one.pattern)


def differences(have: frozenset[Rule], wanted: frozenset[Rule]) -> Iterator[Op]:
    """The ops that turn the rules of one resource into others."""
    for one in sorted(have - wanted):
        yield EntityGone(KIND, tuple(one))
    for one in sorted(wanted - have):
        yield EntitySet(KIND, tuple(one), tuple(zip(RULE_FIELDS, one, strict=True)))


def _rule(path: str, about: Resource, entry: Any) -> Rule:
    if not isinstance(entry, Mapping):
        raise BadZnode(path, f"has {shown(entry)} as a rule")
    words = [field(path, entry, name, str) for name in ("operation", "permissionType")]
    operation = next((one for one in Operation if _word(one.name) == words[0]), None)
    permission = next((one for one in Permission if _word(one.name) == words[1]), None)
    if operation is None or permission is None:
        raise BadZnode(path, f"has a rule with {shown(words[0])} and {shown(words[1])}, which are not known")
    principal, host = (field(path, entry, name, str) for name in ("principal", "host"))
    try:
        return checked(Rule(about.kind, about.name, about.pattern, principal, host, int(operation), int(permission)))
    except BadRule as error:
        raise BadZnode(path, f"has a rule that cannot be: {error}") from None


def _word(name: str) -> str:
    """The word for a name such as `CLUSTER_ACTION` in ZooKeeper: `ClusterAction`."""
    return "".join(part.capitalize() for part in name.split("_"))
