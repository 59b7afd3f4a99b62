"""CreateAcls (30) and DeleteAcls (31): access rules in the metadata log (KIP-11, KIP-140, KIP-290).

This file alone decides what a request for rules changes. Rules:

1. The rules of a request are checked one by one, and each has a result of its own. For one that exists nothing is written.
2. A filter deletes every rule that it finds. What two filters of a request find, both report.
3. There may be RULES_MAX rules, and one request deletes at most DELETED_MAX.
"""

from typing import Any

from actors.authorization.rules import BadRule, Filter, Rule, checked, checked_filter
from actors.controller.state import Result, State
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import EntityGone, EntitySet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

RULES_MAX = 1_000_000
"""A rule takes about half a kilobyte of memory on each node."""
DELETED_MAX = 10_000
"""Deletions of one request, because they become one record batch. Apache Kafka has the same bound."""
KIND = "acl"
"""The drafts' rules have no id: the whole rule is its key (A36)."""


def create_acls(state: State, request: Any, now: Now, random: Random) -> Result:
    """CreateAclsRequest. Errors, of each rule: 42 INVALID_REQUEST; 44 POLICY_VIOLATION beyond RULES_MAX."""
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


def delete_acls(state: State, request: Any, now: Now, random: Random) -> Result:
    """DeleteAclsRequest. Errors, of each filter: 42 INVALID_REQUEST, also when there is too much to delete."""
    kind = message("DeleteAclsResponse")
    ops: dict[Any, EntityGone] = {}
    results = []
    for entry in request.filters:
        meant = Filter(
            entry.resource_type_filter,
            entry.resource_name_filter,
            entry.pattern_type_filter,
            entry.principal_filter,
            entry.host_filter,
            entry.operation,
            entry.permission_type,
        )
        result = kind.DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=[])
        try:
            found = dict(state.image.rules.found(checked_filter(meant)))
            if len(ops.keys() | found.keys()) > DELETED_MAX:
                raise BadRule(f"one request deletes at most {DELETED_MAX} access rules: write narrower filters")
        except BadRule as error:
            result.error_code, result.error_message = int(ErrorCode.INVALID_REQUEST), str(error)
        else:
            for key, rule in found.items():
                ops[key] = EntityGone(*key)  # type: ignore[misc]
                result.matching_acls.append(
                    kind.DeleteAclsMatchingAcl(
                        error_code=0, error_message=None, **dict(zip(RULE_FIELDS, rule, strict=True))
                    )
                )
        results.append(result)
    return Result(list(ops.values()), kind(filter_results=results))
