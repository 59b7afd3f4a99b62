"""The access rules of a cluster, in an order that decides in microseconds however many there are.

This file alone decides whether the rules allow something. As Apache Kafka's StandardAuthorizer does it:

1. The rules of a resource are those with its name, those with the name `*`, and those whose prefix its name begins with.
2. One rule of these that denies decides. Otherwise one that allows does.
3. A resource that has rules, none of which fits, is denied. One without any rule is left to the caller.

A rule fits if it is for the principal or everybody, for the host (however it is written, `addresses.py`; the caller
gives it in that form) or every host, and for the operation or ALL; a rule that allows also fits the operations that its
own includes (`resources.IMPLIED`). KIP-11, KIP-290.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from actors.authorization.access_rules import Filter, Rule
from actors.authorization.addresses import canonical
from actors.authorization.resources import EVERYBODY, IMPLIED, WILDCARD, Operation, Pattern, Permission, Resource

ALLOWS = tuple(
    1 << operation | 1 << Operation.ALL | sum(1 << more for more in IMPLIED.get(Operation(operation), ()))
    if operation in set(Operation)
    else 0
    for operation in range(max(Operation) + 1)
)
"""Operation -> the operations, a bit each, of which one has to be allowed."""
DENIES = tuple(1 << operation | 1 << Operation.ALL for operation in range(max(Operation) + 1))
"""Operation -> the operations, a bit each, of which none may be denied."""


class Grants:
    """What the rules of one resource say about one principal at one host.

    Invariant: bit `o` of `allow` is set exactly while `count` has (o, ALLOW), and so for `deny`."""

    __slots__ = ("allow", "count", "deny")

    def __init__(self) -> None:
        self.allow = 0
        self.deny = 0
        self.count: dict[tuple[int, int], int] = {}
        """(operation, permission) -> rules that say so. Released Kafka may store the same rule under two ids."""

    def change(self, operation: int, permission: int, by: int) -> None:
        """Note one more (`by` 1) or one less (-1) rule that says so."""
        key = (operation, permission)
        left = self.count.get(key, 0) + by
        if left:
            self.count[key] = left
        else:
            del self.count[key]
        bit = 1 << operation
        if permission == Permission.ALLOW:
            self.allow = self.allow | bit if left else self.allow & ~bit
        else:
            self.deny = self.deny | bit if left else self.deny & ~bit


Bucket = dict[tuple[str, str], Grants]
"""(principal, host) -> what one resource's rules say of them."""


