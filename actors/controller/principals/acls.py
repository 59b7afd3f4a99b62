"""CreateAcls (30) and DeleteAcls (31): access rules in the metadata log (KIP-11, KIP-140, KIP-290).

This file alone decides what a request for rules changes. Rules:

1. The rules of a request are checked one by one, and each has a result of its own. For one that exists nothing is written.
2. A filter deletes every rule that it finds. What two filters of a portion find, both report.
3. There may be RULES_MAX rules. One portion of a request deletes at most DELETED_MAX; what several filters find counts for
   each of them.
4. Rules are looked for before anything is decided, in slices that count the rules that are looked at (`RulesGone`). A rule
   that is made meanwhile is not found: it came later.
"""

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.access_rules import BadRule, Filter, Rule, checked, checked_filter
from actors.controller.portions import ENTRIES_A_PORTION, LOOKED_AT_ONCE, Flat
from actors.controller.state import Result, State
from actors.metadata.image import RULE_FIELDS, Image
from actors.metadata.ops import EntityGone, EntitySet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateAclsRequest, DeleteAclsRequest

RULES_MAX = 1_000_000
"""The most access rules of a cluster. A rule takes about half a kilobyte of memory on each node."""
DELETED_MAX = 10_000
"""The most deletions of one request, because they become one record batch. Apache Kafka has the same bound."""
FOUND_AT_ONCE = 300
"""The most rules that filters of one portion find together, unless a single filter finds more."""
KIND = "acl"
"""The kind of entity of the drafts' rules, which have no id: the whole rule is its key (A36)."""


class Looked(NamedTuple):
    """A portion of a DeleteAclsRequest: its filters, and for each the keys of the rules that it finds."""

    filters: list[Any]
    keys: list[list[Hashable]]


class RulesGone(Flat):
    """How a DeleteAclsRequest is cut: by the rules that its filters look at."""

    __slots__ = ()

    def is_long(self, request: Any, image: Image) -> bool:
        """Whether the request should be cut."""
        if len(request.filters) > ENTRIES_A_PORTION:
            return True
        left = LOOKED_AT_ONCE
        for entry in request.filters:
            left -= sum(map(len, image.rules.candidates(_meant(entry))))
            if left < 0:
                return True
        return False

    def portions(self, request: Any, image: Image) -> Iterator[Any | None]:
        """The portions, in order. None: none is complete yet, and other requests may run."""
        portion, looked, found = Looked([], []), 0, 0
        everything: list[Hashable] | None = None
        for entry in request.filters:
            filter, keys = _meant(entry), list[Hashable]()
            for table in image.rules.candidates(filter):
                if len(table) == len(image.rules):
                    everything = everything if everything is not None else list(table)
                for key in everything if len(table) == len(image.rules) and everything is not None else list(table):
                    rule = image.rules.get(key)
                    if rule is not None and filter.finds(rule):
                        keys.append(key)
                    looked += 1
                    if looked % LOOKED_AT_ONCE == 0:
                        yield None
            if portion.filters and (found + len(keys) > FOUND_AT_ONCE or len(portion.filters) == ENTRIES_A_PORTION):
                yield portion
                portion, found = Looked([], []), 0
            portion.filters.append(entry)
            portion.keys.append(keys)
            found += len(keys)
            looked += 1
            if looked % LOOKED_AT_ONCE == 0:
                yield None
        yield portion


RULES_GONE = RulesGone(("filters",), "filter_results", id)


def create_acls(state: State, request: "CreateAclsRequest", now: Now, random: Random) -> Result:
    """Carry out a CreateAclsRequest. Errors, of each rule: 42 INVALID_REQUEST; 44 POLICY_VIOLATION beyond RULES_MAX."""
    kind = message("CreateAclsResponse")
    ops: dict[Rule, EntitySet] = {}
    results = []
    rules = state.image.rules
    for creation in request.creations:
        code, text = ErrorCode.NONE, None
        rule = Rule(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        try:
            checked(rule)
        except BadRule as error:
            code, text = ErrorCode.INVALID_REQUEST, str(error)
        else:
            if rules.get((KIND, tuple(rule))) is None and rule not in ops:
                if len(rules) + len(ops) >= RULES_MAX:
                    code, text = ErrorCode.POLICY_VIOLATION, f"there are {RULES_MAX} access rules already: delete some"
                else:
                    ops[rule] = EntitySet(KIND, tuple(rule), tuple(zip(RULE_FIELDS, rule, strict=True)))
        results.append(kind.AclCreationResult(error_code=int(code), error_message=text))
    return Result(list(ops.values()), kind(results=results))


def delete_acls(state: State, request: "DeleteAclsRequest | Looked", now: Now, random: Random) -> Result:
    """Carry out a DeleteAclsRequest. Errors, of each filter: 42 INVALID_REQUEST, also when there is too much to delete."""
    kind = message("DeleteAclsResponse")
    ops: dict[Any, EntityGone] = {}
    results = []
    rules, told = state.image.rules, 0
    for place, entry in enumerate(request.filters):
        meant = _meant(entry)
        result = kind.DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=[])
        try:
            checked_filter(meant)
            if isinstance(request, Looked):
                found = {key: rule for key in request.keys[place] if (rule := rules.get(key)) is not None}
            else:
                found = dict(rules.found(meant))
            if told + len(found) > DELETED_MAX:
                raise BadRule(f"one request deletes at most {DELETED_MAX} access rules: write narrower filters")
        except BadRule as error:
            result.error_code, result.error_message = int(ErrorCode.INVALID_REQUEST), str(error)
        else:
            told += len(found)
            for key, rule in found.items():
                ops[key] = EntityGone(*key)  # type: ignore[misc]
                fields: dict[str, Any] = dict(zip(RULE_FIELDS, rule, strict=True))
                result.matching_acls.append(kind.DeleteAclsMatchingAcl(error_code=0, error_message=None, **fields))
        results.append(result)
    return Result(list(ops.values()), kind(filter_results=results))


def _meant(entry: "DeleteAclsRequest.DeleteAclsFilter") -> Filter:
    return Filter(
        entry.resource_type_filter,
        entry.resource_name_filter,
        entry.pattern_type_filter,
        entry.principal_filter,
        entry.host_filter,
        entry.operation,
        entry.permission_type,
    )
