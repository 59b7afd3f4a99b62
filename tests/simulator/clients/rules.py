"""An operator that changes access rules all the time, as kafka-acls does: rights are given, denied, taken away and
given back, in every form that a rule may have. At the end it leaves rules that allow what the clients need.

This file alone decides the principal of a client (`USERS`) and what it needs (`needs`). A client that is not an
operator has no right but by a rule. Rules for everybody never allow to change anything: strangers are somebody too.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from actors.authorization.access_rules import Rule
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.checkers.claims import (
    CLUSTER,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    IDEMPOTENT_WRITE,
    ON_CLUSTER,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Right,
)  # fmt: skip
from tests.simulator.clients.process import Client
from tests.simulator.cluster import OPERATOR

if TYPE_CHECKING:
    from tests.simulator.simulation import Shape

CREATE_VERSION, DELETE_VERSION, DESCRIBE_VERSION = 3, 3, 3
ANY, MATCH, LITERAL, PREFIXED, DENY, ALLOW, ALL = 1, 2, 3, 4, 2, 3, 2
EVERYBODY = "User:*"
HOSTS = ("10.1.0.1", "10.1.0.2", "10.2.0.1")
PAUSE_MS = 700
"""Between two changes, on the average."""
RULES_MAX = 40
SETTLED_MS = 4_000
DENIED_MS = 2_000
"""A denial holds no longer, on the average."""

USERS = {
    "p": "User:alice", "last": "User:alice", "k0-p": "User:alice", "k1-p": "User:alice",
    "r": "User:bob", "s": "User:bob", "reader": "User:bob", "k0-r": "User:bob", "k1-r": "User:bob",
    "committed": "User:bob", "m": "User:carol", "tx": "User:dave", "copier": "User:erin", "churn": "User:frank",
    "purge": "User:frank",
}  # fmt: skip
"""The name of a client, without its number -> its user. All others are operators."""


def user(client: str) -> str:
    """The principal of a client."""
    return USERS.get(client.rstrip("0123456789"), OPERATOR)


def host(client: str) -> str:
    """Where a client is: some of the same user are elsewhere."""
    return Random(f"host of {client}").choice(HOSTS)


def needs(shape: "Shape") -> dict[str, list[Right]]:
    """User -> what its clients need to do their work, one right after the other."""
    plan = shape.transactions
    plain = [topic.name for topic in (*shape.topics, *shape.compacted)]
    transactional = list(plan.topics) if plan is not None else []
    found = {
        "User:alice": [Right(WRITE, TOPIC, name) for name in plain] + [Right(IDEMPOTENT_WRITE, CLUSTER, ON_CLUSTER)],
        "User:bob": [Right(READ, TOPIC, name) for name in (*plain, *transactional)],
        "User:frank": [
            *(Right(operation, TOPIC, "churn-0") for operation in (CREATE, DELETE, DESCRIBE)),
            *(Right(operation, TOPIC, shape.topics[0].name) for operation in (DELETE, DESCRIBE)),
        ],
    }
    if shape.members:
        found["User:carol"] = [Right(READ, TOPIC, shape.topics[0].name), Right(READ, GROUP, "group")]
    if plan is not None:
        written = [name for name in transactional if name != plan.output]
        found["User:dave"] = [
            *(Right(WRITE, TOPIC, name) for name in (*written, *plan.keyed)), Right(READ, TOPIC, written[0]),
            Right(WRITE, TRANSACTIONAL_ID, "tx"), Right(READ, GROUP, "tx"),
        ]  # fmt: skip
        if plan.output:
            found["User:erin"] = [
                Right(READ, TOPIC, written[0]), Right(WRITE, TOPIC, plan.output),
                Right(WRITE, TRANSACTIONAL_ID, "copier"), Right(READ, GROUP, "copier"),
            ]  # fmt: skip
    return found


PREFIXES = {"churn-0": "churn-", "tx": "tx"}
"""A name in `needs` that stands for all names with that prefix."""


class RulesOperator:
    """The client of the operator."""

    def __init__(self, client: Client, wanted: Mapping[str, Sequence[Right]], pause_ms: int = PAUSE_MS) -> None:
        self.client = client
        self.wanted = wanted
        self.pause_ms = pause_ms
        self.changing = True
        self._known: dict[Rule, int] = {}
        """Rules that may exist -> when they are to go, in microseconds; 0: some time."""

    async def run(self) -> None:
        """Change rules until `changing` is taken away. Then allow all that is needed, and nothing else."""
        client, random = self.client, self.client.random
        for principal in self.wanted:
            await self._create([self._allowing(principal, right) for right in self.wanted[principal]])
        while self.changing:
            await client.sleep(random.randint(1, 2 * self.pause_ms))
            await self._change()
        final = [self._plainly(principal, right) for principal, rights in self.wanted.items() for right in rights]
        final.append(Rule(TOPIC, "t", PREFIXED, "User:mallory", "*", ALL, DENY))
        while await self._described() != sorted(set(final)):
            if await self._delete([self._any()]) and await self._create(final):
                await client.sleep(SETTLED_MS)  # what was asked for before may still come
            await client.sleep(100)

    async def _change(self) -> None:
        random, now_us = self.client.random, self.client.world.time_us
        over = [rule for rule, until_us in self._known.items() if until_us and until_us < now_us]
        principal = random.choice(list(self.wanted))
        right = random.choice(self.wanted[principal])
        if over:
            await self._delete([self._exactly(rule) for rule in over])
        elif len(self._known) > RULES_MAX:
            await self._delete([self._exactly(rule) for rule in random.sample(list(self._known), 5)])
        else:
            what = random.randrange(12)
            if what < 4:
                form = random.choice((self._plainly, self._plainly, self._allowing))
                await self._create([form(principal, one) for one in self.wanted[principal]])
            elif what < 6:
                await self._create([self._allowing(principal, right)])
            elif what < 8:
                await self._create([self._denying(principal, right)])
            elif what < 10 and self._known:
                await self._delete([self._exactly(random.choice(list(self._known)))])
            elif what == 10:
                await self._delete([self._matching(principal, right)])
            else:
                await self._described()

    # ---- forms of rules

    def _plainly(self, principal: str, right: Right) -> Rule:
        operation, resource, name = right
        assert name is not None
        prefix = PREFIXES.get(name)
        return Rule(resource, prefix or name, PREFIXED if prefix else LITERAL, principal, "*", operation, ALLOW)

    def _place(self, right: Right) -> tuple[str, int]:
        """A name and a pattern that fit the right."""
        random, name = self.client.random, right.name
        assert name is not None
        if right.resource == CLUSTER:
            return name, LITERAL
        form = random.randrange(8)
        if form == 0:
            return "*", LITERAL
        if form < 3 or name in PREFIXES:
            prefix = PREFIXES.get(name, name)
            return prefix[: random.randint(1, len(prefix))], PREFIXED
        return name, LITERAL

    def _allowing(self, principal: str, right: Right) -> Rule:
        random = self.client.random
        name, pattern = self._place(right)
        if right.operation in (READ, DESCRIBE) and right.resource == TOPIC and not random.randrange(8):
            principal = EVERYBODY
        operation = ALL if principal != EVERYBODY and not random.randrange(4) else right.operation
        return Rule(right.resource, name, pattern, principal, self._host(), operation, ALLOW)

    def _denying(self, principal: str, right: Right) -> Rule:
        random = self.client.random
        name, pattern = self._place(right)
        operation = random.choice((right.operation, right.operation, DESCRIBE, ALL))
        who = EVERYBODY if not random.randrange(6) else principal
        return Rule(right.resource, name, pattern, who, self._host(), operation, DENY)

    def _host(self) -> str:
        random = self.client.random
        return "*" if random.randrange(4) else random.choice(HOSTS)

    # ---- requests

    def _any(self) -> Any:
        return self._filter(ANY, None, ANY, None, None, ANY, ANY)

    def _exactly(self, rule: Rule) -> Any:
        return self._filter(*rule)

    def _matching(self, principal: str, right: Right) -> Any:
        """Whatever concerns that resource or that user."""
        if self.client.random.randrange(2):
            return self._filter(right.resource, right.name, MATCH, None, None, ANY, ANY)
        return self._filter(ANY, None, ANY, principal, None, ANY, ANY)

    @staticmethod
    def _filter(
        resource: int,
        name: str | None,
        pattern: int,
        principal: str | None,
        host: str | None,
        operation: int,
        permission: int,
    ) -> Any:
        return message("DeleteAclsRequest").DeleteAclsFilter(
            resource_type_filter=resource, resource_name_filter=name, pattern_type_filter=pattern,
            principal_filter=principal, host_filter=host, operation=operation, permission_type=permission,
        )  # fmt: skip

    async def _create(self, rules: Sequence[Rule]) -> bool:
        client, kind = self.client, message("CreateAclsRequest")
        for rule in rules:
            lasts_ms = client.random.randint(1, 2 * DENIED_MS) if rule.permission == DENY else 0
            self._known[rule] = client.world.time_us + lasts_ms * 1000 if lasts_ms else 0
        creations = [
            kind.AclCreation(
                resource_type=rule.resource, resource_name=rule.name, resource_pattern_type=rule.pattern,
                principal=rule.principal, host=rule.host, operation=rule.operation, permission_type=rule.permission,
            )
            for rule in rules
        ]  # fmt: skip
        reply = await client.ask(client.any_broker(), "CreateAcls", CREATE_VERSION, kind(creations=creations))
        return reply is not None and all(one.error_code == ErrorCode.NONE for one in reply.results)

    async def _delete(self, filters: Sequence[Any]) -> bool:
        client = self.client
        request = message("DeleteAclsRequest")(filters=list(filters))
        reply = await client.ask(client.any_broker(), "DeleteAcls", DELETE_VERSION, request)
        if reply is None or any(one.error_code for one in reply.filter_results):
            return False
        for result in reply.filter_results:
            for one in result.matching_acls:
                rule = Rule(
                    one.resource_type, one.resource_name, one.pattern_type, one.principal, one.host, one.operation,
                    one.permission_type,
                )  # fmt: skip
                self._known.pop(rule, None)
        if len(filters) == 1 and filters[0].resource_type_filter == ANY:
            return True
        for filter in filters:  # one that was never made is not found, and is not looked for again
            self._known.pop(
                Rule(
                    filter.resource_type_filter, filter.resource_name_filter, filter.pattern_type_filter,
                    filter.principal_filter, filter.host_filter, filter.operation, filter.permission_type,
                ),
                None,
            )  # fmt: skip
        return True

    async def _described(self) -> list[Rule] | None:
        """The rules as a broker tells of them, sorted; None: no answer."""
        client = self.client
        request = message("DescribeAclsRequest")(
            resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY, principal_filter=None,
            host_filter=None, operation=ANY, permission_type=ANY,
        )  # fmt: skip
        reply = await client.ask(client.any_broker(), "DescribeAcls", DESCRIBE_VERSION, request)
        return None if reply is None or reply.error_code else described(reply)


def described(reply: Any) -> list[Rule]:
    """The rules in an answer to DescribeAcls, sorted."""
    return sorted(
        Rule(
            one.resource_type, one.resource_name, one.pattern_type, rule.principal, rule.host, rule.operation,
            rule.permission_type,
        )
        for one in reply.resources
        for rule in one.acls
    )  # fmt: skip