class RuleIndex:
    """The access rules of a cluster by the key under which each is stored, with the tables that find them. Invariants:
    `_literal` and `_prefixed` have no empty bucket and no empty Grants; `_prefixes` has the prefixes of each kind of
    resource, and `_lengths` their lengths once each, ascending."""

    def __init__(self) -> None:
        self._rules: dict[Hashable, Rule] = {}
        self._literal: dict[int, dict[str, Bucket]] = {}
        """kind -> name -> what its own rules say"""
        self._prefixed: dict[tuple[int, str], Bucket] = {}
        self._lengths: dict[int, list[int]] = {}
        self._prefixes: dict[int, list[str]] = {}
        """The prefixes of each kind of resource, in order"""
        self._with_length: dict[tuple[int, int], int] = {}
        """(kind, length) -> prefixes of that length"""
        self._of_principal: dict[tuple[str, int], dict[Hashable, Rule]] = {}
        """(principal, kind of resource) -> its rules, by the keys under which they are stored"""
        self._of_name: dict[tuple[int, str], dict[Hashable, Rule]] = {}
        """(kind of resource, name or prefix) -> the rules for it, in the same way"""

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def get(self, key: Hashable) -> Rule | None:
        """The rule that is stored under a key."""
        return self._rules.get(key)

    def put(self, key: Hashable, rule: Rule | None) -> None:
        """Store a rule under a key; None removes the rule there."""
        old = self._rules.pop(key, None)
        if old is not None:
            self._count(old, -1)
            for table, place in self._places(old):
                del table[place][key]
                if not table[place]:
                    del table[place]
        if rule is not None:
            self._rules[key] = rule
            self._count(rule, 1)
            for table, place in self._places(rule):
                table.setdefault(place, {})[key] = rule

    def found(self, filter: Filter) -> Iterator[tuple[Hashable, Rule]]:
        """(key, rule) of each rule that a filter finds. Costs as much as there are candidates."""
        return ((key, rule) for table in self.candidates(filter) for key, rule in table.items() if filter.finds(rule))

    def candidates(self, filter: Filter) -> list[dict[Hashable, Rule]]:
        """Tables that together have all rules which a filter may find: those of the name or of the principal that it names,
        else all."""
        resources = Resource if filter.resource == Resource.ANY else (filter.resource,)
        if filter.name is not None:
            names = {filter.name}
            if filter.pattern == Pattern.MATCH:
                names.add(WILDCARD)
                for resource in resources:
                    names.update(filter.name[:length] for length in self._lengths.get(resource, ()))
            return [
                self._of_name[resource, name]
                for resource in resources
                for name in sorted(names, key=lambda one: (-len(one), one))  # not in the order of a set
                if (resource, name) in self._of_name
            ]
        if filter.principal is not None:
            mine = ((filter.principal, resource) for resource in resources)
            return [self._of_principal[one] for one in mine if one in self._of_principal]
        return [self._rules]

    def decide(
        self, principal: str, host: str, operation: int, resource: int, name: str, own: bool = True
    ) -> bool | None:
        """Whether the rules allow `operation` on the resource. None: the resource has no rules at all. Without `own` as if
        it had none with its own name: so all names fare that no such rule is about, up to `alike_until`."""
        whoever = self.whoever(principal, host)
        allows, denies = ALLOWS[operation], DENIES[operation]
        allowed: bool | None = None
        for bucket in self._buckets(resource, name) if own else self._wide_buckets(resource, name):
            if allowed is None:
                allowed = False
            for one in whoever:
                grants = bucket.get(one)
                if grants is not None:
                    if grants.deny & denies:
                        return False
                    if grants.allow & allows:
                        allowed = True
        return allowed

    @staticmethod
    def whoever(principal: str, host: str) -> tuple[tuple[str, str], ...]:
        """The keys under which a bucket has what its rules say of a principal at a host."""
        return (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)

    def literal(self, resource: int) -> dict[str, Bucket]:
        """Name -> what the rules say that are about this name alone. The caller must not change it."""
        return self._literal.get(resource, {})

    def alike_until(self, resource: int, name: str) -> str | None:
        """The first name behind this one to which other prefixes apply; None: there is none."""
        prefixes = self._prefixes.get(resource, ())
        at = bisect_right(prefixes, name)
        ends = [*prefixes[at : at + 1]]
        for length in self._lengths.get(resource, ()):
            if 0 < length <= len(name) and (resource, name[:length]) in self._prefixed:
                ends.extend(_behind(name[:length]))
        return min(ends, default=None)

    def denies_by_name(self, principal: str, host: str, operation: int, resource: int, name: str) -> bool:
        """Whether a rule that is for this principal, and not for everybody, denies `operation` on the resource."""
        denies = DENIES[operation]
        for bucket in self._buckets(resource, name):
            for one in ((principal, host), (principal, WILDCARD)):
                grants = bucket.get(one)
                if grants is not None and grants.deny & denies:
                    return True
        return False

    def allows_some(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Whether the rules allow `operation` on at least one name: an idempotent producer has to name no topic that it
        writes to (KIP-679). Included operations do not count here, as in Kafka."""
        wanted = (operation, Operation.ALL)
        fitting = [
            rule
            for who in dict.fromkeys((principal, EVERYBODY))
            for rule in self._of_principal.get((who, resource), {}).values()
            if canonical(rule.host) in (host, WILDCARD) and rule.operation in wanted
        ]
        denied = [rule for rule in fitting if rule.permission == Permission.DENY]
        names = {rule.name for rule in denied if rule.pattern == Pattern.LITERAL}
        if WILDCARD in names:
            return False
        prefixes = {rule.name for rule in denied if rule.pattern == Pattern.PREFIXED}
        lengths = sorted({len(prefix) for prefix in prefixes})
        for rule in fitting:
            if rule.permission != Permission.ALLOW:
                continue
            if rule.pattern == Pattern.LITERAL and rule.name == WILDCARD:
                return True
            covered = any(rule.name[:length] in prefixes for length in lengths if length <= len(rule.name))
            if not covered and not (rule.pattern == Pattern.LITERAL and rule.name in names):
                return True
        return False

    def _buckets(self, resource: int, name: str) -> Iterable[Bucket]:
        literal = self._literal.get(resource)
        bucket = None if literal is None else literal.get(name)
        if bucket is not None:
            yield bucket
        yield from self._wide_buckets(resource, name)

    def _wide_buckets(self, resource: int, name: str) -> Iterable[Bucket]:
        """The buckets of the rules for all names, and for prefixes of this one."""
        literal = self._literal.get(resource)
        if literal is not None and name != WILDCARD:
            bucket = literal.get(WILDCARD)
            if bucket is not None:
                yield bucket
        for length in self._lengths.get(resource, ()):
            if length > len(name):
                break
            bucket = self._prefixed.get((resource, name[:length]))
            if bucket is not None:
                yield bucket

    def _count(self, rule: Rule, by: int) -> None:
        prefixed = rule.pattern == Pattern.PREFIXED
        table: dict[Any, Bucket] = self._prefixed if prefixed else self._literal.setdefault(rule.resource, {})
        place: Any = (rule.resource, rule.name) if prefixed else rule.name
        who = rule.principal, canonical(rule.host)
        if place not in table:
            table[place] = {}
            if prefixed:
                self._count_length(rule.resource, len(rule.name), 1)
                insort(self._prefixes.setdefault(rule.resource, []), rule.name)
        bucket = table[place]
        grants = bucket.setdefault(who, Grants())
        grants.change(rule.operation, rule.permission, by)
        if not grants.count:
            del bucket[who]
            if not bucket:
                del table[place]
                if prefixed:
                    self._count_length(rule.resource, len(rule.name), -1)
                    prefixes = self._prefixes[rule.resource]
                    del prefixes[bisect_left(prefixes, rule.name)]
                    if not prefixes:
                        del self._prefixes[rule.resource]
                elif not table:
                    del self._literal[rule.resource]

    def _places(self, rule: Rule) -> tuple[tuple[dict[Any, dict[Hashable, Rule]], Hashable], ...]:
        """The tables that find a rule, and where it is in them."""
        principal, name = (rule.principal, rule.resource), (rule.resource, rule.name)
        return (self._of_principal, principal), (self._of_name, name)

    def _count_length(self, resource: int, length: int, by: int) -> None:
        key = (resource, length)
        left = self._with_length.get(key, 0) + by
        lengths = self._lengths.setdefault(resource, [])
        if left == by == 1:
            insort(lengths, length)
        if left:
            self._with_length[key] = left
            return
        del self._with_length[key]
        del lengths[bisect_left(lengths, length)]
        if not lengths:
            del self._lengths[resource]


def _behind(prefix: str) -> list[str]:
    """The first name behind all that begin with a prefix; none if there is no such name."""
    while prefix and ord(prefix[-1]) == 0x10FFFF:
        prefix = prefix[:-1]
    return [prefix[:-1] + chr(ord(prefix[-1]) + 1)] if prefix else []
